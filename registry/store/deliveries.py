# SPDX-License-Identifier: Apache-2.0
"""Which events did not arrive at the first try, and what became of them?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.domain.webhooks import DeliveryState
from registry.store.database import Row, Snapshot, Transaction, from_micros, to_micros


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for one subscription; without `event` it only tries the way. `retry_at` None means at once."""

    id: str
    subscription_id: str
    event: int | None
    created_at: datetime
    state: DeliveryState = DeliveryState.PENDING
    attempts: int = 0
    tried_at: datetime | None = None
    retry_at: datetime | None = None
    ended_at: datetime | None = None
    status: int | None = None
    error: str | None = None


_DELIVERY = (
    *("id", "subscription_id", "event", "created_at", "state", "attempts", "tried_at", "retry_at", "ended_at"),
    *("status", "error"),
)
DELIVERY_COLUMNS = ", ".join(f"y.{name}" for name in _DELIVERY)
_TIMES = frozenset({"created_at", "tried_at", "retry_at", "ended_at"})
_SETTLED = "(state = 'delivered' OR event IS NULL) AND ended_at < ?"
"""What nobody has to do anything about: dead letters are kept, but not of what only tried the way."""


def list_pending(snapshot: Snapshot, subscription_id: str) -> list[Delivery]:
    """Return what waits, in the order of the history; what only tries the way comes first."""
    rows = snapshot.all(
        f"SELECT {DELIVERY_COLUMNS} FROM delivery y WHERE y.subscription_id = ? AND y.state = 'pending' "
        "ORDER BY COALESCE(y.event, 0), y.id",
        (subscription_id,),
    )
    return [delivery_of(row) for row in rows]


def count_deliveries(snapshot: Snapshot, subscription_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return by subscription how many events wait, and how many are dead letters."""
    if not subscription_ids:
        return {}
    rows = snapshot.all(
        "SELECT subscription_id, state, COUNT(*) FROM delivery WHERE event IS NOT NULL AND subscription_id IN "
        f"({', '.join('?' * len(subscription_ids))}) GROUP BY subscription_id, state",
        subscription_ids,
    )
    found: dict[str, dict[str, int]] = {}
    for subscription_id, state, count in rows:
        found.setdefault(subscription_id, {})[state] = int(count)
    return found


def insert_deliveries(tx: Transaction, rows: Iterable[Delivery]) -> None:
    """Write deliveries that are new."""
    tx.insert("delivery", _DELIVERY, [[_cell(getattr(one, name)) for name in _DELIVERY] for one in rows])


def save_delivery(tx: Transaction, one: Delivery) -> None:
    """Write what has become of a delivery."""
    changes = ", ".join(f"{name} = ?" for name in _DELIVERY[1:])
    cells = [_cell(getattr(one, name)) for name in _DELIVERY]
    tx.execute(f"UPDATE delivery SET {changes} WHERE id = ?", (*cells[1:], one.id))


def wake(tx: Transaction, subscription_id: str) -> None:
    """Let everything that waits for its next try be tried now."""
    tx.execute(
        "UPDATE delivery SET retry_at = ? WHERE subscription_id = ? AND state = 'pending' AND retry_at > ?",
        (to_micros(tx.now), subscription_id, to_micros(tx.now)),
    )


def revive(tx: Transaction, subscription_id: str, delivery_ids: Sequence[str] | None, most: int) -> int:
    """Make dead letters wait again, all or these, the oldest ones and so many at most; return how many."""
    only = "" if delivery_ids is None else f" AND id IN ({', '.join('?' * len(delivery_ids))})"
    cursor = tx.execute(
        "UPDATE delivery SET state = 'pending', attempts = 0, retry_at = NULL, ended_at = NULL "
        "WHERE id IN (SELECT id FROM delivery WHERE subscription_id = ? AND state = 'dead' AND event IS NOT NULL"
        f"{only} ORDER BY event LIMIT ?)",
        (subscription_id, *(delivery_ids or ()), most),
    )
    return int(cursor.rowcount)


def forget_undelivered(tx: Transaction, subscription_id: str) -> None:
    """Delete what waits, and the dead letters."""
    tx.execute("DELETE FROM delivery WHERE subscription_id = ? AND state IN ('pending', 'dead')", (subscription_id,))


def has_settled_before(snapshot: Snapshot, before: datetime) -> bool:
    """Say whether any delivery arrived, or only tried the way, before a time."""
    return snapshot.one(f"SELECT 1 FROM delivery WHERE {_SETTLED} LIMIT 1", (to_micros(before),)) is not None


def forget_settled(tx: Transaction, before: datetime) -> None:
    """Delete the rows of what arrived, or only tried the way, before a time."""
    tx.execute(f"DELETE FROM delivery WHERE {_SETTLED}", (to_micros(before),))


def delivery_of(row: Row) -> Delivery:
    """Make a delivery of a row of `DELIVERY_COLUMNS`."""
    cells = dict(zip(_DELIVERY, row, strict=True))
    times = {name: from_micros(cells[name]) for name in _TIMES}
    return Delivery(**{**cells, **times, "state": DeliveryState(cells["state"])})


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return to_micros(value)
    return str(value) if isinstance(value, str) else value
