# SPDX-License-Identifier: Apache-2.0
"""In what shape do answers about jobs and about objectives come?"""

from __future__ import annotations

from api.schemas.document import listed, nullable, obj
from api.schemas.fields import JsonSchema
from api.schemas.simple import (
    COUNT,
    FLAG,
    MAYBE,
    MAYBE_NUMBER,
    MAYBE_SHARE,
    MAYBE_TIME,
    NUMBER,
    SHARE,
    TEXT,
    TIME,
    word,
)
from registry.domain.capacity import CapacityState
from registry.domain.errors import PROBLEM_CODES
from registry.domain.failures import Cause
from registry.domain.goodput import TimeKind
from registry.domain.job_events import Outcome, Unit
from registry.domain.job_phases import Phase
from registry.domain.slo import AlertLevel, ObjectiveName

_CAUSE = word(Cause)
_KIND = word(kind for kind in TimeKind if kind not in {TimeKind.PRODUCTIVE, TimeKind.QUEUED})
_RATES: JsonSchema = {"type": "object", "additionalProperties": NUMBER}
_COUNTS: JsonSchema = {"type": "object", "additionalProperties": COUNT}

_JOB_FIELDS = {
    "job_id": TEXT,
    "state": word(Phase),
    "outcome": nullable(word(Outcome)),
    "unit": nullable(word(Unit)),
    "nodes": COUNT,
    "devices": COUNT,
    "goodput": {**MAYBE_SHARE, "description": "Productive of allocated time; null before there is any."},
    "interruptions": COUNT,
    **dict.fromkeys(("started_at", "ended_at"), MAYBE_TIME),
    **dict.fromkeys(("last_at", "recorded_at"), TIME),
    "reporter": TEXT,
}

_JOB_PAGE = obj(
    {
        **_JOB_FIELDS,
        "step": COUNT,
        "durable": {**COUNT, "description": "The step up to which progress cannot be lost."},
        "attempts": COUNT,
        "events": COUNT,
        "node_names": listed(TEXT),
        "ettr": {**MAYBE_SHARE, "description": "Productive of allocated and queued time."},
        **dict.fromkeys(("allocated_seconds", "productive_seconds", "queued_seconds"), NUMBER),
        "untold_seconds": {**NUMBER, "description": "Time whose progress the next message will tell."},
        "mttf_seconds": MAYBE_NUMBER,
        "badput": listed(obj({"kind": _KIND, "cause": _CAUSE, "seconds": NUMBER})),
        "interruptions_by_cause": _COUNTS,
        "checkpoints": COUNT,
        "silent_seconds": MAYBE_NUMBER,
    }
)

_BURN = obj(
    {
        "level": word(AlertLevel),
        **dict.fromkeys(("long_seconds", "short_seconds"), COUNT),
        "threshold": NUMBER,
        **dict.fromkeys(("long", "short"), MAYBE_NUMBER),
        "is_firing": FLAG,
    }
)

_OBJECTIVE = obj(
    {
        "name": word(ObjectiveName),
        "target": TEXT,
        "window_seconds": COUNT,
        "actual": {**MAYBE_NUMBER, "description": "Null where there was nothing to judge."},
        "is_met": {"type": ["boolean", "null"]},
        "left": {**MAYBE_NUMBER, "description": "The part of the room for failure that is left; below 0, overdrawn."},
        "alert": nullable(word(AlertLevel)),
        "by_cause": nullable(_RATES),
        "burn_rates": listed(_BURN),
    }
)

_CAPACITY = obj(
    {
        "window_seconds": COUNT,
        "seen_seconds": {
            **NUMBER,
            "description": "For how much of the window anybody looked: the rest counts nowhere.",
        },
        "device_seconds": NUMBER,
        "goodput": MAYBE_SHARE,
        "spent": listed(
            obj({"state": word(CapacityState), "cause": nullable(_CAUSE), "device_seconds": NUMBER, "share": SHARE})
        ),
    }
)

_JOBS = obj(
    {
        "window_seconds": COUNT,
        "device_seconds": NUMBER,
        "productive_device_seconds": NUMBER,
        "goodput": MAYBE_SHARE,
        "ettr": MAYBE_SHARE,
        "badput": listed(obj({"kind": _KIND, "cause": _CAUSE, "device_seconds": NUMBER, "share": SHARE})),
    }
)

_SIZE = obj(
    {
        **dict.fromkeys(("devices_from", "devices_to", "interruptions"), COUNT),
        "allocated_seconds": NUMBER,
        "nodes": {**NUMBER, "description": "Of such a job, on average."},
        "mttf_seconds": {**MAYBE_NUMBER, "description": "Measured; null where none was interrupted."},
        "expected_mttf_seconds": {**MAYBE_NUMBER, "description": "By the rate of all jobs."},
        "checkpoint_seconds": {**MAYBE_NUMBER, "description": "What one costs, on average."},
        "checkpoint_interval_seconds": {**MAYBE_NUMBER, "description": "How often to take one, by Young and Daly."},
    }
)

COMPONENTS: dict[str, JsonSchema] = {
    "Job": obj(_JOB_FIELDS),
    "JobPage": _JOB_PAGE,
    "JobEventTaken": obj(
        {
            "event_id": TEXT,
            "outcome": word(("recorded", "already_recorded", "refused")),
            "code": word(PROBLEM_CODES),
            "message": MAYBE,
        },
        required=("event_id", "outcome"),
    ),
    "Objectives": obj(
        {
            "decided_at": TIME,
            "policy": TEXT,
            "objectives": listed(_OBJECTIVE),
            "capacity": _CAPACITY,
            "jobs": _JOBS,
            "sizes": listed(_SIZE),
        }
    ),
}
"""The schemas of the document that speak of jobs."""
