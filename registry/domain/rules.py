# SPDX-License-Identifier: Apache-2.0
"""When do several faults together ask for a hold that none of them asks for alone?

A rule counts the sights of faults in a window: of one device over whichever nodes, or of one node over whichever
devices. It is asked in the transaction that stores a new sight, and by nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from registry.domain.failures import Effect

DAY_SECONDS = 86_400


class Over(StrEnum):
    """Whose sights are counted together, and what the hold is laid on."""

    DEVICE = "device"
    """One board with its units, on whichever nodes it was seen."""
    NODE = "node"
    """One node, whichever of its devices were seen."""


class Distinct(StrEnum):
    """What counts as one."""

    SIGHTS = "sights"
    """Every sight."""
    DEVICES = "devices"
    """Every board: two GPUs that share one are one thing that can be bad."""
    NODES = "nodes"
    """Every node."""
    SPELLS = "spells"
    """All sights between two releases of the device: what comes back after a release was not cured by it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """So many sights of such faults within a time open a hold, whose owner is the rule.

    A fault concerns the rule by its code, by its kind, or by an effect of at least `effect`. `release_policy` is what
    ends the hold (`manual` or `after_passes`), `scope` how far it reaches (`board` or `unit`; None is the usual one).
    `why` is told to people.
    """

    name: str
    count: int
    within_seconds: int
    codes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    effect: Effect | None = None
    over: Over = Over.DEVICE
    distinct: Distinct = Distinct.SIGHTS
    release_policy: str = "manual"
    scope: str | None = None
    why: str = ""

    def concerns(self, code: str, kind: str | None, effect: Effect) -> bool:
        """Tell whether a fault of this code, kind and effect is one of those that the rule counts."""
        if code in self.codes or (kind is not None and kind in self.kinds):
            return True
        return self.effect is not None and effect.rank >= self.effect.rank

    def told(self) -> str:
        """Say to a person what the rule found."""
        return self.why or f"{self.count} or more {self.distinct} within {duration(self.within_seconds)}"

    def to_json(self) -> dict[str, Any]:
        """Return the rule as the policy shows it; what says nothing is left out."""
        shown = {
            "name": self.name,
            "codes": list(self.codes),
            "kinds": list(self.kinds),
            "effect": self.effect and str(self.effect),
            "count": self.count,
            "within_seconds": self.within_seconds,
            "over": str(self.over),
            "distinct": str(self.distinct),
            "release_policy": self.release_policy,
            "scope": self.scope,
            "why": self.why,
        }
        return {name: value for name, value in shown.items() if value}


@dataclass(frozen=True, slots=True)
class Sight:
    """One time, or one burst, that a fault was seen: `count` times from `first_at` to `at`."""

    board_id: str | None
    node_id: str | None
    first_at: datetime
    at: datetime
    count: int = 1


_UNITS = ((DAY_SECONDS, "d"), (3600, "h"), (60, "m"), (1, "s"))
"""Lengths of time by the letter they are written with, the longest first."""


def duration(seconds: int) -> str:
    """Write a length of time with the largest unit that leaves no rest: `10m`, `28d`."""
    length, letter = next(one for one in _UNITS if seconds % one[0] == 0)
    return f"{seconds // length}{letter}"


def fires(rule: Rule, sights: Sequence[Sight], newest: Sight, *, releases: Iterable[datetime] = ()) -> bool:
    """Tell whether a new sight completes what the rule counts.

    `sights` are those that concern the rule, the new one included, in any order. Evidence may come late, so every
    window that holds the new sight is looked at. `releases` are the times at which holds of rules on the device ended.
    """
    length = timedelta(seconds=rule.within_seconds)
    parted = sorted(releases)
    begin, end = newest.at - length, newest.at + length
    if _tally(rule, sights, begin, end, parted) < rule.count:
        return False  # too little in all the windows together, as nearly always
    ends = {one.at for one in sights if newest.at <= one.at < newest.at + length}
    return any(_tally(rule, sights, end - length, end, parted) >= rule.count for end in ends | {newest.at})


def _tally(rule: Rule, sights: Iterable[Sight], after: datetime, until: datetime, releases: list[datetime]) -> int:
    """Count what was seen later than `after` and not later than `until`."""
    inside = [one for one in sights if after < one.at <= until]
    if rule.distinct is Distinct.SIGHTS:
        # Of a burst that began before the window only its last time is known to be inside.
        return sum(one.count if one.first_at > after else 1 for one in inside)
    if rule.distinct is Distinct.DEVICES:
        return len({one.board_id for one in inside if one.board_id})
    if rule.distinct is Distinct.NODES:
        return len({one.node_id for one in inside if one.node_id})
    return len({bisect_left(releases, one.at) for one in inside})


LEMON_DAYS = 28
"""How far back a device's record speaks against it: the window over which Meta looks for lemon nodes.
https://arxiv.org/abs/2410.21680"""

DEFAULT_RULES: tuple[Rule, ...] = (
    # Clean runs after a restart freed the device once, and it has failed again since: they did not tell cured from
    # sick. No count of faults stands here beside it: published thresholds come from each fleet's own distribution.
    Rule(
        "repeat_offender",
        count=2,
        within_seconds=LEMON_DAYS * DAY_SECONDS,
        effect=Effect.QUARANTINE,
        distinct=Distinct.SPELLS,
        why="it was released and has failed again since, within 28 days",
    ),
    # What fails in one machine may be the machine. What fails in two goes with the device.
    Rule(
        "follows_the_device",
        count=2,
        within_seconds=LEMON_DAYS * DAY_SECONDS,
        effect=Effect.HOLD,
        distinct=Distinct.NODES,
        why="it failed on more than one node within 28 days",
    ),
    # Boards do not break four at a time: power, a switch, the driver or the machine itself does. Holds on the devices
    # themselves are opened as ever, so that what is broken for good stays held when the machine is cleared.
    Rule(
        "fails_together",
        count=4,
        within_seconds=600,
        effect=Effect.HOLD,
        over=Over.NODE,
        distinct=Distinct.DEVICES,
        why="four or more of its devices failed within ten minutes: look for what they share",
    ),
)
"""The rules of a policy that names none. Xid 13, 31, 43, 45 and 94 are in none of them: a fleet that wants them
counted writes a rule of its own."""
