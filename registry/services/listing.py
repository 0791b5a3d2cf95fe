# SPDX-License-Identifier: Apache-2.0
"""A node sent a list of its devices: who is it, what moved, what is missing, what contradicts the records?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from registry.domain.actors import Actor
from registry.domain.events import Draft, EventType
from registry.domain.identifiers import identifiers_of, usable_module_id
from registry.domain.identity import match as match_list
from registry.domain.known import Known, Match, MatchedBy, Outcome
from registry.domain.policy import Policy
from registry.domain.reports import DeviceEntry
from registry.domain.staleness import is_stale
from registry.services import passes
from registry.services.disputes import settle
from registry.services.holding import bind_identifiers
from registry.services.life import silence
from registry.services.registering import register, told_identifier
from registry.services.subjects import of_devices, told
from registry.store import devices, nodes, placements
from registry.store.database import Transaction
from registry.store.devices import ATTRIBUTES, Device
from registry.store.identities import load_known
from registry.store.placements import Placement

WEAK = frozenset({MatchedBy.SLOT, MatchedBy.RULING})
"""Ties that teach nothing: the entry's own identifiers are not the unit's, or were ruled not to be."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One list as it arrived: who sent it, in which life, and for which kinds it speaks."""

    node: nodes.Node
    instance: nodes.Instance
    entries: tuple[DeviceEntry, ...]
    covers: frozenset[str]
    partial: frozenset[str]
    waived: frozenset[str]
    actor: Actor


@dataclass(slots=True)
class Applied:
    """What a list amounted to. `units` holds the unit of each entry that has one, by the entry's index."""

    matches: tuple[Match, ...]
    units: dict[int, Device] = field(default_factory=dict)

    def listed(self, kind: str) -> list[Match]:
        """The entries of one kind."""
        return [one for one in self.matches if one.entry.kind == kind]

    def unit_ids(self, kind: str) -> frozenset[str]:
        """The units of one kind that the list showed."""
        return frozenset(self.units[one.index].id for one in self.listed(kind) if one.index in self.units)


def apply_list(tx: Transaction, listing: Listing, policy: Policy) -> Applied:
    """Bring the records in line with a list, with an event for every change."""
    known = load_known(tx, listing.entries, listing.instance.id, _liveness(tx, policy))
    applied = Applied(match_list(listing.entries, known, policy))
    _know_units(tx, listing, applied)
    _place(tx, listing, applied)
    # That a list known to be incomplete does not show something proves nothing.
    whole = listing.covers - listing.partial
    settle(tx, listing.node, listing.instance, applied.matches, whole, known, actor=listing.actor)
    _settle_losses(tx, listing, applied, known)
    return applied


def _liveness(tx: Transaction, policy: Policy) -> Any:
    """Tell of a time of last report whether a node that reported then is still there.

    All units of a node have the same time, and it is looked up once what the service slept through since.
    """

    @cache
    def is_live(reported_at: datetime) -> bool:
        return not is_stale(silence(tx, reported_at, tx.now), policy)

    return is_live


# --- who they are ---------------------------------------------------------------------------------------------------


def _know_units(tx: Transaction, listing: Listing, applied: Applied) -> None:
    """Find or make the unit of every entry that has one, and learn what the entries say of them."""
    wanted = [one.unit_id for one in applied.matches if one.outcome is Outcome.KNOWN and one.unit_id]
    on_record = devices.get_devices(tx, wanted)
    known = devices.identifiers_known(tx, on_record.values())
    new = [one for one in applied.matches if one.outcome is Outcome.NEW]
    applied.units.update(register(tx, new, node=listing.node.name, actor=listing.actor))
    for match in applied.matches:
        if match.outcome is Outcome.KNOWN and match.unit_id:
            device = on_record[match.unit_id]
            if match.matched_by not in WEAK:
                device = _learn(tx, listing, match.entry, device, known[device.id])
            elif match.matched_by is MatchedBy.RULING:
                _meet_holds(tx, match.entry, device)
            applied.units[match.index] = device


def _meet_holds(tx: Transaction, entry: DeviceEntry, device: Device) -> None:
    """A ruling teaches no identifier, and yet what the entry prints may be held: it is this unit that prints it."""
    bind_identifiers(tx, [(found, device) for found in identifiers_of(entry)])


def _learn(
    tx: Transaction, listing: Listing, entry: DeviceEntry, device: Device, known: set[tuple[str, str]]
) -> Device:
    """Add identifiers that were not known, and note attributes that changed."""
    printed_ids = identifiers_of(entry)
    if any((one.type, one.value) not in known for one in printed_ids):
        # Another entry of this list may have taught the board its serial a moment ago.
        known = devices.identifiers_known(tx, [device])[device.id]
    for found in printed_ids:
        if (found.type, found.value) in known:
            continue
        devices.insert_identifiers(tx, [(found, device)], source=listing.node.name)
        known.add((found.type, found.value))
        held_by = bind_identifiers(tx, [(found, device)]).get(device.id, [])
        device = devices.get_devices(tx, [device.id])[device.id]
        _event(
            tx,
            listing,
            EventType.IDENTIFIER_ADDED,
            device,
            entry.slot,
            {"identifier": told_identifier(found), "quarantines": held_by},
        )
    return note_attributes(tx, listing, entry, device)


def note_attributes(tx: Transaction, listing: Listing, entry: DeviceEntry, device: Device) -> Device:
    """Note what describes a unit and is another than before; the first value of anything is no news."""
    printed = {name: getattr(entry, name) for name in ATTRIBUTES}
    printed["module_id"] = usable_module_id(entry.module_id)
    changed = {name: new for name, new in printed.items() if new and new != getattr(device, name)}
    if "firmware" in changed:
        changed["firmware"] = {**device.firmware, **changed["firmware"]}
        if changed["firmware"] == device.firmware:
            del changed["firmware"]
    if not changed:
        return device
    before = {name: getattr(device, name) for name in changed}
    first_seen = all(not value for value in before.values())
    updated = devices.change_device(tx, device, **changed)
    if not first_seen:
        _event(
            tx,
            listing,
            EventType.DEVICE_CHANGED,
            device,
            entry.slot,
            {"before": _plain(before), "after": _plain(changed)},
        )
    return updated


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}


# --- where they are -------------------------------------------------------------------------------------------------


def _place(tx: Transaction, listing: Listing, applied: Applied) -> None:
    """Move, attach and detach placements as a list says, for the kinds that it covers."""
    here = {one.device_id: one for one in placements.open_here(tx, listing.instance.id)}
    elsewhere = placements.open_of(tx, [one.id for one in applied.units.values() if one.id not in here])
    slots: dict[str | None, Device | None] = {
        match.entry.slot: applied.units.get(match.index) for match in applied.matches if match.entry.slot
    }
    # What is in dispute is not gone: some entry shows it, only which one is not settled.
    disputed = {unit for match in applied.matches if match.outcome is Outcome.CONFLICT for unit in match.involved}
    listed = {one.id for one in applied.units.values()} | disputed
    for place in here.values():
        if place.device_id not in listed and place.kind in listing.covers:
            _unlist(tx, listing, place, slots)
    moves = [(match, applied.units[match.index]) for match in applied.matches if match.index in applied.units]
    opened = [
        _put(tx, listing, match.entry, device, here.get(device.id) or elsewhere.get(device.id))
        for match, device in moves
        if match.matched_by is not MatchedBy.SLOT
    ]
    placements.insert(tx, [one for one in opened if one], instance_id=listing.instance.id, node_id=listing.node.id)


def _unlist(tx: Transaction, listing: Listing, place: Placement, slots: Mapping[str | None, Device | None]) -> None:
    """A placed unit is not in the list: swapped, waived, or missing from its empty slot."""
    device = devices.get_devices(tx, [place.device_id])[place.device_id]
    taken_by = slots.get(place.slot)
    if place.slot is not None and taken_by is not None:
        placements.close(tx, place, ended_by="swapped")
        _event(
            tx,
            listing,
            EventType.DEVICE_SWAPPED,
            device,
            place.slot,
            {"by": told(taken_by, slot=place.slot)},
            also=(taken_by,),
        )
    elif place.kind in listing.partial or place.missing_since is not None:
        return
    elif place.kind in listing.waived:
        placements.close(tx, place, ended_by="waived")
        _event(tx, listing, EventType.DEVICE_DETACHED, device, place.slot, {"why": "waived"})
    else:
        placements.set_missing(tx, place, is_missing=True)
        _event(tx, listing, EventType.DEVICE_VANISHED, device, place.slot, {})


def _put(
    tx: Transaction, listing: Listing, entry: DeviceEntry, device: Device, place: Placement | None
) -> tuple[Device, str | None] | None:
    """A unit is in the list: attached, moved, returned, or where it was. Gives unit and slot if it is to be placed."""
    is_here = place is not None and place.instance_id == listing.instance.id
    slot = entry.slot or (place.slot if place and is_here else None)
    if place is not None and is_here and place.slot == slot:
        if place.missing_since is not None:
            placements.set_missing(tx, place, is_missing=False)
            _event(tx, listing, EventType.DEVICE_RETURNED, device, slot, {})
        return None
    if place is not None:
        # Another node may still list the unit without knowing that it has lost it.
        placements.close(tx, place, ended_by="moved", is_contested=not is_here)
        if not is_here:
            passes.device_left(tx, place.node, device.id, place.kind, to=listing.node.name, actor=listing.actor)
        moved = {"from_node": place.node, "from_slot": place.slot}
        _event(tx, listing, EventType.DEVICE_MOVED, device, slot, moved, more_nodes=(place.node,))
    else:
        _event(tx, listing, EventType.DEVICE_ATTACHED, device, slot, {})
    return device, slot


def close_all(tx: Transaction, node: nodes.Node, instance_id: str, *, ended_by: str, actor: Actor) -> None:
    """Close every placement of an instance whose life is over."""
    places = placements.open_here(tx, instance_id)
    units = devices.get_devices(tx, [one.device_id for one in places])
    for place in places:
        placements.close(tx, place, ended_by=ended_by)
        device = units[place.device_id]
        data = {**told(device, node=node.name, slot=place.slot), "why": ended_by}
        tx.record(Draft(EventType.DEVICE_DETACHED, actor, of_devices([device], nodes=[node.name]), data))


def _settle_losses(tx: Transaction, listing: Listing, applied: Applied, known: Known) -> None:
    """A covering list without a unit that was lost says that the node knows; so does one that has it again."""
    disputed = {unit for match in applied.matches if match.outcome is Outcome.CONFLICT for unit in match.involved}
    kinds = {one: known.units[one].kind for one in known.contested if one in known.units}
    settled = [
        one for one in known.contested if one not in disputed and kinds.get(one) in listing.covers - listing.partial
    ]
    if settled:
        placements.settle_contested(tx, listing.instance.id, settled)


def _event(
    tx: Transaction,
    listing: Listing,
    type_: EventType,
    device: Device,
    slot: str | None,
    more: Mapping[str, Any],
    *,
    also: Sequence[Device] = (),
    more_nodes: Sequence[str] = (),
) -> None:
    name = listing.node.name
    subjects = of_devices([device, *also], nodes=[name, *more_nodes])
    tx.record(Draft(type_, listing.actor, subjects, {**told(device, node=name, slot=slot), **more}))
