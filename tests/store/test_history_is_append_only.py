# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S608 - every piece of SQL here is a constant of this file
"""Does the database itself refuse to change what has happened?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
import pytest

from registry.store import engines
from registry.store.database import Database
from registry.store.migrations import GUARDED_TABLES
from tests.store.drafts import make_draft

IDENTIFIER = (
    "INSERT INTO identifier (id, board_id, device_id, kind, vendor, type, value, scope, is_usable, is_naming, source, "
    "first_seen_at) VALUES ('i', 'b', NULL, 'gpu', 'nvidia', 'serial', '0123', 'hardware', 1, 0, 'report', 1)"
)
CHANGES = {
    "event": "type = 'x'",
    "event_subject": "ordinal = 9",
    "subtree": "hash = 'x'",
    "identifier": "value = 'x'",
}
NAMING = IDENTIFIER.replace("'i', 'b'", "'j', 'b'").replace("1, 0, 'report'", "1, 1, 'report'").replace("0123", "0124")
BY_ANOTHER_KEY = {
    "event": "INSERT OR REPLACE INTO event (rowid, sequence, at, type, body, prev_hash, hash) "
    "SELECT rowid, sequence + 1000, at, type, body, prev_hash, hash FROM event",
    "event_subject": "INSERT OR REPLACE INTO event_subject (rowid, kind, id, ordinal, event) "
    "SELECT rowid, kind, id || '2', ordinal, event FROM event_subject",
    "subtree": "INSERT OR REPLACE INTO subtree (rowid, upto, level, hash) SELECT rowid, upto, 9, hash FROM subtree",
    "identifier": NAMING.replace("INSERT", "INSERT OR REPLACE").replace("'j', 'b'", "'k', 'b'"),
}
"""Rows with a primary key of their own that are equal to a recorded one in something else that is unique."""
REPLACES = {
    "event": "INSERT OR REPLACE INTO event SELECT sequence, at, 'x', body, prev_hash, hash FROM event",
    "event_subject": "INSERT OR REPLACE INTO event_subject SELECT kind, id, ordinal, event FROM event_subject",
    "subtree": "INSERT OR REPLACE INTO subtree SELECT upto, level, 'x' FROM subtree",
    "identifier": IDENTIFIER.replace("INSERT", "INSERT OR REPLACE").replace("0123", "9999"),
}


@pytest.fixture
def lived_in(db: Database, now: datetime) -> Database:
    """A database with one row in each table that only grows."""
    with db.write(now) as transaction:
        transaction.record(make_draft("node-a"))
        transaction.execute("INSERT INTO board (id, kind, vendor, registered_at) VALUES ('b', 'gpu', 'nvidia', 1)")
        transaction.execute(IDENTIFIER)
        transaction.execute(NAMING)
        transaction.execute("INSERT INTO subtree (upto, level, hash) VALUES (256, 8, 'a')")
    return db


@contextmanager
def stranger(db: Database) -> Iterator[Any]:
    """A connection of somebody who takes none of our precautions."""
    if db.path:
        connection = engines.sqlite.connect(str(db.path), isolation_level=None)
        connection.execute("PRAGMA recursive_triggers = 0")
    else:
        connection = psycopg.connect(db.url, autocommit=True)
    try:
        yield connection
    finally:
        connection.close()


def contents(db: Database) -> list[Any]:
    with db.read() as snapshot:
        return [snapshot.all(f"SELECT * FROM {table}") for table in GUARDED_TABLES]


@pytest.mark.parametrize("table", GUARDED_TABLES)
@pytest.mark.parametrize("act", ["UPDATE {table} SET {change}", "DELETE FROM {table}"])
def test_update_and_delete_are_refused(lived_in: Database, table: str, act: str) -> None:
    before = contents(lived_in)

    with stranger(lived_in) as connection, pytest.raises(Exception, match="only grow"):
        connection.execute(act.format(table=table, change=CHANGES[table]))

    assert contents(lived_in) == before


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("table", GUARDED_TABLES)
@pytest.mark.parametrize("recursive", [0, 1])
@pytest.mark.parametrize("replaces", [REPLACES, BY_ANOTHER_KEY], ids=["same key", "another key"])
def test_replace_is_refused_whatever_the_connection_has_set(
    lived_in: Database, table: str, recursive: int, replaces: dict[str, str]
) -> None:
    before = contents(lived_in)

    with stranger(lived_in) as connection:
        connection.execute(f"PRAGMA recursive_triggers = {recursive}")
        with pytest.raises(Exception, match="only grow"):
            connection.execute(replaces[table])

    assert contents(lived_in) == before


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
@pytest.mark.parametrize("table", GUARDED_TABLES)
def test_truncate_is_refused(lived_in: Database, table: str) -> None:
    before = contents(lived_in)

    with stranger(lived_in) as connection, pytest.raises(Exception, match="only grow"):
        connection.execute(f"TRUNCATE {table} CASCADE")

    assert contents(lived_in) == before


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
@pytest.mark.parametrize("table", GUARDED_TABLES)
def test_an_insert_that_turns_into_an_update_is_refused(lived_in: Database, table: str) -> None:
    keys = {"event": "sequence", "event_subject": "kind, id, ordinal", "subtree": "upto, level", "identifier": "id"}[
        table
    ]

    with stranger(lived_in) as connection, pytest.raises(Exception, match="only grow"):
        connection.execute(
            f"INSERT INTO {table} SELECT * FROM {table} ON CONFLICT ({keys}) DO UPDATE SET {CHANGES[table]}"
        )
