# SPDX-License-Identifier: Apache-2.0
"""What happened? Events are put in when a transaction commits; here they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from registry.domain.canonical import canonical
from registry.domain.events import GENESIS, Actor, Entry, Event, unseal
from registry.domain.safe_mode import Head
from registry.store.database import Row, Snapshot, from_micros, to_micros
from registry.store.engines import unhurried
from registry.store.filters import Condition, where

ACTOR = {
    "sqlite": """substr(e.body, 1, instr(e.body, '},"at":"'))""",
    "postgresql": """substr(e.body, 1, strpos(e.body, '},"at":"'))""",
}
"""The beginning of a body, which is its actor, in the very words of the index `event_actor`."""

SEQUENCES_AT_ONCE = 500
"""How many events one query asks for by their sequences."""

_COLUMNS = "e.sequence, e.at, e.type, e.body, e.prev_hash, e.hash"
_ALL = f"SELECT {_COLUMNS} FROM event e"
# A subject's own entries are walked, never the history beside them: SQLite keeps to the order of a CROSS JOIN.
_OF_SUBJECT = f"SELECT {_COLUMNS} FROM event_subject s CROSS JOIN event e"
_IS_ITS_EVENT = "e.sequence = s.event AND s.kind = ? AND s.id = ?"


def page_events(  # noqa: PLR0913 - one argument for each filter of the history
    snapshot: Snapshot,
    *,
    subjects: Sequence[tuple[str, str]] | None = None,
    types: Sequence[str] = (),
    actor: Actor | None = None,
    sequence: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: int | None = None,
    before: int | None = None,
    limit: int = 100,
    newest_first: bool = False,
) -> list[Event]:
    """Return at most `limit` events, oldest first or newest first.

    `subjects` are (kind, id): the histories of several are merged, None means everybody's, an empty list nobody's.
    `since` is inclusive, `until` exclusive, as the server's clock stood. `after` and `before` are sequences, exclusive:
    the next page is `after` the last one of this page, or `before` it when the newest come first.

    The order is that of sequences. What is asked for by time or actor, and of no subject, comes in the order of times,
    and of sequences where these are equal: a clock may be set back, so only that is an order in which a stretch of time
    can be walked without a look at what lies beside it.
    """
    is_by_time = subjects is None and (actor, since, until) != (None, None, None)
    walk = _Walk.SUBJECT if subjects is not None else _Walk.TIME if is_by_time else _Walk.SEQUENCE
    conditions = [
        *_beyond(snapshot, walk, after, before),
        *_asked(snapshot.engine, actor=actor, sequence=sequence, since=since, until=until),
    ]
    direction = " DESC" if newest_first else ""
    order = f" ORDER BY {walk.replace(',', f'{direction},')}{direction} LIMIT ?"
    found: dict[int, Row] = {}
    for source, condition in _sources(subjects, types):
        sql, params = where([*condition, *conditions])
        for row in snapshot.all(source + sql + order, [*params, limit]):
            found[row[0]] = row
    rows = sorted(found.values(), key=lambda row: (row[1] if is_by_time else 0, row[0]), reverse=newest_first)
    return [_event(row) for row in rows[:limit]]


def next_rows(snapshot: Snapshot, after: int, limit: int) -> list[Row]:
    """Return at most `limit` entries after a sequence, oldest first, for `read_row`: sequence, time, type, and more.

    Whoever wants few of them looks at the type first: reading a body is what costs.
    """
    return snapshot.all(f"{_ALL} WHERE e.sequence > ? ORDER BY e.sequence LIMIT ?", (after, limit))


def read_row(row: Row) -> Event | None:
    """Make an event of an entry; None of one that somebody has edited, as whoever verifies the chain finds."""
    try:
        return _event(row)
    except (ValueError, OverflowError, TypeError):
        return None


def get_events(snapshot: Snapshot, sequences: Sequence[int]) -> dict[int, Event]:
    """Return the events of these sequences that can be read."""
    rows: list[Row] = []
    for start in range(0, len(sequences), SEQUENCES_AT_ONCE):
        part = sequences[start : start + SEQUENCES_AT_ONCE]
        rows += snapshot.all(f"{_ALL} WHERE e.sequence IN ({', '.join('?' * len(part))})", part)
    return {row[0]: event for row in rows if (event := read_row(row)) is not None}


def stream_events(snapshot: Snapshot, after: int = 0) -> Iterator[Event]:
    """Yield every event after a sequence, oldest first, with flat memory. Use it up inside the snapshot."""
    for row in snapshot.iterate(f"{_ALL} WHERE e.sequence > ? ORDER BY e.sequence", (after,)):
        yield _event(row)


def find_hash(snapshot: Snapshot, sequence: int) -> str | None:
    """Return the hash of an entry; None when there is no such entry."""
    row = snapshot.one("SELECT hash FROM event WHERE sequence = ?", (sequence,))
    return str(row[0]) if row else None


_HEAD = (
    "SELECT c.sequence, c.hash, (SELECT count(*) FROM event), (SELECT max(sequence) FROM event), "
    "(SELECT hash FROM event WHERE sequence = c.sequence) FROM chain_head c WHERE c.id = 1"
)


def find_head(snapshot: Snapshot) -> Head | None:
    """Return the newest entry; None unless it is the one that the head of the history names, and none is missing."""
    if statement := unhurried(snapshot.engine):
        snapshot.execute(statement)
    row = snapshot.one(_HEAD)
    if row is None:
        return None
    sequence, hash_, count, last, last_hash = row
    is_whole = (count, last or 0, last_hash or GENESIS) == (sequence, sequence, hash_)
    return Head(int(sequence), str(hash_)) if is_whole else None


SealedRow: TypeAlias = tuple[int, str, str, str]
"""Sequence, body, previous hash and hash of an entry, as they are stored."""


def sealed_rows(snapshot: Snapshot, after: int, last: int, limit: int) -> list[SealedRow]:
    """Return at most `limit` entries after one sequence and up to another, oldest first, unread."""
    sql = "SELECT sequence, body, prev_hash, hash FROM event WHERE sequence > ? AND sequence <= ? ORDER BY sequence"
    rows: list[Any] = snapshot.all(f"{sql} LIMIT {limit:d}", (after, last))
    return rows


class _Walk(StrEnum):
    """Along which index, and so in which order, the history is walked."""

    SEQUENCE = "e.sequence"
    TIME = "e.at, e.sequence"
    SUBJECT = "s.ordinal"


def _sources(subjects: Sequence[tuple[str, str]] | None, types: Sequence[str]) -> Iterator[tuple[str, list[Condition]]]:
    """One query for each subject, else for each type, so that each walks an index in the order of the answer."""
    if subjects is not None:
        wanted: list[Condition] = [(f"e.type IN ({', '.join('?' * len(types))})", tuple(types))] if types else []
        for kind, id_ in dict.fromkeys(subjects):
            yield _OF_SUBJECT, [(_IS_ITS_EVENT, (kind, id_)), *wanted]
        return
    for type_ in dict.fromkeys(types):
        yield _ALL, [("e.type = ?", (type_,))]
    if not types:
        yield _ALL, []


def _beyond(snapshot: Snapshot, walk: _Walk, after: int | None, before: int | None) -> Iterator[Condition]:
    """Begin beyond an event. It stands before all other bounds: SQLite begins a walk at the first one it meets."""
    for sequence, comparison in ((after, ">"), (before, "<")):
        if sequence is None:
            continue
        if walk is _Walk.TIME:
            row = snapshot.one("SELECT at FROM event WHERE sequence = ?", (sequence,))
            yield f"(e.at, e.sequence) {comparison} (?, ?)", (row[0] if row else 0, sequence)
        else:
            yield f"{'s.event' if walk is _Walk.SUBJECT else 'e.sequence'} {comparison} ?", (sequence,)


def _asked(
    engine: str, *, actor: Actor | None, sequence: int | None, since: datetime | None, until: datetime | None
) -> list[Condition]:
    found: list[Condition] = []
    if actor is not None:
        # Keys are sorted, so a body begins with its actor.
        start = canonical({"actor": {"kind": str(actor.kind), "name": actor.name}})[:-1] + ","
        found.append((f"{ACTOR[engine]} = ?", (start[:-1],)))
    bounds = (("e.at >= ?", since and to_micros(since)), ("e.at < ?", until and to_micros(until)))
    return found + [(text, (value,)) for text, value in (("e.sequence = ?", sequence), *bounds) if value is not None]


def entry_of(row: Row) -> Entry:
    """Make a row of the history an entry. Raises OverflowError or TypeError when its time is none."""
    sequence, at, type_, body, prev_hash, hash_ = row
    return Entry(sequence, from_micros(at), type_, body, prev_hash, hash_)


def _event(row: Row) -> Event:
    return unseal(entry_of(row))
