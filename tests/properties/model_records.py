# SPDX-License-Identifier: Apache-2.0
"""What does the plain model of the service remember? Dicts, sets and lists, written from the words of the rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from registry.domain.reports import CheckStatus, DeviceEntry

UNUSABLE = {None, "[N/A]", "ERR!"}
"""The placeholders that the machine prints for what a tool could not read."""

SEVERAL = "NVIDIA GB200"
"""The model of the boards that carry two GPUs."""

Bind = tuple[str, object]

WORST = [CheckStatus(one) for one in ("fail", "unknown", "skipped", "warn", "pass", "not_applicable")]
BAD = set(WORST[:3])


def worst(statuses: list[CheckStatus]) -> CheckStatus:
    """Of several results for one check the leftmost counts."""
    return min(statuses, key=WORST.index)


def usable(text: str | None) -> str | None:
    """The text, unless it is a placeholder."""
    return None if text in UNUSABLE else text


@dataclass(eq=False)
class Board:
    """What carries units and bears the serial."""

    kind: str
    serial: str | None = None


@dataclass(eq=False)
class Unit:
    """One GPU or EFA adapter. `stay` is where it is now."""

    board: Board
    kind: str
    uuid: str | None = None
    mac: str | None = None
    model: str | None = None
    module: str | None = None
    stay: Stay | None = None


@dataclass(eq=False)
class Stay:
    """A unit in a slot of one life of a node."""

    unit: Unit
    node: str
    life: str
    slot: str
    since: datetime
    until: datetime | None = None
    missing: bool = False


@dataclass(eq=False)
class Hold:
    """An open hold. `binds` is everything it meets; it only grows."""

    id: str
    owner: str
    key: object
    binds: set[Bind]
    ends: str
    is_place: bool
    fault_at: datetime
    fault_boot: tuple[datetime, str] | None = None
    """When the boot that showed the fault was first seen, and its name."""
    permanent: bool = False
    expires_at: datetime | None = None
    drain: bool = False
    restart_at: datetime | None = None
    clean_runs: int = 0
    of_node: str | None = None


@dataclass(eq=False)
class Conflict:
    """A contradiction that waits for a list or a person."""

    maker: str
    life: str
    kind: str
    key: object
    is_contest: bool
    nodes: set[str]
    units: list[Unit]


@dataclass(eq=False)
class Fault:
    """A fault in a slot in which nothing is known to be. `is_early`: it waits for the first list of its boot."""

    id: str
    code: str
    node: str
    life: str
    slot: str
    at: datetime
    boot: str
    is_early: bool
    occurred: datetime | None = None
    is_muted: bool = False
    is_blocking: bool = True


@dataclass
class Round:
    """The parts of one run so far."""

    first: datetime
    results: dict[str, CheckStatus] = field(default_factory=dict)
    listed: dict[str, set[Unit]] = field(default_factory=dict)


@dataclass
class Line:
    """What one entry of a list turned out to be: `known`, `new`, `unidentified` or `conflict`."""

    entry: DeviceEntry
    outcome: str = ""
    unit: Unit | None = None
    board: Board | None = None
    by_slot: bool = False
    rule: str = ""
    involved: list[Unit] = field(default_factory=list)


class Maintenance:
    """When a node was in maintenance: what was seen of it then has no effect."""

    def __init__(self) -> None:
        self._windows: list[tuple[datetime, datetime]] = []

    def set(self, until: datetime, now: datetime) -> None:
        """Begin, change or end it."""
        is_open = bool(self._windows) and self._windows[-1][1] > now
        since = self._windows.pop()[0] if is_open else now
        if is_open or until > now:
            self._windows.append((since, max(until, now)))

    def holds(self, at: datetime) -> bool:
        """Does a time fall into it?"""
        return any(since <= at < until for since, until in self._windows)


@dataclass
class Node:
    """One node with its current life and boot."""

    name: str
    life: str
    boot: str
    boot_at: datetime
    profile: str
    reported_at: datetime
    lives: set[str] = field(default_factory=set)
    boots: set[tuple[str, str]] = field(default_factory=set)
    retired: bool = False
    maintenance_until: datetime | None = None
    maintenance: Maintenance = field(default_factory=Maintenance)
    waivers: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    lost: set[Unit] = field(default_factory=set)
    have: int = 0
    counted: set[str] = field(default_factory=set)
    counted_start: datetime | None = None
    counted_end: datetime | None = None
    fault_at: datetime | None = None
    release_at: datetime | None = None
    seq: int | None = None
    first_list_at: dict[str, datetime] = field(default_factory=dict)
    clean_in_boot: set[str] = field(default_factory=set)
    checks: dict[str, tuple[CheckStatus, str]] = field(default_factory=dict)
    rounds: dict[str, Round] = field(default_factory=dict)
    listed: dict[str, list[Line]] = field(default_factory=dict)

    def begin_boot(self, boot: str, at: datetime) -> None:
        """Nothing of the boot before counts."""
        self.boot, self.boot_at = boot, at
        self.have, self.seq, self.counted_start, self.counted_end, self.fault_at = 0, None, None, None, None
        self.clean_in_boot, self.checks, self.rounds, self.listed = set(), {}, {}, {}
        self.first_list_at = {}


def strictness(hold: Hold) -> tuple[int, float]:
    """A date ends a hold sooner than passes, and passes sooner than a person."""
    ends = hold.expires_at.timestamp() if hold.expires_at else float("inf")
    return ["at_expiry", "after_passes", "manual"].index(hold.ends), ends


def asks_for_more(wanted: Hold, held: Hold) -> bool:
    """The same again is `already_open`; what keeps the target out longer or more firmly takes the old one's place."""
    is_firmer = (wanted.permanent and not held.permanent) or (wanted.drain and not held.drain)
    return is_firmer or strictness(wanted) > strictness(held)
