# SPDX-License-Identifier: Apache-2.0
"""Does readiness say what is wrong, and nothing that a stranger should not know?"""

from __future__ import annotations

from datetime import datetime, timedelta

from registry.domain.policy import Policy
from registry.services.health import liveness, readiness
from registry.services.life import beat
from registry.store.database import Database, open_database, sqlite_gate

POLICY = Policy()


def test_liveness_asks_nobody() -> None:
    assert liveness() == {"status": "ok"}


def test_a_migrated_database_is_ready(db: Database, now: datetime) -> None:
    before = readiness(db, now=now, policy=POLICY)
    beat(db, now, POLICY)
    after = readiness(db, now=now + timedelta(seconds=30), policy=POLICY)
    late = readiness(db, now=now + timedelta(seconds=31), policy=POLICY)

    assert (before["status"], before["last_sign_at"], before["is_beating"]) == ("ok", None, False)
    assert (after["status"], after["last_sign_at"], after["is_beating"]) == ("ok", "2026-11-29T12:00:00.000000Z", True)
    assert (late["status"], late["is_beating"]) == ("not_ready", False)
    assert "writes fail" in late["faults"][0]
    assert (after["engine"], after["faults"], after["sequence"]) == (db.engine, [], 0)
    if db.engine == "sqlite":
        assert after["sqlite"] == {"version": sqlite_gate().version, "is_safe": True, "journal": "wal"}


def test_an_empty_database_is_not_ready(empty_database_url: str, now: datetime) -> None:
    db = open_database(empty_database_url)
    found = readiness(db, now=now, policy=POLICY)
    db.close_all()

    assert found["status"] == "not_ready"
    assert "pratique migrate" in found["faults"][0]


def test_a_database_that_is_away_is_not_ready_and_not_described(now: datetime) -> None:
    found = readiness(open_database("postgresql://joe:secret@127.0.0.1:1/x"), now=now, policy=POLICY)

    assert (found["status"], found["faults"]) == ("not_ready", ["The database cannot answer."])
