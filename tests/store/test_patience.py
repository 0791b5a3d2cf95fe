# SPDX-License-Identifier: Apache-2.0
"""Does a connection to PostgreSQL give up in time, whatever the server is up to?"""

from __future__ import annotations

from datetime import datetime

import pytest

from registry.domain.errors import StoreUnavailable
from registry.store import engines
from registry.store.database import Database, open_database
from registry.store.verifying import verify_chain


@pytest.fixture
def engine() -> str:
    """SQLite has no server to wait for."""
    return "postgresql"


def test_a_session_has_an_end_to_everything(db: Database) -> None:
    with db.read() as snapshot:
        found = {
            name: snapshot.one(f"SHOW {name}")
            for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
        }
        options = snapshot._connection.info.get_parameters()

    assert found == {
        "statement_timeout": ("10s",),
        "lock_timeout": ("9s",),
        "idle_in_transaction_session_timeout": ("30s",),
    }
    assert options["tcp_user_timeout"] == str(engines.BUSY_MILLISECONDS)
    assert {name: int(options[f"keepalives_{name}"]) for name in ("idle", "interval", "count")} == {
        "idle": 10,
        "interval": 5,
        "count": 2,
    }


def test_a_statement_that_takes_too_long_is_a_store_that_cannot_answer(
    database_url: str, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "BUSY_MILLISECONDS", 200)
    db = open_database(database_url)

    with pytest.raises(StoreUnavailable, match="QueryCanceled"), db.read() as snapshot:
        snapshot.one("SELECT pg_sleep(20)")
    with db.write(now) as transaction:
        assert transaction.sequence() == 0
    db.close_all()


def test_the_whole_history_may_take_as_long_as_it_needs(db: Database) -> None:
    with db.read() as snapshot:
        assert verify_chain(snapshot).ok
        assert snapshot.one("SHOW statement_timeout") == ("0",)
    with db.read() as snapshot:
        assert snapshot.one("SHOW statement_timeout") == ("10s",)
