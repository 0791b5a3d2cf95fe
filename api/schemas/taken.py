# SPDX-License-Identifier: Apache-2.0
"""In what shape do those messages come that no marshmallow shape reads? For the document; their readers decide.

Reports are read by hand because they are hot, profiles by the rules themselves, lists of hardware as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.schemas.document import listed, nullable, obj
from api.schemas.fields import JsonSchema
from registry.domain.canonical import INT_LIMIT
from registry.domain.profiles import CHECKS_MAX, COUNT_MAX, MODEL_MAX_LENGTH, MODELS_MAX
from registry.domain.reports import CheckStatus, Kind

ENTRIES_MAX = 1024
FIRMWARE_MAX = 64
READINGS_MAX = 256

_LINE = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"
_ID: JsonSchema = {"type": "string", "minLength": 1, "maxLength": 256, "description": "Opaque, printable."}
_TEXT: JsonSchema = {"type": "string", "maxLength": 256, "pattern": _LINE}
_TIME: JsonSchema = {"type": "string", "format": "date-time"}
_KIND: JsonSchema = {"type": "string", "enum": [str(kind) for kind in Kind]}
_CHECK_NAME: JsonSchema = {"type": "string", "pattern": "^[a-z0-9_.]{1,64}$"}
_SCALAR: JsonSchema = {"type": ["string", "number", "boolean", "null"]}


def _open(**members: JsonSchema) -> dict[str, JsonSchema]:
    """Members that may be absent or null."""
    return {name: nullable(schema) for name, schema in members.items()}


_DEVICE = obj(
    {
        "kind": _KIND,
        "vendor": {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,63}$"},
        **_open(
            **dict.fromkeys(
                (
                    *("serial", "uuid", "model", "part_number", "module_id", "unique_id", "asset_tag", "name"),
                    *("mac", "gid", "node_guid"),
                ),
                _TEXT,
            ),
            slot={**_TEXT, "description": "A PCI address in any of its spellings.", "examples": ["0000:53:00.0"]},
            firmware={"type": "object", "maxProperties": FIRMWARE_MAX, "additionalProperties": nullable(_TEXT)},
            readings={"type": "object", "maxProperties": READINGS_MAX, "additionalProperties": _SCALAR},
        ),
    },
    required=("kind", "vendor"),
    is_closed=True,
)

_CHECK = obj(
    {
        "name": _CHECK_NAME,
        "status": {"type": "string", "enum": [str(status) for status in CheckStatus]},
        **_open(
            device={**_TEXT, "description": "Serial, UUID or slot."},
            code=_TEXT,
            message={"type": "string", "maxLength": 4096},
            count={
                "type": "integer",
                "minimum": 1,
                "maximum": INT_LIMIT - 1,
                "description": "Where the counter of a failing check stands: more than before is a new fault.",
            },
        ),
    },
    required=("name", "status"),
    is_closed=True,
)

_FAILURE = obj(
    {
        "failure_id": _ID,
        "code": {"type": "string", "examples": ["xid_79"]},
        **_open(
            device={**_TEXT, "description": "Serial, UUID or slot."},
            slot=_TEXT,
            occurred_at=_TIME,
            last_at=_TIME,
            count={"type": "integer", "minimum": 1, "maximum": INT_LIMIT - 1},
            message={"type": "string", "maxLength": 4096},
            evidence={"type": "object"},
        ),
    },
    required=("failure_id", "code"),
    is_closed=True,
)

_HOST = obj(_open(serial=_TEXT, uuid=_TEXT), required=(), is_closed=True)

_LISTS = ("covers", "partial", "devices", "checks", "failures", "host", "earlier_boots")
_PART: JsonSchema = {"type": "string"}
_REPORT_IDS: dict[str, JsonSchema] = dict.fromkeys(("report_id", "boot_id", "provider_id", "profile"), _ID)
_REPORT_TIMES: dict[str, JsonSchema] = {
    **dict.fromkeys(("started_at", "finished_at", "sent_at"), _TIME),
    "booted_at": {**_TIME, "description": "When the boot began: it makes dates of times since boot in a raw log."},
}
_REPORT_SCALARS = {**_REPORT_IDS, **_open(run_id=_ID, zone=_ID, **_REPORT_TIMES)}

REPORT = obj(
    {
        **_REPORT_SCALARS,
        **_open(
            seq={"type": "integer", "minimum": 0, "maximum": INT_LIMIT - 1, "description": "Counts within a boot."},
            covers={**listed(_KIND), "maxItems": ENTRIES_MAX, "description": "The kinds that `devices` lists whole."},
            partial={**listed(_KIND), "maxItems": ENTRIES_MAX, "description": "Kinds that it knows it lists in part."},
            devices={**listed(_DEVICE), "maxItems": ENTRIES_MAX},
            checks={**listed(_CHECK), "maxItems": ENTRIES_MAX},
            failures={**listed(_FAILURE), "maxItems": ENTRIES_MAX, "description": "What it saw fail."},
            host=obj(dict.fromkeys(("dmi", "redfish", "chassis"), _HOST), required=(), is_closed=True),
            earlier_boots={
                **listed(_ID),
                "maxItems": ENTRIES_MAX,
                "description": "Boots that ended before this one, of which messages still wait to be sent.",
            },
        ),
    },
    required=tuple(_REPORT_IDS),
    is_closed=True,
)
"""`POST /v1/nodes/{node}/reports` as JSON."""

REPORT_EXAMPLE: dict[str, Any] = {
    "report_id": "r-1",
    "boot_id": "b-1",
    "provider_id": "aws:///us-east-1a/i-0abc",
    "profile": "g5.xlarge",
    "covers": ["gpu"],
    "devices": [
        {
            "kind": "gpu",
            "vendor": "nvidia",
            "serial": "1654900010001",
            "uuid": "GPU-11111111-2222-3333-4444-555555555555",
            "slot": "0000:00:1e.0",
            "model": "NVIDIA A10G",
        }
    ],
    "checks": [{"name": "gpu.xid", "status": "pass"}],
}


def report_parts(raw: Mapping[str, str]) -> JsonSchema:
    """Give the same as `multipart/form-data`, with the output of tools, by part. A part may be a file or a field."""
    texts = ("run_id", "zone", "seq", *_REPORT_TIMES)
    members = {
        **_REPORT_IDS,
        **{name: {"type": "string"} for name in texts},
        **{name: {**_PART, "description": "JSON, as in a report."} for name in _LISTS},
        **{name: {**_PART, "description": f"To the byte, the output of: {tool}"} for name, tool in raw.items()},
    }
    return obj(members, required=tuple(_REPORT_IDS), is_closed=True)


_CHECKS = {**listed(_CHECK_NAME), "maxItems": CHECKS_MAX, "uniqueItems": True}
_COUNT: JsonSchema = {"type": "integer", "minimum": 0, "maximum": COUNT_MAX}
_MODELS = {
    **listed({"type": "string", "minLength": 1, "maxLength": MODEL_MAX_LENGTH}),
    "maxItems": MODELS_MAX,
    "uniqueItems": True,
}

PROFILE = obj(
    {
        "name": {"type": "string", "description": "The name in the address, or left out."},
        "gpu": obj({"count": _COUNT, "models": _MODELS}, required=("count",), is_closed=True),
        "efa": obj({"count": nullable(_COUNT)}, required=(), is_closed=True),
        "required_checks": _CHECKS,
        "per_boot_checks": _CHECKS,
    },
    required=(),
    is_closed=True,
)
"""`PUT /v1/profiles/{name}`."""

PROFILE_EXAMPLE: dict[str, Any] = {"gpu": {"count": 8}, "efa": {"count": 0}}
