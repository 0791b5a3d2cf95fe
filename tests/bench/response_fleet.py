# SPDX-License-Identifier: Apache-2.0
"""What is a simulated fleet made of, how long does what take there, and what has a way to answer to be able to do?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from registry.domain.repair import Action
from tests.bench.response_faults import DAY, HOUR, MINUTE, ZONES, Fault, Wave
from tests.bench.response_jobs import Job

SEEN_AFTER = 30.0
"""A node reports every half minute."""

SAID_AFTER = 10 * MINUTE
"""A person who has mended a check waits until the nodes have recovered, and says so then."""

SILENT_AFTER = 150.0
REQUEUE = 60.0
TEST = 15 * MINUTE
LASTS = {
    Action.KILL_JOB: MINUTE,
    Action.MOVE_JOB: MINUTE,
    Action.RESET_GPU: 5 * MINUTE,
    Action.REBOOT_NODE: 15 * MINUTE,
    Action.REPLACE_NODE: 30 * MINUTE,
    Action.RETURN_DEVICE: 30 * MINUTE,
}
"""How long each step takes. A board that is returned is replaced by its maker while the machine is at the provider."""

AT_PROVIDER, AT_MAKER = HOUR, 5 * DAY
LINK_MENDED, MAINTAINED = HOUR, 2 * HOUR
PROVEN = "dcgm.diag"

START = datetime(2026, 1, 1, tzinfo=UTC)


def moment(seconds: float) -> datetime:
    """Give simulated seconds as a time."""
    return START + timedelta(seconds=seconds)


Key = tuple[str, str | None]
"""A check, and the serial of the board that it names."""


@dataclass(slots=True, eq=False)
class Board:
    """One GPU board. `broken` is for good; `failed` and `let_in` count what was seen of that."""

    serial: str
    number: int | None
    broken: Fault | None = None
    failed: int = 0
    let_in: int = 0


@dataclass(slots=True, eq=False)
class Machine:
    """What the provider hands out."""

    boards: list[Board]
    is_broken: bool = False
    node: Node | None = None


@dataclass(slots=True, eq=False)
class Node:
    """One place in the fleet, with the machine that fills it now. `bad` are the checks that fail, with their codes."""

    index: int
    name: str
    machine: Machine
    is_up: bool = True
    working: Action | None = None
    beside_budget: bool = False
    job: Job | None = None
    bad: dict[Key, str | None] = field(default_factory=dict)
    false: dict[Key, str | None] = field(default_factory=dict)
    out_since: float | None = None

    @property
    def zone(self) -> str:
        """The zone that the place is in."""
        return f"zone-{self.index % ZONES}"

    @property
    def is_at_work(self) -> bool:
        """Whether a job runs on it."""
        return self.job is not None and self.job.is_running

    @property
    def is_ill(self) -> bool:
        """Whether anything is truly wrong."""
        is_broken = self.machine.is_broken or any(one.broken for one in self.machine.boards)
        return is_broken or bool(self.bad.keys() - self.false.keys())


@dataclass(slots=True, eq=False)
class Tally:
    """What it came to. Times are seconds."""

    interruptions: Counter[str] = field(default_factory=Counter)
    by_failed_before: int = 0
    repairs: Counter[Action] = field(default_factory=Counter)
    let_in: int = 0
    healthy: int = 0
    withheld: float = 0.0
    at_once: Counter[str] = field(default_factory=Counter)
    handed_back: int = 0
    goodput: float = 0.0


class Response(Protocol):
    """A way to answer what goes wrong."""

    name: str
    tests: bool
    """Whether the deep test is run after a reset or a boot."""

    def saw(self, node: Node, key: Key, code: str | None, /, *, is_bad: bool) -> None:
        """A check has changed on a node."""

    def lost(self, node: Node) -> None:
        """A node is silent."""

    def booted(self, node: Node) -> None:
        """A node is back, or there for the first time."""

    def interrupted(self, nodes: list[Node]) -> None:
        """A job on these nodes was interrupted half a minute ago."""

    def mended(self, wave: Wave) -> None:
        """A person has mended a check that was wrong, and says so."""

    def may_work(self, node: Node) -> bool:
        """Tell whether a node may take work."""
