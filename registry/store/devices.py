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
from registry.store.column_json import load
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

    @property
    def binds(self) -> list[tuple[str, str]]:
        """What a hold binds that meets this unit: the unit itself, or its board."""
        return [("unit", self.id), ("board", self.board_id)]


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
    values["firmware"] = load(values["firmware"])
    values["registered_at"] = from_micros(values["registered_at"])
    return Device(**values)


def in_chunks(snapshot: Snapshot, sql: Callable[[str], str], values: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Run a query with `IN (…)` over any number of texts; `sql` gets what stands between the brackets, once."""
    wanted = sorted(set(values))
    if snapshot.engine == "postgresql":
        # A list is one value: one text for any number, planned once, and not taken apart anew each time by psycopg.
        yield from snapshot.all(sql("?").replace("IN (?)", "= ANY (?)"), (wanted,)) if wanted else ()
        return
    for start in range(0, len(wanted), CHUNK):
        part = wanted[start : start + CHUNK]
        # The number of marks is rounded up, so that few different texts are planned; the last value is repeated.
        size = next(size for size in (1, 8, 40, 100, CHUNK) if size >= len(part))
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


def devices_named(snapshot: Snapshot, values: Iterable[str]) -> dict[str, list[Device]]:
    """Return what `find_devices` would for each of these values that names a unit."""
    wanted = set(values)
    found = {id_: [unit] for id_, unit in get_devices(snapshot, wanted).items()}
    rows = list(
        in_chunks(
            snapshot,
            lambda marks: (
                f"SELECT value, board_id, device_id FROM identifier WHERE is_naming = 1 AND value IN ({marks})"
            ),
            wanted,
        )
    )
    units = get_devices(snapshot, [device for _, _, device in rows if device])
    of_board: dict[str, list[Device]] = defaultdict(list)
    for one in devices_of_boards(snapshot, [board for _, board, device in rows if not device]):
        of_board[one.board_id].append(one)
    for value, board, device in rows:
        known = found.setdefault(value, [])
        known += [one for one in ([units[device]] if device else of_board[board]) if one not in known]
    return found


def find_devices_by_slice(snapshot: Snapshot, name: str) -> list[Device]:
    """Return the GPUs whose list showed a MIG slice of this name."""
    rows = snapshot.all("SELECT device_id FROM identifier WHERE type = 'slice' AND value = ?", (name,))
    return list(get_devices(snapshot, [row[0] for row in rows if row[0]]).values())


def insert_boards(tx: Transaction, boards: Sequence[tuple[str, str]]) -> list[str]:
    """Make the records of boards, each of a kind and a vendor, and return their ids in the same order."""
    rows = [(new_id(tx.now), kind, vendor, to_micros(tx.now)) for kind, vendor in boards]
    tx.insert("board", ("id", "kind", "vendor", "registered_at"), rows)
    return [row[0] for row in rows]


def insert_devices(tx: Transaction, units: Sequence[tuple[str, DeviceEntry, str | None]]) -> list[Device]:
    """Make the records of units, each of its board, the entry that showed it first and its usable module id.

    Their identifiers are added apart.
    """
    rows = in_chunks(
        tx,
        lambda marks: f"SELECT board_id, serial FROM device WHERE serial IS NOT NULL AND board_id IN ({marks})",
        [board for board, _, _ in units],
    )
    serials: dict[str, str] = dict(rows)
    made = [_made(tx, board, entry, module_id, serials.get(board)) for board, entry, module_id in units]
    rows_made = [tuple(_column(name, getattr(one, name)) for name in _DEVICE_FIELDS) for one in made]
    tx.insert("device", _DEVICE_FIELDS, rows_made)
    return made


def _made(tx: Transaction, board: str, entry: DeviceEntry, module_id: str | None, serial: str | None) -> Device:
    return Device(
        new_id(tx.now),
        board,
        entry.kind,
        entry.vendor,
        serial,
        None,
        entry.model,
        entry.part_number,
        module_id,
        entry.name,
        entry.asset_tag,
        dict(entry.firmware),
        tx.now,
    )


def change_device(tx: Transaction, device: Device, **attributes: Any) -> Device:
    """Write some attributes of a unit."""
    columns = ", ".join(f"{name} = ?" for name in attributes)
    values = [_column(name, value) for name, value in attributes.items()]
    tx.execute(f"UPDATE device SET {columns} WHERE id = ?", (*values, device.id))
    return replace(device, **attributes)


def mark_detached(tx: Transaction, device_id: str) -> None:
    """Keep in mind that a unit is in no node, so that the few are found without a look at all places."""
    tx.execute("UPDATE device SET is_detached = 1 WHERE id = ?", (device_id,))


def mark_attached(tx: Transaction, device_ids: Iterable[str]) -> None:
    """Keep in mind that units are in a node. Most were in one before, or are new, and are not written."""
    marked = in_chunks(tx, lambda marks: f"SELECT id FROM device WHERE is_detached = 1 AND id IN ({marks})", device_ids)
    changed = [(row[0],) for row in marked]
    if changed:
        tx.many("UPDATE device SET is_detached = 0 WHERE id = ?", changed)


def _column(name: str, value: Any) -> Any:
    if name == "firmware":
        return json.dumps(value, sort_keys=True)
    return to_micros(value) if name == "registered_at" else value


def insert_identifiers(tx: Transaction, printed: Sequence[tuple[Identifier, Device]], *, source: str) -> None:
    """Add identifiers to units, or to their boards where they name the board. Nothing is ever overwritten."""
    rows = [_identifier_row(tx, found, device, source) for found, device in printed]
    tx.insert("identifier", _IDENTIFIER_FIELDS, rows)
    naming = [(found, device) for found, device in printed if found.is_usable]
    serials = [(found.value, device.board_id) for found, device in naming if found.type.names == "board"]
    uuids = [(found.value, device.id) for found, device in naming if found.type == "uuid"]
    if serials:
        tx.many("UPDATE device SET serial = ? WHERE board_id = ? AND serial IS NULL", serials)
    if uuids:
        tx.many("UPDATE device SET uuid = ? WHERE id = ? AND uuid IS NULL", uuids)


_IDENTIFIER_FIELDS = (
    *("id", "board_id", "device_id", "kind", "vendor", "type", "value", "scope", "is_usable", "is_naming"),
    *("source", "first_seen_at"),
)


def _identifier_row(tx: Transaction, found: Identifier, device: Device, source: str) -> tuple[Any, ...]:
    names = found.type.names if found.is_usable else None
    return (
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
    )


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
