# SPDX-License-Identifier: Apache-2.0
"""Which text, numbers and JSON may come in? What every database keeps to the character, and nothing that hides.

NUL is refused by PostgreSQL and kept by SQLite, lone surrogates break both, and control characters rewrite the
terminal of whoever reads a log: so none of them gets past the door.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from registry.domain.canonical import INT_LIMIT
from registry.domain.errors import MalformedBody

ID_LENGTH = 256
"""Longest opaque id, in characters."""

TEXT_LENGTH = 4096
"""Longest message or reason, in characters."""

EVIDENCE_DEPTH = 16
"""Deepest nesting of evidence: what people write by hand has three levels, what tools print has six."""

EVIDENCE_VALUES = 10_000
"""Most values in one piece of evidence."""

TURNING = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""The characters that turn the direction of text: with them a log shows another order than stands in it
(https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters)."""

SHOWN_LENGTH = 200
"""How much of a name or value that came in is shown again in an answer."""

_CONTROL = re.compile(rf"[\x00-\x1f\x7f-\x9f\ud800-\udfff{TURNING}]")
_CONTROL_IN_PROSE = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff{TURNING}]")


def why_not_text(value: object, limit: int, *, is_prose: bool = False) -> str | None:
    """Say what keeps a value from being a text of at most `limit` characters, or None. Prose may have lines."""
    if not isinstance(value, str):
        return "must be text in quotation marks" if isinstance(value, int | float) else "must be text"
    if len(value) > limit:
        return f"must have at most {limit} characters"
    if (_CONTROL_IN_PROSE if is_prose else _CONTROL).search(value):
        return "must have no control characters and no lone surrogates"
    return None


def why_not_id(value: object) -> str | None:
    """Say what keeps a value from being an opaque id of 1 to 256 printable characters, or None."""
    reason = why_not_text(value, ID_LENGTH)
    if reason is not None:
        return reason
    if not value or not str(value).isprintable():
        return f"must be 1 to {ID_LENGTH} printable characters"
    return None


def whole_number(value: object, least: int, most: int) -> int | None:
    """Return a whole number within bounds, or None. `5.0` is whole, as JSON Schema has it; `true` is no number."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        return None
    return value


def is_scalar(value: object) -> bool:
    """Tell whether a value can be a reading: text, a finite number within 64 bits, true, false or null."""
    if isinstance(value, str):
        return why_not_text(value, TEXT_LENGTH, is_prose=True) is None
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, int) and -INT_LIMIT <= value < INT_LIMIT)


def read_json(raw: bytes) -> Any:
    """Read strict JSON: UTF-8, no name twice in an object, no NaN. Raises MalformedBody."""
    try:
        return json.loads(raw.decode(), object_pairs_hook=_object, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise MalformedBody(f"the body is not UTF-8: byte {error.start} cannot be read") from None
    except RecursionError:
        raise MalformedBody("the body is nested too deep") from None
    except ValueError as error:
        raise MalformedBody(f"the body is not JSON: {error}") from None


def pointer(parent: str, name: str | int) -> str:
    """Return the JSON Pointer of a member (RFC 6901, section 3: `~` and `/` are written `~0` and `~1`).

    A name that is too long to be shown is cut.
    """
    return f"{parent}/{shorten(str(name)).replace('~', '~0').replace('/', '~1')}"


def shorten(text: str, limit: int = SHOWN_LENGTH) -> str:
    """Cut a text to at most `limit` characters, and show that it was cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def evidence_of(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return evidence in a form that history can keep: floats become text, digit for digit.

    Raises ValueError, with words that follow the field's name, for what is too deep, too long or not storable.
    """
    left = [EVIDENCE_VALUES]
    kept = _kept(value, EVIDENCE_DEPTH, left)
    return dict(kept)


def _kept(value: object, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0:
        raise ValueError(f"must have at most {EVIDENCE_VALUES} values")
    if isinstance(value, Mapping | list) and depth == 0:
        raise ValueError(f"must be nested at most {EVIDENCE_DEPTH} deep")
    if isinstance(value, Mapping):
        return {_kept(str(name), depth - 1, left): _kept(inner, depth - 1, left) for name, inner in value.items()}
    if isinstance(value, list):
        return [_kept(inner, depth - 1, left) for inner in value]
    return _kept_scalar(value)


def _kept_scalar(value: object) -> Any:
    if not isinstance(value, str) and not is_scalar(value):
        raise ValueError("must hold only finite numbers within 64 bits")
    if isinstance(value, str) and (_CONTROL_IN_PROSE.search(value)):
        raise ValueError("must have no control characters and no lone surrogates")
    return repr(value) if isinstance(value, float) else value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    names = [name for name, _ in pairs]
    twice = next(name for name, times in Counter(names).items() if times > 1)
    raise ValueError(f"{shorten(twice)!r} stands twice in one object")


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")
