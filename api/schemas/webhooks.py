# SPDX-License-Identifier: Apache-2.0
"""In what shape does somebody subscribe to events, change that, or replay what was given up?"""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, validates_schema

from api.schemas.fields import Flag, OpaqueId, Shape, Text, Whole, Word, many
from registry.domain.webhooks import PENDING_MAX, Algorithm, Format

URL_LENGTH = 2048
DESCRIPTION_LENGTH = 128
LISTED = 64
"""Types, causes or profiles that one subscription may name."""

KEEP_SECONDS_MAX = 30 * 86_400


def _words() -> fields.List[str]:
    return many(Text(128), LISTED, required=False)


class SubscriptionShape(Shape):
    """`POST /v1/webhooks`. Of types, causes and profiles, what is left out is no limit; `node.*` is all of a noun."""

    url = Text(URL_LENGTH, required=True)
    description = Text(DESCRIPTION_LENGTH)
    format = Word(Format)
    algorithm = Word(Algorithm)
    types = _words()
    causes = _words()
    profiles = _words()


class ChangeShape(Shape):
    """`PATCH /v1/webhooks/{webhook}`: what is left out stays. `skip` leaves out what waits or was given up."""

    url = Text(URL_LENGTH)
    description = Text(DESCRIPTION_LENGTH)
    enabled = Flag()
    skip = Flag()

    @validates_schema
    def changes_something(self, data: dict[str, Any], **_: Any) -> None:
        """Refuse what would only write that nothing was changed."""
        if all(data.get(name) is None for name in ("url", "description", "enabled")) and not data.get("skip"):
            raise ValidationError("must name what changes: url, description, enabled or skip")


class RotateShape(Shape):
    """`POST /v1/webhooks/{webhook}/rotate`: for how long the old secret signs as well; a day when left out."""

    keep_seconds = Whole(0, KEEP_SECONDS_MAX)


class PingShape(Shape):
    """`POST /v1/webhooks/{webhook}/test`."""


class ReplayShape(Shape):
    """`POST /v1/webhooks/{webhook}/replay`: these dead letters, or all when left out."""

    deliveries = many(OpaqueId(), PENDING_MAX, required=False)


SUBSCRIPTION = SubscriptionShape()
CHANGE = ChangeShape()
ROTATE = RotateShape()
PING = PingShape()
REPLAY = ReplayShape()
