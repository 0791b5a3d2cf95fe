# SPDX-License-Identifier: Apache-2.0
"""In what shape is "what would you say?" asked?"""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, validates_schema

from api.schemas.fields import OpaqueId, Shape, many, node_name
from api.schemas.quarantines import IdentifierShape

CANDIDATES_MAX = 1000
IDENTIFIERS_MAX = 1024


class CandidateShape(Shape):
    """A node by its name, in its present boot or one that is named; hardware by its identifiers; or both."""

    node = node_name()
    boot_id = OpaqueId()
    identifiers = many(IdentifierShape, IDENTIFIERS_MAX, required=False)

    @validates_schema
    def names_something(self, data: dict[str, Any], **_: Any) -> None:
        """Nobody cannot be judged."""
        if data.get("node") is None and not data.get("identifiers"):
            raise ValidationError("must have a node, identifiers, or both")
        if data.get("boot_id") is not None and data.get("node") is None:
            raise ValidationError("must have the node whose boot it is", "boot_id")


class PreviewShape(Shape):
    """`POST /v1/admissions`."""

    candidates = many(CandidateShape, CANDIDATES_MAX)


PREVIEW = PreviewShape()
