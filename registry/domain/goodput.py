# SPDX-License-Identifier: Apache-2.0
"""How was the time spent that a job held its nodes, and how much of it was progress that survived?

    goodput = productive time / allocated time
    ETTR    = productive time / (allocated time + time in the queue between two allocations)

ETTR, the effective training time ratio, is meant as in Kokolis et al., section III (https://arxiv.org/abs/2410.21680):
productive over the wall-clock time in which the job ran or could have run; ByteRobust
(https://arxiv.org/abs/2509.16293) divides by all wall-clock time, which is the same unless the job was over in between.
The kinds of badput are close to those of https://github.com/google/ml-goodput-measurement.

Everything is counted in whole microseconds, so that the kinds add up to the allocated time exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from registry.domain.failures import Cause

BUCKET = 300_000_000
"""Microseconds of the shortest stretch that time is told apart by: the shortest window of an objective."""


class TimeKind(StrEnum):
    """What a stretch of a job's time was spent on."""

    PRODUCTIVE = "productive"
    """Progress that survived, or has not been lost so far."""
    START_UP = "start_up"
    """From having the nodes to the first progress: starting, loading, restoring."""
    WAITING = "waiting_for_nodes"
    """Interrupted, or paused for want of a node, while the other nodes stood idle."""
    CHECKPOINTING = "checkpointing"
    """Work stood still while progress was saved."""
    LOST = "lost_progress"
    """Progress that was lost, and the doing again of what had been durable before."""
    SLOW = "slow_progress"
    """What a stretch took longer than by the job's own pace, while a node held it back."""
    PAUSED = "paused"
    """Another pause."""
    QUEUED = "queued"
    """The devices were given back: no allocated time, but wall-clock time."""


class Slot(NamedTuple):
    """What a stretch of time is told apart by. `size` is the job's size class, `cause` None for what is not bad."""

    bucket: int
    size: int
    kind: TimeKind
    cause: Cause | None


class Amount(NamedTuple):
    """How much of it: microseconds, those times nodes, those times devices, and how many stretches began there.

    Only interruptions (of kind `LOST`) and checkpoints are counted.
    """

    micros: int = 0
    node_micros: int = 0
    device_micros: int = 0
    begun: int = 0

    def plus(self, other: Amount) -> Amount:
        """Add another amount."""
        return Amount(*(mine + its for mine, its in zip(self, other, strict=True)))

    def minus(self, other: Amount) -> Amount:
        """Take another amount away."""
        return Amount(*(mine - its for mine, its in zip(self, other, strict=True)))


class Ledger(dict[Slot, Amount]):
    """Amounts by slot. What adds up to nothing is not in it."""

    def put(self, slot: Slot, amount: Amount) -> None:
        """Add an amount, which may be negative."""
        total = self.get(slot, Amount()).plus(amount)
        if any(total):
            self[slot] = total
        else:
            self.pop(slot, None)

    def merge(self, other: Mapping[Slot, Amount]) -> None:
        """Add all of another ledger."""
        for slot, amount in other.items():
            self.put(slot, amount)

    def change_from(self, before: Mapping[Slot, Amount]) -> Ledger:
        """Return what has to be added to `before` to make it this one."""
        found = Ledger(self)
        for slot, amount in before.items():
            found.put(slot, Amount().minus(amount))
        return found


def size_of(devices: int) -> int:
    """Return the size class of a job: 0 for one device, 1 for 2 or 3, 2 for 4 to 7, and so on by doubling."""
    return max(devices, 1).bit_length() - 1


def stretches(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut a time into buckets, and yield each bucket's beginning with the microseconds that fall into it."""
    while start < end:
        bucket = start - start % BUCKET
        stop = min(bucket + BUCKET, end)
        yield bucket, stop - start
        start = stop


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the time of a job, or of many: microseconds by kind and cause, interruptions by cause."""

    spent: Mapping[tuple[TimeKind, Cause | None], int]
    interruptions: Mapping[Cause, int]
    checkpoints: int = 0
    """How many the work stood still for."""

    @property
    def productive(self) -> int:
        """Microseconds of progress that survived."""
        return sum(micros for (kind, _), micros in self.spent.items() if kind is TimeKind.PRODUCTIVE)

    @property
    def queued(self) -> int:
        """Microseconds between two allocations."""
        return sum(micros for (kind, _), micros in self.spent.items() if kind is TimeKind.QUEUED)

    @property
    def allocated(self) -> int:
        """Microseconds in which the job held its nodes: what all kinds but the queue add up to."""
        return sum(self.spent.values()) - self.queued

    @property
    def goodput(self) -> float | None:
        """The part of the allocated time that was productive, 0 to 1; None before there is any."""
        return self.productive / self.allocated if self.allocated else None

    @property
    def ettr(self) -> float | None:
        """The same with the queue counted as lost."""
        wall = self.allocated + self.queued
        return self.productive / wall if wall else None

    @property
    def badput(self) -> dict[tuple[TimeKind, Cause], int]:
        """Microseconds of allocated time that were not productive, by kind and cause, the most first."""
        bad = {
            (kind, cause): micros
            for (kind, cause), micros in self.spent.items()
            if cause is not None and kind is not TimeKind.QUEUED and micros
        }
        return dict(sorted(bad.items(), key=lambda item: (-item[1], item[0])))


def account_of(ledger: Mapping[Slot, Amount] | Iterable[tuple[Slot, Amount]], *, by_device: bool = False) -> Account:
    """Add a ledger up. `by_device` counts each stretch once for each device, as many jobs are added up fairly."""
    spent: dict[tuple[TimeKind, Cause | None], int] = {}
    interruptions: dict[Cause, int] = {}
    checkpoints = 0
    for slot, amount in ledger.items() if isinstance(ledger, Mapping) else ledger:
        key = slot.kind, slot.cause
        if micros := amount.device_micros if by_device else amount.micros:
            spent[key] = spent.get(key, 0) + micros
        if slot.kind is TimeKind.CHECKPOINTING:
            checkpoints += amount.begun
        elif amount.begun and slot.cause is not None:
            interruptions[slot.cause] = interruptions.get(slot.cause, 0) + amount.begun
    return Account(spent, interruptions, checkpoints)
