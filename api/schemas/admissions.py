# SPDX-License-Identifier: Apache-2.0
"""In what shape is "what would you say?" asked?"""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, validates_schema

from api.schemas.fields import Shape, many, node_name
from api.schemas.quarantines import IdentifierShape

CANDIDATES_MAX = 1000
IDENTIFIERS_MAX = 1024


class CandidateShape(Shape):
    """A node by its name, hardware by its identifiers, or both."""

    node = node_name()
    identifiers = many(IdentifierShape, IDENTIFIERS_MAX, required=False)

    @validates_schema
    def names_something(self, data: dict[str, Any], **_: Any) -> None:
        """Nobody cannot be judged."""
        if data.get("node") is None and not data.get("identifiers"):
            raise ValidationError("must have a node, identifiers, or both")


class PreviewShape(Shape):
    """`POST /v1/admissions`."""

    candidates = many(CandidateShape, CANDIDATES_MAX)


PREVIEW = PreviewShape()
