# SPDX-License-Identifier: Apache-2.0
"""Is what waits for the end of a transaction done once, before the commit, and not at all when it is undone?"""

from __future__ import annotations

from datetime import datetime

import pytest

from registry.store.database import Database


def test_it_is_done_once_for_a_key_and_after_everything_else(db: Database, now: datetime) -> None:
    done: list[str] = []
    with db.write(now) as tx:
        for _ in range(3):
            tx.at_end("a", lambda: done.append("a"))
        with db.write(now) as inner:
            inner.at_end("b", lambda: done.append("b"))
        assert done == []

    assert done == ["a", "b"]


def test_what_it_asks_for_itself_is_done_too(db: Database, now: datetime) -> None:
    done: list[str] = []
    with db.write(now) as tx:
        tx.at_end("a", lambda: tx.at_end("b", lambda: done.append("b")))

    assert done == ["b"]


def test_what_is_undone_is_never_done(db: Database, now: datetime) -> None:
    done: list[str] = []

    def change() -> None:
        with db.write(now) as tx:
            tx.at_end("a", lambda: done.append("a"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change()
    assert done == []


def test_what_fails_at_the_end_undoes_everything(db: Database, now: datetime) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    def change() -> None:
        with db.write(now) as tx:
            tx.execute("INSERT INTO profile (name, body, updated_at) VALUES ('x', '{}', 0)")
            tx.at_end("a", fail)

    with pytest.raises(ZeroDivisionError):
        change()
    with db.read() as snapshot:
        assert snapshot.one("SELECT 1 FROM profile WHERE name = 'x'") is None
