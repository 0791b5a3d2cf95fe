# SPDX-License-Identifier: Apache-2.0
"""Which part of a list is asked for? Filters, a bounded page, an opaque cursor, an order. Never an offset."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from flask import Response, request

from api.answers import answer
from api.text import ID_LENGTH, pointer, whole_number, why_not_text
from registry.domain.canonical import INT_LIMIT
from registry.domain.errors import FieldError, InvalidField
from registry.services.pages import Page, PageRequest

LIMIT_DEFAULT = 100
LIMIT_MAX = 1000
CURSOR_LENGTH = 1024
Words: TypeAlias = Mapping[str, Iterable[str]]
"""The values that a filter may have, for those that have few."""

PAGING = frozenset({"limit", "cursor", "order"})


def query(known: Collection[str]) -> dict[str, str]:
    """Return the query parameters. Raises InvalidField for unknown, repeated and unprintable ones, naming them."""
    errors = []
    for name, values in request.args.lists():
        if name not in known:
            takes = ", ".join(sorted(known)) or "none"
            errors.append(FieldError(pointer("", name), f"is not a known parameter; this address takes {takes}"))
        elif len(values) > 1:
            errors.append(FieldError(pointer("", name), "is given twice"))
        elif name == "cursor" and len(values[0]) > CURSOR_LENGTH:
            errors.append(FieldError("/cursor", "is longer than any that this service makes; take it from `next`"))
        elif not values[0]:
            errors.append(FieldError(pointer("", name), "is empty; leave it out"))
        elif reason := why_not_text(values[0], CURSOR_LENGTH if name == "cursor" else ID_LENGTH):
            errors.append(FieldError(pointer("", name), reason))
    if errors:
        raise InvalidField(f"parameter {errors[0].pointer[1:]} {errors[0].detail}", errors=tuple(errors))
    return dict(request.args.items())


def flag(parameters: dict[str, str], name: str) -> bool:
    """Read a parameter that is `true` or `false`; absent is false. Raises InvalidField."""
    word = parameters.get(name, "false")
    if word not in {"true", "false"}:
        raise _invalid(name, "must be true or false")
    return word == "true"


def number(parameters: dict[str, str], name: str, default: int, *, least: int = 0, most: int = INT_LIMIT - 1) -> int:
    """Read a whole number within bounds. Raises InvalidField."""
    word = parameters.get(name)
    if word is None:
        return default
    digits = int(word) if word.isascii() and word.isdigit() and len(word) < 20 else None
    found = whole_number(digits, least, most)
    if found is None:
        raise _invalid(name, f"must be a whole number from {least} to {most}")
    return found


def listing(
    filters: Collection[str], words: Words | None = None, *, newest_first: bool = True
) -> tuple[dict[str, str], PageRequest]:
    """Read a list's query: the filters that are set, and the page. Raises InvalidField.

    `words` are the values that a filter may have where they are few: a misspelt one must not look like an empty list.
    """
    parameters = query({*filters, *PAGING})
    for name, those in (words or {}).items():
        allowed = [str(one) for one in those]
        if parameters.get(name, allowed[0]) not in allowed:
            raise _invalid(name, f"must be {' or '.join(allowed)}")
    order = parameters.get("order", "desc" if newest_first else "asc")
    if order not in {"asc", "desc"}:
        raise _invalid("order", "must be asc or desc")
    page = PageRequest(
        limit=number(parameters, "limit", LIMIT_DEFAULT, least=1, most=LIMIT_MAX),
        cursor=parameters.get("cursor"),
        newest_first=order == "desc",
    )
    return {name: value for name, value in parameters.items() if name not in PAGING}, page


def page_answer(page: Page) -> Response:
    """Answer one page of a list."""
    return answer({"items": page.items, "next": page.next})


def _invalid(name: str, detail: str) -> InvalidField:
    return InvalidField(f"parameter {name} {detail}", errors=(FieldError(pointer("", name), detail),))
