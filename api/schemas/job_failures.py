# SPDX-License-Identifier: Apache-2.0
"""In what shape does somebody tell that a job failed?"""

from __future__ import annotations

import re
from signal import Signals
from typing import Any

from marshmallow import ValidationError

from api.schemas.fields import JsonSchema, Moment, OpaqueId, OwnField, Shape, Text, Whole, many, node_name
from api.text import TEXT_LENGTH, TURNING
from registry.domain.job_failures import JobFailure, Signal

NODES_MAX = 16_384
SIGNALS_MAX = 20_000
"""As many as the ranks of the largest jobs that are known: each may tell of its timeout."""
LOG_LENGTH = 65_536
"""How much of a log is kept, its end: about the last thousand lines."""
EXIT_CODE_MIN, EXIT_CODE_MAX = -64, 2**32 - 1
"""From the last signal, as Python says that it ended a process, to all that a Windows process can end with."""


_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""Control sequences of terminals (ECMA-48, 5.4), with which programs colour their lines."""
_UNKEPT = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff{TURNING}]")


class Printed(OwnField):
    """What a program printed, as it came but for what steers a terminal; of what is too long the end is kept.

    Nobody who tells of a failure at night shall have to clean a log first.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def json_schema(self) -> JsonSchema:
        """Say in JSON Schema what this field takes."""
        return {"type": "string", "description": f"The last {self._limit} characters are kept, without control codes."}

    def _read(self, value: Any) -> str | None:
        if not isinstance(value, str):
            raise ValidationError("must be text")
        return _UNKEPT.sub(" ", _COLOURS.sub("", value))[-self._limit :] or None


class SignalName(OwnField):
    """A signal by its name, with or without `SIG`, or by its number; loaded as the name."""

    def json_schema(self) -> JsonSchema:
        """Say in JSON Schema what this field takes."""
        return {"anyOf": [{"type": "string", "maxLength": 32}, {"type": "integer"}], "examples": ["SIGKILL", 9]}

    def _read(self, value: Any) -> str:
        said = str(value).strip().upper() if isinstance(value, str | int) and not isinstance(value, bool) else ""
        known = {str(int(one)): one.name for one in Signals}
        name = known.get(said, said if said.startswith("SIG") else f"SIG{said}")
        if not re.fullmatch(r"SIG[A-Z][A-Z0-9+-]{1,15}", name):
            raise ValidationError("must be the name of a signal, as SIGKILL, or its number")
        return name


class SignalShape(Shape):
    """One thing that the job, its launcher or its scheduler saw. An unknown kind is kept and says nothing."""

    kind = Text(64, required=True)
    at = Moment(required=True)
    rank = Whole(0, 10_000_000)
    node = node_name()
    detail = Printed(TEXT_LENGTH)


class JobFailureShape(Shape):
    """One failure of one job. `signal` is a name as SIGKILL, `user` whoever ran the job."""

    job_id = OpaqueId(required=True)
    nodes = many(node_name(required=True), NODES_MAX)
    started_at = Moment(required=True)
    failed_at = Moment(required=True)
    exit_code = Whole(EXIT_CODE_MIN, EXIT_CODE_MAX)
    signal = SignalName()
    user = Text(256)
    log_excerpt = Printed(LOG_LENGTH)
    signals = many(SignalShape, SIGNALS_MAX, least=0, required=False)


JOB_FAILURE = JobFailureShape()


def job_of(said: dict[str, Any]) -> JobFailure:
    """Make a failure of what was loaded. A node that is named twice is one."""
    known = {name: value for name, value in said.items() if value is not None}
    signals = tuple(Signal(**one) for one in known.get("signals", ()))
    return JobFailure(**{**known, "nodes": tuple(dict.fromkeys(known["nodes"])), "signals": signals})
