# SPDX-License-Identifier: Apache-2.0
"""In what shape does somebody claim a repair, say how it went, or stop all of them?"""

from __future__ import annotations

from api.schemas.fields import Shape, Text, Whole, Word, reason
from registry.domain.canonical import INT_LIMIT
from registry.domain.repair_orders import Outcome

HOLDER_LENGTH = 128
CANCELLED = (Outcome.BY_PERSON, Outcome.RECOVERED, Outcome.SUPERSEDED, Outcome.GONE)
"""Why a repair is not to be carried out; one that a person cancelled is not planned again for the same failure."""


class ClaimShape(Shape):
    """`POST /v1/repairs/{id}/claim`. With the `token` of the claim in force its lease is renewed."""

    holder = Text(HOLDER_LENGTH)
    token = Whole(1, INT_LIMIT - 1)


class CompleteShape(Shape):
    """`POST /v1/repairs/{id}/complete`."""

    outcome = Word(("done", "failed"), required=True)
    reason = reason(required=False)
    holder = Text(HOLDER_LENGTH)
    token = Whole(1, INT_LIMIT - 1)


class CancelShape(Shape):
    """`POST /v1/repairs/{id}/cancel`."""

    reason = reason()
    outcome = Word(CANCELLED)


class StopShape(Shape):
    """`POST /v1/repairs/stop`."""

    reason = reason()


class ResumeShape(Shape):
    """`POST /v1/repairs/resume`: all of them, or with `condition` those of a check that was suspected."""

    reason = reason()
    condition = Text(128)


CLAIM = ClaimShape()
COMPLETE = CompleteShape()
CANCEL = CancelShape()
STOP = StopShape()
RESUME = ResumeShape()
