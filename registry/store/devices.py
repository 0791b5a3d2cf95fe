# SPDX-License-Identifier: Apache-2.0
"""Which boards and units are on record, what points at them, and what does a list of a node touch of that?"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from registry.domain.identifiers import Identifier, identifiers_of
from registry.domain.known import Fingerprint, Known, Place, Unit
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
    """Return the units that any of these usable identifiers, or our own id, points at; a serial gives all its board's."""
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
        "INSERT INTO identifier (id, board_id, device_id, kind, vendor, type, value, scope, is_usable, is_naming, source, "
        "first_seen_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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


def fingerprint_text(fingerprint: Fingerprint) -> str:
    """Write a fingerprint as the key of a ruling."""
    parts = (
        fingerprint.kind,
        fingerprint.vendor,
        fingerprint.uuid,
        fingerprint.unique_id,
        fingerprint.serial,
        fingerprint.instance_id,
        fingerprint.slot,
    )
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def insert_ruling(tx: Transaction, fingerprint: Fingerprint, device_id: str, conflict_id: str) -> None:
    """Note what an operator ruled: an entry printed like this is that unit. A later ruling takes its place."""
    tx.execute(
        "INSERT INTO ruling (fingerprint, device_id, conflict_id, ruled_at) VALUES (?, ?, ?, ?) ON CONFLICT (fingerprint) "
        "DO UPDATE SET device_id = excluded.device_id, conflict_id = excluded.conflict_id, ruled_at = excluded.ruled_at",
        (fingerprint_text(fingerprint), device_id, conflict_id, to_micros(tx.now)),
    )


def load_known(
    snapshot: Snapshot, entries: Sequence[DeviceEntry], instance_id: str, is_live: Callable[[datetime], bool]
) -> Known:
    """Gather what a list can touch: what its identifiers point at, with all siblings, and what is placed here.

    `is_live` says of a time of last report whether a node that reported then is not stale.
    """
    printed = [found for entry in entries for found in identifiers_of(entry) if found.is_usable]
    owners = _owners(snapshot, printed)
    here = snapshot.all(
        "SELECT device_id, kind, slot FROM placement WHERE instance_id = ? AND until_at IS NULL", (instance_id,)
    )
    last = snapshot.all(
        "SELECT device_id, kind, slot FROM placement WHERE instance_id = ? AND slot IS NOT NULL ORDER BY since_at, id",
        (instance_id,),
    )
    rulings = _rulings(snapshot, entries, instance_id)
    touched = {*(row[0] for row in here), *(row[0] for row in last), *rulings.values()}
    touched |= {device for _, device, _ in owners if device}
    boards = {one.board_id for one in get_devices(snapshot, touched).values()} | {board for board, _, _ in owners}
    devices = devices_of_boards(snapshot, boards)
    places = _places(snapshot, devices, is_live)
    named = _names(snapshot, boards)
    return Known(
        instance_id=instance_id,
        units={
            one.id: Unit(
                one.id,
                one.board_id,
                one.kind,
                one.vendor,
                one.model,
                one.id in named.with_uuid,
                one.module_id,
                places.get(one.id),
            )
            for one in devices
        },
        by_uuid=named.by_uuid,
        by_unique_id=named.by_unique_id,
        boards=named.boards,
        board_units=_grouped((one.board_id, one.id) for one in devices),
        board_serials={board: frozenset(values) for board, values in named.serials.items()},
        slots={(kind, slot): device for device, kind, slot in here if slot},
        last_in_slot={(kind, slot): device for device, kind, slot in last},
        interfaces=_interfaces(snapshot, [device for device, kind, _ in here if kind == "efa"]),
        contested=frozenset(
            row[0]
            for row in snapshot.all(
                "SELECT device_id FROM placement WHERE instance_id = ? AND is_contested = 1", (instance_id,)
            )
        ),
        rulings=rulings,
    )


def _owners(snapshot: Snapshot, printed: Sequence[Identifier]) -> list[tuple[str, str | None, str]]:
    wanted = {(one.kind, one.vendor, str(one.type), one.value) for one in printed if one.type.names}
    rows = in_chunks(
        snapshot,
        lambda marks: (
            "SELECT board_id, device_id, type, kind, vendor, value FROM identifier "
            f"WHERE is_naming = 1 AND value IN ({marks})"
        ),
        [value for *_, value in wanted],
    )
    return [(board, device, type_) for board, device, type_, k, v, value in rows if (k, v, type_, value) in wanted]


@dataclass(slots=True)
class _Names:
    by_uuid: dict[tuple[str, str, str], str]
    by_unique_id: dict[tuple[str, str, str], str]
    boards: dict[tuple[str, str, str], str]
    serials: dict[str, set[str]]
    with_uuid: set[str]


def _names(snapshot: Snapshot, boards: Iterable[str]) -> _Names:
    """Everything that names one of these boards or its units."""
    names = _Names({}, {}, {}, defaultdict(set), set())
    rows = in_chunks(
        snapshot,
        lambda marks: (
            "SELECT board_id, device_id, type, kind, vendor, value FROM identifier "
            f"WHERE is_naming = 1 AND board_id IN ({marks})"
        ),
        boards,
    )
    for board, device, type_, kind, vendor, value in rows:
        key = (kind, vendor, value)
        if type_ == "uuid":
            names.by_uuid[key] = device
            names.with_uuid.add(device)
        elif type_ == "unique_id":
            names.by_unique_id[key] = device
        elif device is None:
            names.boards[key] = board
            names.serials[board].add(value)
    return names


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for key, value in sorted(pairs):
        groups[key].append(value)
    return {key: tuple(values) for key, values in groups.items()}


def _places(snapshot: Snapshot, devices: Sequence[Device], is_live: Callable[[datetime], bool]) -> dict[str, Place]:
    rows = in_chunks(
        snapshot,
        lambda marks: (
            "SELECT p.device_id, n.name, p.instance_id, p.slot, n.retired_at, s.reported_at FROM placement p "
            "JOIN node n ON n.id = p.node_id LEFT JOIN node_state s ON s.node_id = n.id "
            f"WHERE p.until_at IS NULL AND p.device_id IN ({marks})"
        ),
        [one.id for one in devices],
    )
    return {
        device: Place(name, instance, slot, is_live=retired is None and at is not None and is_live(from_micros(at)))
        for device, name, instance, slot, retired, at in rows
    }


def _interfaces(snapshot: Snapshot, device_ids: Iterable[str]) -> dict[str, frozenset[str]]:
    rows = in_chunks(
        snapshot,
        lambda marks: (
            "SELECT device_id, value FROM identifier WHERE type IN ('mac', 'gid') AND is_usable = 1 "
            f"AND device_id IN ({marks})"
        ),
        device_ids,
    )
    found: dict[str, set[str]] = defaultdict(set)
    for device, value in rows:
        found[device].add(value)
    return {device: frozenset(values) for device, values in found.items()}


def _rulings(snapshot: Snapshot, entries: Sequence[DeviceEntry], instance_id: str) -> dict[Fingerprint, str]:
    """What operators ruled about entries like these, here or anywhere."""
    texts = {}
    for entry in entries:
        usable = {one.type.value: one.value for one in identifiers_of(entry) if one.is_usable}
        here = Fingerprint(
            entry.kind,
            entry.vendor,
            usable.get("uuid", ""),
            usable.get("unique_id", ""),
            usable.get("serial", ""),
            instance_id,
            entry.slot or "",
        )
        for fingerprint in (here, here.anywhere):
            texts[fingerprint_text(fingerprint)] = fingerprint
    rows = in_chunks(
        snapshot, lambda marks: f"SELECT fingerprint, device_id FROM ruling WHERE fingerprint IN ({marks})", texts
    )
    return {texts[text]: device for text, device in rows}


def is_taken(snapshot: Snapshot, found: Identifier) -> bool:
    """Tell whether an identifier names some hardware already."""
    row = snapshot.one(
        "SELECT 1 FROM identifier WHERE is_naming = 1 AND kind = ? AND vendor = ? AND type = ? AND value = ?",
        (found.kind, found.vendor, found.type, found.value),
    )
    return row is not None
