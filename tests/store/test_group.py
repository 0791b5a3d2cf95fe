# SPDX-License-Identifier: Apache-2.0
"""When threads write at once, do they share commits, and does each part still stand or fall by itself?"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from registry.domain.errors import StoreUnavailable
from registry.services.audit import verify
from registry.store.connections import Connections
from registry.store.database import Database
from tests.store.test_transactions import make_draft

THREADS = 8


def set_life(db: Database, now: datetime, micros: int, *, wait: threading.Barrier | None = None) -> None:
    if wait is not None:
        wait.wait()
    with db.write(now) as tx:
        tx.execute("INSERT INTO outage (from_at, to_at) VALUES (?, ?)", (micros, micros))
        tx.record(make_draft(f"writer-{micros}"))


def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the commits from now on."""
    counted: list[int] = []
    commit = Connections.commit

    def counting(self: Connections, connection: object) -> None:
        counted.append(1)
        commit(self, connection)

    monkeypatch.setattr(Connections, "commit", counting)
    return counted


def in_parallel(db: Database, now: datetime, failing: frozenset[int] = frozenset()) -> list[BaseException | None]:
    """Let threads write while one holds the baton; those named raise in their part."""
    queued = threading.Barrier(THREADS + 1)

    def write(number: int) -> None:
        queued.wait()
        with db.write(now) as tx:
            tx.execute("INSERT INTO outage (from_at, to_at) VALUES (?, ?)", (number, number))
            tx.record(make_draft(f"writer-{number}"))
            if number in failing:
                raise ZeroDivisionError

    with ThreadPoolExecutor(THREADS) as pool:
        with db.write(now) as tx:
            tx.record(make_draft("the one they wait for"))
            futures = [pool.submit(write, number) for number in range(1, THREADS + 1)]
            queued.wait()
            while len(db._group._waiting) < THREADS:
                pass
        return [future.exception(20) for future in futures]


def written(db: Database) -> list[int]:
    with db.read() as snapshot:
        return [row[0] for row in snapshot.all("SELECT to_at FROM outage ORDER BY to_at")]


def test_writers_that_wait_share_a_commit(db: Database, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.store.group.SECONDS_MAX", 60)
    counted = commits(monkeypatch)

    errors = in_parallel(db, now)

    assert errors == [None] * THREADS
    assert len(counted) == 1
    assert written(db) == list(range(1, THREADS + 1))
    assert verify(db)["entries"] == THREADS + 1


def test_a_part_that_fails_takes_nobody_with_it(db: Database, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.store.group.SECONDS_MAX", 60)

    errors = in_parallel(db, now, failing=frozenset({2, 5, 8}))

    failed = {number for number, error in enumerate(errors, 1) if isinstance(error, ZeroDivisionError)}
    assert failed == {2, 5, 8}
    assert written(db) == [1, 3, 4, 6, 7]
    assert verify(db)["ok"]
    assert verify(db)["entries"] == THREADS + 1 - 3


def test_nobody_is_told_that_it_was_done_when_the_commit_fails(
    db: Database, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.store.group.SECONDS_MAX", 60)

    def full(self: Connections, connection: object) -> None:
        raise StoreUnavailable("the disk is full")

    errors: list[BaseException | None] = []
    with monkeypatch.context() as patched:
        patched.setattr(Connections, "commit", full)
        with pytest.raises(StoreUnavailable):
            errors = in_parallel(db, now)

    assert all(error is None or isinstance(error, StoreUnavailable) for error in errors)
    assert written(db) == []
    set_life(db, now, 77)
    assert written(db) == [77]
    assert verify(db)["entries"] == 1


def test_a_first_part_that_fails_lets_the_next_begin(db: Database, now: datetime) -> None:
    def broken() -> None:
        with db.write(now):
            raise ZeroDivisionError

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            broken()
    set_life(db, now, 1)

    assert written(db) == [1]


def test_a_connection_on_which_the_database_could_not_answer_is_opened_anew(db: Database, now: datetime) -> None:
    """SQLite opens a file for reading that it cannot open for writing at that moment, and stays so."""
    seen = []

    def unavailable() -> None:
        with db.write(now) as transaction:
            seen.append(transaction._connection)
            raise StoreUnavailable("attempt to write a readonly database")

    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            unavailable()

    assert seen[0] is not seen[1]
