# SPDX-License-Identifier: Apache-2.0
"""Is the service sure of its records? Each alarm is a row, kept after somebody took note of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from registry.store.database import Row, Snapshot, Transaction, from_micros, to_micros

IS_ALARMED = "EXISTS (SELECT 1 FROM alarm WHERE is_open = 1)"
"""Said in SQL, so that a decision asks it in the statement that it begins with."""

_COLUMNS = "checkpoint_hash, cause, lost_from, lost_to, since_at, ended_at"


@dataclass(frozen=True, slots=True)
class Alarm:
    """One reason for safe mode: entries `lost_from` to `lost_to` were seen outside and are not, or not so, in here.

    `checkpoint_hash` is the head that was seen outside: it is doubted once. `ended_at` is None while it stands.
    """

    checkpoint_hash: str
    cause: str
    lost_from: int
    lost_to: int
    since: datetime
    ended_at: datetime | None = None


def is_alarmed(snapshot: Snapshot) -> bool:
    """Return True while an alarm stands."""
    row = snapshot.one(f"SELECT {IS_ALARMED}")
    return bool(row and row[0])


def find_alarm(snapshot: Snapshot, checkpoint_hash: str) -> Alarm | None:
    """Return the alarm that this head raised, whether it stands or not."""
    row = snapshot.one(f"SELECT {_COLUMNS} FROM alarm WHERE checkpoint_hash = ?", (checkpoint_hash,))
    return _alarm(row) if row else None


def list_open(snapshot: Snapshot) -> tuple[Alarm, ...]:
    """Return the alarms that stand, the oldest first."""
    rows = snapshot.all(f"SELECT {_COLUMNS} FROM alarm WHERE is_open = 1 ORDER BY since_at, checkpoint_hash")
    return tuple(map(_alarm, rows))


def insert_alarm(tx: Transaction, alarm: Alarm) -> None:
    """Keep a new alarm, which stands."""
    tx.execute(
        "INSERT INTO alarm (checkpoint_hash, cause, lost_from, lost_to, since_at, is_open) VALUES (?, ?, ?, ?, ?, 1)",
        (alarm.checkpoint_hash, alarm.cause, alarm.lost_from, alarm.lost_to, to_micros(alarm.since)),
    )


def end_all(tx: Transaction, *, by: str, reason: str) -> None:
    """End every alarm that stands."""
    tx.execute(
        "UPDATE alarm SET is_open = 0, ended_at = ?, ended_by = ?, end_reason = ? WHERE is_open = 1",
        (to_micros(tx.now), by, reason),
    )


def _alarm(row: Row) -> Alarm:
    hash_, cause, lost_from, lost_to, since, ended = row
    return Alarm(hash_, cause, lost_from, lost_to, from_micros(since), from_micros(ended))
