# SPDX-License-Identifier: Apache-2.0
"""What contradicts what, side by side, for the person who has to rule on it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.domain.conflict_sides import Line, Way, compare, ways
from registry.services import conflicts
from registry.services.pages import PageRequest
from registry.store import devices, placements, search
from registry.store.database import Database, Snapshot
from registry.store.devices import Device
from registry.store.placements import Placement

SIDES_MAX = 8
"""Recorded devices that are shown of one conflict: a serial that nobody knew for a placeholder may be on hundreds."""


@dataclass(frozen=True, slots=True)
class Side:
    """One recorded device, line by line beside the entry; `state` is that of the device, `node` where it is."""

    device: Device
    state: str
    node: str | None
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class ConflictCard:
    """A conflict as the API answers it, its two sides, and the two ways to resolve it. `more` sides are not shown."""

    conflict: Mapping[str, Any]
    sides: tuple[Side, ...]
    more: int
    ways: tuple[Way, Way]


@dataclass(frozen=True, slots=True)
class ConflictPage:
    """Some conflicts, and the key of the last where more follow."""

    cards: tuple[ConflictCard, ...]
    next: str | None


def list_cards(db: Database, filters: Mapping[str, str], page: PageRequest, *, now: datetime) -> ConflictPage:
    """Return conflicts side by side with the records. Raises InvalidField, NotFound, DeviceAmbiguous."""
    with db.read() as snapshot:
        found = conflicts.list_conflicts(db, filters, page)
        return ConflictPage(tuple(_card(snapshot, one, now) for one in found.items), found.next)


def get_card(db: Database, conflict_id: str, *, now: datetime) -> ConflictCard:
    """Return one conflict side by side with the records. Raises NotFound."""
    with db.read() as snapshot:
        return _card(snapshot, conflicts.show_conflict(db, conflict_id), now)


def _card(snapshot: Snapshot, conflict: Mapping[str, Any], now: datetime) -> ConflictCard:
    ids = [one["id"] for one in conflict["devices"]]
    units = devices.get_devices(snapshot, ids[:SIDES_MAX])
    states = search.states_of(snapshot, list(units), now)
    here = placements.open_of(snapshot, units)
    entry = conflict["entry"]
    printed = {**entry, "unique_id": entry["as_seen"]["unique_id"], "node": conflict["node"]}
    sides = tuple(
        _side(snapshot, printed, unit, states.get(id_, "detached"), here.get(id_))
        for id_, unit in sorted(units.items())
    )
    is_known = bool(entry["uuid"]) and any(one["uuid"] == entry["uuid"] for one in conflict["devices"])
    return ConflictCard(
        conflict, sides, len(ids) - len(sides), ways(conflict["rule"], involved=len(ids), is_known=is_known)
    )


def _side(
    snapshot: Snapshot, printed: Mapping[str, str | None], unit: Device, state: str, place: Placement | None
) -> Side:
    known = {one["type"]: one["value"] for one in devices.list_identifiers(snapshot, unit) if one["usable"]}
    recorded = {
        "serial": unit.serial,
        "uuid": unit.uuid,
        "unique_id": known.get("unique_id"),
        "model": unit.model,
        "module_id": unit.module_id,
        "vendor": unit.vendor,
        "kind": unit.kind,
        "node": place.node if place else None,
        "slot": place.slot if place else None,
    }
    return Side(unit, state, place.node if place else None, compare(printed, recorded))
