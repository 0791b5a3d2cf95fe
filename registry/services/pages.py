# SPDX-License-Identifier: Apache-2.0
"""How is a long list given out? In bounded pages, each with the key that the next one begins after; by no offset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry.domain.errors import FieldError, InvalidField
from registry.domain.times import parse_rfc3339, rfc3339
from registry.store.filters import RANGE, whole_number
from registry.store.search import Slice


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which part of a list: at most `limit` items, those beyond the key `after`."""

    limit: int
    after: str | None = None
    newest_first: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """Some items of a list, and the key of the last one where more follow; None at the end."""

    items: list[dict[str, Any]]
    next: str | None


def number_of(page: PageRequest) -> int | None:
    """Return the sequence after which a page of the history begins. Raises InvalidField for a cursor that has none."""
    return None if page.after is None else whole_number("cursor", page.after)


def slice_of(page: PageRequest) -> Slice:
    """Return what the store has to read for a page."""
    return Slice(page.limit, page.after, page.newest_first)


def page_of(
    rows: Sequence[Any], page: PageRequest, key: Callable[[Any], str], show: Callable[[Any], dict[str, Any]]
) -> Page:
    """Make a page of at most `limit` rows; the caller has read one more than that to see whether more follow."""
    kept = rows[: page.limit]
    return Page([show(one) for one in kept], key(kept[-1]) if len(rows) > page.limit else None)


def page_of_few(items: Iterable[dict[str, Any]], filters: Mapping[str, str], page: PageRequest, *, key: str) -> Page:
    """Make a page of a list so short that all of it was read: the items whose fields fit, in the order of one field."""
    after = page.after
    fitting = [one for one in items if all(_fits(name, one[name], text) for name, text in filters.items())]
    ordered = sorted(fitting, key=lambda one: str(one[key]), reverse=page.newest_first)
    left = [one for one in ordered if after is None or (one[key] < after if page.newest_first else one[key] > after)]
    return page_of(left, page, lambda one: str(one[key]), lambda one: one)


def _flag(name: str, text: str) -> str:
    if text in {"true", "false"}:
        return text
    raise InvalidField(
        f"parameter {name} must be true or false", errors=(FieldError(f"/{name}", "must be true or false"),)
    )


def _fits(name: str, value: Any, text: str) -> bool:
    """Whether an item's field is what a filter asks for; a time may be asked for as a range. Raises InvalidField."""
    if isinstance(value, bool):
        return str(value).lower() == _flag(name, text)
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
