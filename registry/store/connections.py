# SPDX-License-Identifier: Apache-2.0
"""Who has a connection? Each thread one, or all in turn the same, kept from use to use; a fork opens its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

import peewee

from registry.domain.errors import StoreUnavailable
from registry.store.engines import (
    DRIVER_ERRORS,
    is_broken,
    is_in_transaction,
    make_peewee,
    prepare_connection,
    run,
    sqlite_path,
    translate,
)

T = TypeVar("T")

_OPENING_ERRORS: tuple[type[Exception], ...] = (peewee.PeeweeException, *DRIVER_ERRORS)
"""peewee wraps what the driver raises while a connection is opened."""

_SQLITE_OPENING = threading.Lock()
"""Held while a SQLite connection is opened, looked at and perhaps closed again.

All connections of a process to a file share one `-shm`, opened by the first and closed by the last. None may join one
that could only be opened for reading, or it would stay so long after the fault, for as long as anybody is connected.
"""

# A child must not find it held by a thread that it does not have.
os.register_at_fork(
    before=_SQLITE_OPENING.acquire,
    after_in_parent=_SQLITE_OPENING.release,
    after_in_child=_SQLITE_OPENING.release,
)


class Connections:
    """One connection for each thread that asks, opened when it is first used and kept; shared, one for all in turn."""

    def __init__(self, url: str, *, is_relaxed: bool = False, is_shared: bool = False) -> None:
        self._url = url
        self._path = sqlite_path(url)
        self._is_relaxed = is_relaxed
        self._is_shared = is_shared
        self.start_anew()

    def start_anew(self) -> None:
        """Begin with no connection. A forked child calls this: those of its parent it must not even close."""
        self._peewee: peewee.Database = self._make()
        self._lock = threading.Lock()
        self._open: dict[threading.Thread | None, Any] = {}
        self._files: dict[int, tuple[int, int] | None] = {}

    def inherited(self) -> tuple[Any, ...]:
        """Return what must stay alive, untouched, when `start_anew` follows a fork."""
        return self._peewee, self._open

    def begin(self, sql: str) -> Any:
        """Return this thread's connection in a new transaction. One that was lost while idle is opened again."""
        connection, is_new = self._get()
        try:
            run(connection, sql)
        except DRIVER_ERRORS as error:
            if is_new or not is_broken(connection):
                meaning = translate(error)
                self.roll_back(connection, meaning)
                raise meaning from error
        else:
            return connection
        self.drop()
        return self.begin(sql)

    def look(self, work: Callable[[Any], T]) -> T:
        """Let `work` ask one statement, outside any transaction. A connection that was lost while idle is reopened."""
        connection, is_new = self._get()
        try:
            return work(connection)
        except StoreUnavailable as error:
            was_lost = is_broken(connection)
            self.roll_back(connection, error)
            if is_new or not was_lost:
                raise
        return self.look(work)

    def commit(self, connection: Any) -> None:
        """Make everything durable. Raises StoreUnavailable; whether it was done is then not known."""
        try:
            run(connection, "COMMIT")
        except DRIVER_ERRORS as error:
            raise translate(error) from error

    def roll_back(self, connection: Any, why: BaseException | None = None) -> None:
        """Undo everything; a connection that cannot even do that is dropped.

        So is one on which the database could not answer: SQLite opens a file that it cannot open for writing at that
        moment for reading, and would refuse to write for as long as the connection lives.
        """
        try:
            if not is_broken(connection) and is_in_transaction(connection):
                run(connection, "ROLLBACK")
        except DRIVER_ERRORS:
            self.drop()
            return
        if is_broken(connection) or isinstance(why, StoreUnavailable):
            self.drop()

    def drop(self) -> None:
        """Close this thread's connection, if there is one."""
        with self._lock:
            connection = self._open.pop(self._user(), None)
        self._peewee.dispose()
        _close_quietly(connection)

    def drop_all(self) -> None:
        """Close the connections of all threads. None of them may be in use."""
        with self._lock:
            connections, self._open = list(self._open.values()), {}
        self._peewee = self._make()
        for connection in connections:
            _close_quietly(connection)

    def _file(self) -> tuple[int, int] | None:
        """Which file it is, for SQLite. Only `migrate` makes one: an empty file would look like an empty fleet."""
        if self._path is None:
            return None
        try:
            found = os.stat(self._path)  # noqa: PTH116 - each request asks, and a Path takes several times as long
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StoreUnavailable(f"the database file {self._path} cannot be reached ({reason})") from error
        return found.st_dev, found.st_ino

    def _make(self) -> peewee.Database:
        return make_peewee(self._url, is_relaxed=self._is_relaxed, is_shared=self._is_shared)

    def _user(self) -> threading.Thread | None:
        """Whose connection it is: the thread's, or nobody's own."""
        return None if self._is_shared else threading.current_thread()

    def _get(self) -> tuple[Any, bool]:
        there = self._file()
        if not self._peewee.is_closed():
            connection = self._peewee.connection()
            if self._files.get(id(connection)) == there:
                return connection, False
            # Another file bears the name by now: what is written to the old one would be lost with it.
            self.drop()
        with nullcontext() if self._path is None else _SQLITE_OPENING:
            connection = self._connect()
        with self._lock:
            self._open[self._user()] = connection
            self._files[id(connection)] = there
            gone = [self._open.pop(one) for one in list(self._open) if one is not None and not one.is_alive()]
        for left in gone:
            _close_quietly(left)
        return connection, True

    def _connect(self) -> Any:
        """Open one that is fit for use; what is not is closed at once. Raises StoreUnavailable."""
        connection = None
        try:
            self._peewee.connect()
            connection = self._peewee.connection()
            prepare_connection(connection)
        except _OPENING_ERRORS as error:
            self._peewee.dispose()
            _close_quietly(connection)
            meaning = translate(error.__cause__ or error.__context__ or error)
            if self._path is not None:
                meaning.add_note(f"the database file is {self._path}")
            raise meaning from error
        return connection


def _close_quietly(connection: Any) -> None:
    if connection is None:
        return
    try:
        connection.close()
    except DRIVER_ERRORS:
        return  # it was lost; there is nothing left to close
