# SPDX-License-Identifier: Apache-2.0
"""In what shape does somebody say that a device or node failed?"""

from __future__ import annotations

from marshmallow import ValidationError

from api.schemas.fields import Evidence, Moment, OpaqueId, Shape, Slot, Text, many, node_name, reason
from api.text import TEXT_LENGTH
from registry.domain.failures import is_valid_code

FAILURES_MAX = 1000


def _code(text: str) -> None:
    if not is_valid_code(text):
        raise ValidationError("must be a fault code like xid_79, sxid_12028, dcgm_fr_… or gpu.inforom")


class Code(Text):
    """A fault code; it need not be a known one."""

    def __init__(self) -> None:
        super().__init__(64, required=True)
        self.validators.append(_code)


class FailureShape(Shape):
    """One fault. `device` is any reference; without it `node` and `slot` say where it was then."""

    failure_id = OpaqueId(required=True)
    code = Code()
    occurred_at = Moment(required=True)
    device = Text(256)
    node = node_name()
    slot = Slot()
    message = Text(TEXT_LENGTH, is_prose=True)
    evidence = Evidence()


class FailuresShape(Shape):
    """Up to a thousand of them."""

    failures = many(FailureShape, FAILURES_MAX)


class WithdrawShape(Shape):
    """`POST /v1/failures/{id}/withdraw`."""

    reason = reason()


ONE = FailureShape()
MANY = FailuresShape()
WITHDRAW = WithdrawShape()
