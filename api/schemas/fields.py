# SPDX-License-Identifier: Apache-2.0
"""What sorts of fields are there? Each refuses what some database, log or reader could not keep as it came."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate

from api.text import ID_LENGTH, TEXT_LENGTH, TURNING, evidence_of, whole_number, why_not_id, why_not_text
from registry.domain.canonical import INT_LIMIT
from registry.domain.identifiers import normalise_slot
from registry.domain.times import parse_rfc3339

JsonSchema = dict[str, Any]

NODE_NAME = r"[A-Za-z0-9._-]{1,253}\Z"
"""What a node may be called: what a host name or a Kubernetes node name can be."""

NODE_NAME_MUST = "1 to 253 of the characters A-Z a-z 0-9 . _ -"
"""The same in words, to follow "must be"."""

_NODE = re.compile(NODE_NAME)

_CONTROL = rf"\u0000-\u001f\u007f-\u009f{TURNING}"
PLAIN = rf"^[^{_CONTROL}]*[^\s{_CONTROL}][^{_CONTROL}]*$"
"""Text on one line that is not blank, as the published document says it."""

_LINES = rf"\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f{TURNING}"
PROSE = rf"^[^{_LINES}]*[^\s{_LINES}][^{_LINES}]*$"
"""The same with lines and tabs."""

SENTENCES: dict[str, str | list[Any] | dict[Any, Any]] = {"required": "is required", "null": "must not be null"}


class Shape(Schema):
    """An object whose unknown members are refused."""

    error_messages = {"unknown": "is not a known field", "type": "must be a JSON object"}  # noqa: RUF012 - marshmallow's way


class OwnField(fields.Field[Any]):
    """A field that is absent when it is null, unless it is required."""

    default_error_messages = SENTENCES

    def __init__(self, *, required: bool = False, validate: Callable[[Any], Any] | None = None) -> None:
        super().__init__(required=required, allow_none=not required, validate=validate)

    def json_schema(self) -> JsonSchema:
        """Say in JSON Schema what this field takes, null aside."""
        return {}

    def _read(self, value: Any) -> Any:
        """Return what the value says. Raises ValidationError, with words that follow the field's name."""
        raise NotImplementedError

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:  # noqa: ARG002 - marshmallow's signature
        return self._read(value)


class Text(OwnField):
    """Text on one line, or prose with lines; at least one character that is not blank."""

    def __init__(
        self, limit: int, *, required: bool = False, is_prose: bool = False, pattern: str | None = None, must: str = ""
    ) -> None:
        shape = validate.Regexp(pattern, error=f"must be {must}") if pattern else None
        super().__init__(required=required, validate=shape)
        self._limit = limit
        self._is_prose = is_prose
        self._pattern = f"^{pattern.removesuffix(chr(92) + 'Z')}$" if pattern else PROSE if is_prose else PLAIN

    def json_schema(self) -> JsonSchema:
        """Say in JSON Schema what this field takes."""
        return {"type": "string", "minLength": 1, "maxLength": self._limit, "pattern": self._pattern}

    def _read(self, value: Any) -> str:
        reason = why_not_text(value, self._limit, is_prose=self._is_prose)
        if reason is None and not str(value).strip():
            reason = "must not be blank"
        if reason is not None:
            raise ValidationError(reason)
        return str(value)


class OpaqueId(OwnField):
    """1 to 256 printable characters that mean nothing to us."""

    def json_schema(self) -> JsonSchema:
        """Say in JSON Schema what this field takes."""
        return {"type": "string", "minLength": 1, "maxLength": ID_LENGTH, "description": "Opaque, printable."}

    def _read(self, value: Any) -> str:
        reason = why_not_id(value)
        if reason is not None:
            raise ValidationError(reason)
        return str(value)


class Slot(OwnField):
    """A PCI address in any of its spellings, loaded in its one form."""

    def json_schema(self) -> JsonSchema:
        """Say in JSON Schema what this field takes."""
        return {"type": "string", "maxLength": 64, "examples": ["0000:53:00.0"]}

    def _read(self, value: Any) -> str:
        reason = why_not_text(value, 64)
        if reason is not None:
            raise ValidationError(reason)
        slot = normalise_slot(value)
        if slot is None:
            raise ValidationError(f"{value!r} is no PCI address like 0000:53:00.0")
        return slot


class Whole(OwnField):
    """A whole number within bounds."""

    def __init__(self, least: int = 0, most: int = INT_LIMIT - 1, *, required: bool = False) -> None:
        super().__init__(required=required)
        self._bounds = (least, most)

    def json_schema(self) -> JsonSchema:
        """Say in JSON Schema what this field takes."""
        return {"type": "integer", "minimum": self._bounds[0], "maximum": self._bounds[1]}

    def _read(self, value: Any) -> int:
        number = whole_number(value, *self._bounds)
        if number is None:
            raise ValidationError(f"must be a whole number from {self._bounds[0]} to {self._bounds[1]}")
        return number


class Flag(OwnField):
    """`true` or `false`, and no word that could mean one of them."""

    def json_schema(self) -> JsonSchema:
        """Say in JSON Schema what this field takes."""
        return {"type": "boolean"}

    def _read(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValidationError("must be true or false")
        return value


class Moment(OwnField):
    """An RFC 3339 time with its offset, loaded as aware UTC."""

    def json_schema(self) -> JsonSchema:
        """Say in JSON Schema what this field takes."""
        return {"type": "string", "format": "date-time"}

    def _read(self, value: Any) -> datetime:
        if not isinstance(value, str):
            raise ValidationError("must be a time as text, like 2026-01-31T12:00:00Z")
        try:
            return parse_rfc3339(value)
        except ValueError as error:
            raise ValidationError(f"is no time: {error}") from None


class Word(OwnField):
    """One of a few words."""

    def __init__(self, words: Iterable[str], *, required: bool = False) -> None:
        super().__init__(required=required)
        self._words = tuple(str(word) for word in words)

    def json_schema(self) -> JsonSchema:
        """Say in JSON Schema what this field takes."""
        return {"type": "string", "enum": list(self._words)}

    def _read(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self._words:
            raise ValidationError(f"must be {' or '.join(self._words)}")
        return value


class Evidence(OwnField):
    """Any JSON object, kept for people to read. Floats are kept as text."""

    def json_schema(self) -> JsonSchema:
        """Say in JSON Schema what this field takes."""
        return {"type": "object", "description": "Kept for people to read. Numbers with a fraction become text."}

    def _read(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValidationError("must be a JSON object")
        try:
            return evidence_of(value)
        except ValueError as error:
            raise ValidationError(str(error)) from None


def is_node_name(text: str) -> bool:
    """Whether any report could name its node like this."""
    return _NODE.match(text) is not None


def node_name(*, required: bool = False) -> Text:
    """Return a field for a node's name."""
    return Text(253, required=required, pattern=NODE_NAME, must=NODE_NAME_MUST)


def reason(*, required: bool = True) -> Text:
    """Return a field for why somebody does something."""
    return Text(TEXT_LENGTH, required=required, is_prose=True)


def many(
    inner: fields.Field[Any] | type[Shape], most: int, *, least: int = 1, required: bool = True
) -> fields.List[Any]:
    """Return a field for a list of `least` to `most` things, none of which is null."""
    one = inner if isinstance(inner, fields.Field) else fields.Nested(inner, error_messages=SENTENCES)
    one.allow_none = False
    bounds = validate.Length(min=least, max=most, error=f"must be a list of {least} to {most}")
    return fields.List(
        one,
        required=required,
        validate=bounds,
        error_messages={"required": "is required", "null": "must not be null", "invalid": "must be a list"},
    )
