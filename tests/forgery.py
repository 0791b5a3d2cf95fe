# SPDX-License-Identifier: Apache-2.0
"""How would somebody falsify the history who has every right but the signing key? Eleven ways, most of them well made.

The triggers are taken away and put back, and where hashes, ordinals, subject rows, kept subtrees and the head can be
made to fit again, they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeAlias

from registry.domain.canonical import canonical
from registry.domain.events import GENESIS, hash_of
from registry.domain.merkle import Frontier, leaf_of
from registry.domain.times import parse_rfc3339
from registry.store.database import Database, Transaction
from registry.store.subtrees import LEVEL
from registry.store.values import to_micros
from tests.store.test_audit_verify import disarm

Body: TypeAlias = dict[str, Any]
Forgery: TypeAlias = Callable[[Transaction, int, Random], None]
"""Falsifies something of the entries up to a sequence, at a place that chance chooses."""

_TRIGGERS = {
    "sqlite": "SELECT sql FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
}


def forge(db: Database, now: datetime, forgery: Forgery, upto: int, random: Random) -> None:
    """Falsify the history, and leave every guard in its place."""
    with _unguarded(db, now) as transaction:
        forgery(transaction, upto, random)


@contextmanager
def _unguarded(db: Database, now: datetime) -> Iterator[Transaction]:
    with db.write(now) as transaction:
        triggers = [sql for (sql,) in transaction.all(_TRIGGERS[db.engine])]
        if db.path is None:
            transaction.execute("ALTER TABLE event_subject DROP CONSTRAINT event_subject_event_fkey")
            transaction.execute(
                "ALTER TABLE event_subject ADD CONSTRAINT event_subject_event_fkey FOREIGN KEY (event) "
                "REFERENCES event (sequence) DEFERRABLE INITIALLY DEFERRED"
            )
        else:
            transaction.execute("PRAGMA defer_foreign_keys = 1")
        disarm(transaction, keep_reference=True)
        yield transaction
        if db.path is None:
            transaction.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for sql in triggers:
            transaction.execute(sql)


def _bodies(transaction: Transaction) -> list[Body]:
    return [json.loads(body) for (body,) in transaction.all("SELECT body FROM event ORDER BY sequence")]


def _write_anew(transaction: Transaction, bodies: list[Body]) -> None:
    """Make a history of these bodies that fits together in everything."""
    for table in ("event_subject", "event", "subtree"):
        transaction.execute(f"DELETE FROM {table}")  # noqa: S608
    prev_hash, counts, tree = GENESIS, dict[tuple[str, str], int](), Frontier()
    for sequence, body in enumerate(bodies, start=1):
        rows = []
        for one in body["subjects"]:
            counts[one["kind"], one["id"]] = one["ordinal"] = counts.get((one["kind"], one["id"]), 0) + 1
            rows.append((one["kind"], one["id"], one["ordinal"], sequence))
        text = canonical({**body, "sequence": sequence})
        hash_ = hash_of(prev_hash, text)
        transaction.execute(
            "INSERT INTO event (sequence, at, type, body, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?)",
            (sequence, to_micros(parse_rfc3339(body["at"])), body["type"], text, prev_hash, hash_),
        )
        transaction.many("INSERT INTO event_subject (kind, id, ordinal, event) VALUES (?, ?, ?, ?)", rows)
        for above, root in enumerate(tree.append(leaf_of(hash_))[LEVEL:]):
            transaction.execute("INSERT INTO subtree VALUES (?, ?, ?)", (tree.size, LEVEL + above, root.hex()))
        prev_hash = hash_
    transaction.execute("UPDATE chain_head SET sequence = ?, hash = ?", (len(bodies), prev_hash))


def _honest_looking(change: Callable[[list[Body], int, Random], None]) -> Forgery:
    """Change the bodies and make all else fit; checkpoints that no longer could, go."""

    def work(transaction: Transaction, upto: int, random: Random) -> None:
        bodies = _bodies(transaction)
        change(bodies, upto, random)
        _write_anew(transaction, [one for one in bodies if one["type"] != "checkpoint.signed"])

    return work


def _choose(transaction: Transaction, upto: int, random: Random) -> int:
    """Choose an entry that is not a checkpoint: those are in none that would be missed."""
    sql = "SELECT sequence FROM event WHERE sequence <= ? AND type <> 'checkpoint.signed' ORDER BY sequence"
    return int(random.choice(transaction.all(sql, (upto,)))[0])


def _edit_body(transaction: Transaction, upto: int, random: Random) -> None:
    sql = "UPDATE event SET body = replace(body, 'alice', 'malice') WHERE sequence = ?"
    transaction.execute(sql, (_choose(transaction, upto, random),))


def _edit_column(transaction: Transaction, upto: int, random: Random) -> None:
    column = random.choice(
        ["at = at + 1", "type = 'node.retired'", f"hash = '{'a' * 64}'", f"prev_hash = '{'a' * 64}'"]
    )
    transaction.execute(f"UPDATE event SET {column} WHERE sequence = ?", (_choose(transaction, upto, random),))  # noqa: S608


def _edit_subject(transaction: Transaction, upto: int, random: Random) -> None:
    sql = "UPDATE event_subject SET id = 'somebody' WHERE event = ? AND id <> 'node-all'"
    transaction.execute(sql, (_choose(transaction, upto, random),))


def _delete(transaction: Transaction, upto: int, random: Random) -> None:
    sequence = _choose(transaction, upto, random)
    transaction.execute("DELETE FROM event_subject WHERE event = ?", (sequence,))
    transaction.execute("DELETE FROM event WHERE sequence = ?", (sequence,))


def _place(bodies: list[Body], upto: int, random: Random) -> int:
    return random.choice([at for at, one in enumerate(bodies[:upto]) if one["type"] != "checkpoint.signed"])


def _edit_well(bodies: list[Body], upto: int, random: Random) -> None:
    bodies[_place(bodies, upto, random)]["data"]["number"] = -1


def _delete_well(bodies: list[Body], upto: int, random: Random) -> None:
    del bodies[_place(bodies, upto, random)]


def _insert_well(bodies: list[Body], upto: int, random: Random) -> None:
    at = _place(bodies, upto, random)
    copy = {**bodies[at], "data": {"number": -1}, "subjects": [dict(one) for one in bodies[at]["subjects"]]}
    bodies.insert(at, copy)


def _reorder_well(bodies: list[Body], upto: int, random: Random) -> None:
    at = _place(bodies, upto, random)
    other = next(one for one in (*range(at + 1, upto), *range(at)) if bodies[one]["data"] != bodies[at]["data"])
    bodies[at], bodies[other] = bodies[other], bodies[at]


def _cut_well(bodies: list[Body], upto: int, random: Random) -> None:
    del bodies[random.randrange(upto) :]


def _cut_and_grow(bodies: list[Body], upto: int, random: Random) -> None:
    kept = random.randrange(1, upto)
    template, length = bodies[0], len(bodies)
    del bodies[kept:]
    for number in range(length - kept + 3):
        subjects = [dict(one) for one in template["subjects"]]
        bodies.append({**template, "data": {"number": -number - 1}, "subjects": subjects})


def _rewrite_all(bodies: list[Body], upto: int, random: Random) -> None:
    for body in bodies:
        body["at"] = (parse_rfc3339(body["at"]) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


FORGERIES: dict[str, Forgery] = {
    "a body is edited": _edit_body,
    "a column is edited": _edit_column,
    "a subject row is edited": _edit_subject,
    "an entry is deleted": _delete,
    "an entry is edited and all is made to fit": _honest_looking(_edit_well),
    "an entry is deleted and all is made to fit": _honest_looking(_delete_well),
    "an entry is put in and all is made to fit": _honest_looking(_insert_well),
    "two entries change places and all is made to fit": _honest_looking(_reorder_well),
    "the end is cut off with the head": _honest_looking(_cut_well),
    "the end is cut off and another grows": _honest_looking(_cut_and_grow),
    "everything is written anew": _honest_looking(_rewrite_all),
}
"""By what is done."""
