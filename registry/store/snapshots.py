# SPDX-License-Identifier: Apache-2.0
"""What can be asked and changed inside one view of the database, and how does an event get its place in the history?

SQL is constant text with `?` for parameters: building a query costs more than running it. A text literal with a
question mark in it does not work here; pass it as a parameter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeAlias

from registry.domain.events import Draft, Event, Subject, seal
from registry.store.engines import DRIVER_ERRORS, is_broken, translate
from registry.store.values import to_micros

Row: TypeAlias = tuple[Any, ...]

SUBJECTS_AT_ONCE = 200
"""How many subjects one query asks for their last ordinal: far below the engines' limits of parameters."""

STREAMED_FROM = 16
"""From so many rows on a stream costs less than statements that are sent together."""

_cursor_numbers = itertools.count()


@lru_cache(maxsize=4096)
def _percent_style(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")


class Snapshot:
    """One consistent view of the database. `engine` is `sqlite` or `postgresql`.

    Every method raises StoreUnavailable when the database cannot answer, InvalidField for a value that it cannot keep
    and Duplicate for a key that is there already.
    """

    def __init__(self, engine: str, connection: Any) -> None:
        self.engine = engine
        self._connection = connection

    def execute(self, sql: str, params: Sequence[Any] = ()) -> Any:
        """Run one statement and return the driver's cursor (`rowcount`, `fetchone`, `fetchall`)."""
        try:
            return self._connection.cursor().execute(self._native(sql), params)
        except DRIVER_ERRORS as error:
            raise translate(error) from error

    def one(self, sql: str, params: Sequence[Any] = ()) -> Row | None:
        """Return the first row, or None."""
        row: Row | None = self.execute(sql, params).fetchone()
        return row

    def all(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Return all rows."""
        rows: list[Row] = self.execute(sql, params).fetchall()
        return rows

    def iterate(self, sql: str, params: Sequence[Any] = ()) -> Iterator[Row]:
        """Yield row after row, with flat memory. It must be used up, or closed, inside the snapshot."""
        try:
            # A plain cursor of psycopg holds the whole result in memory; one with a name is read in pieces.
            name = {} if self.engine == "sqlite" else {"name": f"rows_{next(_cursor_numbers)}"}
            cursor = self._connection.cursor(**name)
            try:
                cursor.execute(self._native(sql), params)
                yield from cursor
            finally:
                if not is_broken(self._connection):
                    cursor.close()
        except DRIVER_ERRORS as error:
            raise translate(error) from error

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each of many rows of parameters."""
        try:
            self._connection.cursor().executemany(self._native(sql), rows)
        except DRIVER_ERRORS as error:
            raise translate(error) from error

    def sequence(self) -> int:
        """Return the sequence of the newest event in this view; 0 before the first."""
        row = self.one("SELECT sequence FROM chain_head WHERE id = 1")
        return int(row[0]) if row else 0

    def finish(self) -> None:
        """Do what must be done before the end."""

    def _native(self, sql: str) -> str:
        return sql if self.engine == "sqlite" else _percent_style(sql)


class Transaction(Snapshot):
    """A view that can be changed. `now` is the time of everything done in it, in UTC."""

    def __init__(self, engine: str, connection: Any, now: datetime, *, is_relaxed: bool = False) -> None:
        super().__init__(engine, connection)
        self.now = now
        self.is_relaxed = is_relaxed
        self._drafts: list[Draft] = []
        self._ordinals: dict[Subject, int] = {}
        self._at_end: dict[object, Callable[[], None]] = {}

    def record(self, draft: Draft) -> None:
        """Put an event into the history when this transaction commits. Raises AssertionError in a `touch`."""
        if self.is_relaxed:
            raise AssertionError("what has an event must be durable: use write(), not touch()")
        self._drafts.append(draft)

    def at_end(self, key: object, work: Callable[[], None]) -> None:
        """Do something once before this transaction ends, however often it is asked for under one key."""
        self._at_end.setdefault(key, work)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Put rows into a table. Many are one stream on PostgreSQL, where each statement costs more than its row."""
        names = ", ".join(columns)
        if self.engine == "sqlite" or len(rows) < STREAMED_FROM:
            if rows:
                self.many(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})", rows)
            return
        try:
            with self._connection.cursor().copy(f"COPY {table} ({names}) FROM STDIN") as stream:
                for row in rows:
                    stream.write_row(row)
        except DRIVER_ERRORS as error:
            raise translate(error) from error

    def flush(self) -> int:
        """Seal what was recorded so far and return the sequence of the newest event.

        Raises ValueError for data that has no canonical form.
        """
        if not self._drafts:
            return self.sequence()
        drafts, self._drafts = self._drafts, []
        events = self._seal(drafts)
        self.insert(
            "event",
            ("sequence", "at", "type", "body", "prev_hash", "hash"),
            [(e.sequence, to_micros(e.at), str(e.type), e.body, e.prev_hash, e.hash) for e in events],
        )
        self.insert(
            "event_subject",
            ("kind", "id", "ordinal", "event"),
            [(str(one.kind), one.id, ordinal, e.sequence) for e in events for one, ordinal in e.subjects],
        )
        head = events[-1]
        self.execute("UPDATE chain_head SET sequence = ?, hash = ? WHERE id = 1", (head.sequence, head.hash))
        return head.sequence

    def finish(self) -> None:
        """Do what waited for the end, and seal what is still to be sealed."""
        while self._at_end:
            works, self._at_end = self._at_end, {}
            for work in works.values():
                work()
        if self._drafts:
            self.flush()

    def _seal(self, drafts: list[Draft]) -> list[Event]:
        lock = "" if self.engine == "sqlite" else " FOR UPDATE"
        head = self.one(f"SELECT sequence, hash FROM chain_head WHERE id = 1{lock}")
        if head is None:
            raise AssertionError("the history has no head: the database was not made by migrate")
        sequence, prev_hash = head
        self._load_ordinals({one for draft in drafts for one in draft.subjects})
        events: list[Event] = []
        for draft in drafts:
            sequence += 1
            ordinals = [self._next_ordinal(one) for one in draft.subjects]
            events.append(seal(draft, sequence=sequence, at=self.now, ordinals=ordinals, prev_hash=prev_hash))
            prev_hash = events[-1].hash
        return events

    def _next_ordinal(self, subject: Subject) -> int:
        self._ordinals[subject] += 1
        return self._ordinals[subject]

    def _load_ordinals(self, subjects: set[Subject]) -> None:
        """Learn the last ordinal of each subject that this transaction has not counted on itself."""
        unknown = sorted((str(one.kind), one.id) for one in subjects - self._ordinals.keys())
        for start in range(0, len(unknown), SUBJECTS_AT_ONCE):
            part = unknown[start : start + SUBJECTS_AT_ONCE]
            if self.engine == "sqlite":
                rows = self.all(_last_ordinals(len(part)), [text for one in part for text in one])
            else:
                rows = self.all(_LAST_ORDINALS, [list(column) for column in zip(*part, strict=True)])
            self._ordinals.update({Subject(kind, id_): int(ordinal or 0) for kind, id_, ordinal in rows})


_ORDINALS = (
    "SELECT asked.column1, asked.column2, (SELECT max(s.ordinal) FROM event_subject s "
    "WHERE s.kind = asked.column1 AND s.id = asked.column2) "
)
_LAST_ORDINALS = f"{_ORDINALS}FROM unnest(?::text[], ?::text[]) AS asked (column1, column2)"


@lru_cache(maxsize=SUBJECTS_AT_ONCE)
def _last_ordinals(count: int) -> str:
    """One look at the end of the primary key for each subject, in one statement."""
    return f"{_ORDINALS}FROM (VALUES {', '.join(['(?, ?)'] * count)}) AS asked"
