# SPDX-License-Identifier: Apache-2.0
"""What does a filter ask for? The text of a query parameter becomes a condition on one column, or is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from registry.domain.canonical import INT_LIMIT
from registry.domain.errors import FieldError, InvalidField
from registry.domain.times import parse_rfc3339
from registry.store.database import to_micros

Condition: TypeAlias = tuple[str, Sequence[Any]]
"""SQL with its parameters."""

RANGE = ".."
"""Between the two times of a range, of which either may be left out. The second is exclusive."""


PROSE_BEGINS = 64
"""How much of a prose an index has: PostgreSQL refuses entries of more than a third of a page (`nbtsort.c`), 2,704
bytes, which a reason may be longer than."""


class Sort(StrEnum):
    """How the text of a filter is read."""

    TEXT = "text"
    TIME = "time"
    FLAG = "flag"
    NUMBER = "number"
    SIGNED = "signed"
    PROSE = "prose"


@dataclass(frozen=True, slots=True)
class Column:
    """Where a field is, in SQL of our own, and what sort of value it has."""

    sql: str
    sort: Sort = Sort.TEXT
    among: str = "{}"
    """The condition that the one on the column stands in, where the column is of another table."""


def columns(prefix: str, *names: str, sort: Sort = Sort.TEXT) -> dict[str, Column]:
    """Give the columns of a table whose fields are called as they are."""
    return {name: Column(f"{prefix}.{name}", sort) for name in names}


def conditions(known: Mapping[str, Column], filters: Mapping[str, str]) -> list[Condition]:
    """Return a condition for each part of each filter. Raises InvalidField, naming the parameter."""
    return [
        (known[name].among.format(sql), values)
        for name, text in filters.items()
        for sql, values in _condition(name, known[name], text)
    ]


def where(parts: Iterable[Condition]) -> tuple[str, list[Any]]:
    """Join conditions to a WHERE clause, empty for none, and its parameters."""
    found = list(parts)
    text = " AND ".join(sql for sql, _ in found)
    return (f" WHERE {text}" if text else ""), [value for _, values in found for value in values]


def whole_number(name: str, text: str) -> int:
    """Read the text of a filter as a number from 0 on. Raises InvalidField, naming the parameter."""
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) < INT_LIMIT):
        raise _refused(name, "must be a whole number from 0 on")
    return int(text)


def flag(name: str, text: str) -> bool:
    """Read the text of a filter as yes or no. Raises InvalidField, naming the parameter."""
    if text not in {"true", "false"}:
        raise _refused(name, "must be true or false")
    return text == "true"


def span(name: str, text: str) -> tuple[int, int]:
    """Read the text of a filter as a time or a range of times, in microseconds; the second is exclusive.

    Raises InvalidField, naming the parameter.
    """
    begin, is_range, end = text.partition(RANGE)
    if not is_range:
        at = _micros(name, text)
        return at, at + 1
    if not begin and not end:
        raise _refused(name, "needs a time on one side of the dots at least")
    return _micros(name, begin) if begin else -INT_LIMIT, _micros(name, end) if end else INT_LIMIT - 1


def _condition(name: str, column: Column, text: str) -> list[Condition]:
    if column.sort is Sort.TIME:
        return _times(name, column.sql, text)
    if column.sort is Sort.PROSE:
        return [
            (f"substr({column.sql}, 1, {PROSE_BEGINS}) = ?", (text[:PROSE_BEGINS],)),
            (f"{column.sql} = ?", (text,)),
        ]
    if column.sort is Sort.FLAG:
        # A literal, so that an index over the rare ones alone is used.
        return [(f"{column.sql} = {int(flag(name, text))}", ())]
    if column.sort is Sort.SIGNED and text.startswith("-"):
        return [(f"{column.sql} = ?", (-whole_number(name, text[1:]),))]
    if column.sort in {Sort.NUMBER, Sort.SIGNED}:
        return [(f"{column.sql} = ?", (whole_number(name, text),))]
    return [(f"{column.sql} = ?", (text,))]


def _times(name: str, sql: str, text: str) -> list[Condition]:
    first, last = span(name, text)
    if RANGE not in text:
        return [(f"{sql} = ?", (first,))]
    # Both ends always: SQLite takes a range that is open for half of the table, and would look through all of it.
    return [(f"{sql} >= ? AND {sql} < ?", (first, last))]


def _micros(name: str, text: str) -> int:
    try:
        return to_micros(parse_rfc3339(text))
    except ValueError as error:
        raise _refused(name, f"must be a time like 2026-01-31T12:00:00Z, or a range A..B of them: {error}") from None


def _refused(name: str, words: str) -> InvalidField:
    return InvalidField(f"parameter {name} {words}", errors=(FieldError(f"/{name}", words),))
