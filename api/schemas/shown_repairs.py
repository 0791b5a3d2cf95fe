# SPDX-License-Identifier: Apache-2.0
"""In what shape are repairs and their budget answered?"""

from __future__ import annotations

from api.schemas.document import listed, nullable, obj
from api.schemas.fields import JsonSchema
from api.schemas.simple import COUNT, FLAG, MAYBE, MAYBE_TIME, TEXT, TIME, word
from registry.domain.repair import Action
from registry.domain.repair_orders import OrderState, Outcome

_SHARE = {"disturbed": COUNT, "nodes": COUNT, "limit": COUNT}

COMPONENTS: dict[str, JsonSchema] = {
    "Repair": obj(
        {
            "id": TEXT,
            "action": word(Action),
            "state": word(OrderState),
            "node": TEXT,
            "provider_id": {**TEXT, "description": "The instance that is to be repaired, and no other."},
            "device": nullable(
                obj({"id": TEXT, "kind": TEXT, "serial": MAYBE, "uuid": MAYBE, "slot": MAYBE}),
            ),
            "condition": TEXT,
            "because": TEXT,
            "waits_for": MAYBE,
            "token": {
                **COUNT,
                "description": "Counts the claims: the newest claim's token, to be shown by its holder.",
            },
            "claimed_by": MAYBE,
            "outcome": nullable(word(Outcome)),
            "detail": MAYBE,
            "planned_at": TIME,
            **dict.fromkeys(("ready_at", "claimed_at", "lease_until", "ended_at"), MAYBE_TIME),
            "settled_at": {**MAYBE_TIME, "description": "When the budget let go of its node."},
        }
    ),
    "RepairBudget": obj(
        {
            "enabled": FLAG,
            "stopped": nullable(obj({"at": TIME, "by": TEXT, "reason": TEXT})),
            "suspected": listed(
                obj({"condition": TEXT, "since": TIME, "nodes": COUNT, "limit": COUNT, "message": TEXT})
            ),
            "fleet": obj(_SHARE),
            "profiles": listed(obj({"name": TEXT, **_SHARE})),
            "zones": listed(obj({"name": MAYBE, **_SHARE})),
            "hour": obj({"begun": COUNT, "limit": COUNT}),
        }
    ),
}
"""What the document calls them."""
