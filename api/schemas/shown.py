# SPDX-License-Identifier: Apache-2.0
"""In what shape do answers come? JSON Schemas for the published document; tests hold real answers against them."""

from __future__ import annotations

from api.schemas.document import listed, nullable, obj
from api.schemas.fields import JsonSchema
from api.schemas.shown_history import COMPONENTS as OF_HISTORY
from api.schemas.shown_job_failures import COMPONENTS as OF_JOB_FAILURES
from api.schemas.shown_jobs import COMPONENTS as OF_JOBS
from api.schemas.shown_repairs import COMPONENTS as OF_REPAIRS
from api.schemas.shown_webhooks import COMPONENTS as OF_WEBHOOKS
from api.schemas.simple import (
    ANY_OBJECT,
    COUNT,
    FLAG,
    MAYBE,
    MAYBE_COUNT,
    MAYBE_TIME,
    TEXT,
    TIME,
    items,
    page,
    ref,
    word,
)
from registry.domain.condition_shown import ConditionStatus
from registry.domain.decision import Disposition, ReasonCode
from registry.domain.errors import PROBLEM_CODES
from registry.domain.failures import Effect
from registry.domain.node_status import NodeStatus
from registry.domain.passes import Because
from registry.domain.reports import CheckStatus, Kind
from registry.domain.roles import Role
from registry.domain.safe_mode import LossCause

__all__ = ["COMPONENTS", "COUNT", "DEVICE_STATES", "FLAG", "TEXT", "WARNINGS", "items", "page", "ref", "word"]

_KIND = word(Kind)
_PASSES = obj({"have": COUNT, "need": COUNT})
WARNINGS = listed(obj({"code": TEXT, "message": TEXT}))
_NAMED = obj({"kind": MAYBE, "id": MAYBE, "serial": MAYBE, "uuid": MAYBE, "slot": MAYBE})
_CANDIDATE = obj(dict.fromkeys(("id", "kind", "vendor", "serial", "uuid", "model"), MAYBE))
_IDENTIFIER = obj({"type": TEXT, "value": TEXT, "usable": FLAG})

_LOST = obj({"cause": word(LossCause), "from": COUNT, "to": COUNT, "since": TIME})
_REASON = obj(
    {
        "code": word(ReasonCode),
        "message": TEXT,
        "device": _NAMED,
        "quarantine": TEXT,
        "match": TEXT,
        "check": TEXT,
        "have": COUNT,
        "need": COUNT,
        "retry_at": TIME,
        "until": TIME,
    },
    required=("code", "message"),
)

_DECISION = obj(
    {
        "node": TEXT,
        "admitted": FLAG,
        "disposition": word(Disposition),
        "reasons": listed(_REASON),
        "passes": _PASSES,
        "policy": TEXT,
        "sequence": COUNT,
        "decided_at": TIME,
    }
)

_CONDITION = obj(
    {
        "name": TEXT,
        "status": word(ConditionStatus),
        "since": TIME,
        "failure_at": TIME,
        "clears_at": TIME,
        "reason": TEXT,
        "message": TEXT,
        "device": _NAMED,
        "tolerance_seconds": MAYBE_COUNT,
    },
    required=("name", "status", "since", "reason", "message", "tolerance_seconds"),
)

_NODE_FIELDS = {
    "name": TEXT,
    "state": word(NodeStatus),
    **dict.fromkeys(("provider_id", "boot_id", "profile", "zone"), MAYBE),
    "registered_at": TIME,
    **dict.fromkeys(("reported_at", "retired_at", "maintenance_until"), MAYBE_TIME),
    "maintenance_reason": MAYBE,
    "passes": _PASSES,
    "conditions": listed(_CONDITION),
    "admission": ref("Decision"),
}

_LISTED = obj(
    {
        **dict.fromkeys(("id", "matched_by", "kind", "vendor", "serial", "uuid", "slot", "name", "model"), MAYBE),
        **dict.fromkeys(("part_number", "module_id", "reason", "state"), MAYBE),
        "firmware": ANY_OBJECT,
        "readings": ANY_OBJECT,
        "identifiers": listed(_IDENTIFIER),
    }
)
_FINDING = obj({"device": MAYBE, "status": word(CheckStatus), "code": MAYBE, "message": MAYBE})
_CHECK = obj(
    {
        "name": TEXT,
        "status": word(CheckStatus),
        "since": TIME,
        "at": TIME,
        "run_id": TEXT,
        "findings": listed(_FINDING),
    }
)
_WAIVER = obj(
    {
        "id": TEXT,
        "kind": _KIND,
        "count": COUNT,
        "until": TIME,
        "reason": TEXT,
        "granted_by": TEXT,
        "granted_at": TIME,
        "ended_at": MAYBE_TIME,
    }
)

DEVICE_STATES = ("in_service", "quarantined", "missing", "detached", "conflict")
"""The states of a device that is on record; an entry of a node's list may also be `unidentified`."""

_DEVICE_FIELDS = {
    "id": TEXT,
    "kind": _KIND,
    "vendor": TEXT,
    "serial": MAYBE,
    "uuid": MAYBE,
    "board": TEXT,
    "state": word(DEVICE_STATES),
    **dict.fromkeys(("node", "slot", "model", "part_number", "module_id", "name", "asset_tag"), MAYBE),
    "firmware": ANY_OBJECT,
    "registered_at": TIME,
}
_KNOWN_IDENTIFIER = obj(
    {**dict.fromkeys(("type", "value", "scope", "source"), TEXT), "usable": FLAG, "first_seen_at": TIME}
)
_PLACEMENT = obj(
    {"node": TEXT, "slot": MAYBE, "since": TIME, "until": MAYBE_TIME, "ended_by": MAYBE, "missing_since": MAYBE_TIME}
)
_NOTE = obj({"id": TEXT, "device": TEXT, "text": TEXT, "noted_by": TEXT, "noted_at": TIME})

_QUARANTINE = obj(
    {
        "id": TEXT,
        "state": word(("open", "released")),
        "target": ANY_OBJECT,
        "target_kind": TEXT,
        "identifiers": listed(obj(dict.fromkeys(("kind", "vendor", "type", "value"), MAYBE), required=("type",))),
        "devices": listed(TEXT),
        "scope": MAYBE,
        "match": TEXT,
        "owner": TEXT,
        "reason": TEXT,
        "cause": MAYBE,
        "ticket": MAYBE,
        "drain": FLAG,
        "release_policy": TEXT,
        "permanent": FLAG,
        "evidence": {},
        "opened_at": TIME,
        "review_at": MAYBE_TIME,
        "expires_at": MAYBE_TIME,
        "review_due": FLAG,
        "released_at": MAYBE_TIME,
        "released_by": MAYBE,
        "release_reason": MAYBE,
        "warnings": WARNINGS,
    }
)

_FAILURE = obj(
    {
        "id": TEXT,
        "failure_id": TEXT,
        "code": TEXT,
        "kind": MAYBE,
        "cause": TEXT,
        "severity": TEXT,
        "effect": word(Effect),
        "muted": {**MAYBE, "description": "Why it has no effect: `maintenance` or `injected`."},
        "state": word(("active", "withdrawn")),
        **dict.fromkeys(("device", "serial", "uuid", "ref", "node", "slot"), MAYBE),
        "attached": FLAG,
        "occurred_at": MAYBE_TIME,
        "recorded_at": TIME,
        "count": COUNT,
        "last_at": TIME,
        "reporter": TEXT,
        "message": MAYBE,
        "evidence": {},
    }
)

_CONFLICT = obj(
    {
        "id": TEXT,
        "state": word(("open", "resolved")),
        "rule": TEXT,
        "kind": _KIND,
        "node": MAYBE,
        "nodes": listed(TEXT),
        "reason": TEXT,
        "entry": ANY_OBJECT,
        "devices": listed(_CANDIDATE),
        "opened_at": TIME,
        "resolved_at": MAYBE_TIME,
        "resolved_by": MAYBE,
        "resolved_as": MAYBE,
        "resolve_reason": MAYBE,
    }
)

_TOKEN_FIELDS = {
    "id": TEXT,
    "role": word(Role),
    "name": TEXT,
    "node": MAYBE,
    "created_at": TIME,
    "created_by": TEXT,
    "revoked_at": MAYBE_TIME,
    **dict.fromkeys(("provider_id", "profile", "joined_with", "pattern"), MAYBE),
    "uses": MAYBE_COUNT,
    "used": MAYBE_COUNT,
    "expires_at": MAYBE_TIME,
}


def _outcome(*outcomes: str, **more: JsonSchema) -> JsonSchema:
    """The answer for one of many targets."""
    told = {"outcome": word(outcomes), "message": TEXT, "code": word(PROBLEM_CODES), "candidates": listed(_CANDIDATE)}
    return obj({**told, **more}, required=("outcome",))


_PROBLEM = obj(
    {
        "type": TEXT,
        "title": TEXT,
        "status": {"type": "integer"},
        "code": word(PROBLEM_CODES),
        "detail": TEXT,
        "instance": {**TEXT, "description": "The request's id: the logs have it under this name."},
        "errors": listed(obj({"pointer": {**TEXT, "description": "JSON Pointer into the message."}, "detail": TEXT})),
    }
)

COMPONENTS: dict[str, JsonSchema] = {
    "Decision": _DECISION,
    "Reported": obj(
        {
            "report_id": TEXT,
            "replayed": FLAG,
            "pass": obj(
                {"counted": FLAG, "because": nullable(word(Because)), "detail": MAYBE, "have": COUNT, "need": COUNT}
            ),
            "admission": ref("Decision"),
            "warnings": WARNINGS,
        }
    ),
    "Node": obj(_NODE_FIELDS),
    "NodePage": obj(
        {
            **_NODE_FIELDS,
            "devices": listed(_LISTED),
            "missing": listed(ANY_OBJECT),
            "checks": listed(_CHECK),
            "waivers": listed(_WAIVER),
            "host": ANY_OBJECT,
        }
    ),
    "Waiver": _WAIVER,
    "Device": obj(_DEVICE_FIELDS),
    "DevicePage": obj(
        {
            **_DEVICE_FIELDS,
            "match": word(("hardware", "place")),
            "warnings": WARNINGS,
            "siblings": listed(TEXT),
            "identifiers": listed(_KNOWN_IDENTIFIER),
            "placements": listed(_PLACEMENT),
            "quarantines": listed(ref("Quarantine")),
            "notes": listed(_NOTE),
        }
    ),
    "Note": _NOTE,
    "Quarantine": _QUARANTINE,
    "Opened": _outcome("opened", "already_open", "refused", target=ANY_OBJECT, quarantine=ref("Quarantine")),
    "Imported": _outcome(
        *("opened", "already_open", "refused"),
        row={"type": "integer", "minimum": 1, "description": "The line of the list, from 1."},
        target={"type": ["object", "null"]},
        quarantine={**TEXT, "description": "Its id."},
    ),
    "Released": _outcome("released", "not_held", "refused", target=ANY_OBJECT, quarantines=listed(ref("Quarantine"))),
    "Failure": _FAILURE,
    "Recorded": _outcome("recorded", "already_recorded", "refused", failure_id=TEXT, failure=ref("Failure")),
    "Conflict": _CONFLICT,
    "Profile": obj(
        {
            "name": TEXT,
            "gpu": obj({"count": COUNT, "models": listed(TEXT)}, required=("count",)),
            "efa": obj({"count": {"type": ["integer", "null"]}}),
            "required_checks": listed(TEXT),
            "per_boot_checks": listed(TEXT),
            "built_in": FLAG,
        }
    ),
    "Policy": {
        **obj(
            {
                "digest": TEXT,
                "effects": {"type": "object", "additionalProperties": word(Effect)},
                "rules": listed(ANY_OBJECT),
                "slo": listed(ANY_OBJECT),
            }
        )
    },
    "Token": obj(_TOKEN_FIELDS),
    "NewToken": obj({**_TOKEN_FIELDS, "token": {**MAYBE, "description": "Shown once; null when replayed."}}),
    "Ready": obj(
        {
            "status": word(("ok", "safe_mode", "not_ready")),
            "engine": word(("sqlite", "postgresql")),
            "faults": listed(TEXT),
            "sqlite": obj({"version": TEXT, "is_safe": FLAG, "journal": TEXT}),
            "safe_mode": listed(_LOST),
            "last_sign_at": MAYBE_TIME,
            "is_beating": FLAG,
            "sequence": COUNT,
        },
        required=("status", "engine", "faults"),
    ),
    "Acknowledged": obj(
        {"safe_mode": FLAG, "acknowledged_at": TIME, "reason": TEXT, "lost": listed(_LOST)},
    ),
    **OF_HISTORY,
    **OF_REPAIRS,
    **OF_WEBHOOKS,
    **OF_JOBS,
    **OF_JOB_FAILURES,
    "Problem": _PROBLEM,
}
"""Every named schema of the document."""
