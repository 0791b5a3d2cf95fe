# SPDX-License-Identifier: Apache-2.0
"""What does a simulated job do, and what does it say of itself? Its messages are those that the service takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from registry.domain.failures import Cause
from registry.domain.goodput import Ledger, account_of
from registry.domain.job_events import JobEvent, JobEventKind, Outcome
from registry.domain.job_fold import fold
from registry.domain.reliability import LLAMA_3, checkpoint_interval_seconds, mttf_seconds
from tests.bench.response_faults import GPUS, LLAMA_DAYS, LLAMA_GPUS, MINUTE

if TYPE_CHECKING:
    from tests.bench.response_fleet import Node

START_UP = 10 * MINUTE
"""From having its nodes to the first step: starting, loading, restoring."""

CHECKPOINT = 60.0
"""What a checkpoint costs: by this the interval is chosen, while the work goes on."""

FULL = 94
"""Percent of the nodes that the jobs ask for: the rest are spares."""

PER_1000_NODE_DAYS = 1000 * sum(one.count for one in LLAMA_3) / LLAMA_DAYS / (LLAMA_GPUS / GPUS)


def sizes_of(nodes: int) -> Iterator[int]:
    """Give the jobs that share a fleet: one on a quarter of it, two on an eighth, and so on down to small ones."""
    left = nodes * FULL // 100
    for share, count in ((4, 1), (8, 2), (16, 4), (64, 8)):
        for _ in range(count):
            size = min(max(1, nodes // share), left)
            if size:
                yield size
            left -= size
    small = max(1, nodes // 250)
    while left >= small:
        yield small
        left -= small


@dataclass(slots=True, eq=False)
class Job:
    """A job that never ends by itself. Steps are seconds of work; `run` counts its starts."""

    number: int
    size: int
    nodes: list[Node] = field(default_factory=list)
    is_running: bool = False
    run: int = 0
    progress_at: float = 0.0
    step: int = 0
    events: list[JobEvent] = field(default_factory=list)

    @property
    def interval(self) -> int:
        """Seconds between two checkpoints: Daly's and Young's, for its size."""
        mttf = mttf_seconds(self.size, per_1000_node_days=PER_1000_NODE_DAYS)
        return round(checkpoint_interval_seconds(checkpoint_seconds=CHECKPOINT, mttf=mttf))

    def start(self, now: float) -> None:
        """Begin, or begin again, on the nodes that it has."""
        self.is_running, self.run, self.progress_at = True, self.run + 1, now + START_UP
        names = tuple(one.name for one in self.nodes)
        self._say(JobEventKind.STARTED, now, nodes=names, devices=GPUS * self.size)

    def interrupt(self, now: float, cause: Cause, *, saves: bool) -> None:
        """Stop, and lose what no checkpoint holds."""
        self.is_running = False
        if now < self.progress_at:
            self._say(JobEventKind.INTERRUPTED, now, cause=cause)
            return
        self._say(JobEventKind.PROGRESS, self.progress_at, step=self.step)
        done = self.step + int(now - self.progress_at)
        kept = done if saves else max(self.step, done - done % self.interval)
        self._say(JobEventKind.INTERRUPTED, now, step=done, checkpoint=kept, cause=cause)
        self.step = kept

    def end(self, now: float) -> Ledger:
        """Stop the clock, and give what became of the time. What is under way then counts as done."""
        if self.is_running and now >= self.progress_at:
            self._say(JobEventKind.PROGRESS, self.progress_at, step=self.step)
            step = self.step + int(now - self.progress_at)
            self._say(JobEventKind.ENDED, now, step=step, outcome=Outcome.COMPLETED)
        else:
            self._say(JobEventKind.ENDED, now, outcome=Outcome.CANCELLED)
        return fold(self.events).delta

    def _say(self, kind: JobEventKind, at: float, **said: object) -> None:
        micros = round((at + EPOCH) * 1_000_000)
        self.events.append(JobEvent(f"{len(self.events):06}", kind, micros, **said))  # type: ignore[arg-type]


EPOCH = 1_700_000_100
"""A time of no account, from which the simulated seconds are counted: a multiple of the shortest stretch."""


def goodput_of(jobs: Iterable[Job], now: float) -> float:
    """Give the share of all device time held by jobs that was progress which survived."""
    whole = Ledger()
    for job in jobs:
        whole.merge(job.end(now))
    return account_of(whole, by_device=True).goodput or 0.0
