# SPDX-License-Identifier: Apache-2.0
"""In what shape are subscriptions and their deliveries answered?"""

from __future__ import annotations

from api.schemas.document import listed, obj
from api.schemas.fields import JsonSchema
from api.schemas.simple import COUNT, FLAG, MAYBE, MAYBE_COUNT, MAYBE_TIME, TEXT, TIME, word
from registry.domain.webhooks import Algorithm, DeliveryState, Format

_SUBSCRIPTION: dict[str, JsonSchema] = {
    "id": TEXT,
    "url": {**TEXT, "description": "Without path and query: they may be a secret."},
    "description": MAYBE,
    "format": word(Format),
    "algorithm": word(Algorithm),
    **dict.fromkeys(("types", "causes", "profiles"), listed(TEXT)),
    "enabled": FLAG,
    "disabled_because": MAYBE,
    "created_at": TIME,
    "created_by": TEXT,
    "keys": {
        **listed(obj({"public_key": MAYBE, "created_at": TIME, "drop_at": MAYBE_TIME})),
        "description": "What signs now, the newest first; `public_key` is null for a secret that both sides know.",
    },
    "position": {**COUNT, "description": "Up to this event of the history all is told, on its way, or a dead letter."},
    "behind": {**COUNT, "description": "Events after it, fitting or not, while it fails or is switched off."},
    "pending": COUNT,
    "dead": COUNT,
    "delivered": COUNT,
    "failed": {**COUNT, "description": "Tries that failed."},
    "abandoned": {**COUNT, "description": "Dead letters ever."},
    **dict.fromkeys(("delivered_at", "failing_since", "retry_at"), MAYBE_TIME),
    "error": MAYBE,
}

COMPONENTS: dict[str, JsonSchema] = {
    "Subscription": obj(_SUBSCRIPTION),
    "NewSubscription": obj(
        {
            **_SUBSCRIPTION,
            "secret": {**MAYBE, "description": "Shown this once; null for Ed25519, and when the answer is replayed."},
        }
    ),
    "Delivery": obj(
        {
            "id": TEXT,
            "event": {**MAYBE_COUNT, "description": "Its sequence; null for a message that only tries the way."},
            "type": MAYBE,
            "state": word(DeliveryState),
            "attempts": COUNT,
            "status": {**MAYBE_COUNT, "description": "What was answered last; null for no answer."},
            "error": MAYBE,
            "created_at": TIME,
            **dict.fromkeys(("tried_at", "retry_at", "ended_at"), MAYBE_TIME),
        }
    ),
    "Replayed": obj({"replayed": COUNT}),
}
"""What the document calls them."""
