# SPDX-License-Identifier: Apache-2.0
"""In what shape is a token asked for?"""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, validates_schema

from api.schemas.fields import Shape, Text, Word, node_name
from registry.domain.roles import Role


class TokenShape(Shape):
    """`POST /v1/tokens`: a node's token is bound to a node, no other is."""

    role = Word(Role, required=True)
    name = Text(128, required=True)
    node = node_name()

    @validates_schema
    def is_bound(self, data: dict[str, Any], **_: Any) -> None:
        """Exactly the role node has a node."""
        has_node = data.get("node") is not None
        if data.get("role") == Role.NODE and not has_node:
            raise ValidationError("is required for the role node", "node")
        if data.get("role") not in {None, Role.NODE} and has_node:
            raise ValidationError("is only for the role node", "node")


TOKEN = TokenShape()
