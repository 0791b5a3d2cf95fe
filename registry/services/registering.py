# SPDX-License-Identifier: Apache-2.0
"""A list shows units that nobody knows: which records are made of them, and which holds were waiting for them?

They are made together: when a fleet boots for the first time, forty at once come from each node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from registry.domain.actors import Actor, Subject, SubjectKind
from registry.domain.events import Draft, EventType
from registry.domain.identifiers import Identifier, identifiers_of, usable_module_id
from registry.domain.known import Match
from registry.domain.reports import DeviceEntry
from registry.services.holding import bind_identifiers
from registry.services.subjects import of_devices, told
from registry.store import devices
from registry.store.database import Transaction
from registry.store.devices import Device

Taught = list[tuple[Identifier, Device]]
"""Identifiers, each with the unit whose entry printed it."""


def register(tx: Transaction, matches: Sequence[Match], *, node: str, actor: Actor) -> dict[int, Device]:
    """Make the units of entries that nobody knows, by the entries' indexes, with an event for each."""
    if not matches:
        return {}
    boards = _boards(tx, matches)
    units = [(boards[one.index], one.entry, usable_module_id(one.entry.module_id)) for one in matches]
    made = devices.insert_devices(tx, units)
    printed = [identifiers_of(one.entry) for one in matches]
    taught = _new_to(tx, [(device, ids) for device, ids in zip(made, printed, strict=True)])
    devices.insert_identifiers(tx, taught, source=node)
    held = bind_identifiers(tx, taught)
    named = devices.get_devices(tx, [one.id for one in made])
    for match, device, ids in zip(matches, made, printed, strict=True):
        _record(tx, match.entry, named[device.id], ids, held.get(device.id, []), node=node, actor=actor)
    return {match.index: named[device.id] for match, device in zip(matches, made, strict=True)}


def told_identifier(found: Identifier) -> dict[str, Any]:
    """Tell an identifier in the text of an event."""
    return {"type": found.type, "value": found.value, "scope": found.scope, "usable": found.is_usable}


def _boards(tx: Transaction, matches: Sequence[Match]) -> dict[int, str]:
    """The board of each entry: the one on record, else a new one, which entries of one list may share."""
    fresh = {one.board_key or one.index: one.entry for one in matches if one.board_id is None}
    made = devices.insert_boards(tx, [(entry.kind, entry.vendor) for entry in fresh.values()])
    by_key: Mapping[Any, str] = dict(zip(fresh, made, strict=True))
    return {one.index: one.board_id or by_key[one.board_key or one.index] for one in matches}


def _new_to(tx: Transaction, units: Sequence[tuple[Device, Sequence[Identifier]]]) -> Taught:
    """What the entries printed and neither the units nor their boards, which may be old, have on record."""
    known = devices.identifiers_known(tx, [device for device, _ in units])
    of_boards: dict[str, set[tuple[str, str]]] = defaultdict(set)
    taught = []
    for device, printed in units:
        for found in printed:
            key = (found.type, found.value)
            names_board = found.is_usable and found.type.names == "board"
            seen = of_boards[device.board_id] if names_board else known[device.id]
            if key not in seen and key not in known[device.id]:
                taught.append((found, device))
                seen.add(key)
    return taught


def _record(
    tx: Transaction,
    entry: DeviceEntry,
    device: Device,
    printed: Sequence[Identifier],
    held_by: Sequence[str],
    *,
    node: str,
    actor: Actor,
) -> None:
    quarantines = list(dict.fromkeys(held_by))
    subjects = (*of_devices([device], nodes=[node]), *(Subject(SubjectKind.QUARANTINE, one) for one in quarantines))
    data = {
        **told(device, node=node, slot=entry.slot),
        "board": device.board_id,
        "model": device.model,
        "part_number": device.part_number,
        "firmware": dict(device.firmware),
        "identifiers": [told_identifier(one) for one in printed],
        "quarantines": quarantines,
    }
    tx.record(Draft(EventType.DEVICE_REGISTERED, actor, subjects, data))
