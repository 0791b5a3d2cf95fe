# SPDX-License-Identifier: Apache-2.0
"""Who is an entry whose board is known by its serial? Rows 5 and 6, and which of several units on a board it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from registry.domain.boards import board_carries_several, entry_says_several
from registry.domain.identifiers import usable_module_id
from registry.domain.known import Known, MatchedBy, Unit
from registry.domain.matching import Session
from registry.domain.sighting import Sighting

_Candidates: TypeAlias = Callable[[Session, Sighting], tuple[Unit, ...]]


def match_serials(session: Session) -> None:
    """Rows 5 and 6: there is a serial and no UUID. All entries with one are settled by now."""
    wanted = {}
    for one in session.open():
        if one.serial is None or not session.stands_alone(one.serial):
            continue
        board_id = session.board_of(one.serial)
        units = session.units_on(board_id) if board_id else ()
        if not units:
            session.register(one, "first seen, by its serial", board_id=board_id)
        elif len(units) == 1 and not is_twin(one, units[0]):
            wanted[one.index] = (units[0].id, MatchedBy.SERIAL)
    session.claim(wanted, "the only unit of this serial's board")
    match_on_boards(session, free_units)
    for one in session.open():
        if one.serial is not None:
            session.give_up(one, "its board carries several units, and neither module id nor slot says which this is")


def match_on_boards(session: Session, candidates: _Candidates) -> None:
    """Tell units of one board apart: by module id, then by the slot of this instance that one was last in.

    Looks at open entries with a serial. An entry may have only what `candidates` gives for it.
    """
    for find, matched_by in ((_by_module, MatchedBy.MODULE_ID), (_by_last_slot, MatchedBy.BOARD_SLOT)):
        found = {one.index: find(session, one, candidates(session, one)) for one in session.open() if one.serial}
        wanted = {index: (unit.id, matched_by) for index, unit in found.items() if unit is not None}
        session.claim(wanted, f"the unit of this serial's board with this {_WAY[matched_by]}")


def blank_units(session: Session, one: Sighting) -> tuple[Unit, ...]:
    """Return the free units of the serial's board that lack every identity this entry shows."""
    return tuple(unit for unit in free_units(session, one) if one.unit_keys and _is_blank(session.known, unit, one))


def free_units(session: Session, one: Sighting) -> tuple[Unit, ...]:
    """Return the units of the serial's board that no entry has yet."""
    board_id = session.board_of(one.serial)
    return session.free_units_on(board_id) if board_id else ()


def carries_several(one: Sighting, units: Sequence[Unit]) -> bool:
    """Return True when the model, printed now or recorded, is known to put several units on a board."""
    return entry_says_several(one.entry) or any(board_carries_several(unit.model) for unit in units)


def is_twin(one: Sighting, unit: Unit) -> bool:
    """Return True when the module id tells the entry from its board's only recorded unit.

    Only on boards known to carry several: elsewhere it changes when the board is put into another place. The slot is
    no help: it changes with the place of any board.
    """
    return carries_several(one, (unit,)) and _is_other_module(one, unit)


def has_unique_id(known: Known, unit: Unit) -> bool:
    """Return True when a unique id is recorded for the unit."""
    return unit.id in known.by_unique_id.values()


def _is_other_module(one: Sighting, unit: Unit) -> bool:
    module_id = usable_module_id(unit.module_id)
    return None not in (module_id, one.module_id) and module_id != one.module_id


def _is_blank(known: Known, unit: Unit, one: Sighting) -> bool:
    has_such = (one.uuid is not None and unit.has_uuid) or (one.unique_id is not None and has_unique_id(known, unit))
    return not has_such


def _by_module(_: Session, one: Sighting, units: Sequence[Unit]) -> Unit | None:
    if one.module_id is None:
        return None
    same = [unit for unit in units if usable_module_id(unit.module_id) == one.module_id]
    return same[0] if len(same) == 1 else None


def _by_last_slot(session: Session, one: Sighting, units: Sequence[Unit]) -> Unit | None:
    """A module id that says otherwise outweighs the slot."""
    if one.slot is None:
        return None
    last = session.known.last_in_slot.get(one.slot) or session.known.slots.get(one.slot)
    return next((unit for unit in units if unit.id == last and not _is_other_module(one, unit)), None)


_WAY = {MatchedBy.MODULE_ID: "module id", MatchedBy.BOARD_SLOT: "slot"}
