# SPDX-License-Identifier: Apache-2.0
"""Who is an entry that shows a UUID, or the unique id that stands in for one? Rows 0' to 4 of the rules."""

from __future__ import annotations

from collections import Counter

from registry.domain.by_board import blank_units, carries_several, has_unique_id, is_twin, match_on_boards
from registry.domain.doubts import lives_elsewhere
from registry.domain.known import ConflictRule, Key, MatchedBy, Outcome, Unit
from registry.domain.matching import Session
from registry.domain.sighting import Sighting

_WHY = {
    ConflictRule.IDS_DISAGREE: "its UUID and its unique id belong to two units",
    ConflictRule.SERIAL_DIFFERS: "this identity is recorded on a board with another serial",
    ConflictRule.BOARD_TAKEN: "this serial is recorded for a board whose units this may or may not be",
    ConflictRule.SERIAL_ON_TWO_NODES: "this serial is on a live node already, with another UUID",
}


def dispute_repeats(session: Session) -> None:
    """Row 0': one usable UUID, or unique id, stands in several entries of the list."""
    shown = Counter(key for one in session.sightings for key in one.unit_keys)
    for one in session.open():
        if any(shown[key] > 1 for key in one.unit_keys):
            involved = (*_named_units(session, one), *session.ids_on_serial(one.serial))
            session.dispute(one, ConflictRule.UUID_REPEATED, involved, "the list shows this identity more than once")


def match_known_uuids(session: Session) -> None:
    """Rows 1 and 2: the UUID, or the unique id, is recorded."""
    wanted: dict[int, tuple[str, MatchedBy]] = {}
    for one in session.open():
        named = _named_units(session, one)
        if not named:
            continue
        unit = session.known.units[named[0]]
        rule = _ids_disagree(session, one, named) or _serial_disagrees(session, one, unit)
        if rule is not None:
            session.dispute(one, rule, (*named, *session.ids_on_serial(one.serial)), _WHY[rule])
            continue
        by_uuid = one.uuid is not None and one.uuid in session.known.by_uuid
        wanted[one.index] = (unit.id, MatchedBy.UUID if by_uuid else MatchedBy.UNIQUE_ID)
    _dispute_shared_new_serials(session, wanted)
    for loser in session.claim(wanted, "recorded under this identity", is_named=True):
        why = "two entries of the list point at one recorded unit"
        session.dispute(loser, ConflictRule.UUID_REPEATED, [wanted[loser.index][0]], why)
    _join_new_serials(session)


def match_new_uuids(session: Session) -> None:
    """Rows 3 and 4: the UUID, or the unique id, is new."""
    wanted = {}
    for one in session.open():
        only = _only_blank(session, one)
        if only is not None:
            wanted[one.index] = (only, MatchedBy.SERIAL)
    session.claim(wanted, "the only unit of this serial's board had no such identity yet")
    match_on_boards(session, blank_units)
    for one in session.open():
        if one.unit_keys:
            _settle_new_uuid(session, one)


def _named_units(session: Session, one: Sighting) -> tuple[str, ...]:
    """Return the units that the UUID and the unique id are recorded for: none, one, or two that disagree."""
    by_uuid = session.known.by_uuid.get(one.uuid) if one.uuid else None
    by_unique_id = session.known.by_unique_id.get(one.unique_id) if one.unique_id else None
    return tuple(dict.fromkeys(unit_id for unit_id in (by_uuid, by_unique_id) if unit_id is not None))


def _ids_disagree(session: Session, one: Sighting, named: tuple[str, ...]) -> ConflictRule | None:
    """Say whether UUID and unique id belong to two units: both recorded so, or one new where the unit has another."""
    unit = session.known.units[named[0]]
    is_other_uuid = one.uuid is not None and one.uuid not in session.known.by_uuid and unit.has_uuid
    is_other_unique_id = (
        one.unique_id is not None
        and one.unique_id not in session.known.by_unique_id
        and has_unique_id(session.known, unit)
    )
    return ConflictRule.IDS_DISAGREE if len(named) > 1 or is_other_uuid or is_other_unique_id else None


def _serial_disagrees(session: Session, one: Sighting, unit: Unit) -> ConflictRule | None:
    """Row 2, and row 1 where the serial would have to be taken from another board."""
    serials = session.known.board_serials.get(unit.board_id, frozenset())
    if one.serial is None or one.serial[2] in serials:
        return None
    if serials:
        return ConflictRule.SERIAL_DIFFERS
    holder = session.known.boards.get(one.serial, unit.board_id)
    return None if holder == unit.board_id else ConflictRule.BOARD_TAKEN


def _dispute_shared_new_serials(session: Session, wanted: dict[int, tuple[str, MatchedBy]]) -> None:
    """Take out units of different boards that show one serial new to all: boards are never merged."""
    boards: dict[Key, set[str]] = {}
    for index, (unit_id, _) in wanted.items():
        serial = session.sightings[index].serial
        if serial is not None and serial not in session.known.boards:
            boards.setdefault(serial, set()).add(session.known.units[unit_id].board_id)
    session.disputed_serials |= {serial for serial, found in boards.items() if len(found) > 1}
    for one in session.open():
        if one.index in wanted and one.serial in session.disputed_serials:
            rivals = sorted(
                unit_id for index, (unit_id, _) in wanted.items() if session.sightings[index].serial == one.serial
            )
            session.dispute(one, ConflictRule.BOARD_TAKEN, rivals, "units of different boards now show one serial")
    for one, _ in session.settled(Outcome.CONFLICT):
        wanted.pop(one.index, None)


def _join_new_serials(session: Session) -> None:
    """Remember which boards get a serial by this list, for entries that show the same serial."""
    for one, found in session.settled(Outcome.KNOWN):
        if found.unit_id is not None and one.serial is not None and one.serial not in session.known.boards:
            session.join(one.serial, session.known.units[found.unit_id].board_id)


def _only_blank(session: Session, one: Sighting) -> str | None:
    """Row 3, first line. A serial that stands twice in the list has no "only" unit."""
    board_id = session.known.boards.get(one.serial) if one.serial else None
    if board_id is None or one.serial is None or not one.unit_keys or not session.stands_alone(one.serial):
        return None
    blank = blank_units(session, one)
    is_only = len(session.units_on(board_id)) == len(blank) == 1
    return blank[0].id if is_only and not is_twin(one, blank[0]) else None


def _settle_new_uuid(session: Session, one: Sighting) -> None:
    """Row 3 after its first line, and row 4."""
    board_id = session.board_of(one.serial)
    if one.serial in session.disputed_serials:
        session.dispute(one, ConflictRule.BOARD_TAKEN, (), "units of different boards now show this serial")
        return
    if board_id is None:
        session.register(one, "first seen")
        return
    units = session.units_on(board_id)
    is_twice = one.serial is not None and not session.stands_alone(one.serial)
    if is_twice or carries_several(one, units) or all(unit.id in session.taken for unit in units):
        session.register(one, "first seen, on a recorded board", board_id=board_id)
        return
    is_live = any(lives_elsewhere(session.known, unit) for unit in units)
    rule = ConflictRule.SERIAL_ON_TWO_NODES if is_live else ConflictRule.BOARD_TAKEN
    session.dispute(one, rule, [unit.id for unit in units], _WHY[rule])
