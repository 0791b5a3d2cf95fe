# SPDX-License-Identifier: Apache-2.0
"""Who is it? What makes hardware "the same": the entries of one list against what the records know.

A unit is told by its UUID, a board by its serial, and a slot is only a place. `match` reads like the table of the
rules: each row, or group of rows, is one small function, the first that fits wins, and each sees the whole list, so
that the order of entries means nothing. Whatever could be two things is nobody (UNIDENTIFIED) or a CONFLICT, never a
guess: a wrong match would carry a clean history over to a bad board.
"""

from __future__ import annotations

from collections.abc import Sequence

from registry.domain.boards import MULTI_UNIT_MODELS, board_carries_several
from registry.domain.by_board import match_serials
from registry.domain.by_uuid import dispute_repeats, match_known_uuids, match_new_uuids
from registry.domain.doubts import doubt_boards, doubt_two_nodes
from registry.domain.errors import FieldError, SlotRepeated
from registry.domain.identifiers import normalise_slot, usable_uuid
from registry.domain.known import (
    ConflictRule,
    Fingerprint,
    Key,
    Known,
    Match,
    MatchedBy,
    Outcome,
    Place,
    Unit,
    conflict_key,
)
from registry.domain.matching import Session, ruled_unit
from registry.domain.places import match_first_serials, match_places, match_slots
from registry.domain.policy import Policy
from registry.domain.reports import DeviceEntry
from registry.domain.sighting import see

__all__ = (
    "MULTI_UNIT_MODELS",
    "ConflictRule",
    "Fingerprint",
    "Key",
    "Known",
    "Match",
    "MatchedBy",
    "Outcome",
    "Place",
    "Unit",
    "board_carries_several",
    "check_slots",
    "conflict_key",
    "match",
    "normalise_slot",
)


def check_slots(entries: Sequence[DeviceEntry]) -> None:
    """Refuse a list that shows one slot twice, unless each entry there has a UUID of its own (row 0).

    Raises SlotRepeated with a pointer to every entry concerned, as positions in this sequence.
    """
    by_slot: dict[tuple[str, str], list[int]] = {}
    for index, entry in enumerate(entries):
        if entry.slot is not None:
            by_slot.setdefault((entry.kind, entry.slot), []).append(index)
    repeated = [indexes for indexes in by_slot.values() if not _are_told_apart([entries[at] for at in indexes])]
    if not repeated:
        return
    errors = tuple(
        FieldError(f"/devices/{at}/slot", f"{entries[at].slot} is listed more than once without different UUIDs")
        for indexes in repeated
        for at in indexes
    )
    raise SlotRepeated("A slot stands twice in the list, and nothing tells the entries apart.", errors=errors)


def match(entries: Sequence[DeviceEntry], known: Known, policy: Policy) -> tuple[Match, ...]:
    """Say for each entry of one list who it is: one match per entry, in the same order.

    No two entries end at one unit, the order of entries changes nothing, and nothing is decided by a name or an index.
    """
    session = Session(see(entries, known.instance_id), known)
    _follow_rulings(session)
    dispute_repeats(session)
    match_known_uuids(session)
    match_new_uuids(session)
    match_first_serials(session)
    match_serials(session)
    match_places(session)
    match_slots(session)
    doubt_two_nodes(session)
    doubt_boards(session, policy.board_units_max)
    return session.result()


def _are_told_apart(entries: Sequence[DeviceEntry]) -> bool:
    if len(entries) == 1:
        return True
    uuids = {usable_uuid(entry.uuid) for entry in entries}
    return None not in uuids and len(uuids) == len(entries)


def _follow_rulings(session: Session) -> None:
    """Let what an operator said stand before every row."""
    ruled = {one.index: ruled_unit(session.known, one.fingerprint) for one in session.open()}
    wanted = {index: (unit_id, MatchedBy.RULING) for index, unit_id in ruled.items() if unit_id is not None}
    for loser in session.claim(wanted, "an operator ruled that this is the recorded unit", is_named=True):
        why = "operators ruled several entries of this list to be one unit"
        session.dispute(loser, ConflictRule.UUID_REPEATED, [wanted[loser.index][0]], why)
