# SPDX-License-Identifier: Apache-2.0
"""Is what lies beside the SQLite file brought into it, with no writer that waits long and no reader cut off?"""

from __future__ import annotations

import threading
import time
from datetime import datetime

import pytest

from registry.store import write_ahead
from registry.store.database import Database
from registry.store.engines import sqlite
from tests.racing import together

only_sqlite = pytest.mark.parametrize("engine", ["sqlite"])


@pytest.fixture(autouse=True)
def _little_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_ahead, "PAGES", 5)


def write_some(db: Database, now: datetime, first: int, count: int = 20) -> None:
    for number in range(first, first + count):
        with db.write(now) as tx:
            tx.execute("INSERT INTO outage (from_at, to_at) VALUES (?, ?)", (0, number))


def beside(db: Database) -> int:
    """Pages that are beside the file and not in it."""
    with sqlite.connect(db.path) as connection:
        _, written, done = connection.execute("PRAGMA wal_checkpoint(NOOP)").fetchone()
    connection.close()
    return int(written - done)


@only_sqlite
def test_what_is_beside_the_file_is_brought_over_and_its_room_used_again(db: Database, now: datetime) -> None:
    write_some(db, now, 1)
    log = db.path.with_name(f"{db.path.name}-wal")  # type: ignore[union-attr]
    size = log.stat().st_size

    assert db.bring_over()
    assert beside(db) == 0
    write_some(db, now, 100)

    assert log.stat().st_size == size


@only_sqlite
def test_little_is_left_where_it_is(db: Database, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    write_some(db, now, 1)
    monkeypatch.setattr(write_ahead, "PAGES", 10_000)
    left = beside(db)

    assert not db.bring_over()
    assert beside(db) == left > 0


@only_sqlite
def test_a_reader_that_goes_on_is_not_waited_for_and_sees_what_it_saw(db: Database, now: datetime) -> None:
    write_some(db, now, 1)
    with db.read() as snapshot:
        assert snapshot.one("SELECT COUNT(*) FROM outage") == (20,)
        together(lambda: write_some(db, now, 1_000))
        begun = time.monotonic()
        together(db.bring_over)
        waited = time.monotonic() - begun
        assert snapshot.one("SELECT COUNT(*) FROM outage") == (20,)

    assert waited < 5, "somebody waited for the reader as long as for a writer"
    assert db.bring_over() or beside(db) == 0
    with db.read() as snapshot:
        assert snapshot.one("SELECT COUNT(*) FROM outage") == (40,)


@only_sqlite
def test_a_writer_between_does_not_wait_for_it(db: Database, now: datetime) -> None:
    with db.read() as snapshot:
        snapshot.one("SELECT COUNT(*) FROM outage")
        stopping = threading.Event()
        bringing = threading.Thread(target=_bring_over_until, args=(db, stopping))
        bringing.start()
        together(lambda: write_some(db, now, 1, 60))
        stopping.set()
        bringing.join()

    db.bring_over()
    with db.read() as snapshot:
        assert snapshot.one("SELECT COUNT(*) FROM outage") == (60,)


@pytest.mark.parametrize("engine", ["postgresql"])
def test_postgresql_needs_nobody_for_it(db: Database) -> None:
    assert not db.bring_over()


def _bring_over_until(db: Database, stopping: threading.Event) -> None:
    while not stopping.is_set():
        db.bring_over()
    db.close()
