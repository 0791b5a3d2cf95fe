# SPDX-License-Identifier: Apache-2.0
"""What is the one text form of a value, so that the same content always gives the same hash?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

JSON: TypeAlias = "bool | int | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""JSON without floats, whose text differs from one library to the next."""

INT_LIMIT = 2**63
"""Whole numbers stay within 64 bits, signed: what every database and most JSON readers keep exactly."""


def canonical(value: JSON, where: str = "") -> str:
    """Write JSON in its one form: sorted keys, no blanks, UTF-8 unescaped. `where` is its place in something larger.

    Raises ValueError for a float, a number beyond 64 bits, text that cannot be UTF-8, any other type, or nesting
    deeper than the interpreter's stack.
    """
    try:
        if _is_plain(value):
            text = _encode(value)
            if not _has_surrogate(text):
                return text
        return _encode(_plain(value, where))
    except RecursionError:
        raise _refusal(where, "is nested too deeply") from None


_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


def _is_plain(value: object) -> bool:
    """Tell whether `json` writes a value in only one way as it is, as nearly all are; other texts than UTF-8 aside."""
    if value is None or isinstance(value, str):
        return True
    if isinstance(value, int):
        return -INT_LIMIT <= value < INT_LIMIT
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_is_plain, value.values()))
    return isinstance(value, list | tuple) and all(map(_is_plain, value))


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _plain(value: object, where: str) -> object:
    """Copy a value into what `json` writes in only one way. `where` is a JSON Pointer for the complaint."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, int):
        return _whole(value, where)
    if isinstance(value, Mapping):
        return {_text(key, where): _plain(inner, f"{where}/{key}") for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, f"{where}/{index}") for index, inner in enumerate(value)]
    raise _refusal(where, f"is a {type(value).__name__}, which has no place here")


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _refusal(where, "has a key that is not text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refusal(where, "holds text that cannot be UTF-8") from None
    return str(value)


def _whole(value: int, where: str) -> int:
    if not -INT_LIMIT <= value < INT_LIMIT:
        raise _refusal(where, "is beyond 64 bits")
    return int(value)


def _refusal(where: str, what: str) -> ValueError:
    return ValueError(f"{where or 'the value'} {what}")
