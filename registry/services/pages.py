# SPDX-License-Identifier: Apache-2.0
"""How is a long list given out? In bounded pages, each with the key that the next one begins after; by no offset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import eq
from typing import Any

from registry.domain.times import parse_rfc3339
from registry.store.database import to_micros
from registry.store.filters import Sort, flag, span, whole_number
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


def page_of_few(
    items: Iterable[dict[str, Any]],
    filters: Mapping[str, str],
    page: PageRequest,
    *,
    key: str,
    sorts: Mapping[str, Sort],
) -> Page:
    """Make a page of a list so short that all of it was read: the items whose fields fit, in the order of one field.

    `sorts` says of which fields a filter is no plain text. Raises InvalidField for one that cannot be read, whatever is
    on the list.
    """
    after = page.after
    tests = {name: _test(name, text, sorts.get(name, Sort.TEXT)) for name, text in filters.items()}
    fitting = [one for one in items if all(fits(one[name]) for name, fits in tests.items())]
    ordered = sorted(fitting, key=lambda one: str(one[key]), reverse=page.newest_first)
    left = [one for one in ordered if after is None or (one[key] < after if page.newest_first else one[key] > after)]
    return page_of(left, page, lambda one: str(one[key]), lambda one: one)


def _test(name: str, text: str, sort: Sort) -> Callable[[Any], bool]:
    """Return what tells whether a field is what a filter asks for. Raises InvalidField."""
    if sort is Sort.FLAG:
        return partial(eq, flag(name, text))
    if sort is Sort.NUMBER:
        return partial(eq, whole_number(name, text))
    if sort is Sort.TIME:
        first, last = span(name, text)
        return lambda value: value is not None and first <= to_micros(parse_rfc3339(value)) < last
    return lambda value: value is not None and str(value) == text
