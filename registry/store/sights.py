# SPDX-License-Identifier: Apache-2.0
"""When was a fault seen, and under which ids was it told? A failure counts its sights; rules count them in windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from registry.domain.failures import INJECTED, Effect
from registry.domain.rules import Rule, Sight
from registry.store.database import Snapshot, Transaction, from_micros, new_id, to_micros
from registry.store.failures import COLUMNS, Failure, failure_of


@dataclass(frozen=True, slots=True)
class Told:
    """One message about a fault, and the failure that it was put to.

    `failure_id` is unique within `id_scope`; `digest` tells two messages under one id apart. A burst was seen `count`
    times from `first_at` to `at`. `said` is how many times the message told of in all: others may have told some before
    it, and what it told at first is a sight apart once it has grown. `uptimes`, in microseconds, are of its first and
    last line where they are lines of the log of the failure's own boot.
    """

    failure: Failure
    id_scope: str
    failure_id: str
    digest: str
    first_at: datetime
    at: datetime
    count: int
    said: int
    uptimes: tuple[int, int] | None = None


def find_told(snapshot: Snapshot, id_scope: str, failure_id: str) -> Told | None:
    """Return the message that came under this id."""
    row = snapshot.one(
        f"SELECT {COLUMNS}, s.digest, s.first_at, s.at, s.count, s.said, s.first_uptime, s.uptime "
        "FROM sight s JOIN failure f ON f.id = s.failure WHERE s.id_scope = ? AND s.failure_id = ?",
        (id_scope, failure_id),
    )
    if row is None:
        return None
    digest, first_at, at, count, said, *uptimes = row[-7:]
    lines = None if uptimes[0] is None else (uptimes[0], uptimes[1])
    times = (from_micros(first_at), from_micros(at))
    return Told(failure_of(row[:-7]), id_scope, failure_id, digest, *times, count, said, lines)


def insert_told(tx: Transaction, told: Told) -> None:
    """Keep a message about a fault, and with it the sight."""
    tx.execute(
        "INSERT INTO sight (id, failure, id_scope, failure_id, digest, first_at, at, count, said, first_uptime, "
        "uptime) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            new_id(tx.now),
            told.failure.id,
            told.id_scope,
            told.failure_id,
            told.digest,
            to_micros(told.first_at),
            to_micros(told.at),
            told.count,
            told.said,
            *(told.uptimes or (None, None)),
        ),
    )


def is_seen_at(
    snapshot: Snapshot, failure: Failure, at: datetime, *, give: timedelta = timedelta(0), has_line: bool = False
) -> bool:
    """Tell whether a failure was seen at this time, give or take so much, or within a burst that holds it.

    With `has_line` it is a line of which the time since boot is known, as `find_line` finds it: then only those sights
    are compared by their dates of which it is not.
    """
    undated = "AND uptime IS NULL " if has_line else ""
    row = snapshot.one(
        f"SELECT 1 FROM sight WHERE failure = ? AND count > 0 AND first_at <= ? AND at >= ? {undated}LIMIT 1",
        (failure.id, to_micros(at + give), to_micros(at - give)),
    )
    return row is not None


def count_within(
    snapshot: Snapshot,
    failure: Failure,
    first_at: datetime,
    at: datetime,
    *,
    give: timedelta,
    has_line: bool = False,
) -> int:
    """Return how often a failure was seen within a stretch of time, give or take so much. `has_line` as above."""
    first, last = to_micros(first_at - give), to_micros(at + give)
    undated = "AND uptime IS NULL" if has_line else ""
    rows = snapshot.all(
        f"SELECT first_at, at, count FROM sight WHERE failure = ? AND at >= ? AND first_at <= ? {undated}",
        (failure.id, first, last),
    )
    return sum(_share(begin, end, count, first, last) for begin, end, count in rows)


def find_line(
    snapshot: Snapshot, code: str, device_id: str, boot_id: str, uptime: int, *, muted: str | None
) -> Failure | None:
    """Return the failure to which a line of a boot's log was put, withdrawn ones too. One log is read in many ways.

    `muted` is `INJECTED` or not: what was injected is another line. In maintenance or after it a line is the same.
    """
    row = snapshot.one(
        f"SELECT {COLUMNS} FROM failure f JOIN sight s ON s.failure = f.id WHERE f.device_id = ? AND f.code = ? "
        f"AND f.boot_id = ? AND s.uptime = ? AND COALESCE(f.muted, '') {'=' if muted == INJECTED else '<>'} ? "
        "ORDER BY f.id LIMIT 1",
        (device_id, code, boot_id, uptime, INJECTED),
    )
    return failure_of(row) if row else None


def count_lines(snapshot: Snapshot, failure: Failure, first: int, last: int) -> int:
    """Return how often a failure was seen in the lines of these uptimes."""
    rows = snapshot.all(
        "SELECT first_uptime, uptime, count FROM sight WHERE failure = ? AND uptime >= ? AND first_uptime <= ?",
        (failure.id, first, last),
    )
    return sum(_share(begin, end, count, first, last) for begin, end, count in rows)


def _share(begin: int, end: int, count: int, first: int, last: int) -> int:
    """Say how many of a burst's sights are inside a stretch that it touches: as many as of its time, and one at least.

    The kernel's buffer forgets its oldest lines, so the same burst is read again with another beginning.
    """
    if first <= begin and end <= last:
        return count
    inside = min(end, last) - max(begin, first)
    return min(count, max(1, count * inside // (end - begin)))


def count_again(tx: Transaction, failure: Failure, at: datetime, times: int) -> Failure:
    """Count more sights of a failure that is on record, the last of them at this time."""
    last_at = max(at, failure.last_at)
    tx.execute(
        "UPDATE failure SET count = count + ?, last_at = ? WHERE id = ?", (times, to_micros(last_at), failure.id)
    )
    return replace(failure, count=failure.count + times, last_at=last_at)


def grow(
    tx: Transaction, told: Told, at: datetime, times: int, said: int, uptimes: tuple[int, int] | None = None
) -> Failure:
    """Note that a burst has gone on, and how many sights it tells of by now.

    What is new in it is a sight by itself, which came after what was told before.
    """
    # No message can have this id: a line break is refused in one.
    insert_told(tx, replace(told, failure_id=f"{told.failure_id}\n{told.said}"))
    first_at = at if times == 1 else min(told.at, at)
    first, last = uptimes or (None, None)
    if told.uptimes is not None and last is not None:
        first = last if times == 1 else min(told.uptimes[1] + 1, last)
    tx.execute(
        "UPDATE sight SET first_at = ?, at = ?, count = ?, said = ?, first_uptime = ?, uptime = ? "
        "WHERE id_scope = ? AND failure_id = ?",
        (to_micros(first_at), to_micros(at), times, said, first, last, told.id_scope, told.failure_id),
    )
    return count_again(tx, told.failure, at, times)


def note_told(tx: Transaction, told: Told, at: datetime, times: int) -> None:
    """Note that a message has told of more, which is put to another failure."""
    tx.execute(
        "UPDATE sight SET at = ?, said = said + ? WHERE id_scope = ? AND failure_id = ?",
        (to_micros(at), times, told.id_scope, told.failure_id),
    )


def newest_of_code(
    snapshot: Snapshot, code: str, device_ids: Sequence[str], *, after: datetime | None
) -> Failure | None:
    """Return the newest active fault of a code on these units, seen later than `after`; none for muted ones."""
    marks = ", ".join("?" for _ in device_ids)
    row = snapshot.one(
        f"SELECT {COLUMNS} FROM failure f WHERE f.device_id IN ({marks}) AND f.code = ? AND f.last_at > ? "
        "AND f.state = 'active' AND f.muted IS NULL ORDER BY f.last_at DESC, f.id LIMIT 1",
        (*device_ids, code, to_micros(after) or 0),
    )
    return failure_of(row) if row else None


def on_devices(
    snapshot: Snapshot, device_ids: Sequence[str], rule: Rule, after: datetime, until: datetime
) -> list[tuple[Failure, Sight]]:
    """Return what was seen of these units in a stretch of time, later than `after`, wherever it was seen.

    Withdrawn and muted faults are left out.
    """
    marks = ", ".join("?" for _ in device_ids)
    return _seen(snapshot, f"f.device_id IN ({marks})", device_ids, rule, after, until)


def on_node(
    snapshot: Snapshot, node_id: str, rule: Rule, after: datetime, until: datetime
) -> list[tuple[Failure, Sight]]:
    """Return what was seen on a node in a stretch of time, later than `after`; withdrawn and muted faults left out."""
    return _seen(snapshot, "f.node_id = ?", (node_id,), rule, after, until)


def _seen(
    snapshot: Snapshot, where: str, params: Iterable[str], rule: Rule, after: datetime, until: datetime
) -> list[tuple[Failure, Sight]]:
    effects = [one for one in Effect if rule.effect is not None and one.rank >= rule.effect.rank]
    named = {"code": rule.codes, "kind": rule.kinds, "effect": effects}
    of = [(name, values) for name, values in named.items() if values]
    concerned = " OR ".join(f"f.{name} IN ({', '.join('?' * len(values))})" for name, values in of)
    words = [str(one) for _, values in of for one in values]
    rows = snapshot.all(
        f"SELECT {COLUMNS}, s.first_at, s.at, s.count FROM failure f JOIN sight s ON s.failure = f.id "
        f"WHERE {where} AND ({concerned}) AND f.last_at > ? AND f.state = 'active' AND f.muted IS NULL "
        "AND s.at > ? AND s.at <= ?",
        (*params, *words, to_micros(after), to_micros(after), to_micros(until)),
    )
    found = []
    for row in rows:
        failure = failure_of(row[:-3])
        first_at, at, count = row[-3:]
        sight = Sight(failure.board_id, failure.node_id, from_micros(first_at), from_micros(at), count)
        found.append((failure, sight))
    return found
