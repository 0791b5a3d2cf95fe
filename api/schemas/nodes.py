# SPDX-License-Identifier: Apache-2.0
"""In what shape is somebody asked to retire, keep out or excuse a node?"""

from __future__ import annotations

from api.schemas.fields import Moment, Shape, Whole, Word, reason
from registry.domain.profiles import COUNT_MAX
from registry.domain.reports import Kind


class RetireShape(Shape):
    """`POST /v1/nodes/{node}/retire`."""

    reason = reason(required=False)


class MaintenanceShape(Shape):
    """`POST /v1/nodes/{node}/maintenance`: `until` in the past ends it."""

    until = Moment(required=True)
    reason = reason()


class WaiverShape(Shape):
    """`POST /v1/nodes/{node}/waivers`: `count` devices of `kind` are enough until then."""

    kind = Word(Kind, required=True)
    count = Whole(0, COUNT_MAX, required=True)
    until = Moment(required=True)
    reason = reason()


RETIRE = RetireShape()
MAINTENANCE = MaintenanceShape()
WAIVER = WaiverShape()
