# SPDX-License-Identifier: Apache-2.0
"""How does a use case read and write? In one snapshot or one transaction, at whose commit its events are sealed."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from typing import Any, TypeVar

from registry.store import write_ahead
from registry.store.connections import Connections
from registry.store.engines import (
    WRITER_LOCK,
    Duplicate,
    Overtaken,
    SqliteGate,
    WriterQueue,
    sqlite_gate,
    sqlite_path,
)
from registry.store.floor import ahead, given_back
from registry.store.group import WriterGroup
from registry.store.relay import Relay, Work
from registry.store.snapshots import Row, Snapshot, Transaction
from registry.store.values import from_micros, new_id, to_micros

__all__ = [
    "Database",
    "Duplicate",
    "Overtaken",
    "Row",
    "Snapshot",
    "SqliteGate",
    "Transaction",
    "from_micros",
    "new_id",
    "open_database",
    "sqlite_gate",
    "to_micros",
]

S = TypeVar("S", bound=Snapshot)
T = TypeVar("T")
R = TypeVar("R")

# The level is named. A write's must not be stricter: its view would be from before the wait for the lock. A touch waits
# for no lock, and its decision must come from one view: in pieces it misses a hold that passes from GPU to GPU.
_BEGIN = {
    "sqlite": {"read": "BEGIN", "write": "BEGIN IMMEDIATE", "touch": "BEGIN IMMEDIATE"},
    "postgresql": {
        "read": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        "write": f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT pg_advisory_xact_lock({WRITER_LOCK})",
        "touch": "BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE; SET LOCAL synchronous_commit = off",
    },
}


class Database:
    """The records. Threads may share it; each has its own connection, and children of a fork open theirs anew."""

    def __init__(self, url: str) -> None:
        """Prepare for an address without opening anything. Raises ValueError for an address we cannot use."""
        self.url = url
        self.path = sqlite_path(url)
        self.engine = "sqlite" if self.path else "postgresql"
        self._begin = _BEGIN[self.engine]
        self._durable = Connections(url)
        self._relaxed = Connections(url, is_relaxed=True) if self.path else self._durable
        self._written = Connections(url, is_shared=True)
        self._start_anew()
        _DATABASES.add(self)

    def _start_anew(self) -> None:
        self._queue = WriterQueue(self.path) if self.path else None
        self._group = WriterGroup(self._written, self._begin["write"], self._queue)
        self._running = threading.local()
        self._relays: dict[Any, Relay[Any, Any]] = {}

    def forget_parent(self) -> None:
        """Leave the parent's connections alone after a fork, and let go of its place in the queue of writers."""
        if self._queue:
            self._queue.close()
        for connections in {self._durable, self._relaxed, self._written}:
            _INHERITED.append(connections.inherited())
            connections.start_anew()
        self._start_anew()

    def read(self) -> AbstractContextManager[Snapshot]:
        """One consistent view for as long as the block lasts; inside a `write` of this thread, that one's view."""
        current = self._current
        if current is not None:
            return nullcontext(current)
        return self._span(self._durable, "read", lambda connection: Snapshot(self.engine, connection))

    def look(self, at: Callable[[Snapshot], T]) -> T:
        """Give what one statement finds now: a `read` without its two ends, for what every request asks.

        `at` must not ask two: they would see two moments. Inside a `read` or `write` of this thread, that one is asked.
        """
        current = self._current
        if current is not None:
            return at(current)
        return self._durable.look(lambda connection: at(Snapshot(self.engine, connection)))

    def write(self, now: datetime) -> AbstractContextManager[Transaction]:
        """One transaction that nobody else's `write` overlaps; durable, with its events, when the block is left.

        Threads that wait for one another share one commit: each block sees what the blocks before it did, stands or
        falls by itself, and is left when the disk has all of them.

        Inside another `write` of this thread it joins that one, which commits at its own end. Whatever is raised in
        the block undoes everything and is raised again. Raises AssertionError inside a `read` or `touch`.
        """
        return self._join() or self._share(now)

    def touch(self, now: datetime) -> AbstractContextManager[Transaction]:
        """One transaction that may be lost at power loss, for the heartbeat that changed nothing: no events.

        On PostgreSQL it runs beside a `write`, in one view of its own: lock the row you change. Raises Overtaken when
        that row was changed since the view began. Inside a `write` it joins that one.
        """
        current = self._current
        if isinstance(current, Transaction):
            return nullcontext(current)
        return self._join() or self._span(self._relaxed, "touch", self._relaxed_at(now))

    def bring_over(self) -> bool:
        """Bring what was written beside the SQLite file into it, if it is much; True if that was done to the end.

        Nobody waits for it longer than for any other writer. PostgreSQL does it by itself, and a SQLite without a
        log beside it has nothing to do. Raises StoreUnavailable.
        """
        queue = self._queue
        return queue is not None and self._durable.look(lambda connection: write_ahead.bring_over(connection, queue))

    def move(self, item: T, work: Work[T, R], now: datetime) -> R:
        """Do one thing of a sort that many threads do, in a `touch`: `work` may get the items of others as well.

        Inside a `write` it joins that one, alone. Raises what `touch` and `work` raise, and AssertionError inside a
        `read`.
        """
        current = self._current
        if isinstance(current, Transaction):
            return work(current, [item])[0]
        if current is not None:
            raise AssertionError("a move cannot be a part of a read")
        if self.path is None:  # there it is one statement beside all others, which says itself that it may be lost
            make = self._relaxed_at(now)
            return self._durable.look(lambda connection: work(make(connection), [item])[0])
        relay: Relay[T, R] = self._relays.setdefault(work, Relay(work))
        return relay.bring(item, lambda: self.touch(now))

    @property
    def _current(self) -> Snapshot | None:
        """What this thread is in."""
        return getattr(self._running, "current", None)

    def _relaxed_at(self, now: datetime) -> Callable[[Any], Transaction]:
        """Give what makes a transaction that may be lost at power loss of a connection."""
        return lambda connection: Transaction(self.engine, connection, now, is_relaxed=True)

    def _join(self) -> AbstractContextManager[Transaction] | None:
        current = self._current
        if current is None:
            return None
        if isinstance(current, Transaction) and not current.is_relaxed:
            return nullcontext(current)
        raise AssertionError("a write cannot begin inside a read or a touch")

    @contextmanager
    def _span(self, connections: Connections, how: str, make: Callable[[Any], S]) -> Iterator[S]:
        running = self._running
        queue = self._queue.turn() if self._queue and how == "touch" else nullcontext()
        with queue:
            connection = connections.begin(self._begin[how])
            try:
                running.current = snapshot = make(connection)
                yield snapshot
                snapshot.finish()
                connections.commit(connection)
            except BaseException as error:
                connections.roll_back(connection, error)
                raise
            finally:
                running.current = None

    @contextmanager
    def _share(self, now: datetime) -> Iterator[Transaction]:
        """A part of a transaction that other threads of this process may have parts of, too."""
        running = self._running
        with given_back() as place, self._group.part() as connection, ahead(place):
            try:
                running.current = transaction = Transaction(self.engine, connection, now)
                yield transaction
                transaction.finish()
            finally:
                running.current = None

    def close(self) -> None:
        """Close this thread's connections. The next use opens new ones."""
        for connections in {self._durable, self._relaxed}:
            connections.drop()

    def close_all(self) -> None:
        """Close the connections of all threads, when none is in use any more."""
        for connections in {self._durable, self._relaxed, self._written}:
            connections.drop_all()
        if self._queue:
            self._queue.close()


_DATABASES: weakref.WeakSet[Database] = weakref.WeakSet()
_INHERITED: list[Any] = []
"""Connections of a parent process. Collecting one would close it and disturb the parent, so they stay."""


def _forget_parents() -> None:
    for database in list(_DATABASES):
        database.forget_parent()


os.register_at_fork(after_in_child=_forget_parents)


def open_database(url: str) -> Database:
    """Prepare the records at `sqlite:////absolute/path` or `postgresql://…`. Raises ValueError for another address."""
    return Database(url)
