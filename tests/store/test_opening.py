# SPDX-License-Identifier: Apache-2.0
"""Is a connection fit for use when it is handed out, whatever the disk and the others do at that moment?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import peewee
import pytest

from registry.domain.errors import StoreUnavailable
from registry.store import engines
from registry.store.database import Database
from tests.scorecard.neighbour import neighbour


@pytest.fixture
def engine() -> str:
    """Only SQLite opens for reading, without a word, what it cannot open for writing."""
    return "sqlite"


def count_events(db: Database) -> tuple[int, ...] | None:
    with db.read() as snapshot:
        return snapshot.one("SELECT count(*) FROM event")


def test_an_index_of_the_log_that_could_only_be_opened_for_reading_is_let_go(
    db: Database, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process keeps it alive, so that one can read by it."""
    reader = peewee.SqliteDatabase(f"file:{db.path}?readonly_shm=1", uri=True)

    with neighbour() as other, other.inside(db.url):
        with monkeypatch.context() as patched:
            patched.setattr(db._durable, "_peewee", reader)
            with pytest.raises(StoreUnavailable, match="readonly"):
                count_events(db)
        with db.write(now) as transaction:
            transaction.execute("INSERT INTO outage (from_at, to_at) VALUES (1, 2)")

    assert reader.is_closed()
    assert count_events(db) == (0,)


def test_a_connection_is_opened_at_once_while_somebody_else_writes(db: Database, now: datetime) -> None:
    with db.write(now), ThreadPoolExecutor(1) as pool:
        asking = pool.submit(count_events, db)

        assert asking.result(engines.BUSY_MILLISECONDS / 2000) == (0,)


def test_a_connection_waits_for_others_once_it_is_open(db: Database) -> None:
    with db.read() as snapshot:
        assert snapshot.one("PRAGMA busy_timeout") == (engines.BUSY_MILLISECONDS,)
