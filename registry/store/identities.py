# SPDX-License-Identifier: Apache-2.0
"""What can a list of a node touch: what do its identifiers point at, and what is placed there and beside it?"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from registry.domain.identifiers import Identifier, identifiers_of
from registry.domain.known import Fingerprint, Known, Place, Unit
from registry.domain.reports import DeviceEntry
from registry.store.database import Snapshot, Transaction, from_micros, to_micros
from registry.store.devices import Device, devices_of_boards, get_devices, in_chunks


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
        "INSERT INTO ruling (fingerprint, device_id, conflict_id, ruled_at) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (fingerprint) DO UPDATE SET device_id = excluded.device_id, conflict_id = excluded.conflict_id, "
        "ruled_at = excluded.ruled_at",
        (fingerprint_text(fingerprint), device_id, conflict_id, to_micros(tx.now)),
    )


def load_known(
    snapshot: Snapshot, entries: Sequence[DeviceEntry], instance_id: str, is_live: Callable[[datetime], bool]
) -> Known:
    """Gather what a list can touch: what its identifiers point at, with all siblings, and what is placed here.

    `is_live` says of a time of last report whether a node that reported then is not stale.
    """
    owners = _owners(snapshot, [found for entry in entries for found in identifiers_of(entry) if found.is_usable])
    here, last = _placed(snapshot, instance_id)
    rulings = _rulings(snapshot, entries, instance_id)
    touched = {*(row[0] for row in (*here, *last)), *rulings.values(), *(device for _, device, _ in owners if device)}
    boards = {one.board_id for one in get_devices(snapshot, touched).values()} | {board for board, _, _ in owners}
    devices = devices_of_boards(snapshot, boards)
    named = _names(snapshot, boards)
    return Known(
        instance_id=instance_id,
        units=_units(devices, named, _places(snapshot, devices, is_live)),
        by_uuid=named.by_uuid,
        by_unique_id=named.by_unique_id,
        boards=named.boards,
        board_units=_grouped((one.board_id, one.id) for one in devices),
        board_serials={board: frozenset(values) for board, values in named.serials.items()},
        slots={(kind, slot): device for device, kind, slot in here if slot},
        last_in_slot={(kind, slot): device for device, kind, slot in last},
        interfaces=_interfaces(snapshot, {device for device, kind, _ in (*here, *last) if kind == "efa"}),
        contested=_contested(snapshot, instance_id),
        rulings=rulings,
    )


_Placed = list[tuple[str, str, str]]
"""Unit, kind and slot."""


def _placed(snapshot: Snapshot, instance_id: str) -> tuple[_Placed, _Placed]:
    """What is placed on an instance now, and what ever was in one of its slots, the last of each at the end."""
    here = snapshot.all(
        "SELECT device_id, kind, slot FROM placement WHERE instance_id = ? AND until_at IS NULL", (instance_id,)
    )
    last = snapshot.all(
        "SELECT device_id, kind, slot FROM placement WHERE node_id = (SELECT node_id FROM instance WHERE id = ?) "
        "AND instance_id = ? AND slot IS NOT NULL ORDER BY since_at, id",
        (instance_id, instance_id),
    )
    return here, last


def _units(devices: Sequence[Device], named: _Names, places: Mapping[str, Place]) -> dict[str, Unit]:
    return {
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
    }


def _contested(snapshot: Snapshot, instance_id: str) -> frozenset[str]:
    rows = snapshot.all("SELECT device_id FROM placement WHERE instance_id = ? AND is_contested = 1", (instance_id,))
    return frozenset(row[0] for row in rows)


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
            "SELECT p.device_id, n.name, p.instance_id, p.slot, COALESCE(n.retired_at, p.missing_since), s.reported_at "
            "FROM placement p "
            "JOIN node n ON n.id = p.node_id LEFT JOIN node_state s ON s.node_id = n.id "
            f"WHERE p.until_at IS NULL AND p.device_id IN ({marks})"
        ),
        [one.id for one in devices],
    )
    return {
        device: Place(name, instance, slot, is_live=gone is None and at is not None and is_live(from_micros(at)))
        for device, name, instance, slot, gone, at in rows
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
