# SPDX-License-Identifier: Apache-2.0
"""Does a fleet that reports every thirty seconds leave admissions quick?

Every node has its turn once in thirty seconds, whether or not the server keeps up, and an admission is asked a hundred
times a second beside. Most reports say what the last one said. One in a hundred has another asset tag on a GPU, and the
node's next one the old tag again, so that two of a hundred are news; one in a thousand tells of a fault, and one of ten
faults is of the sort that puts the GPU into quarantine. That is more news than a fleet makes: 16,384 GPUs stopped 419
times in 54 days (https://arxiv.org/abs/2407.21783, 3.3.4), one fault in a million reports of this sort.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter

from tests.bench import machine
from tests.bench.generator import ask_for
from tests.bench.open_loop import Heard, OpenLoop, Shot
from tests.bench.serving import Running, cpu_seconds

RATE = 417
"""Reports a second: 12,500 nodes, one each in 30 seconds."""

ASK_RATE = 100
NEWS_EVERY, FAULT_EVERY = 100, 1_000
FAULTS = (*["xid_13", "xid_31", "xid_43"] * 3, "xid_48")
"""Faults of programs, which are recorded, and one of the memory, which is a reason for quarantine."""

STRIDE = 7_919
"""From one node that reports to the next: a prime, so that all have their turn. A fleet's nodes do not report in the
order of their names, nor those that are held, which are the last ones here, within the same quarter of a second."""

REPORT, ASK = "report", "admission"
LATE_SECONDS = 1.0
ID = "the-id-of-the-report"
"""As long as the ids that take its place: a body is made once, so that who asks takes little from who answers."""


@dataclass(slots=True)
class Rated:
    """What came of it. Times are seconds from when a request was to be sent; an answer that never came counts, too.

    `server_cpu` is how many cores the server's processes used, those of PostgreSQL aside.
    """

    seconds: float = 0.0
    server_cpu: float = 0.0
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    took: dict[str, list[float]] = field(default_factory=lambda: {REPORT: [], ASK: []})
    generator_late: list[float] = field(default_factory=list)

    @property
    def refused(self) -> int:
        """Requests without an answer, or with one that is not 200."""
        return sum(count for (_, status), count in self.answers.items() if status != 200)

    @property
    def late(self) -> int:
        """Reports that were answered more than a second after their time."""
        return sum(one > LATE_SECONDS for one in self.took[REPORT])

    @property
    def is_held(self) -> bool:
        """Whether the server kept up."""
        return not self.refused and not self.late


def share(values: list[float], part: float) -> float:
    """Return the value that this part of all values does not exceed: 0.99 for the 99th percentile."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else 0.0


def run(
    running: Running, nodes: int, reports: int, rate: float = RATE, tick: Callable[[int], object] = lambda _: None
) -> Rated:
    """Let `nodes` nodes send so many reports at so many a second, and ask for admissions meanwhile."""
    rated = Rated()

    def hear(heard: Heard) -> Iterable[Shot]:
        rated.answers[heard.shot.sort, heard.status] += 1
        rated.took[heard.shot.sort].append(heard.seconds)
        rated.generator_late.append(heard.late)
        if heard.shot.sort == REPORT:
            tick(1)
        return ()

    for number in range(min(nodes, reports)):
        _usual(_node(number, nodes))
    word = f"{time.time_ns() // 1_000_000:x}"[-8:]  # no report of an earlier run has this id
    told = (
        Shot(number / rate, REPORT, number, _report(number, nodes, f"{word}-{number:011d}"))
        for number in range(reports)
    )
    asked = (
        Shot(number / ASK_RATE, ASK, number, _ask(_node(number, nodes)))
        for number in range(int(reports / rate * ASK_RATE))
    )
    used = cpu_seconds(running.pid)
    rated.seconds = OpenLoop(running.url, hear).run(heapq.merge(told, asked, key=attrgetter("at")))
    rated.server_cpu = (cpu_seconds(running.pid) - used) / rated.seconds
    return rated


def highest_held(running: Running, nodes: int, seconds: float, p99_max: float) -> int:
    """Raise the rate until reports come late or admissions are slow; returns the highest that was held, or 0."""
    held = 0
    for rate in itertools.count(RATE, 100):
        rated = run(running, nodes, int(rate * seconds), rate)
        if not rated.is_held or share(rated.took[ASK], 0.99) >= p99_max:
            return held
        held = rate
    return held


def _report(number: int, nodes: int, report_id: str) -> bytes:
    """What is to be sent as report `number` of the fleet: news are another node's in each round."""
    node = _node(number, nodes)
    turn = number // nodes + node
    tag = "rack-99" if turn % NEWS_EVERY == 0 else machine.TAG
    is_faulty = number % FAULT_EVERY == FAULT_EVERY - 1
    fault = FAULTS[number // FAULT_EVERY % len(FAULTS)] if is_faulty else None
    request = _usual(node) if tag == machine.TAG and fault is None else _request(node, tag, fault)
    return request.replace(ID.encode(), report_id.encode())


def _node(number: int, nodes: int) -> int:
    """Whose turn it is."""
    return number * STRIDE % nodes


@cache
def _usual(node: int) -> bytes:
    return _request(node, machine.TAG, None)


def _request(node: int, tag: str, fault: str | None) -> bytes:
    body = machine.report(node, ID, tags={0: tag})
    if fault:
        body["failures"] = [{"failure_id": f"fault-{ID}", "code": fault, "device": machine.gpu_uuid(node, 1)}]
    return ask_for("POST", f"/v1/nodes/{machine.node_name(node)}/reports", machine.secret(node), body)


@cache
def _ask(node: int) -> bytes:
    return ask_for("GET", f"/v1/nodes/{machine.node_name(node)}/admission", machine.secret(node))


def shown(rated: Rated) -> Iterator[tuple[str, str]]:
    """Say in words what came of it."""
    yield "reports", f"{len(rated.took[REPORT]):,} in {rated.seconds:.0f} s"
    yield "refused or unanswered", f"{rated.refused:,} {dict(rated.answers)}"
    yield "reports more than a second late", f"{rated.late:,}"
    for sort, took in rated.took.items():
        times = ", ".join(f"p{part * 100:g} {share(took, part) * 1000:.1f}" for part in (0.5, 0.9, 0.99, 0.999, 1.0))
        yield f"{sort}, ms", times
    yield "cores used by the server", f"{rated.server_cpu:.2f}"
    yield "generator late, ms", f"p99 {share(rated.generator_late, 0.99) * 1000:.1f}"
