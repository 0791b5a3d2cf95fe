# SPDX-License-Identifier: Apache-2.0
"""Whom is an event about, and how is a device told in its text?"""

from __future__ import annotations

from collections.abc import Iterable

from registry.domain.actors import Subject, SubjectKind
from registry.domain.canonical import JSON
from registry.store.database import Snapshot
from registry.store.devices import Device
from registry.store.placements import Placement, open_of


def of_devices(units: Iterable[Device], *, nodes: Iterable[str | None] = ()) -> tuple[Subject, ...]:
    """Give every unit, every board of theirs, and the nodes concerned."""
    return of_units(((one.id, one.board_id) for one in units), nodes=nodes)


def of_units(units: Iterable[tuple[str, str]], *, nodes: Iterable[str | None] = ()) -> tuple[Subject, ...]:
    """Give the same for units by their own ids and their boards'."""
    units = list(units)
    return (
        *(Subject(SubjectKind.DEVICE, one) for one, _ in units),
        *(Subject(SubjectKind.BOARD, one) for one in dict.fromkeys(board for _, board in units)),
        *(Subject(SubjectKind.NODE, name) for name in dict.fromkeys(nodes) if name),
    )


def told(device: Device, *, node: str | None = None, slot: str | None = None) -> dict[str, JSON]:
    """Tell a device as text, so that the entry can be read without any other record."""
    return {
        "device": device.id,
        "kind": device.kind,
        "vendor": device.vendor,
        "serial": device.serial,
        "uuid": device.uuid,
        "node": node,
        "slot": slot,
    }


def told_in_place(device: Device, place: Placement | None) -> dict[str, JSON]:
    """Tell a device with where it is now, if it is anywhere."""
    return told(device, node=place.node if place else None, slot=place.slot if place else None)


def nodes_of(snapshot: Snapshot, units: Iterable[Device]) -> list[str]:
    """Return the names of the nodes on which these units are placed now."""
    return sorted({one.node for one in open_of(snapshot, [unit.id for unit in units]).values()})
