# SPDX-License-Identifier: Apache-2.0
"""What was printed, what is on record, where do the two differ, and what would each ruling do?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from registry.domain.known import ConflictRule

SAME, DIFFERENT = "same_device", "different_devices"
"""The two ways to rule on a conflict."""

IN_PLACE = frozenset({ConflictRule.UUID_REPEATED, ConflictRule.TWO_NODES})
"""Contradictions in which the print alone cannot tell: a ruling on them is for this slot of this instance only."""

OWN_BOARD = frozenset({ConflictRule.TOO_MANY_UNITS, ConflictRule.SERIAL_ON_TWO_NODES, ConflictRule.TWO_NODES})
"""Contradictions in which the serial cannot be the board's: the unit ruled different gets a board without it."""

FIELDS = ("serial", "uuid", "unique_id", "model", "module_id", "vendor", "kind", "node", "slot")
"""What is laid side by side, what identifies first."""


class Agreement(StrEnum):
    """How a printed value stands to the recorded one, in words that are shown."""

    SAME = "same"
    """Both say the same."""
    DIFFERS = "differs"
    """They say different things."""
    NOT_PRINTED = "not printed"
    """Only the records know one."""
    NOT_RECORDED = "not on record"
    """Only the list shows one."""


@dataclass(frozen=True, slots=True)
class Line:
    """One field of both sides."""

    name: str
    printed: str | None
    recorded: str | None
    agreement: Agreement


@dataclass(frozen=True, slots=True)
class Way:
    """One way to rule on a conflict: what it would do, or why it cannot be taken here."""

    word: str
    does: str
    why_not: str | None = None


def compare(printed: Mapping[str, str | None], recorded: Mapping[str, str | None]) -> tuple[Line, ...]:
    """Lay an entry beside a record, field by field; what neither knows is left out."""
    both = ((name, printed.get(name) or None, recorded.get(name) or None) for name in FIELDS)
    return tuple(Line(name, mine, theirs, _agreement(mine, theirs)) for name, mine, theirs in both if mine or theirs)


def _agreement(printed: str | None, recorded: str | None) -> Agreement:
    if printed is None:
        return Agreement.NOT_PRINTED
    if recorded is None:
        return Agreement.NOT_RECORDED
    return Agreement.SAME if printed == recorded else Agreement.DIFFERS


def ways(rule: str, *, involved: int, is_known: bool) -> tuple[Way, Way]:
    """Say what each ruling on a conflict does. `is_known`: a recorded unit bears the UUID of the entry already."""
    here = " in this slot of this instance" if rule in IN_PLACE else ""
    same = (
        f"From now on an entry printed like this{here} is taken for the recorded device. "
        "What is on record stays: nothing is overwritten, and no identifier changes hands."
    )
    different = f"From now on an entry printed like this{here} is {_unit(rule, is_known=is_known)}."
    return Way(SAME, same, _why_not_same(rule, involved)), Way(DIFFERENT, different)


def _why_not_same(rule: str, involved: int) -> str | None:
    if rule == ConflictRule.UUID_REPEATED:
        return "One list shows this UUID in two slots, and one device cannot be in both."
    if involved != 1:
        return f"The conflict involves {involved} recorded devices, so which one it is cannot be told."
    return None


def _unit(rule: str, *, is_known: bool) -> str:
    if is_known and rule in {ConflictRule.SERIAL_ON_TWO_NODES, ConflictRule.TOO_MANY_UNITS}:
        return "the recorded device that bears its UUID, and the serial tells nothing of it any more"
    if rule == ConflictRule.BOARD_TAKEN:
        return "one more device on the same board"
    if rule in OWN_BOARD:
        return "a device of its own on a board of its own, which does not bear the serial"
    return "a device of its own, with those of its identifiers that no other device bears"
