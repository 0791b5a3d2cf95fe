# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in a month, whatever is done about it? The same for every way to answer, by one seed.

Published is how often: the interruptions of Llama 3 by cause, here one for one per GPU and day. Not published is what a
node shows of them and how many boards are broken for good: SHOWN says what is assumed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from registry.domain.failures import Cause
from registry.domain.reliability import LLAMA_3, Interruptions

DAY, HOUR, MINUTE = 86_400.0, 3_600.0, 60.0
LLAMA_DAYS, LLAMA_GPUS = 54, 16_384
"""What the counts of the table are of: https://arxiv.org/abs/2407.21783, section 3.3.4."""

GPUS = 8
ZONES = 4
LEMON_SHARE, LEMON_TIMES = 0.001, 30
"""One board in a thousand fails thirty times as often as the rest."""

POOL_SHARE = 0.05
"""Machines that the provider has beside those of the fleet, and hands out again."""


class Struck(StrEnum):
    """What a fault is in, and so what it follows."""

    BOARD = "board"
    MACHINE = "machine"
    LINK = "link"
    """What joins the node to the others; it is mended by somebody else, within the hour."""
    NODE = "node"
    """The platform takes it down for a while."""
    JOB = "job"
    """The program: no node shows anything."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What is seen of a fault: a code and a failing check. `share` of the component's faults show this, and `broken`
    of those are for good. Both are percents.
    """

    check: str
    code: str | None
    share: int = 100
    broken: int = 0


SHOWN: Mapping[str, tuple[Shown, ...]] = {
    "faulty GPU": (Shown("gpu.xid", "xid_79", 40, 50), Shown("gpu.xid", "xid_62", 60, 10)),
    "GPU HBM3 memory": (
        Shown("gpu.row_remap", "xid_64", 20, 100),
        Shown("gpu.row_remap", "xid_63", 40, 5),
        Shown("gpu.ecc", "xid_95", 40, 10),
    ),
    "GPU SRAM memory": (Shown("gpu.ecc", "xid_48", 100, 20),),
    "GPU system processor": (Shown("gpu.xid", "xid_119", 100, 5),),
    "silent data corruption": (Shown("gpu.sdc", "gpu.sdc_suspected", 100, 100),),
    "GPU thermal interface and sensor": (Shown("gpu.thermal", "gpu.thermal.limit", 100, 50),),
    "NIC": (Shown("efa.link", None, 100, 50),),
    "network switch or cable": (Shown("efa.link", None),),
}
_OF_HOST = (Shown("condition.kernel_ready", None, 100, 50),)
"""What is not named in SHOWN and lies in the host: half of it goes away with a boot."""

_STRUCK = {
    "gpu": (Struck.BOARD, Cause.HARDWARE),
    "host": (Struck.MACHINE, Cause.HARDWARE),
    "network": (Struck.LINK, Cause.PLATFORM),
    "maintenance": (Struck.NODE, Cause.PLATFORM),
    "dependency": (Struck.JOB, Cause.USER),
    "unknown": (Struck.JOB, Cause.UNKNOWN),
}


@dataclass(frozen=True, slots=True)
class Setup:
    """How large the fleet is, for how long, and by which seed. `intensity` multiplies the rate of all faults.

    `found` is the chance, in percent, that the deep test finds a board that is broken for good. `again_hours` is the
    mean time at work after which such a board fails again.
    """

    nodes: int = 2_000
    days: int = 30
    seed: int = 1
    intensity: float = 1.0
    found: int = 100
    again_hours: float = 72.0

    @property
    def machines(self) -> int:
        """Those of the fleet, and those that the provider has beside."""
        return self.nodes + max(2, round(self.nodes * POOL_SHARE))

    @property
    def end(self) -> float:
        """When the simulated time is over, in seconds from its beginning."""
        return self.days * DAY


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault at a time. `target` numbers boards, machines or places of nodes, by what is struck."""

    at: float
    struck: Struck
    target: int
    cause: Cause
    shown: Shown | None = None
    is_broken: bool = False


@dataclass(frozen=True, slots=True)
class Wave:
    """A check that goes wrong: from its time on it fails on these nodes, one after the other, until it is mended."""

    at: float
    until: float
    check: str
    code: str | None
    nodes: tuple[int, ...]
    spread: float


@dataclass(frozen=True, slots=True)
class Plan:
    """All that will go wrong. `dark` is the outage: which zone, from when, until when."""

    setup: Setup
    lemons: frozenset[int]
    faults: tuple[Fault, ...]
    waves: tuple[Wave, ...]
    dark: tuple[int, float, float]


def plan_of(setup: Setup) -> Plan:
    """Draw what goes wrong. Equal setups give equal plans."""
    boards = setup.machines * GPUS
    draw = random.Random(f"{setup.seed}:lemons")
    lemons = frozenset(draw.sample(range(boards), max(1, round(boards * LEMON_SHARE))))
    faults = [fault for line in LLAMA_3 for fault in _faults_of(line, setup, sorted(lemons))]
    faults.sort(key=lambda one: (one.at, one.struck, one.target))
    third = setup.end / 3
    dark = (1, 2 * third, 2 * third + 45 * MINUTE)
    return Plan(setup, lemons, tuple(faults), tuple(_waves(setup, third)), dark)


def _faults_of(line: Interruptions, setup: Setup, lemons: list[int]) -> Iterator[Fault]:
    struck, cause = _STRUCK[line.category]
    draw = random.Random(f"{setup.seed}:{line.component}")
    number = {Struck.BOARD: setup.machines * GPUS, Struck.MACHINE: setup.machines}.get(struck, setup.nodes)
    a_day = line.count / LLAMA_DAYS / (LLAMA_GPUS if struck is Struck.BOARD else LLAMA_GPUS / GPUS)
    extra = len(lemons) * (LEMON_TIMES - 1) if struck is Struck.BOARD else 0
    rate = a_day * setup.intensity * (number + extra) / DAY
    at = draw.expovariate(rate)
    while at < setup.end:
        is_lemon = draw.random() < extra / (number + extra)
        target = draw.choice(lemons) if is_lemon else draw.randrange(number)
        shown = _shown(line, struck, draw)
        # A lemon is not broken: it works on after a reset, and fails again too soon.
        is_broken = shown is not None and draw.random() * 100 < shown.broken and not is_lemon
        yield Fault(at, struck, target, cause, shown, is_broken)
        at += draw.expovariate(rate)


def _shown(line: Interruptions, struck: Struck, draw: random.Random) -> Shown | None:
    if struck in {Struck.JOB, Struck.NODE}:
        return None
    ways = SHOWN.get(line.component, _OF_HOST)
    return draw.choices(ways, [one.share for one in ways])[0]


def _waves(setup: Setup, third: float) -> Iterator[Wave]:
    """The check goes wrong all at once, with a code that alone opens holds; the other time it creeps, without one."""
    draw = random.Random(f"{setup.seed}:waves")
    many = max(2, setup.nodes * 15 // 100)
    first, second = draw.sample(range(setup.nodes), many), draw.sample(range(setup.nodes), many)
    yield Wave(third / 2, third / 2 + 3 * HOUR, "gpu.xid", "xid_95", tuple(first), 5 * MINUTE)
    yield Wave(1.5 * third, 1.5 * third + 6 * HOUR, "gpu.nvlink", None, tuple(second), 2 * HOUR)
