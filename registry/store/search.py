# SPDX-License-Identifier: Apache-2.0
"""How is a list read by its fields, newest first or oldest first, from after a key on?

Every field that may be asked for stands in a table here with its SQL; nothing a caller sends becomes SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.store import conflicts, devices, failures, holds
from registry.store.database import Snapshot, to_micros

DISPUTED = "EXISTS (SELECT 1 FROM conflict_party x WHERE x.kind = 'device' AND x.ref = d.id AND x.is_open = 1)"

DEVICE_STATE = (
    f"CASE WHEN {holds.HELD} THEN 'quarantined' WHEN {DISPUTED} THEN 'conflict' WHEN p.id IS NULL THEN 'detached' "
    "WHEN p.missing_since IS NOT NULL THEN 'missing' ELSE 'in_service' END"
)
"""The state of a unit, the gravest first. Takes the time as parameter."""

_DEVICE_FROM = (
    "FROM device d LEFT JOIN placement p ON p.device_id = d.id AND p.until_at IS NULL "
    "LEFT JOIN node n ON n.id = p.node_id"
)


@dataclass(frozen=True, slots=True)
class Slice:
    """Which part of a list: at most `limit` rows after the key, in which direction."""

    limit: int
    after: str | None
    newest_first: bool


def _tail(key: str, part: Slice) -> tuple[str, str, list[Any]]:
    """The condition, the order and the parameters of a keyset page; one row more shows whether more follow."""
    comparison, order = ("<", "DESC") if part.newest_first else (">", "ASC")
    condition = f"{key} {comparison} ?" if part.after is not None else ""
    return condition, f" ORDER BY {key} {order} LIMIT {part.limit + 1}", [part.after] if part.after is not None else []


def _select(
    snapshot: Snapshot,
    select: str,
    fields: Mapping[str, str],
    filters: Mapping[str, str],
    key: str,
    part: Slice,
    *,
    before: Sequence[Any] = (),
) -> list[tuple[Any, ...]]:
    condition, order, params = _tail(key, part)
    conditions = [f"{fields[name]} = ?" for name in filters] + ([condition] if condition else [])
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return snapshot.all(f"{select}{where}{order}", [*before, *filters.values(), *params])


DEVICE_FIELDS = {
    name: f"d.{name}"
    for name in ("id", "kind", "vendor", "serial", "uuid", "model", "part_number", "module_id", "name", "asset_tag")
} | {"slot": "p.slot", "node": "n.name"}


def list_devices(
    snapshot: Snapshot, filters: Mapping[str, str], part: Slice, now: datetime
) -> list[tuple[devices.Device, str, str | None, str | None]]:
    """Return units with their state, node and slot."""
    plain = {name: value for name, value in filters.items() if name != "state"}
    select = f"SELECT {devices.DEVICE_COLUMNS}, {DEVICE_STATE} AS state, n.name, p.slot {_DEVICE_FROM}"
    if "state" not in filters:
        rows = _select(snapshot, select, DEVICE_FIELDS, plain, "d.id", part, before=[to_micros(now)])
    else:
        condition, order, params = _tail("d.id", part)
        wheres = [f"{DEVICE_FIELDS[name]} = ?" for name in plain] + ([condition] if condition else [])
        where = " AND ".join([*wheres, f"{DEVICE_STATE} = ?"])
        values = [to_micros(now), *plain.values(), *params, to_micros(now), filters["state"]]
        rows = snapshot.all(f"{select} WHERE {where}{order}", values)
    width = len(devices.DEVICE_COLUMNS.split(","))
    return [(devices.device_of(row[:width]), *row[width:]) for row in rows]


def states_of(snapshot: Snapshot, device_ids: Sequence[str], now: datetime) -> dict[str, str]:
    """Return the state of each of these units."""
    found: dict[str, str] = {}
    for device_id in set(device_ids):
        row = snapshot.one(f"SELECT {DEVICE_STATE} {_DEVICE_FROM} WHERE d.id = ?", (to_micros(now), device_id))
        if row is not None:
            found[device_id] = row[0]
    return found


FAILURE_FIELDS = {
    name: f"f.{name}"
    for name in ("id", "failure_id", "slot", "code", "kind", "cause", "severity", "effect", "state", "reporter")
} | {"node": "n.name", "device": "f.device_id"}


def list_failures(snapshot: Snapshot, filters: Mapping[str, str], part: Slice) -> list[failures.Failure]:
    """Return failures."""
    select = f"SELECT {failures.COLUMNS} FROM failure f LEFT JOIN node n ON n.id = f.node_id"
    return [failures.failure_of(row) for row in _select(snapshot, select, FAILURE_FIELDS, filters, "f.id", part)]


HOLD_FIELDS = {
    name: f"q.{name}"
    for name in ("id", "state", "owner", "target_kind", "scope", "match", "cause", "ticket", "release_policy")
}


def list_holds(
    snapshot: Snapshot,
    filters: Mapping[str, str],
    part: Slice,
    now: datetime,
    *,
    bound: Sequence[tuple[str, str]] | None = None,
) -> list[holds.HoldRecord]:
    """Return holds; with `bound`, those that bind or bound any of these (kind, ref). An expired one is not open."""
    is_over = f"q.release_policy = 'at_expiry' AND q.expires_at <= {to_micros(now):d}"
    fields = {**HOLD_FIELDS, "state": f"(CASE WHEN {is_over} THEN 'released' ELSE q.state END)"}
    select = f"SELECT {holds.COLUMNS} FROM quarantine q"
    if bound is None:
        return [holds.record_of(row) for row in _select(snapshot, select, fields, filters, "q.id", part)]
    if not bound:
        return []
    condition, order, params = _tail("q.id", part)
    pairs = " OR ".join("(t.kind = ? AND t.ref = ?)" for _ in bound)
    conditions = [f"{fields[name]} = ?" for name in filters] + ([condition] if condition else [])
    conditions.append(f"q.id IN (SELECT t.quarantine_id FROM hold_target t WHERE {pairs})")
    values = [*filters.values(), *params, *(text for pair in bound for text in pair)]
    return [holds.record_of(row) for row in snapshot.all(f"{select} WHERE {' AND '.join(conditions)}{order}", values)]


CONFLICT_FIELDS = {name: f"c.{name}" for name in ("id", "state", "rule", "kind")} | {"node": "n.name"}


def list_conflicts(
    snapshot: Snapshot, filters: Mapping[str, str], part: Slice, *, device: str | None = None
) -> list[conflicts.Conflict]:
    """Return conflicts; with `device`, those that the unit is part of."""
    select = f"SELECT {conflicts.COLUMNS} FROM conflict c JOIN node n ON n.id = c.node_id"
    if device is None:
        return [conflicts.conflict_of(row) for row in _select(snapshot, select, CONFLICT_FIELDS, filters, "c.id", part)]
    select += " JOIN conflict_party x ON x.conflict_id = c.id AND x.kind = 'device'"
    fields = {**CONFLICT_FIELDS, "device": "x.ref"}
    return [
        conflicts.conflict_of(row)
        for row in _select(snapshot, select, fields, {**filters, "device": device}, "c.id", part)
    ]


NODE_FIELDS = {
    "name": "n.name",
    "profile": "s.profile",
    "zone": "s.zone",
    "provider_id": "i.provider_id",
    "boot_id": "b.boot_id",
}


def list_nodes(snapshot: Snapshot, filters: Mapping[str, str], part: Slice) -> list[tuple[str, str]]:
    """Return (id, name) of nodes."""
    select = (
        "SELECT n.id, n.name FROM node n LEFT JOIN node_state s ON s.node_id = n.id "
        "LEFT JOIN instance i ON i.id = s.instance_id LEFT JOIN boot b ON b.id = s.boot_id"
    )
    return [(row[0], row[1]) for row in _select(snapshot, select, NODE_FIELDS, filters, "n.id", part)]
