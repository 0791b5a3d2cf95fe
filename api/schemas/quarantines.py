# SPDX-License-Identifier: Apache-2.0
"""In what shape is somebody asked to hold, or to let go?"""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, validates_schema

from api.schemas.fields import SENTENCES, Evidence, Flag, Moment, Shape, Text, Word, many, node_name, reason
from registry.domain.identifiers import IdentifierType
from registry.domain.reports import Kind

TARGETS_MAX = 1000
REF_LENGTH = 256
WORD_LENGTH = 128


class IdentifierShape(Shape):
    """A string that points at hardware, seen or not. Without `vendor` it means any vendor."""

    kind = Word(Kind, required=True)
    type = Word(IdentifierType, required=True)
    value = Text(REF_LENGTH, required=True)
    vendor = Text(64)


class TargetShape(Shape):
    """Exactly one of a device, an identifier and a node."""

    device = Text(REF_LENGTH)
    identifier = fields.Nested(IdentifierShape, error_messages=SENTENCES)
    node = node_name()

    @validates_schema
    def names_one(self, data: dict[str, Any], **_: Any) -> None:
        """Refuse none and several."""
        if sum(data.get(name) is not None for name in ("device", "identifier", "node")) != 1:
            raise ValidationError("must name exactly one of device, identifier and node")


class OpenShape(Shape):
    """`POST /v1/quarantines`."""

    targets = many(TargetShape, TARGETS_MAX)
    reason = reason()
    cause = Text(WORD_LENGTH)
    ticket = Text(REF_LENGTH)
    scope = Word(("board", "unit"))
    match = Word(("name",))
    drain = Flag()
    release_policy = Word(("manual", "at_expiry", "after_passes"))
    permanent = Flag()
    review_at = Moment()
    expires_at = Moment()
    evidence = Evidence()

    @validates_schema
    def can_end(self, data: dict[str, Any], **_: Any) -> None:
        """A hold that ends at its expiry needs one."""
        if data.get("release_policy") == "at_expiry" and data.get("expires_at") is None:
            raise ValidationError("is required when release_policy is at_expiry", "expires_at")


class ImportShape(Shape):
    """The query of `POST /v1/quarantines/import`: what all holds of the list have in common."""

    kind = Word(Kind)
    reason = reason()
    cause = Text(WORD_LENGTH)
    ticket = Text(REF_LENGTH)
    scope = Word(("board", "unit"))
    release_policy = Word(("manual", "after_passes"))
    permanent = Flag()


class ReleaseShape(Shape):
    """`POST /v1/quarantines/{id}/release`."""

    reason = reason()
    evidence = Evidence()


class ReviewShape(Shape):
    """`POST /v1/quarantines/{id}/review`."""

    reason = reason()
    review_at = Moment()
    ticket = Text(REF_LENGTH)


class ReleaseTargetsShape(Shape):
    """`POST /v1/quarantines/release`."""

    targets = many(TargetShape, TARGETS_MAX)
    reason = reason()


OPEN = OpenShape()
IMPORT = ImportShape()
RELEASE = ReleaseShape()
REVIEW = ReviewShape()
RELEASE_TARGETS = ReleaseTargetsShape()
