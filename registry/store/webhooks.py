# SPDX-License-Identifier: Apache-2.0
"""Who is told of events, how far has each got, and what signs for it?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.domain.webhooks import LATE_EVENTS, Algorithm, Filter, Format
from registry.store.database import Row, Snapshot, Transaction, from_micros, to_micros


@dataclass(frozen=True, slots=True)
class Subscription:
    """One address that is told of events. `url` is enciphered, `address` is what of it may be shown.

    `failures` counts those in a row, of whatever event; `retry_at` is until when it rests after them. `delivered`,
    `failed` and `abandoned` count messages, tries and dead letters since it was made.
    """

    id: str
    description: str | None
    url: str
    address: str
    format: Format
    algorithm: Algorithm
    filter: Filter
    created_at: datetime
    created_by: str
    position: int
    is_enabled: bool = True
    disabled_because: str | None = None
    failures: int = 0
    failing_since: datetime | None = None
    retry_at: datetime | None = None
    error: str | None = None
    delivered: int = 0
    failed: int = 0
    abandoned: int = 0
    delivered_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Secret:
    """What signs for a subscription, enciphered. With `drop_at` it is an old one, which signs until then."""

    id: str
    subscription_id: str
    sealed: str
    public_key: str | None
    created_at: datetime
    drop_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """All subscriptions together; the counts of removed ones stay."""

    delivered: int
    failed: int
    abandoned: int
    by_state: Mapping[str, int]
    """Subscriptions that are enabled, failing or disabled."""
    pending: int
    dead: int
    behind: int
    """Events that one has not come to which fails or is late: of those the one that is furthest behind."""
    oldest_at: datetime | None
    """When the oldest event happened that waits to be delivered, but for what a person switched off."""


_SUBSCRIPTION = (
    *("id", "description", "url", "address", "format", "algorithm", "types", "causes", "profiles", "created_at"),
    *("created_by", "position", "is_enabled", "disabled_because", "failures", "failing_since", "retry_at", "error"),
    *("delivered", "failed", "abandoned", "delivered_at"),
)
_LISTS = ("types", "causes", "profiles")
_SELECT = f"SELECT {', '.join(_SUBSCRIPTION)} FROM subscription"
_SECRET = ("id", "subscription_id", "sealed", "public_key", "created_at", "drop_at")
_TIMES = frozenset({"created_at", "failing_since", "retry_at", "delivered_at", "drop_at"})


# --- subscriptions ----------------------------------------------------------------------------------------------------


def list_subscriptions(snapshot: Snapshot, *, is_enabled: bool | None = None) -> list[Subscription]:
    """Return those that were not removed, the oldest first."""
    state = "" if is_enabled is None else f" AND is_enabled = {int(is_enabled)}"
    return [_subscription(row) for row in snapshot.all(f"{_SELECT} WHERE removed_at IS NULL{state} ORDER BY id")]


def find_subscription(snapshot: Snapshot, subscription_id: str) -> Subscription | None:
    """Return the one of this id, unless it was removed."""
    row = snapshot.one(f"{_SELECT} WHERE id = ? AND removed_at IS NULL", (subscription_id,))
    return _subscription(row) if row else None


def insert_subscription(tx: Transaction, one: Subscription) -> None:
    """Write one that is new."""
    marks = ", ".join("?" * len(_SUBSCRIPTION))
    tx.execute(f"INSERT INTO subscription ({', '.join(_SUBSCRIPTION)}) VALUES ({marks})", _cells(one))


def save_subscription(tx: Transaction, one: Subscription) -> None:
    """Write what has become of one."""
    changes = ", ".join(f"{name} = ?" for name in _SUBSCRIPTION[1:])
    tx.execute(f"UPDATE subscription SET {changes} WHERE id = ?", (*_cells(one)[1:], one.id))


def remove_subscription(tx: Transaction, subscription_id: str) -> None:
    """Forget the address, the secrets and the deliveries of one; its counts stay."""
    tx.execute("DELETE FROM delivery WHERE subscription_id = ?", (subscription_id,))
    tx.execute("DELETE FROM subscription_secret WHERE subscription_id = ?", (subscription_id,))
    tx.execute(
        "UPDATE subscription SET removed_at = ?, is_enabled = 0, url = ? WHERE id = ?",
        (to_micros(tx.now), "", subscription_id),
    )


def _subscription(row: Row) -> Subscription:
    cells = _read(_SUBSCRIPTION, row)
    lists = {name: tuple(json.loads(cells.pop(name))) for name in _LISTS}
    cells |= {"format": Format(cells["format"]), "algorithm": Algorithm(cells["algorithm"])}
    return Subscription(**{**cells, "is_enabled": bool(cells["is_enabled"]), "filter": Filter(**lists)})


def _cells(one: Subscription) -> list[Any]:
    lists = {name: json.dumps(getattr(one.filter, name)) for name in _LISTS}
    return [lists[name] if name in lists else _cell(getattr(one, name)) for name in _SUBSCRIPTION]


# --- secrets ----------------------------------------------------------------------------------------------------------


def list_secrets(snapshot: Snapshot, subscription_id: str) -> list[Secret]:
    """Return what signs for a subscription, the newest first; some may be past their time."""
    rows = snapshot.all(
        f"SELECT {', '.join(_SECRET)} FROM subscription_secret WHERE subscription_id = ? ORDER BY id DESC",
        (subscription_id,),
    )
    return [Secret(**_read(_SECRET, row)) for row in rows]


def insert_secret(tx: Transaction, one: Secret) -> None:
    """Write a secret that is new."""
    cells = [_cell(getattr(one, name)) for name in _SECRET]
    tx.execute(
        f"INSERT INTO subscription_secret ({', '.join(_SECRET)}) VALUES ({', '.join('?' * len(_SECRET))})", cells
    )


def drop_secret_at(tx: Transaction, secret_id: str, at: datetime) -> None:
    """Let a secret sign until a time."""
    tx.execute("UPDATE subscription_secret SET drop_at = ? WHERE id = ?", (to_micros(at), secret_id))


def delete_secret(tx: Transaction, secret_id: str) -> None:
    """Forget a secret."""
    tx.execute("DELETE FROM subscription_secret WHERE id = ?", (secret_id,))


# --- all together -----------------------------------------------------------------------------------------------------


def read_totals(snapshot: Snapshot) -> Totals:
    """Count over all subscriptions."""
    sums = snapshot.one(
        "SELECT COALESCE(SUM(delivered), 0), COALESCE(SUM(failed), 0), COALESCE(SUM(abandoned), 0) FROM subscription"
    )
    states = snapshot.all(
        "SELECT CASE WHEN is_enabled = 0 THEN 'disabled' WHEN failures > 0 THEN 'failing' ELSE 'enabled' END, COUNT(*) "
        "FROM subscription WHERE removed_at IS NULL GROUP BY 1"
    )
    counts: dict[str, Any] = dict(
        snapshot.all("SELECT state, COUNT(*) FROM delivery WHERE event IS NOT NULL GROUP BY state")
    )
    oldest = snapshot.one(
        "SELECT MIN(e.at) FROM delivery y JOIN event e ON e.sequence = y.event "
        "JOIN subscription s ON s.id = y.subscription_id "
        "WHERE y.state = 'pending' AND (s.is_enabled = 1 OR s.failing_since IS NOT NULL)"
    )
    head = snapshot.sequence()
    slowest = snapshot.one(
        "SELECT MIN(position) FROM subscription WHERE removed_at IS NULL AND is_enabled = 1 "
        "AND (failures > 0 OR position < ?)",
        (head - LATE_EVENTS,),
    )
    delivered, failed, abandoned = sums or (0, 0, 0)
    return Totals(
        delivered=int(delivered),
        failed=int(failed),
        abandoned=int(abandoned),
        by_state={state: int(count) for state, count in states},
        pending=int(counts.get("pending", 0)),
        dead=int(counts.get("dead", 0)),
        behind=head - int(slowest[0]) if slowest and slowest[0] is not None else 0,
        oldest_at=from_micros(oldest[0]) if oldest else None,
    )


def find_profile(snapshot: Snapshot, node: str) -> str | None:
    """Return the profile that a node reported last."""
    row = snapshot.one("SELECT s.profile FROM node n JOIN node_state s ON s.node_id = n.id WHERE n.name = ?", (node,))
    return row[0] if row else None


def _read(names: Sequence[str], row: Row) -> dict[str, Any]:
    cells = dict(zip(names, row, strict=True))
    return {name: from_micros(cell) if name in _TIMES else cell for name, cell in cells.items()}


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return to_micros(value)
    if isinstance(value, bool):
        return int(value)
    return str(value) if isinstance(value, str) else value
