# SPDX-License-Identifier: Apache-2.0
"""In what shape does somebody rule on a conflict?"""

from __future__ import annotations

from api.schemas.fields import Shape, Word, reason


class _ResolveFields(Shape):
    reason = reason()


# `as` is a word of Python's own, so this member cannot be written as an attribute.
ResolveShape = _ResolveFields.from_dict(
    {"as": Word(("same_device", "different_devices"), required=True)}, name="ResolveShape"
)

RESOLVE = ResolveShape()
