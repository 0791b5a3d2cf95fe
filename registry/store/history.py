# SPDX-License-Identifier: Apache-2.0
"""What happened, and was it tampered with? Events are put in when a transaction commits; here they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from registry.domain.canonical import canonical
from registry.domain.events import GENESIS, Actor, Entry, Event, Subject, unseal, verify_entry
from registry.store.database import Row, Snapshot, from_micros, to_micros
from registry.store.engines import unhurried
from registry.store.filters import Condition, where

ACTOR = {
    "sqlite": """substr(e.body, 1, instr(e.body, '},"at":"'))""",
    "postgresql": """substr(e.body, 1, strpos(e.body, '},"at":"'))""",
}
"""The beginning of a body, which is its actor, in the very words of the index `event_actor`."""

_COLUMNS = "e.sequence, e.at, e.type, e.body, e.prev_hash, e.hash"
_ALL = f"SELECT {_COLUMNS} FROM event e"
# A subject's own entries are walked, never the history beside them: SQLite keeps to the order of a CROSS JOIN.
_OF_SUBJECT = f"SELECT {_COLUMNS} FROM event_subject s CROSS JOIN event e"
_IS_ITS_EVENT = "e.sequence = s.event AND s.kind = ? AND s.id = ?"

PROGRESS_EVERY = 1000
"""After how many entries `verify_chain` tells how far it is."""


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


def stream_events(snapshot: Snapshot, after: int = 0) -> Iterator[Event]:
    """Yield every event after a sequence, oldest first, with flat memory. Use it up inside the snapshot."""
    for row in snapshot.iterate(f"{_ALL} WHERE e.sequence > ? ORDER BY e.sequence", (after,)):
        yield _event(row)


def find_hash(snapshot: Snapshot, sequence: int) -> str | None:
    """Return the hash of an entry; None when there is no such entry."""
    row = snapshot.one("SELECT hash FROM event WHERE sequence = ?", (sequence,))
    return str(row[0]) if row else None


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


def _entry(row: Row) -> Entry:
    sequence, at, type_, body, prev_hash, hash_ = row
    return Entry(sequence, from_micros(at), type_, body, prev_hash, hash_)


def _event(row: Row) -> Event:
    return unseal(_entry(row))


# --- was it tampered with? -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `verify_chain` found. `bad` is the sequence of the first entry that is wrong or absent, with the reason."""

    ok: bool
    entries: int
    head_sequence: int
    head_hash: str
    bad: int | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Give the report as a document."""
        return asdict(self)


class _Bad(Exception):
    """The first fault of the history."""

    def __init__(self, sequence: int, reason: str) -> None:
        super().__init__(reason)
        self.sequence = sequence
        self.reason = reason


def verify_chain(snapshot: Snapshot, *, progress: Callable[[int], None] | None = None) -> VerifyReport:
    """Recompute the whole history from the bodies of its entries, with flat memory.

    Finds any entry or subject row that was edited, deleted, inserted or moved. A history that was written anew from
    some entry on, hashes included, or whose end was cut off together with the head, is found only by a checkpoint
    that was kept elsewhere. `progress` is told how many entries are done.
    """
    if statement := unhurried(snapshot.engine):
        snapshot.execute(statement)
    head = snapshot.one("SELECT sequence, hash FROM chain_head WHERE id = 1")
    walk = _Round(snapshot, progress or (lambda _: None))
    if head is None:
        return VerifyReport(False, 0, 0, GENESIS, 1, "the head of the history is gone")  # noqa: FBT003 - `ok`
    head_sequence, head_hash = head
    try:
        walk.events()
        walk.meet_head(head_sequence, head_hash)
        _check_ordinals(snapshot)
    except _Bad as fault:
        return VerifyReport(False, walk.done, head_sequence, head_hash, fault.sequence, fault.reason)  # noqa: FBT003 - `ok`
    return VerifyReport(True, walk.done, head_sequence, head_hash)  # noqa: FBT003 - `ok`


class _Round:
    """Goes along the entries and, beside them, along the subject rows in the order of their events."""

    def __init__(self, snapshot: Snapshot, progress: Callable[[int], None]) -> None:
        self.done = 0
        self._hash = GENESIS
        self._progress = progress
        self._rows = snapshot.iterate(f"{_ALL} ORDER BY e.sequence")
        self._subjects = snapshot.iterate("SELECT event, kind, id, ordinal FROM event_subject ORDER BY event")
        self._next: Row | None = None

    def events(self) -> None:
        """Check every entry with its subject rows. Raises _Bad at the first fault."""
        self._next = next(self._subjects, None)
        for row in self._rows:
            self._check(row)
            self.done += 1
            if self.done % PROGRESS_EVERY == 0:
                self._progress(self.done)
        if self._next is not None:
            raise _Bad(self._next[0], "a subject row belongs to no event")
        self._progress(self.done)

    def meet_head(self, sequence: int, hash_: str) -> None:
        """Check that the head is the last entry. Raises _Bad."""
        if self.done < sequence:
            raise _Bad(self.done + 1, f"the event is missing: the head of the history is {sequence}")
        if self.done > sequence:
            raise _Bad(sequence + 1, f"the event stands behind the head of the history, which is {sequence}")
        if self._hash != hash_:
            raise _Bad(sequence, "the head of the history has another hash than the last event")

    def _check(self, row: Row) -> None:
        expected = self.done + 1
        if row[0] != expected:
            self._refuse_sequence(row[0], expected)
        try:
            entry = _entry(row)
        except (OverflowError, TypeError):
            raise _Bad(expected, "at is not a time") from None
        subjects = self._take_subjects(expected)
        reason = verify_entry(entry, expected_sequence=expected, expected_prev_hash=self._hash, subjects=subjects)
        if reason is not None:
            raise _Bad(expected, reason)
        self._hash = entry.hash

    def _refuse_sequence(self, found: object, expected: int) -> None:
        if isinstance(found, int) and found > expected:
            raise _Bad(expected, f"the event is missing: {found} stands in its place")
        raise _Bad(expected, f"sequence {found!r} stands where {expected} belongs")

    def _take_subjects(self, sequence: int) -> list[tuple[Subject, int]]:
        taken: list[tuple[Subject, int]] = []
        while self._next is not None and self._next[0] <= sequence:
            event, kind, id_, ordinal = self._next
            if event != sequence:
                raise _Bad(event, "a subject row belongs to no event")
            taken.append((Subject(kind, id_), ordinal))
            self._next = next(self._subjects, None)
        return taken


def _check_ordinals(snapshot: Snapshot) -> None:
    """Check that each subject counts its events 1, 2, 3 …, in the order of the history. Raises _Bad."""
    of: tuple[str, str] | None = None
    last_ordinal = last_event = 0
    rows = snapshot.iterate("SELECT kind, id, ordinal, event FROM event_subject ORDER BY kind, id, ordinal")
    for kind, id_, ordinal, event in rows:
        if (kind, id_) != of:
            of, last_ordinal, last_event = (kind, id_), 0, 0
        if ordinal != last_ordinal + 1:
            raise _Bad(event, f"{kind} {id_} counts {ordinal} after {last_ordinal}: events of it are missing")
        if event <= last_event:
            raise _Bad(event, f"{kind} {id_} counts {ordinal} before {last_ordinal}: events of it changed places")
        last_ordinal, last_event = ordinal, event
