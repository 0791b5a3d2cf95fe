# SPDX-License-Identifier: Apache-2.0
"""In what shape is it answered who is to blame for a failed job?"""

from __future__ import annotations

from api.schemas.document import listed, nullable, obj
from api.schemas.fields import JsonSchema
from api.schemas.simple import COUNT, MAYBE, TEXT, TIME, word
from registry.domain.failures import Cause
from registry.domain.job_failures import Attribution, Retry

BLAMED = tuple(one for one in Cause if one is not Cause.UNKNOWN)
"""The causes that a verdict can name: one that is unknown is null."""

_CAUSE = nullable(word(BLAMED))
_PER_CENT: JsonSchema = {"type": "integer", "minimum": 0, "maximum": 100}

_EVIDENCE = obj(
    {
        "for": _CAUSE,
        "weight": {**_PER_CENT, "description": "How much it says by itself, in per cent, beside what else was found."},
        "what": TEXT,
        "at": TIME,
        "node": TEXT,
        "device": {**TEXT, "description": "Our id of the device."},
    },
    required=("for", "weight", "what"),
)
_VERDICT = {
    "attribution": word(Attribution),
    "cause": _CAUSE,
    "confidence": {**_PER_CENT, "description": "In per cent; of the likeliest cause where nothing was decided."},
    "evidence": listed(_EVIDENCE),
    "retry": word(Retry),
    "exclude": obj({"nodes": listed(TEXT), "devices": listed(TEXT)}),
}
_JOB_FAILURE = {
    "id": TEXT,
    "job_id": TEXT,
    "user": MAYBE,
    "reporter": TEXT,
    "started_at": TIME,
    "failed_at": TIME,
    "exit_code": {"type": ["integer", "null"], "description": "Below 0 the signal that ended it, as Python says it."},
    "signal": MAYBE,
    **_VERDICT,
    "revision": COUNT,
    "recorded_at": TIME,
    "judged_at": TIME,
}
_SIGNAL = obj(
    {"kind": TEXT, "at": TIME, "rank": COUNT, "node": TEXT, "detail": TEXT},
    required=("kind", "at"),
)

COMPONENTS: dict[str, JsonSchema] = {
    "JobFailure": obj(_JOB_FAILURE),
    "JobFailureJudged": obj({"outcome": word(("judged", "already_judged", "revised")), **_JOB_FAILURE}),
    "JobFailurePage": obj(
        {
            **_JOB_FAILURE,
            "nodes": listed(TEXT),
            "log_excerpt": MAYBE,
            "signals": listed(_SIGNAL),
            "history": listed(obj({"revision": COUNT, "at": TIME, "because": TEXT, **_VERDICT})),
        }
    ),
}
"""What the document calls them."""
