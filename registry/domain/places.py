# SPDX-License-Identifier: Apache-2.0
"""Who is an entry that shows nothing usable of its own? At best what stands in its place on this instance.

No serial of an EFA is visible to a guest, its GUID reads zeros on many drivers, and MAC and GID belong to the network
interface (https://github.com/amzn/amzn-drivers/issues/114): such a match is good for one instance and no longer.
"""

from __future__ import annotations

from collections.abc import Callable

from registry.domain.identifiers import is_mac
from registry.domain.known import MatchedBy, Outcome, Unit
from registry.domain.matching import Session
from registry.domain.reports import Kind
from registry.domain.sighting import Sighting, expand_interfaces


def match_places(session: Session) -> None:
    """Settle the EFAs that are still open: by interface, then by slot; else they are new.

    The first look only spares the usual list, in which nothing moved, the comparison of all with all.
    """
    _claim_places(session, _open_efas)
    for one in _open_efas(session):
        _settle_unplaced(session, one)


def match_first_serials(session: Session) -> None:
    """Give a serial that is new to the records to the EFA that was known by its place alone: it is that same card.

    Else the card would leave its own holds behind by showing more of itself.
    """
    _claim_places(session, _efas_with_first_serial)
    for one, found in session.settled(Outcome.KNOWN):
        if found.matched_by is MatchedBy.PLACE and found.unit_id is not None and one.serial is not None:
            session.join(one.serial, session.known.units[found.unit_id].board_id)


def match_slots(session: Session) -> None:
    """Row 7: the unit placed in this slot of this instance, unless a better entry of the list has it."""
    wanted = {}
    for one in session.open():
        unit = _unit_in_slot(session, one)
        if unit is not None:
            wanted[one.index] = (unit.id, MatchedBy.SLOT)
    session.claim(wanted, "it shows nothing usable, and this unit was placed in its slot")
    for one in session.open():
        session.give_up(one, "it shows nothing usable, and no unit is recorded in its slot that it could be")


def _claim_places(session: Session, asking: Callable[[Session], tuple[Sighting, ...]]) -> None:
    """Match EFAs by interface and slot, by interface, by slot: who is sure goes first."""
    for find in (_same_interface_and_slot, _same_interface, _same_slot):
        found = {one.index: find(session, one) for one in asking(session)}
        wanted = {
            index: (unit.id, MatchedBy.PLACE)
            for index, unit in found.items()
            if unit is not None and not _is_other_card(session, session.sightings[index], unit)
        }
        session.claim(wanted, "recorded in this place of this instance")


def _is_other_card(session: Session, one: Sighting, unit: Unit) -> bool:
    """A card with a serial on record is not one that shows another."""
    return one.serial is not None and bool(session.known.board_serials.get(unit.board_id))


def _efas_with_first_serial(session: Session) -> tuple[Sighting, ...]:
    return tuple(
        one
        for one in _open_efas(session)
        if one.serial is not None and session.board_of(one.serial) is None and session.stands_alone(one.serial)
    )


def _open_efas(session: Session) -> tuple[Sighting, ...]:
    return tuple(one for one in session.open() if one.entry.kind == Kind.EFA)


def _settle_unplaced(session: Session, one: Sighting) -> None:
    """Take it for a new EFA, unless it may be one that the list or the records have already."""
    others = [other for other in session.sightings if other.index != one.index]
    is_shown_twice = one.slot is None and any(one.interfaces & other.interfaces for other in others)
    is_torn = any(one.interfaces & _interfaces(session, unit) for unit in _free_neighbours(session, one))
    if one.slot is None and not one.interfaces:
        session.give_up(one, "it shows neither serial, slot, MAC nor GID")
    elif is_shown_twice or is_torn:
        session.give_up(one, "its MAC and GID do not say which of several it is")
    else:
        session.register(one, "first seen in this place of this instance")


def _same_interface_and_slot(session: Session, one: Sighting) -> Unit | None:
    unit = _efa_in_slot(session, one)
    return unit if unit is not None and one.interfaces & _interfaces(session, unit) else None


def _same_interface(session: Session, one: Sighting) -> Unit | None:
    """An interface that another slot had before has moved, and its unit with it, as far as a guest can tell."""
    same = [unit for unit in _free_neighbours(session, one) if one.interfaces & _interfaces(session, unit)]
    return same[0] if len(same) == 1 else None


def _same_slot(session: Session, one: Sighting) -> Unit | None:
    """Another MAC or GID in the slot is another card; one that is not shown, now or then, is no difference."""
    unit = _efa_in_slot(session, one)
    if unit is None or _differ(one.interfaces, _interfaces(session, unit)):
        return None
    return unit


def _unit_in_slot(session: Session, one: Sighting) -> Unit | None:
    """The one unit placed there that no better entry has. Of two, whose list showed the slot twice, it is neither."""
    if one.slot is None or one.slot not in session.known.slots:
        return None
    placed = [unit for unit in session.free_units_in(one.slot) if unit.vendor == one.entry.vendor]
    return placed[0] if len(placed) == 1 else None


def _efa_in_slot(session: Session, one: Sighting) -> Unit | None:
    """The EFA in the slot, or the last one there: its place names it for the whole instance, and so do holds on it."""
    unit = _unit_in_slot(session, one)
    last_id = session.known.last_in_slot.get(one.slot) if one.slot else None
    if unit is not None or one.slot in session.known.slots or last_id is None or not session.is_free(last_id):
        return unit
    last = session.known.units[last_id]
    return last if last.vendor == one.entry.vendor and _is_not_elsewhere(session, last) else None


def _is_not_elsewhere(session: Session, unit: Unit) -> bool:
    return unit.place is None or unit.place.instance_id == session.known.instance_id


def _free_neighbours(session: Session, one: Sighting) -> tuple[Unit, ...]:
    """Return the units of this instance with known interfaces, of this kind and vendor, that nobody has yet."""
    units = (session.known.units[unit_id] for unit_id in session.known.interfaces if session.is_free(unit_id))
    mine = (unit for unit in units if (unit.kind, unit.vendor) == (one.entry.kind, one.entry.vendor))
    return tuple(unit for unit in mine if _is_not_elsewhere(session, unit))


def _interfaces(session: Session, unit: Unit) -> frozenset[str]:
    return expand_interfaces(session.known.interfaces.get(unit.id, frozenset()))


def _differ(seen: frozenset[str], recorded: frozenset[str]) -> bool:
    """Return True when both show an address of one sort and have none in common."""
    if seen & recorded:
        return False
    both_macs = any(map(is_mac, seen)) and any(map(is_mac, recorded))
    both_gids = not all(map(is_mac, seen)) and not all(map(is_mac, recorded))
    return both_macs or both_gids
