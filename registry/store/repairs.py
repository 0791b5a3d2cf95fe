# SPDX-License-Identifier: Apache-2.0
"""Which repairs are wanted or under way, which nodes do they disturb, and who has stopped them?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.domain.budget import Place, Sizes, Suspicion, Turn
from registry.domain.repair import Action
from registry.domain.repair_orders import Order, OrderState, Outcome
from registry.store import breaker
from registry.store.database import Snapshot, Transaction, from_micros, to_micros


@dataclass(frozen=True, slots=True)
class Repair:
    """An order with its node as that is now.

    `provider_id` is that of the order's instance; `instance_id` is the node's current one, which may be another.
    `settled_at` is when the
    budget let go of an order that is over, None while its node counts as disturbed, or never did.
    """

    order: Order
    settled_at: datetime | None
    node: str
    provider_id: str
    retired_at: datetime | None
    maintenance_until: datetime | None
    instance_id: str
    place: Place


@dataclass(frozen=True, slots=True)
class Stop:
    """Somebody's word that nothing is to be repaired."""

    at: datetime
    by: str
    reason: str


_ORDER = (
    *("id", "action", "condition", "node_id", "instance_id", "because", "planned_at", "device_id", "state"),
    *("waits_for", "ready_at", "claimed_by", "claimed_at", "lease_until", "attempts", "ended_at", "outcome", "detail"),
)
_TIMES = ("planned_at", "ready_at", "claimed_at", "lease_until", "ended_at")
COLUMNS = (
    f"{', '.join(f'r.{name}' for name in _ORDER)}, r.settled_at, n.name, i.provider_id, n.retired_at, "
    "n.maintenance_until, s.instance_id, s.profile, s.zone"
)
FROM = (
    "repair r JOIN node n ON n.id = r.node_id JOIN node_state s ON s.node_id = r.node_id "
    "JOIN instance i ON i.id = r.instance_id"
)
_OPEN = "r.state IN ('planned', 'ready', 'claimed')"
_UNSETTLED = "r.settled_at IS NULL AND r.attempts > 0 AND r.state IN ('done', 'failed', 'cancelled')"


def repair_of(row: Sequence[Any]) -> Repair:
    """Make a repair of a row of `COLUMNS`."""
    settled, node, provider_id, retired, maintenance, instance, profile, zone = row[len(_ORDER) :]
    order = _order(row[: len(_ORDER)])
    place = Place(order.node_id, profile, zone)
    at = from_micros
    return Repair(order, at(settled), node, provider_id, at(retired), at(maintenance), instance, place)


def _order(row: Sequence[Any]) -> Order:
    cells = dict(zip(_ORDER, row, strict=True))
    for name in _TIMES:
        cells[name] = from_micros(cells[name])
    outcome = Outcome(cells["outcome"]) if cells["outcome"] else None
    return Order(
        **{**cells, "action": Action(cells["action"]), "state": OrderState(cells["state"]), "outcome": outcome}
    )


def find_repair(snapshot: Snapshot, order_id: str) -> Repair | None:
    """Return the repair of this id."""
    row = snapshot.one(f"SELECT {COLUMNS} FROM {FROM} WHERE r.id = ?", (order_id,))
    return repair_of(row) if row else None


def list_open(snapshot: Snapshot) -> list[Repair]:
    """Return all that are not over, those first that were planned first."""
    rows = snapshot.all(f"SELECT {COLUMNS} FROM {FROM} WHERE {_OPEN} ORDER BY r.planned_at, r.id")
    return [repair_of(row) for row in rows]


def list_claimed_on(snapshot: Snapshot, node_id: str) -> list[Order]:
    """Return what somebody has claimed on a node."""
    rows = snapshot.all(
        f"SELECT {', '.join(_ORDER)} FROM repair WHERE node_id = ? AND state = 'claimed' ORDER BY id", (node_id,)
    )
    return [_order(row) for row in rows]


def list_unsettled(snapshot: Snapshot) -> list[Repair]:
    """Return those that are over, of which somebody had begun, and whose node still counts as disturbed."""
    return [repair_of(row) for row in snapshot.all(f"SELECT {COLUMNS} FROM {FROM} WHERE {_UNSETTLED} ORDER BY r.id")]


def list_past(snapshot: Snapshot, condition: str, *, device_id: str | None, instance_id: str) -> list[Order]:
    """Return the orders for a condition that are over, the newest first: of a device, or of an instance of a node.

    A device keeps its own on whatever node it was, so that one which comes back is met with the next step.
    """
    names = ", ".join(_ORDER)
    place, value = ("device_id = ?", device_id) if device_id else ("device_id IS NULL AND instance_id = ?", instance_id)
    rows = snapshot.all(
        f"SELECT {names} FROM repair WHERE {place} AND condition = ? AND state IN ('done', 'failed', 'cancelled') "
        "ORDER BY id DESC LIMIT 32",
        (value, condition),
    )
    return [_order(row) for row in rows]


def insert_order(tx: Transaction, order: Order) -> None:
    """Write an order that is new."""
    tx.execute(f"INSERT INTO repair ({', '.join(_ORDER)}) VALUES ({', '.join('?' * len(_ORDER))})", _cells(order))


def save_order(tx: Transaction, order: Order) -> None:
    """Write what has become of an order."""
    changes = ", ".join(f"{name} = ?" for name in _ORDER[1:])
    tx.execute(f"UPDATE repair SET {changes} WHERE id = ?", (*_cells(order)[1:], order.id))


def _cells(order: Order) -> list[Any]:
    cells = [getattr(order, name) for name in _ORDER]
    return [
        to_micros(cell) if isinstance(cell, datetime) else str(cell) if isinstance(cell, str) else cell
        for cell in cells
    ]


def settle(tx: Transaction, order_id: str) -> None:
    """Let the node of an order that is over count as disturbed no longer."""
    tx.execute("UPDATE repair SET settled_at = ? WHERE id = ?", (to_micros(tx.now), order_id))


# --- the budget -------------------------------------------------------------------------------------------------------


def list_disturbed(snapshot: Snapshot) -> list[Place]:
    """Return the nodes that repairs keep out of work now, or may at any moment."""
    rows = snapshot.all(
        f"SELECT DISTINCT r.node_id, s.profile, s.zone FROM {FROM} WHERE r.state IN ('ready', 'claimed') "
        f"UNION SELECT r.node_id, s.profile, s.zone FROM {FROM} WHERE {_UNSETTLED}"
    )
    return [Place(*row) for row in rows]


def nodes_claimed(snapshot: Snapshot) -> frozenset[str]:
    """Return the names of the nodes on which somebody carries a repair out."""
    rows = snapshot.all(f"SELECT DISTINCT n.name FROM {FROM} WHERE r.state = 'claimed'")
    return frozenset(row[0] for row in rows)


def count_begun(snapshot: Snapshot, since: datetime) -> int:
    """Return on how many nodes a repair began after a time. What was cancelled before a claim of it began nothing."""
    row = snapshot.one(
        "SELECT COUNT(DISTINCT node_id) FROM repair WHERE ready_at > ? "
        "AND (attempts > 0 OR state IN ('planned', 'ready', 'claimed'))",
        (to_micros(since),),
    )
    return int(row[0]) if row else 0


def sizes_of(snapshot: Snapshot, places: Iterable[Place], since: datetime) -> Sizes:
    """Count the unretired nodes that have reported since a time: all, and those like any of these places."""
    places = list(places)
    return Sizes(
        breaker.count_fleet(snapshot, since),
        {name: breaker.count_profile(snapshot, name, since) for name in sorted({one.profile for one in places})},
        {zone: breaker.count_zone(snapshot, zone, since) for zone in {one.zone for one in places}},
    )


def count_by_state(snapshot: Snapshot) -> dict[tuple[str, str], int]:
    """Return how many orders there are by state and action."""
    rows = snapshot.all("SELECT state, action, COUNT(*) FROM repair GROUP BY state, action")
    return {(state, action): int(count) for state, action, count in rows}


# --- the switch, and checks that are doubted --------------------------------------------------------------------------


def find_stop(snapshot: Snapshot) -> Stop | None:
    """Return who stopped all repairs; None while nobody has."""
    row = snapshot.one("SELECT at, stopped_by, reason FROM repair_stop WHERE id = 1")
    return Stop(from_micros(row[0]), row[1], row[2]) if row else None


def insert_stop(tx: Transaction, stop: Stop) -> None:
    """Stop all repairs. Raises Duplicate when that is so already."""
    tx.execute(
        "INSERT INTO repair_stop (id, at, stopped_by, reason) VALUES (1, ?, ?, ?)",
        (to_micros(stop.at), stop.by, stop.reason),
    )


def delete_stop(tx: Transaction) -> None:
    """Let repairs go on."""
    tx.execute("DELETE FROM repair_stop WHERE id = 1")


def list_suspicions(snapshot: Snapshot) -> list[Suspicion]:
    """Return the checks whose word on many nodes is doubted, by name."""
    rows = snapshot.all(
        "SELECT condition, since_at, nodes, most FROM repair_suspicion WHERE since_at IS NOT NULL ORDER BY condition"
    )
    return [Suspicion(name, from_micros(at), int(nodes), int(most)) for name, at, nodes, most in rows]


def list_trusted(snapshot: Snapshot) -> dict[str, datetime]:
    """Return when a person last said of a check to go on."""
    rows = snapshot.all("SELECT condition, trusted_at FROM repair_suspicion WHERE trusted_at IS NOT NULL")
    return {name: from_micros(at) for name, at in rows}


def save_suspicion(tx: Transaction, found: Suspicion) -> None:
    """Doubt a check from now on."""
    tx.execute(
        "INSERT INTO repair_suspicion (condition, since_at, nodes, most) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (condition) DO UPDATE SET since_at = excluded.since_at, nodes = excluded.nodes, "
        "most = excluded.most",
        (found.condition, to_micros(found.since), found.nodes, found.limit),
    )


def trust(tx: Transaction, condition: str) -> None:
    """Believe a check again."""
    tx.execute(
        "UPDATE repair_suspicion SET since_at = NULL, trusted_at = ? WHERE condition = ?",
        (to_micros(tx.now), condition),
    )


def list_turns(snapshot: Snapshot, after: datetime) -> list[Turn]:
    """Return which nodes turned bad after a time, through which checks, as far as they still are."""
    rows = snapshot.all(
        "SELECT name, node_id, since_at FROM node_condition WHERE since_at > ? AND since_at IS NOT NULL",
        (to_micros(after),),
    )
    return [Turn(name, node_id, from_micros(at)) for name, node_id, at in rows]
