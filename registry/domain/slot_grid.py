# SPDX-License-Identifier: Apache-2.0
"""What sits in each slot of a node: what its lists show, what they lack, and what nobody expected?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from registry.domain.decision import DeviceRef

TAIL = 6
"""Characters of a serial or UUID by which people tell the devices of one node apart."""


class CellState(StrEnum):
    """How it stands with a slot, as its cell says it."""

    IN_SERVICE = "in_service"
    """Listed, and nothing speaks against it."""
    QUARANTINED = "quarantined"
    """Its device, or the board of it, is on hold."""
    CONFLICT = "conflict"
    """What the device says contradicts the records."""
    UNIDENTIFIED = "unidentified"
    """Something is there, and nothing says what."""
    MISSING = "missing"
    """The device was here, and the newest list does not show it."""
    UNEXPECTED = "unexpected"
    """It came last, and there is one more than expected."""
    ELSEWHERE = "elsewhere"
    """The list of another node shows the device by now."""
    NEVER_SEEN = "never_seen"
    """A device is expected, and no list has shown one."""


_NOBODY = DeviceRef()


@dataclass(frozen=True, slots=True)
class Cell:
    """One slot of the grid. `since` is when the device was placed there, `note` says more than the state does."""

    kind: str
    state: CellState
    device: DeviceRef = _NOBODY
    model: str | None = None
    name: str | None = None
    since: datetime | None = None
    celsius: float | None = None
    note: str | None = None

    @property
    def slot(self) -> str | None:
        """The place on the node; None where no tool printed one."""
        return self.device.slot

    @property
    def tail(self) -> str | None:
        """The end of the serial, else of the UUID; the name where there is neither."""
        text = self.device.serial or self.device.uuid
        return text[-TAIL:] if text else self.name


@dataclass(frozen=True, slots=True)
class Grid:
    """The slots of one kind. `listed` is None when no list of the kind has come, `expected` when nobody said."""

    kind: str
    cells: tuple[Cell, ...]
    listed: int | None
    expected: int | None

    @property
    def sentence(self) -> str:
        """How many are there, of how many."""
        if self.listed is None:
            return "No list has come yet." if not self.expected else f"No list has come yet; {self.expected} expected."
        if self.expected is None:
            return f"{self.listed} listed; nobody said how many to expect."
        missing, extra = self.expected - self.listed, self.listed - self.expected
        told = f"{self.listed} of {self.expected} listed"
        return f"{told}; {missing} short." if missing > 0 else f"{told}; {extra} too many." if extra > 0 else f"{told}."


def grid_of(
    kind: str, listed: Sequence[Cell], missing: Iterable[Cell], *, count: int | None, expected: int | None
) -> Grid:
    """Lay out the slots of a kind by their addresses, those without one after them.

    `listed` are the entries of the newest list, `count` how long it was; what it lacks of `expected`, and is not on
    record as `missing`, gets cells without a slot. Which device is one too many is said only where it is certain: of
    those that are placed later than all others.
    """
    gone = list(missing)
    extra = _last_come(listed, (count or 0) - expected) if expected is not None else frozenset()
    seen = [
        replace(one, state=CellState.UNEXPECTED) if at in extra and one.state is CellState.IN_SERVICE else one
        for at, one in enumerate(listed)
    ]
    short = (expected or 0) - (count or 0) - len(gone)
    unseen = [Cell(kind, CellState.NEVER_SEEN)] * max(0, short)
    return Grid(kind, (*sorted((*seen, *gone), key=_place), *unseen), count, expected)


def _last_come(listed: Sequence[Cell], many: int) -> frozenset[int]:
    """Which entries came last, so many of them: nobody when that is not certain."""
    if many <= 0:
        return frozenset()
    if many >= len(listed):
        return frozenset(range(len(listed)))
    order = sorted(
        ((one.since, at) for at, one in enumerate(listed) if one.since is not None), key=lambda pair: pair[0]
    )
    if len(order) < len(listed) or order[-many][0] == order[-many - 1][0]:
        return frozenset()
    return frozenset(at for _, at in order[-many:])


def _place(cell: Cell) -> tuple[bool, str, str]:
    return cell.slot is None, cell.slot or "", cell.device.id or ""
