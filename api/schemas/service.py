# SPDX-License-Identifier: Apache-2.0
"""In what shape does an administrator take note of a loss?"""

from __future__ import annotations

from api.schemas.fields import Shape, reason


class AcknowledgeShape(Shape):
    """`POST /v1/service/acknowledge`."""

    reason = reason()


ACKNOWLEDGE = AcknowledgeShape()
