# SPDX-License-Identifier: Apache-2.0
"""In what shape is the history answered, and what proves it?"""

from __future__ import annotations

from api.schemas.document import listed, obj
from api.schemas.fields import JsonSchema
from api.schemas.simple import ANY_OBJECT, COUNT, FLAG, HASH, MAYBE, TEXT, TIME, word
from registry.domain.actors import ActorKind, SubjectKind
from registry.domain.events import EventType

_EVENT = obj(
    {
        "sequence": {"type": "integer", "minimum": 1},
        "at": TIME,
        "type": word(EventType),
        "actor": obj({"kind": word(ActorKind), "name": TEXT}),
        "subjects": listed(obj({"kind": word(SubjectKind), "id": TEXT, "ordinal": {"type": "integer", "minimum": 1}})),
        "data": ANY_OBJECT,
        "prev_hash": HASH,
        "hash": HASH,
    }
)
_PROOF = obj({"size": COUNT, "path": listed(HASH)})
_EVENT["properties"]["proof"] = {
    "description": "Only where it is asked for; null for an entry that the checkpoint does not cover.",
    "anyOf": [_PROOF, {"type": "null"}],
}

_CHECKPOINT = obj(
    {
        "sequence": COUNT,
        "hash": HASH,
        "root": HASH,
        "signed_at": TIME,
        "key": {**HASH, "description": "The Ed25519 public key."},
        "signature": {"type": "string", "pattern": "^[0-9a-f]{128}$"},
    }
)
_CHECKPOINT["properties"]["proof"] = {**_PROOF, "description": "Only where it is asked for."}

COMPONENTS: dict[str, JsonSchema] = {
    "Event": _EVENT,
    "Verified": obj(
        {
            "ok": FLAG,
            "entries": COUNT,
            "head_sequence": COUNT,
            "head_hash": HASH,
            "bad": {"type": ["integer", "null"]},
            "reason": MAYBE,
            "checkpoints": COUNT,
            "next": {"type": ["integer", "null"]},
        }
    ),
    "Checkpoint": _CHECKPOINT,
}
"""What the document calls them."""
