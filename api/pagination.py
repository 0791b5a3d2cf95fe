# SPDX-License-Identifier: Apache-2.0
"""Which part of a list is asked for? Filters, a bounded page, an opaque cursor, an order. Never an offset.

A cursor says of which list it is, and goes on with nothing else: one that was taken elsewhere would leave items out
without a word.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from flask import Response, request

from api.answers import answer
from api.schemas.fields import NODE_NAME_MUST, is_node_name
from api.text import ID_LENGTH, TEXT_LENGTH, pointer, whole_number, why_not_text
from registry.domain.canonical import INT_LIMIT
from registry.domain.errors import FieldError, InvalidField
from registry.services.pages import Page, PageRequest

LIMIT_DEFAULT = 100
LIMIT_MAX = 1000
CURSOR_LENGTH = 1024
MARK_LENGTH = 16
"""Hexadecimal digits of a list's digest in its cursors: against mistakes; whoever forges one gains nothing."""
Words: TypeAlias = Mapping[str, Iterable[str]]
"""The values that a filter may have, for those that have few."""

PAGING = frozenset({"limit", "cursor", "order"})
WRITTEN = frozenset({"reason", "message", "release_reason", "resolve_reason", "maintenance_reason"})
"""Fields that people wrote: asked for to the letter, and longer than an id."""

_LONGEST = {"cursor": CURSOR_LENGTH, **dict.fromkeys(WRITTEN, TEXT_LENGTH)}


def query(known: Collection[str]) -> dict[str, str]:
    """Return the query parameters. Raises InvalidField for unknown, repeated and unprintable ones, naming them."""
    if not request.query_string:
        return {}
    errors = [
        FieldError(pointer("", name), reason)
        for name, values in request.args.lists()
        if (reason := _why_not(name, values, known)) is not None
    ]
    if errors:
        raise InvalidField(f"parameter {errors[0].pointer[1:]} {errors[0].detail}", errors=tuple(errors))
    return dict(request.args.items())


def _why_not(name: str, values: list[str], known: Collection[str]) -> str | None:
    """Say what keeps a parameter from being read, or None."""
    if name not in known:
        return f"is not a known parameter; this address takes {', '.join(sorted(known)) or 'none'}"
    if len(values) > 1:
        return "is given twice"
    if name == "cursor" and len(values[0]) > CURSOR_LENGTH:
        return "is longer than any that this service makes; take it from `next`"
    if not values[0]:
        return "is empty; leave it out"
    if name == "node" and not is_node_name(values[0]):
        return f"must be {NODE_NAME_MUST}"
    return why_not_text(values[0], _LONGEST.get(name, ID_LENGTH), is_prose=name in WRITTEN)


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
    filters: Collection[str], words: Words | None = None, *, newest_first: bool = True, limit: int = LIMIT_DEFAULT
) -> tuple[dict[str, str], PageRequest]:
    """Read a list's query: the filters that are set, and the page, of `limit` items unless it asks for others.

    `words` are the values that a filter may have where they are few: a misspelt one must not look like an empty list.
    Raises InvalidField.
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
        limit=number(parameters, "limit", limit, least=1, most=LIMIT_MAX),
        after=_key(parameters["cursor"]) if "cursor" in parameters else None,
        newest_first=order == "desc",
    )
    return {name: value for name, value in parameters.items() if name not in PAGING}, page


def page_answer(page: Page) -> Response:
    """Answer one page of a list."""
    return answer({"items": page.items, "next": cursor_of(page)})


def cursor_of(page: Page) -> str | None:
    """Return the cursor of the page after this one of the list that is asked for; None at its end."""
    return None if page.next is None else _cursor(page.next)


def _cursor(key: str) -> str:
    return base64.urlsafe_b64encode(f"{_list()}:{key}".encode()).decode().rstrip("=")


def _key(cursor: str) -> str:
    """Return the key after which the page begins. Raises InvalidField unless the cursor is of this very list."""
    try:
        name, mark, key = base64.urlsafe_b64decode(cursor.encode() + b"==").decode().split(":", 2)
    except (binascii.Error, ValueError):
        raise _invalid("cursor", "is not one that this service made; take it from `next`, as it is") from None
    here = _list()
    if name != here.partition(":")[0]:
        raise _invalid("cursor", "is of another list; take it from `next` of this one")
    if f"{name}:{mark}" != here:
        raise _invalid("cursor", "is of other filters or another order; ask for all pages alike but for limit")
    return key


def _list() -> str:
    """Name the list that is asked for, and what it is narrowed and ordered by. How long its pages are is left open."""
    asked = sorted((name, text) for name, text in request.args.items() if name not in {"limit", "cursor"})
    mark = hashlib.sha256(json.dumps([request.path, asked]).encode()).hexdigest()[:MARK_LENGTH]
    return f"{request.path.rpartition('/')[2]}:{mark}"


def _invalid(name: str, detail: str) -> InvalidField:
    return InvalidField(f"parameter {name} {detail}", errors=(FieldError(pointer("", name), detail),))
