# SPDX-License-Identifier: Apache-2.0
"""In what shape does somebody write a note about a device?"""

from __future__ import annotations

from api.schemas.fields import Shape, Text
from api.text import TEXT_LENGTH


class NoteShape(Shape):
    """`POST /v1/devices/{ref}/notes`."""

    text = Text(TEXT_LENGTH, required=True, is_prose=True)


NOTE = NoteShape()
