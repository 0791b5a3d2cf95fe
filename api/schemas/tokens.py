# SPDX-License-Identifier: Apache-2.0
"""In what shape is a token asked for, and in what shape does a new node ask for its own?"""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, validates_schema

from api.schemas.fields import Moment, OpaqueId, Shape, Text, Whole, Word, node_name
from registry.domain.joining import USES_MAX
from registry.domain.roles import Role

NAME_PATTERN = r"[A-Za-z0-9._*?-]{1,253}\Z"
BOUNDS = ("pattern", "uses", "expires_at")
"""What every join token has."""


class TokenShape(Shape):
    """`POST /v1/tokens`: a node's token is bound to a node, a join token to names, a count and a time."""

    role = Word(Role, required=True)
    name = Text(128, required=True)
    node = node_name()
    pattern = Text(253, pattern=NAME_PATTERN, must="1 to 253 of the characters A-Z a-z 0-9 . _ - * ?")
    profile = OpaqueId()
    uses = Whole(1, USES_MAX)
    expires_at = Moment()

    @validates_schema
    def is_bound(self, data: dict[str, Any], **_: Any) -> None:
        """Exactly the role node has a node."""
        has_node = data.get("node") is not None
        if data.get("role") == Role.NODE and not has_node:
            raise ValidationError("is required for the role node", "node")
        if data.get("role") not in {None, Role.NODE} and has_node:
            raise ValidationError("is only for the role node", "node")

    @validates_schema
    def is_bounded(self, data: dict[str, Any], **_: Any) -> None:
        """Exactly the role join has bounds."""
        is_join = data.get("role") == Role.JOIN
        lacking = [name for name in BOUNDS if is_join and data.get(name) is None]
        stray = [name for name in (*BOUNDS, "profile") if not is_join and data.get(name) is not None]
        if lacking or stray:
            words = "is required for the role join" if lacking else "is only for the role join"
            raise ValidationError({name: [words] for name in lacking or stray})


class JoinShape(Shape):
    """`POST /v1/join`: which node and instance it is that wants a token."""

    node = node_name(required=True)
    provider_id = OpaqueId(required=True)
    boot_id = OpaqueId()
    profile = OpaqueId()


TOKEN = TokenShape()
JOIN = JoinShape()
