# SPDX-License-Identifier: Apache-2.0
"""What would records look like if each list were applied at once? A keeper of records in plain dictionaries.

It applies what `identity.match` answers as the rules say: identifiers are only added, a list moves a unit at once, a
unit that is not listed keeps its place until the slot is taken, and a node that loses a unit to a live one contests it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from registry.domain.identifiers import (
    normalise_gid,
    normalise_mac,
    usable_module_id,
    usable_serial,
    usable_unique_id,
    usable_uuid,
)
from registry.domain.identity import Fingerprint, Key, Known, Match, Outcome, Place, Unit, match
from registry.domain.policy import Policy
from registry.domain.reports import DeviceEntry, Kind


def gpu(number: int = 0, *, slot: str | None = None, vendor: str = "nvidia", **shown: str | None) -> DeviceEntry:
    """Make a GPU entry; a number gives it a serial, a UUID and a slot that no other number has."""
    given: dict[str, str | None] = {"serial": None, "uuid": None}
    if number:
        given = {"serial": f"16500000{number:05d}", "uuid": f"GPU-{number:08x}-1111-2222-3333-444444444444"}
        slot = slot or f"0000:{number:02x}:00.0"
    return DeviceEntry(kind=Kind.GPU, vendor=vendor, slot=slot, **(given | shown))


def efa(slot: str | None = None, **shown: str | None) -> DeviceEntry:
    """Make an EFA entry, which shows no more than it is given."""
    return DeviceEntry(kind=Kind.EFA, vendor="amazon", slot=slot, **shown)


@dataclass
class Keeper:
    """Records of a fleet, in memory. One node is one instance unless `instance` says otherwise."""

    units: dict[str, Unit] = field(default_factory=dict)
    by_uuid: dict[Key, str] = field(default_factory=dict)
    by_unique_id: dict[Key, str] = field(default_factory=dict)
    boards: dict[Key, str] = field(default_factory=dict)
    last_in_slot: dict[tuple[str, str, str], str] = field(default_factory=dict)
    interfaces: dict[str, frozenset[str]] = field(default_factory=dict)
    contested: dict[str, set[str]] = field(default_factory=dict)
    rulings: dict[Fingerprint, str] = field(default_factory=dict)

    def known(self, instance: str) -> Known:
        """Give all that is recorded, as this instance's list would see it."""
        here = {
            unit.id: unit.place for unit in self.units.values() if unit.place and unit.place.instance_id == instance
        }
        board_units: dict[str, tuple[str, ...]] = dict.fromkeys(self.boards.values(), ())
        for unit in self.units.values():
            board_units[unit.board_id] = (*board_units.get(unit.board_id, ()), unit.id)
        serials: dict[str, frozenset[str]] = {}
        for key, board_id in self.boards.items():
            serials[board_id] = serials.get(board_id, frozenset()) | {key[2]}
        return Known(
            instance_id=instance,
            units=dict(self.units),
            by_uuid=dict(self.by_uuid),
            by_unique_id=dict(self.by_unique_id),
            boards=dict(self.boards),
            board_units=board_units,
            board_serials=serials,
            slots={(self.units[id_].kind, place.slot): id_ for id_, place in here.items() if place.slot},
            last_in_slot={(kind, slot): id_ for (at, kind, slot), id_ in self.last_in_slot.items() if at == instance},
            interfaces={id_: self.interfaces[id_] for id_ in here if id_ in self.interfaces},
            contested=frozenset(self.contested.get(instance, ())),
            rulings=dict(self.rulings),
        )

    def list(self, instance: str, *entries: DeviceEntry) -> tuple[Match, ...]:
        """Match a list that covers all kinds, and apply it."""
        known = self.known(instance)
        matches = match(entries, known, Policy())
        listed = self.apply(instance, matches)
        self.contested.setdefault(instance, set()).intersection_update(
            listed | {unit_id for found in matches for unit_id in found.involved}
        )
        return matches

    def apply(self, instance: str, matches: Sequence[Match]) -> set[str]:
        """Write down what the matches say and return the units listed."""
        listed: dict[str, DeviceEntry] = {}
        made: dict[Key, str] = {}
        for found in matches:
            if found.outcome is Outcome.KNOWN and found.unit_id is not None:
                listed[found.unit_id] = found.entry
        for found in matches:
            if found.outcome is Outcome.NEW:
                listed[self._make(found, made)] = found.entry
        for unit_id, entry in listed.items():
            self._name(unit_id, entry)
        for unit_id, entry in listed.items():
            self._put(unit_id, entry, instance, set(listed))
        return set(listed)

    def lose(self, node: str) -> None:
        """Let a node fall silent: its placements stay open and are not live."""
        for unit in self.units.values():
            if unit.place and unit.place.node == node:
                self.units[unit.id] = replace(unit, place=replace(unit.place, is_live=False))

    def _make(self, found: Match, made: dict[Key, str]) -> str:
        entry, unit_id = found.entry, f"unit-{len(self.units) + 1}"
        board_id = found.board_id or (made.get(found.board_key) if found.board_key else None)
        board_id = board_id or f"board-{len(self.units) + 1}"
        if found.board_key:
            made[found.board_key] = board_id
        self.units[unit_id] = Unit(unit_id, board_id, entry.kind, entry.vendor, entry.model, False, None, None)
        return unit_id

    def _name(self, unit_id: str, entry: DeviceEntry) -> None:
        unit = self.units[unit_id]
        uuid, unique_id = usable_uuid(entry.uuid), usable_unique_id(entry.unique_id)
        serial = usable_serial(entry.serial)
        if uuid:
            assert self.by_uuid.setdefault((entry.kind, entry.vendor, uuid), unit_id) == unit_id
        if unique_id:
            assert self.by_unique_id.setdefault((entry.kind, entry.vendor, unique_id), unit_id) == unit_id
        if serial:
            assert self.boards.setdefault((entry.kind, entry.vendor, serial), unit.board_id) == unit.board_id
        faces = frozenset(face for face in (normalise_mac(entry.mac), normalise_gid(entry.gid)) if face)
        if faces:
            self.interfaces[unit_id] = self.interfaces.get(unit_id, frozenset()) | faces
        self.units[unit_id] = replace(
            unit,
            has_uuid=unit.has_uuid or uuid is not None,
            model=entry.model or unit.model,
            module_id=usable_module_id(entry.module_id) or unit.module_id,
        )

    def _put(self, unit_id: str, entry: DeviceEntry, instance: str, listed: set[str]) -> None:
        unit = self.units[unit_id]
        before = unit.place
        if before and before.instance_id != instance and before.is_live:
            self.contested.setdefault(before.instance_id, set()).add(unit_id)
        slot = entry.slot
        if slot is None and before and before.instance_id == instance:
            slot = before.slot
        for other in self.units.values():
            is_there = other.place and (other.kind, other.place.instance_id, other.place.slot) == (
                entry.kind,
                instance,
                slot,
            )
            if is_there and other.id not in listed and slot:
                self.units[other.id] = replace(other, place=None)
        if slot:
            self.last_in_slot[(instance, entry.kind, slot)] = unit_id
        self.units[unit_id] = replace(unit, place=Place(instance, instance, slot, is_live=True))
