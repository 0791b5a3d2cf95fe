# SPDX-License-Identifier: Apache-2.0
"""Which matches cannot stand, because the same thing is seen on another live node or in too many places?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from registry.domain.known import ConflictRule, Key, Known, Match, MatchedBy, Outcome, Unit
from registry.domain.matching import Session
from registry.domain.reports import Kind
from registry.domain.sighting import Sighting

_Group: TypeAlias = list[tuple[Sighting, Match]]


def lives_elsewhere(known: Known, unit: Unit) -> bool:
    """Return True when the unit's open placement is on a live node other than the one that sent the list."""
    place = unit.place
    return place is not None and place.is_live and place.instance_id != known.instance_id


def doubt_two_nodes(session: Session) -> None:
    """Dispute a unit that this node lost to a live one and lists again, before it ever sent a list without it.

    A ruling on who the entry is does not settle this: while both nodes list the unit, one of them is wrong.
    """
    for one, found in session.settled(Outcome.KNOWN):
        unit = session.known.units.get(found.unit_id or "")
        if unit is None or unit.place is None or unit.id not in session.known.contested:
            continue
        if lives_elsewhere(session.known, unit):
            why = f"node {unit.place.node} lists the same unit"
            session.dispute(one, ConflictRule.TWO_NODES, [unit.id], why)


def doubt_boards(session: Session, units_max: int) -> None:
    """Dispute entries whose serial would be on more than `units_max` units, or is on another live node too.

    What an operator ruled is left out: it was looked at.
    """
    for board, group in _by_board(session).items():
        units = session.units_on(board) if isinstance(board, str) else ()
        fresh = sum(found.outcome is Outcome.NEW for _, found in group)
        if len(units) + fresh > units_max:
            why = f"its serial would be on {len(units) + fresh} units, more than any board carries"
            _dispute_all(session, group, ConflictRule.TOO_MANY_UNITS, units, why)
            continue
        strangers = [unit for unit in units if session.is_free(unit.id) and lives_elsewhere(session.known, unit)]
        if strangers and group[0][0].entry.kind == Kind.GPU:
            nodes = ", ".join(sorted({unit.place.node for unit in strangers if unit.place}))
            why = f"another unit of its board is on live node {nodes}"
            _dispute_all(session, group, ConflictRule.SERIAL_ON_TWO_NODES, strangers, why)


def _by_board(session: Session) -> dict[str | Key, _Group]:
    """Group what is known or new by recorded board, or by the serial whose board is to be made."""
    groups: dict[str | Key, _Group] = {}
    for one, found in session.settled(Outcome.KNOWN, Outcome.NEW):
        unit = session.known.units.get(found.unit_id or "")
        board = unit.board_id if unit else found.board_id or found.board_key
        if board is not None and found.matched_by is not MatchedBy.RULING:
            groups.setdefault(board, []).append((one, found))
    return groups


def _dispute_all(session: Session, group: _Group, rule: ConflictRule, units: Sequence[Unit], why: str) -> None:
    for one, found in group:
        mine = (found.unit_id,) if found.unit_id else ()
        session.dispute(one, rule, (*mine, *(unit.id for unit in units)), why)
