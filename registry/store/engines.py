# SPDX-License-Identifier: Apache-2.0
"""What differs between SQLite and PostgreSQL? How each is opened, begun and made durable, and what its errors mean."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import peewee
import psycopg

from registry.domain.errors import InvalidField, StoreUnavailable
from registry.store.floor import ahead, given_back

sqlite: Final[Any] = peewee.sqlite3  # type: ignore[attr-defined]  # pysqlite3 where it is installed and newer
"""The SQLite library that peewee chose: every file here must use the same one."""

BUSY_MILLISECONDS = 10_000
"""How long a writer waits for another before it gives up: below the 30 s after which gunicorn ends a worker."""

IDLE_MILLISECONDS = 3 * BUSY_MILLISECONDS
"""How long a transaction may ask nothing before PostgreSQL ends it: a server of ours that hangs must not keep the lock
of the writers for ever. Between two pieces of a long reading lie milliseconds."""

RANDOM_PAGE_COST = 1.1
"""What a page read out of order costs beside one in order: a little more where the disk has no arm, or the page is in
memory. By its own 4 PostgreSQL walks through all open holds, if they are few hundred, for each device of a node that
asks: https://www.postgresql.org/docs/current/runtime-config-query.html#GUC-RANDOM-PAGE-COST"""

WRITER_LOCK = 0x7072617469717565
"""Key of PostgreSQL's advisory lock of everybody who writes: identity is matched in one serialised view."""

OVERFLOW_PAGES = 16_000
"""How much may lie beside the SQLite file, 64 MB, before whoever commits brings it over, while all other writers wait:
https://www.sqlite.org/wal.html#avoiding_excessively_large_wal_files. A server does it earlier: `write_ahead`."""

SQLITE_ERROR, SQLITE_BUSY, SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE = 1, 5, 1555, 2067
"""Result codes: https://www.sqlite.org/rescode.html. The first one means that our SQL is wrong."""

PRIMARY_CODE = 0xFF
"""The bits of a result code that say what sort it is; the others say more of it."""

DRIVER_ERRORS: tuple[type[Exception], ...] = (sqlite.Error, psycopg.Error, OverflowError, UnicodeEncodeError)
"""All that a driver raises; `translate` says what each of them means."""

_VALUE_ERRORS = (sqlite.DataError, psycopg.DataError, OverflowError, UnicodeEncodeError)
_LOST = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction)


class Duplicate(Exception):
    """A row with this key is there already."""


class Overtaken(Exception):
    """Somebody changed a row that a `touch` wants to change, after its view began. Nothing was done; begin anew."""


@dataclass(frozen=True, slots=True)
class SqliteGate:
    """Whether the SQLite that is linked here can be trusted with several writers of a WAL database.

    `journal` is the mode in force: `wal`, or `delete` where the version is not safe.
    """

    version: str
    is_safe: bool
    journal: str


def sqlite_gate(version: str | None = None) -> SqliteGate:
    """Judge the linked SQLite, or `version`.

    A checkpoint that races with a writer can corrupt the database in 3.7.0 to 3.51.2; the fix is also in 3.44.6 and
    3.50.7: https://www.sqlite.org/wal.html#walresetbug.
    """
    text = version or str(sqlite.sqlite_version)
    major, minor, patch = (int(part) for part in (*text.split("."), "0")[:3])
    found = (major, minor, patch)
    is_mended = found >= (3, 51, 3) or (3, 44, 6) <= found < (3, 45, 0) or (3, 50, 7) <= found < (3, 51, 0)
    is_safe = is_mended or found < (3, 7, 0)
    return SqliteGate(text, is_safe, "wal" if is_safe else "delete")


def sqlite_path(url: str) -> Path | None:
    """Return the file of a `sqlite:///` address, None for PostgreSQL. Raises ValueError for anything else."""
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return Path(url.removeprefix("sqlite:///"))
    if url.startswith(("postgresql://", "postgres://")):
        return None
    raise ValueError("the database address must be sqlite:////absolute/path or postgresql://…")


def make_peewee(url: str, *, is_relaxed: bool = False, is_shared: bool = False) -> peewee.Database:
    """Make peewee's database of an address; nothing is opened yet. Raises ValueError for an address we cannot use.

    Shared: all threads get one connection, and must take turns.
    """
    path = sqlite_path(url)
    if path is None:
        # libpq reads the address itself, and so undoes percent signs in user and password.
        address = "postgresql://" + url.partition("://")[2]
        return peewee.PostgresqlDatabase(
            address,
            prefer_psycopg3=True,
            connect_timeout=10,
            # A host that is gone answers nothing: libpq would wait for it a quarter of an hour, as TCP does.
            tcp_user_timeout=BUSY_MILLISECONDS,
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=2,
            application_name="pratique",
            client_encoding="utf8",
            thread_safe=not is_shared,
        )
    gate = sqlite_gate()
    # With a rollback journal NORMAL may corrupt the file at power loss: relaxed durability exists only with WAL.
    synchronous = ("NORMAL" if is_relaxed else "FULL") if gate.is_safe else "EXTRA"
    pragmas = [
        ("busy_timeout", BUSY_MILLISECONDS),  # first: the others may have to wait
        ("journal_mode", gate.journal),
        ("synchronous", synchronous),
        ("wal_autocheckpoint", OVERFLOW_PAGES),
        ("foreign_keys", 1),
        ("recursive_triggers", 1),  # else INSERT OR REPLACE deletes without a trigger
    ]
    # A connection belongs to one thread, or is used in turn; `close_all` closes those of all threads.
    return peewee.SqliteDatabase(
        str(path),
        pragmas=pragmas,
        timeout=BUSY_MILLISECONDS / 1000,
        check_same_thread=False,
        thread_safe=not is_shared,
    )


def prepare_connection(connection: Any) -> None:
    """Make a new connection fit for use. Raises what the driver raises, and then it must be closed."""
    if isinstance(connection, psycopg.Connection):
        _make_durable_and_impatient(connection)
    else:
        _refuse_reading_only(connection)


def _make_durable_and_impatient(connection: psycopg.Connection[Any]) -> None:
    """Set what a session of PostgreSQL needs, whatever the server's defaults are.

    It is the server that keeps these times, so one whose process is stopped (SIGSTOP) or whose disk hangs keeps none of
    them, while its kernel goes on answering for it: nobody can tell that from a long statement. What asks waits then
    until the process goes on or is ended.
    """
    settings = (
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
        # What is one statement by itself names no level, and is not begun as something that writes.
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE",
        # A little less than for the statement, so that the error says that it was a lock.
        f"SET lock_timeout = {BUSY_MILLISECONDS * 9 // 10}",
        f"SET statement_timeout = {BUSY_MILLISECONDS}",
        f"SET idle_in_transaction_session_timeout = {IDLE_MILLISECONDS}",
        f"SET random_page_cost = {RANDOM_PAGE_COST}",
    )
    run(connection, "; ".join(settings))  # in one trip


def _refuse_reading_only(connection: Any) -> None:
    """Begin to write, and leave it at that: SQLite then says if it could open `-wal` or `-shm` only for reading.

    It does that where one cannot be opened for writing at the moment, and keeps it until it is closed:
    https://sqlite.org/src/file/src/os_unix.c, `unixOpen` and `unixOpenSharedMemory`.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite.OperationalError as error:
        # One who can only read is told so before it is looked whether somebody else is writing.
        if error.sqlite_errorcode & PRIMARY_CODE != SQLITE_BUSY:
            raise
    else:
        connection.execute("ROLLBACK")
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")


def run(connection: Any, sql: str) -> None:
    """Run statements without parameters, on PostgreSQL in one round trip. Raises what the driver raises."""
    if isinstance(connection, psycopg.Connection):
        connection.execute(sql, prepare=False)
    else:
        connection.execute(sql)


def unhurried(engine: str) -> str | None:
    """Return the statement that lets one transaction take as long as it needs; None where none is needed."""
    return "SET LOCAL statement_timeout = 0" if engine == "postgresql" else None


def is_broken(connection: Any) -> bool:
    """Whether a connection is lost, so that the next use needs a new one."""
    return bool(connection.closed) if isinstance(connection, psycopg.Connection) else False


def is_in_transaction(connection: Any) -> bool:
    """Whether there is something to roll back."""
    if isinstance(connection, psycopg.Connection):
        return connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
    return bool(connection.in_transaction)


def translate(error: BaseException) -> BaseException:
    """Say in our own words what a driver's error means; one that means a mistake of ours is returned unchanged.

    What the driver said may name hosts and accounts: it is kept as a note, for the log, and not in `detail`.
    """
    meaning = _meaning(error)
    if meaning is not error:
        meaning.add_note(f"{type(error).__name__}: {error}")
    return meaning


def _meaning(error: BaseException) -> BaseException:
    if isinstance(error, _VALUE_ERRORS):
        return InvalidField("a number beyond 64 bits, or text that is not Unicode or holds a NUL, cannot be kept")
    if isinstance(error, psycopg.errors.UniqueViolation):
        return Duplicate(error.diag.constraint_name)
    if isinstance(error, psycopg.errors.SerializationFailure):
        return Overtaken()
    if isinstance(error, _LOST):
        reason = f" ({type(error).__name__})" if error.sqlstate else ": no connection"
        return StoreUnavailable(f"the database cannot answer{reason}")
    if isinstance(error, sqlite.DatabaseError):
        return _meaning_of_sqlite(error)
    return error


def _meaning_of_sqlite(error: Any) -> BaseException:
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, sqlite.IntegrityError):
        is_duplicate = code in {SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE} or "UNIQUE" in str(error)
        return Duplicate(str(error)) if is_duplicate else error
    is_ours = isinstance(error, sqlite.ProgrammingError | sqlite.NotSupportedError) or code == SQLITE_ERROR
    return error if is_ours else StoreUnavailable(f"the database cannot answer: {error}")


class WriterQueue:
    """Lines up the writers of one SQLite file: threads on a lock, processes on `flock` of a file beside it.

    SQLite lets waiting writers sleep and poll, so that some starve; here they are woken in turn.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}.lock")
        self._threads = threading.Lock()
        self._descriptor: int | None = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for our turn and keep it. Who has to wait gives the floor back until it is over.

        Raises StoreUnavailable when the other threads take too long, or the file cannot be made.
        """
        is_ours = self._take(is_patient=False)
        with nullcontext() if is_ours else given_back() as place:
            if not is_ours and not self._take(is_patient=True):
                raise StoreUnavailable("the database is busy: other writers of this process do not finish")
            try:
                with ahead(place):
                    yield
            finally:
                if self._descriptor is not None:
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)
                self._threads.release()

    def _take(self, *, is_patient: bool) -> bool:
        """Take our turn, at once or not at all unless we are patient. Raises StoreUnavailable."""
        if not self._threads.acquire(timeout=BUSY_MILLISECONDS / 1000 if is_patient else 0):
            return False
        is_ours = False
        try:
            is_ours = self._lock(0 if is_patient else fcntl.LOCK_NB)
        finally:
            if not is_ours:
                self._threads.release()
        return is_ours

    def _lock(self, how: int) -> bool:
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | how)
        except BlockingIOError:
            return False
        except OSError as error:
            raise StoreUnavailable(f"the database cannot be locked: {error}") from error
        return True

    def close(self) -> None:
        """Let go of the file. In a forked child this keeps a lock of the parent from outliving the parent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
