# SPDX-License-Identifier: Apache-2.0
"""Which boards and units are on record, what points at them, and what does a list of a node touch of that?"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from registry.domain.identifiers import Identifier
from registry.domain.reports import DeviceEntry
from registry.store.database import Snapshot, Transaction, from_micros, new_id, to_micros

CHUNK = 400
"""How many values one `IN (…)` carries: below the parameter limit of either engine by far."""

ATTRIBUTES = ("model", "part_number", "module_id", "name", "asset_tag", "firmware")
"""What describes a unit and never identifies it."""


@dataclass(frozen=True, slots=True)
class Device:
    """One unit, with the usable serial of its board and its own usable UUID."""

    id: str
    board_id: str
    kind: str
    vendor: str
    serial: str | None
    uuid: str | None
    model: str | None
    part_number: str | None
    module_id: str | None
    name: str | None
    asset_tag: str | None
    firmware: Mapping[str, str]
    registered_at: datetime


_DEVICE_FIELDS = (
    "id",
    "board_id",
    "kind",
    "vendor",
    "serial",
    "uuid",
    "model",
    "part_number",
    "module_id",
    "name",
    "asset_tag",
    "firmware",
    "registered_at",
)
DEVICE_COLUMNS = ", ".join(f"d.{name}" for name in _DEVICE_FIELDS)


def device_of(row: Sequence[Any]) -> Device:
    """Make a device of a row of `DEVICE_COLUMNS`."""
    values = dict(zip(_DEVICE_FIELDS, row, strict=False))
    values["firmware"] = json.loads(values["firmware"])
    values["registered_at"] = from_micros(values["registered_at"])
    return Device(**values)


def in_chunks(snapshot: Snapshot, sql: Callable[[str], str], values: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Run a query with `IN (…)` over any number of values; `sql` gets the marks."""
    wanted = sorted(set(values))
    for start in range(0, len(wanted), CHUNK):
        part = wanted[start : start + CHUNK]
        # The number of marks is rounded up, so that few different texts are planned; the last value is repeated.
        size = next(size for size in (1, 8, 40, CHUNK) if size >= len(part))
        part += [part[-1]] * (size - len(part))
        yield from snapshot.all(sql(", ".join("?" * size)), part)


def get_devices(snapshot: Snapshot, device_ids: Iterable[str]) -> dict[str, Device]:
    """Return the units with these ids."""
    rows = in_chunks(
        snapshot, lambda marks: f"SELECT {DEVICE_COLUMNS} FROM device d WHERE d.id IN ({marks})", device_ids
    )
    return {row[0]: device_of(row) for row in rows}


def devices_of_boards(snapshot: Snapshot, board_ids: Iterable[str]) -> list[Device]:
    """Return every unit of these boards."""
    rows = in_chunks(
        snapshot, lambda marks: f"SELECT {DEVICE_COLUMNS} FROM device d WHERE d.board_id IN ({marks})", board_ids
    )
    return [device_of(row) for row in rows]


def find_devices(snapshot: Snapshot, values: Iterable[str], *, type_: str | None = None) -> list[Device]:
    """Return the units that our own id or a usable identifier points at; a serial gives all of its board."""
    wanted = set(values)
    found = {} if type_ else get_devices(snapshot, wanted)
    rows = in_chunks(
        snapshot,
        lambda marks: f"SELECT board_id, device_id, type FROM identifier WHERE is_naming = 1 AND value IN ({marks})",
        wanted,
    )
    owners = [row for row in rows if type_ in (None, row[2])]
    found.update(get_devices(snapshot, [device for _, device, _ in owners if device]))
    boards = [board for board, device, _ in owners if not device]
    found.update({one.id: one for one in devices_of_boards(snapshot, boards)})
    return sorted(found.values(), key=lambda one: one.id)


def find_devices_by_slice(snapshot: Snapshot, name: str) -> list[Device]:
    """Return the GPUs whose list showed a MIG slice of this name."""
    rows = snapshot.all("SELECT device_id FROM identifier WHERE type = 'slice' AND value = ?", (name,))
    return list(get_devices(snapshot, [row[0] for row in rows if row[0]]).values())


def insert_board(tx: Transaction, kind: str, vendor: str) -> str:
    """Make a board's record and return its id."""
    board_id = new_id(tx.now)
    tx.execute(
        "INSERT INTO board (id, kind, vendor, registered_at) VALUES (?, ?, ?, ?)",
        (board_id, kind, vendor, to_micros(tx.now)),
    )
    return board_id


def insert_device(tx: Transaction, board_id: str, entry: DeviceEntry, module_id: str | None) -> Device:
    """Make a unit's record from the entry that showed it first. Its identifiers are added apart."""
    siblings = tx.one("SELECT serial FROM device WHERE board_id = ? AND serial IS NOT NULL LIMIT 1", (board_id,))
    device = Device(
        new_id(tx.now),
        board_id,
        entry.kind,
        entry.vendor,
        siblings[0] if siblings else None,
        None,
        entry.model,
        entry.part_number,
        module_id,
        entry.name,
        entry.asset_tag,
        dict(entry.firmware),
        tx.now,
    )
    marks = ", ".join("?" for _ in _DEVICE_FIELDS)
    tx.execute(
        f"INSERT INTO device ({', '.join(_DEVICE_FIELDS)}) VALUES ({marks})",
        tuple(_column(name, getattr(device, name)) for name in _DEVICE_FIELDS),
    )
    return device


def change_device(tx: Transaction, device: Device, **attributes: Any) -> Device:
    """Write some attributes of a unit."""
    columns = ", ".join(f"{name} = ?" for name in attributes)
    values = [_column(name, value) for name, value in attributes.items()]
    tx.execute(f"UPDATE device SET {columns} WHERE id = ?", (*values, device.id))
    return replace(device, **attributes)


def _column(name: str, value: Any) -> Any:
    if name == "firmware":
        return json.dumps(value, sort_keys=True)
    return to_micros(value) if name == "registered_at" else value


def insert_identifier(tx: Transaction, found: Identifier, device: Device, *, source: str) -> None:
    """Add one identifier to a unit, or to its board where it names the board. Nothing is ever overwritten."""
    names = found.type.names if found.is_usable else None
    tx.execute(
        "INSERT INTO identifier (id, board_id, device_id, kind, vendor, type, value, scope, is_usable, is_naming, "
        "source, first_seen_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            new_id(tx.now),
            device.board_id,
            None if names == "board" else device.id,
            found.kind,
            found.vendor,
            found.type,
            found.value,
            found.scope,
            int(found.is_usable),
            int(names is not None),
            source,
            to_micros(tx.now),
        ),
    )
    if names == "board":
        tx.execute("UPDATE device SET serial = ? WHERE board_id = ? AND serial IS NULL", (found.value, device.board_id))
    elif found.type == "uuid" and names:
        tx.execute("UPDATE device SET uuid = ? WHERE id = ? AND uuid IS NULL", (found.value, device.id))


def identifiers_known(snapshot: Snapshot, devices: Iterable[Device]) -> dict[str, set[tuple[str, str]]]:
    """Return for each unit the (type, value) pairs on record for it or for its board."""
    units = list(devices)
    known: dict[str, set[tuple[str, str]]] = {one.id: set() for one in units}
    by_board = defaultdict(list)
    for one in units:
        by_board[one.board_id].append(one.id)
    rows = in_chunks(
        snapshot,
        lambda marks: f"SELECT board_id, device_id, type, value FROM identifier WHERE board_id IN ({marks})",
        by_board,
    )
    for board_id, device_id, type_, value in rows:
        for unit in [device_id] if device_id else by_board[board_id]:
            if unit in known:
                known[unit].add((type_, value))
    return known


def list_identifiers(snapshot: Snapshot, device: Device) -> list[dict[str, Any]]:
    """Return everything that was printed for a unit or its board, oldest first, with scope and usability."""
    rows = snapshot.all(
        "SELECT type, value, scope, is_usable, source, first_seen_at FROM identifier WHERE board_id = ? "
        "AND (device_id = ? OR device_id IS NULL) ORDER BY id",
        (device.board_id, device.id),
    )
    return [
        {"type": t, "value": v, "scope": s, "usable": bool(u), "source": w, "first_seen_at": from_micros(at)}
        for t, v, s, u, w, at in rows
    ]


def is_taken(snapshot: Snapshot, found: Identifier) -> bool:
    """Tell whether an identifier names some hardware already."""
    row = snapshot.one(
        "SELECT 1 FROM identifier WHERE is_naming = 1 AND kind = ? AND vendor = ? AND type = ? AND value = ?",
        (found.kind, found.vendor, found.type, found.value),
    )
    return row is not None
