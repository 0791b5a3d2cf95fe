# SPDX-License-Identifier: Apache-2.0
"""How is a long list given out? In bounded pages, each with an opaque cursor to the next, never by an offset."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry.domain.errors import FieldError, InvalidField
from registry.domain.times import parse_rfc3339, rfc3339
from registry.store.filters import RANGE
from registry.store.search import Slice


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which part of a list: at most `limit` items, from after `cursor` on."""

    limit: int
    cursor: str | None = None
    newest_first: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """Some items of a list, and the cursor to the next ones; None at the end."""

    items: list[dict[str, Any]]
    next: str | None


def key_of(page: PageRequest) -> str | None:
    """Return the key after which the page begins. Raises InvalidField for a cursor that is none of ours."""
    if page.cursor is None:
        return None
    try:
        key = base64.urlsafe_b64decode(page.cursor.encode() + b"==").decode()
    except (binascii.Error, ValueError):
        key = ""
    if not key.startswith("k:"):
        errors = (FieldError("/cursor", "take it from `next` of the page before, as it is"),)
        raise InvalidField("The cursor is not one that this service made.", errors=errors)
    return key[2:]


def number_of(page: PageRequest) -> int | None:
    """Return the sequence after which a page of the history begins. Raises InvalidField."""
    key = key_of(page)
    if key is None or key.isdecimal():
        return None if key is None else int(key)
    raise InvalidField("The cursor is of another list.", errors=(FieldError("/cursor", "take it from this list"),))


def slice_of(page: PageRequest) -> Slice:
    """Return what the store has to read for a page."""
    return Slice(page.limit, key_of(page), page.newest_first)


def page_of(
    rows: Sequence[Any], page: PageRequest, key: Callable[[Any], str], show: Callable[[Any], dict[str, Any]]
) -> Page:
    """Make a page of at most `limit` rows; the caller has read one more than that to see whether more follow."""
    kept = rows[: page.limit]
    after = key(kept[-1]) if len(rows) > page.limit else None
    cursor = base64.urlsafe_b64encode(f"k:{after}".encode()).decode().rstrip("=") if after else None
    return Page([show(one) for one in kept], cursor)


def page_of_few(items: Iterable[dict[str, Any]], filters: Mapping[str, str], page: PageRequest, *, key: str) -> Page:
    """Make a page of a list so short that all of it was read: the items whose fields fit, in the order of one field."""
    after = key_of(page)
    fitting = [one for one in items if all(_fits(name, one[name], text) for name, text in filters.items())]
    ordered = sorted(fitting, key=lambda one: str(one[key]), reverse=page.newest_first)
    left = [one for one in ordered if after is None or (one[key] < after if page.newest_first else one[key] > after)]
    return page_of(left, page, lambda one: str(one[key]), lambda one: one)


def _fits(name: str, value: Any, text: str) -> bool:
    """Whether an item's field is what a filter asks for; a time may be asked for as a range. Raises InvalidField."""
    if not name.endswith("_at"):
        return value is not None and str(value) == text
    begin, is_range, end = text.partition(RANGE)
    try:
        first, last = (rfc3339(parse_rfc3339(one)) if one else None for one in (begin, end))
    except ValueError as error:
        raise InvalidField(f"parameter {name}: {error}", errors=(FieldError(f"/{name}", str(error)),)) from None
    if not is_range:
        return bool(value == first)
    # All times are written alike, so that their order is that of the texts.
    return value is not None and (first is None or value >= first) and (last is None or value < last)
