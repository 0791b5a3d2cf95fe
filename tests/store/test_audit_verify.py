# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S608 - every piece of SQL here is a constant of this file
"""Is every way to falsify the history found, and the first bad entry named?"""

from __future__ import annotations

from datetime import datetime

import pytest

from registry.domain.events import hash_of
from registry.services.audit import verify
from registry.store.database import Database, Transaction
from registry.store.migrations import GUARDED_TABLES, GUARDS
from registry.store.verifying import verify_chain
from tests.store.drafts import write_events

COUNT = 10

COPY = "INSERT INTO event SELECT {0}, at, type, body, prev_hash, hash FROM event WHERE sequence = {1}"
SUBJECT = "INSERT INTO event_subject (kind, id, ordinal, event) VALUES ('node', '{0}', {1}, {2})"
OWN = "event = {0} AND id <> 'node-all'"

FALSIFICATIONS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "type edited": (("UPDATE event SET type = 'node.retired' WHERE sequence = 4",), 4, "type differs"),
    "time edited": (("UPDATE event SET at = at + 1 WHERE sequence = 4",), 4, "at differs"),
    "time beyond all times": (("UPDATE event SET at = 9000000000000000000 WHERE sequence = 4",), 4, "not a time"),
    "body edited": (("UPDATE event SET body = replace(body, 'alice', 'malice') WHERE sequence = 4",), 4, "hash"),
    "hash edited": ((f"UPDATE event SET hash = '{'a' * 64}' WHERE sequence = 4",), 4, "hash"),
    "previous hash edited": ((f"UPDATE event SET prev_hash = '{'a' * 64}' WHERE sequence = 4",), 4, "prev_hash"),
    "deleted": (("DELETE FROM event_subject WHERE event = 4", "DELETE FROM event WHERE sequence = 4"), 4, "missing"),
    "first deleted": (
        ("DELETE FROM event_subject WHERE event = 1", "DELETE FROM event WHERE sequence = 1"),
        1,
        "missing",
    ),
    "last deleted": (
        (f"DELETE FROM event_subject WHERE event = {COUNT}", f"DELETE FROM event WHERE sequence = {COUNT}"),
        COUNT,
        "missing",
    ),
    "inserted before the first": ((COPY.format(0, 4),), 1, "sequence 0"),
    "appended": ((COPY.format(COUNT + 1, 4),), COUNT + 1, "prev_hash"),
    "reordered": (
        (
            "UPDATE event_subject SET event = 99 WHERE event = 4",
            "UPDATE event SET sequence = 99 WHERE sequence = 4",
            "UPDATE event SET sequence = 4 WHERE sequence = 5",
            "UPDATE event SET sequence = 5 WHERE sequence = 99",
        ),
        4,
        "prev_hash",
    ),
    "subject row added": ((SUBJECT.format("node-x", 1, 4),), 4, "subject rows"),
    "subject row deleted": ((f"DELETE FROM event_subject WHERE {OWN.format(4)}",), 4, "subject rows"),
    "subject renamed": ((f"UPDATE event_subject SET id = 'x' WHERE {OWN.format(4)}",), 4, "subject rows"),
    "ordinal edited": ((f"UPDATE event_subject SET ordinal = 77 WHERE {OWN.format(4)}",), 4, "subject rows"),
    "subject row moved": ((f"UPDATE event_subject SET event = 6 WHERE {OWN.format(4)}",), 4, "subject rows"),
    "subject row of nothing": ((SUBJECT.format("node-x", 1, 4711),), 4711, "no event"),
    "head forgotten": (("DELETE FROM chain_head",), 1, "head"),
    "head ahead": ((f"UPDATE chain_head SET sequence = {COUNT + 2}",), COUNT + 1, "missing"),
    "head behind": (("UPDATE chain_head SET sequence = 7",), 8, "behind the head"),
    "head with another hash": ((f"UPDATE chain_head SET hash = '{'a' * 64}'",), COUNT, "head"),
}


def disarm(transaction: Transaction, *, keep_reference: bool = False) -> None:
    """Do what somebody with all rights can do: take away the guards and the foreign key."""
    for table in GUARDED_TABLES:
        for trigger in sorted(GUARDS[transaction.engine]):
            on = "" if transaction.engine == "sqlite" else f" ON {table}"
            if trigger.removeprefix(table).startswith("_no_"):
                transaction.execute(f"DROP TRIGGER {trigger}{on}")
    if transaction.engine == "postgresql" and not keep_reference:
        transaction.execute("ALTER TABLE event_subject DROP CONSTRAINT event_subject_event_fkey")


@pytest.fixture
def disarmed(db: Database, now: datetime) -> Database:
    """Ten events, and nothing that guards them."""
    write_events(db, now, COUNT)
    with db.write(now) as transaction:
        disarm(transaction)
    if db.path:
        with db.write(now) as transaction:
            transaction.execute("COMMIT")  # the next line does nothing inside a transaction
            transaction.execute("PRAGMA foreign_keys = 0")
            transaction.execute("BEGIN IMMEDIATE")
    return db


def test_an_untouched_history_holds(db: Database, now: datetime) -> None:
    assert verify(db) == {
        "ok": True, "entries": 0, "head_sequence": 0, "head_hash": "0" * 64, "bad": None, "reason": None,
        "checkpoints": 0, "next": None,
    }  # fmt: skip

    write_events(db, now, COUNT)
    told: list[int] = []
    found = verify(db, progress=told.append)

    assert (found["ok"], found["entries"], found["head_sequence"], told) == (True, COUNT, COUNT, [COUNT])


@pytest.mark.parametrize(("falsify", "bad", "reason"), FALSIFICATIONS.values(), ids=FALSIFICATIONS)
def test_a_falsification_is_found_and_named(
    disarmed: Database, now: datetime, falsify: tuple[str, ...], bad: int, reason: str
) -> None:
    with disarmed.write(now) as transaction:
        for statement in falsify:
            transaction.execute(statement)

    with disarmed.read() as snapshot:
        report = verify_chain(snapshot)
    assert (report.ok, report.bad) == (False, bad)
    assert reason in (report.reason or "")


def rewrite(transaction: Transaction, edit: tuple[str, str], first: int) -> None:
    """Write the history anew from an entry on, with hashes that fit."""
    rows = transaction.all(
        "SELECT sequence, body, prev_hash FROM event WHERE sequence >= ? ORDER BY sequence", (first,)
    )
    prev_hash = rows[0][2]
    for sequence, body, _ in rows:
        changed = body.replace(*edit) if sequence == first else body
        hash_ = hash_of(prev_hash, changed)
        transaction.execute(
            "UPDATE event SET body = ?, prev_hash = ?, hash = ? WHERE sequence = ?",
            (changed, prev_hash, hash_, sequence),
        )
        prev_hash = hash_
    transaction.execute("UPDATE chain_head SET hash = ?", (prev_hash,))


def test_a_gap_in_the_count_of_one_subject_shows_even_where_every_hash_fits(disarmed: Database, now: datetime) -> None:
    with disarmed.write(now) as transaction:
        rewrite(transaction, ('"node-0","kind":"node","ordinal":2', '"node-0","kind":"node","ordinal":3'), 4)
        transaction.execute("UPDATE event_subject SET ordinal = 99 WHERE id = 'node-0' AND ordinal = 3")
        transaction.execute("UPDATE event_subject SET ordinal = 3 WHERE event = 4 AND id = 'node-0'")
        rewrite(transaction, ('"node-0","kind":"node","ordinal":3', '"node-0","kind":"node","ordinal":99'), 6)

    with disarmed.read() as snapshot:
        report = verify_chain(snapshot)
    assert (report.ok, report.bad) == (False, 4)
    assert "events of it are missing" in (report.reason or "")


def test_events_of_one_subject_that_changed_places_show(disarmed: Database, now: datetime) -> None:
    with disarmed.write(now) as transaction:
        rewrite(transaction, ('"node-0","kind":"node","ordinal":2', '"node-0","kind":"node","ordinal":3'), 4)
        rewrite(transaction, ('"node-0","kind":"node","ordinal":3', '"node-0","kind":"node","ordinal":2'), 6)
        transaction.execute("UPDATE event_subject SET ordinal = 99 WHERE event = 4 AND id = 'node-0'")
        transaction.execute("UPDATE event_subject SET ordinal = 2 WHERE event = 6 AND id = 'node-0'")
        transaction.execute("UPDATE event_subject SET ordinal = 3 WHERE event = 4 AND id = 'node-0'")

    with disarmed.read() as snapshot:
        report = verify_chain(snapshot)
    assert (report.ok, report.bad) == (False, 4)
    assert "changed places" in (report.reason or "")
