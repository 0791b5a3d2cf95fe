# SPDX-License-Identifier: Apache-2.0
"""Which unit is, or was, in which slot of which instance?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.store.database import Snapshot, Transaction, from_micros, new_id, to_micros
from registry.store.devices import Device, in_chunks, mark_attached, mark_detached


@dataclass(frozen=True, slots=True)
class Placement:
    """One unit in one slot of one instance, from when to when. `ended_by` says how it ended."""

    id: str
    device_id: str
    board_id: str
    instance_id: str
    node_id: str
    node: str
    kind: str
    slot: str | None
    since_at: datetime
    until_at: datetime | None
    ended_by: str | None
    missing_since: datetime | None
    is_contested: bool


_COLUMNS = (
    "p.id, p.device_id, p.board_id, p.instance_id, p.node_id, n.name, p.kind, p.slot, p.since_at, p.until_at, "
    "p.ended_by, p.missing_since, p.is_contested"
)
_SELECT = f"SELECT {_COLUMNS} FROM placement p JOIN node n ON n.id = p.node_id"


def _placement(row: Sequence[Any]) -> Placement:
    id_, device_id, board_id, instance_id, node_id, node, kind, slot, since, until, ended_by, missing, contested = row
    return Placement(
        id=id_,
        device_id=device_id,
        board_id=board_id,
        instance_id=instance_id,
        node_id=node_id,
        node=node,
        kind=kind,
        slot=slot,
        since_at=from_micros(since),
        until_at=from_micros(until),
        ended_by=ended_by,
        missing_since=from_micros(missing),
        is_contested=bool(contested),
    )


def open_here(snapshot: Snapshot, instance_id: str) -> list[Placement]:
    """Return the open placements of an instance, missing ones included."""
    return [
        _placement(row)
        for row in snapshot.all(f"{_SELECT} WHERE p.instance_id = ? AND p.until_at IS NULL", (instance_id,))
    ]


def placed_at(snapshot: Snapshot, instance_id: str, at: datetime) -> list[Placement]:
    """Return what was placed on an instance at a time."""
    moment = to_micros(at)
    rows = snapshot.all(
        f"{_SELECT} WHERE p.instance_id = ? AND p.since_at <= ? AND (p.until_at IS NULL OR p.until_at > ?)",
        (instance_id, moment, moment),
    )
    return [_placement(row) for row in rows]


def boards_here(snapshot: Snapshot, instance_id: str) -> list[tuple[str, str]]:
    """Return the units that are placed on an instance and not missing, each with its board."""
    return snapshot.all(
        "SELECT device_id, board_id FROM placement "
        "WHERE instance_id = ? AND until_at IS NULL AND missing_since IS NULL ORDER BY kind, device_id",
        (instance_id,),
    )


def units_here(snapshot: Snapshot, instance_id: str) -> dict[str, list[str]]:
    """Return the units that are placed on an instance and not missing, by kind."""
    found: dict[str, list[str]] = {}
    rows = snapshot.all(
        "SELECT kind, device_id FROM placement "
        "WHERE instance_id = ? AND until_at IS NULL AND missing_since IS NULL ORDER BY kind, device_id",
        (instance_id,),
    )
    for kind, device_id in rows:
        found.setdefault(kind, []).append(device_id)
    return found


def missing_here(snapshot: Snapshot, instance_id: str) -> dict[str, str | None]:
    """Return the units of an instance that its last list did not show, each with its slot."""
    rows = snapshot.all(
        "SELECT device_id, slot FROM placement "
        "WHERE instance_id = ? AND until_at IS NULL AND missing_since IS NOT NULL",
        (instance_id,),
    )
    return dict(rows)


def open_of(snapshot: Snapshot, device_ids: Iterable[str]) -> dict[str, Placement]:
    """Return the open placement of each of these units that has one."""
    rows = in_chunks(
        snapshot, lambda marks: f"{_SELECT} WHERE p.until_at IS NULL AND p.device_id IN ({marks})", device_ids
    )
    return {row[1]: _placement(row) for row in rows}


def of_device(snapshot: Snapshot, device_id: str) -> list[Placement]:
    """Return every placement of a unit, oldest first."""
    rows = snapshot.all(f"{_SELECT} WHERE p.device_id = ? ORDER BY p.since_at, p.id", (device_id,))
    return [_placement(row) for row in rows]


def in_slot_at(snapshot: Snapshot, node_id: str, slot: str, at: datetime) -> list[Placement]:
    """Return what was placed in a slot of a node at a time; the newest first."""
    moment = to_micros(at)
    rows = snapshot.all(
        f"{_SELECT} WHERE p.node_id = ? AND p.slot = ? AND p.since_at <= ? "
        "AND (p.until_at IS NULL OR p.until_at > ?) ORDER BY p.since_at DESC, p.id DESC",
        (node_id, slot, moment, moment),
    )
    return [_placement(row) for row in rows]


def newest_closed(snapshot: Snapshot, node_id: str, slot: str, limit: int) -> list[Placement]:
    """Return the placements in a slot of a node that are over, the newest first."""
    rows = snapshot.all(
        f"{_SELECT} WHERE p.node_id = ? AND p.slot = ? AND p.until_at IS NOT NULL "
        "ORDER BY p.since_at DESC, p.id DESC LIMIT ?",
        (node_id, slot, limit),
    )
    return [_placement(row) for row in rows]


def insert(tx: Transaction, placed: Iterable[tuple[Device, str | None]], *, instance_id: str, node_id: str) -> None:
    """Open the placements of units, each in its slot. The units must have none open."""
    rows = [
        (new_id(tx.now), one.id, one.board_id, instance_id, node_id, one.kind, slot, to_micros(tx.now), 0)
        for one, slot in placed
    ]
    columns = ("id", "device_id", "board_id", "instance_id", "node_id", "kind", "slot", "since_at", "is_contested")
    tx.insert("placement", columns, rows)
    mark_attached(tx, [row[1] for row in rows])


def close(tx: Transaction, placement: Placement, *, ended_by: str, is_contested: bool = False) -> None:
    """Close a placement. Contested: its node may not know yet that the unit is elsewhere."""
    tx.execute(
        "UPDATE placement SET until_at = ?, ended_by = ?, is_contested = ? WHERE id = ?",
        (to_micros(tx.now), ended_by, int(is_contested), placement.id),
    )
    mark_detached(tx, placement.device_id)


def set_missing(tx: Transaction, placement: Placement, *, is_missing: bool) -> None:
    """Note that a placed unit was not listed, or is again."""
    since = to_micros(tx.now) if is_missing else None
    tx.execute("UPDATE placement SET missing_since = ? WHERE id = ?", (since, placement.id))


def settle_contested(tx: Transaction, instance_id: str, device_ids: Iterable[str]) -> None:
    """Note that a node knows of these losses, or that they no longer matter."""
    tx.many(
        "UPDATE placement SET is_contested = 0 WHERE instance_id = ? AND device_id = ? AND is_contested = 1",
        [(instance_id, device_id) for device_id in device_ids],
    )


def settle_all_contested(tx: Transaction, instance_id: str) -> None:
    """Forget what an instance that has ended had lost."""
    tx.execute("UPDATE placement SET is_contested = 0 WHERE instance_id = ? AND is_contested = 1", (instance_id,))
