# SPDX-License-Identifier: Apache-2.0
"""In what shape does a job say how it fares? Which fields go with which kind the rules decide, message by message."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from marshmallow import ValidationError, validates_schema

from api.schemas.fields import (
    NODE_NAME,
    NODE_NAME_MUST,
    Flag,
    JsonSchema,
    Moment,
    OpaqueId,
    OwnField,
    Shape,
    Text,
    Whole,
    Word,
    is_node_name,
    many,
)
from api.text import TEXT_LENGTH
from registry.domain.failures import Cause
from registry.domain.job_events import JobEvent, JobEventKind, Outcome, PauseReason, Unit

EVENTS_MAX = 1000
NODES_MAX = 16_384
DEVICES_MAX = 262_144
STEP_MAX = 10**15
"""Tokens of the largest known training are some 10^13."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class NodeNames(OwnField):
    """The names of the nodes of one job; a plain reader, because a large job has thousands in each message."""

    def json_schema(self) -> JsonSchema:
        """Say in JSON Schema what this field takes."""
        name = {"type": "string", "pattern": f"^{NODE_NAME.removesuffix(chr(92) + 'Z')}$"}
        return {"type": "array", "items": name, "minItems": 1, "maxItems": NODES_MAX}

    def _read(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not 0 < len(value) <= NODES_MAX:
            raise ValidationError(f"must be a list of 1 to {NODES_MAX}")
        wrong = {
            at: [f"must be {NODE_NAME_MUST}"]
            for at, name in enumerate(value)
            if not isinstance(name, str) or not is_node_name(name)
        }
        if wrong:
            raise ValidationError(wrong)
        return tuple(dict.fromkeys(value))


class JobEventShape(Shape):
    """One message of a job. `samples` stands in place of `step` for jobs that count those."""

    event_id = OpaqueId(required=True)
    kind = Word(JobEventKind, required=True)
    at = Moment(required=True)
    step = Whole(0, STEP_MAX)
    samples = Whole(0, STEP_MAX)
    checkpoint = Whole(0, STEP_MAX)
    nodes = NodeNames()
    devices = Whole(1, DEVICES_MAX)
    reason = Word(PauseReason)
    cause = Word(Cause)
    outcome = Word(Outcome)
    released = Flag()
    message = Text(TEXT_LENGTH, is_prose=True)

    @validates_schema
    def check(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse what counts in both ways at once."""
        if data.get("step") is not None and data.get("samples") is not None:
            raise ValidationError("goes without step: a job counts in one of them", "samples")


class JobEventsShape(Shape):
    """Up to a thousand of them."""

    events = many(JobEventShape, EVENTS_MAX)


MANY = JobEventsShape()


def event_of(said: dict[str, Any]) -> JobEvent:
    """Make a message of what was loaded."""
    known = {name: value for name, value in said.items() if value is not None}
    unit = Unit.SAMPLES if "samples" in known else Unit.STEP if "step" in known else None
    reason, cause, outcome = (known.get(name) for name in ("reason", "cause", "outcome"))
    return JobEvent(
        event_id=known["event_id"],
        kind=JobEventKind(known["kind"]),
        at=(known["at"] - _EPOCH) // _MICROSECOND,
        step=known.get("samples", known.get("step")),
        checkpoint=known.get("checkpoint"),
        nodes=known.get("nodes", ()),
        devices=known.get("devices", 0),
        is_released=known.get("released", False),
        unit=unit,
        message=known.get("message"),
        reason=PauseReason(reason) if reason else None,
        cause=Cause(cause) if cause else None,
        outcome=Outcome(outcome) if outcome else None,
    )
