# SPDX-License-Identifier: Apache-2.0
"""Row 14: does a fleet of 12,500 nodes that reports every 30 seconds leave admissions quick?

`N` is the number of reports. Before them each node reports until nothing comes late, but not more than three times: a
service that carries such a fleet has had each node's rows in memory half a minute ago. What came late in those rounds,
and the highest rate that is held, which is looked for afterwards, are shown and gate nothing.
"""

from __future__ import annotations

from pathlib import Path

from tests.bench import fleet_rate, load, machine
from tests.bench.fleet import P99_MAX_SECONDS, RAMP_SECONDS, data_folder
from tests.bench.fleet_rate import ASK, RATE, REPORT, share
from tests.bench.load import Size
from tests.bench.serving import PEPPER, Running, server
from tests.scorecard.ground import folder
from tests.scorecard.measured import Measured, Progress

PROCESSES = {"sqlite": 2, "postgresql": 3}
THREADS = {"sqlite": 4, "postgresql": 2}
"""Of the server. In each process one request computes, or waits for a statement: with PostgreSQL one process more lets
others compute meanwhile, and fewer threads leave it fewer connections to plan every statement for."""

FEW = Size("few", 60 * machine.DEVICES, 2_400)
ROUNDS_BEFORE = 3
FLEET_FROM = 10 * RATE
"""For fewer reports than this a small fleet is enough: it is a look whether the row works."""


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Send `n` reports at their times, and ask meanwhile. There is no chance in it, so the seed changes nothing."""
    size = load.FLEET if n >= FLEET_FROM else FEW
    with data_folder() as data, load.kept(engine, [size], data, PEPPER.encode()) as ((url,), _), folder() as here:
        late_before, rated, held = _measure(url, here, engine, size, n, progress)
    p99 = share(rated.took[ASK], 0.99)
    wrong = {
        "requests refused": rated.refused,
        "reports answered more than a second late": rated.late,
        f"p99 of admission not below {P99_MAX_SECONDS * 1000:.0f} ms": int(p99 >= P99_MAX_SECONDS),
    }
    seen = {
        "nodes": size.nodes,
        "events": size.events,
        "server processes": PROCESSES[engine],
        "threads that write in each": THREADS[engine],
        "reports a second": int(n / rated.seconds),
        "admissions asked": len(rated.took[ASK]),
        "ms p99 of admission": int(p99 * 1000),
        "ms p50 of admission": int(share(rated.took[ASK], 0.5) * 1000),
        "ms p99 of report": int(share(rated.took[REPORT], 0.99) * 1000),
        "per cent of a core used by the server": int(rated.server_cpu * 100),
        "ms p99 by which the generator was late": int(share(rated.generator_late, 0.99) * 1000),
        "reports more than a second late in the rounds before": late_before,
        "reports a second, the highest rate held": held,
    }
    return Measured(n, wrong, seen)


def _measure(
    url: str, here: Path, engine: str, size: Size, n: int, progress: Progress
) -> tuple[int, fleet_rate.Rated, int]:
    with server(url, here, {}, workers=PROCESSES[engine], threads=THREADS[engine]) as running:
        if n < FLEET_FROM:
            return 0, fleet_rate.run(running, size.nodes, n, tick=progress), 0
        late_before = _warm_up(running, size)
        rated = fleet_rate.run(running, size.nodes, n, tick=progress)
        return late_before, rated, fleet_rate.highest_held(running, size.nodes, RAMP_SECONDS, P99_MAX_SECONDS)


def _warm_up(running: Running, size: Size) -> int:
    late = 0
    for _ in range(ROUNDS_BEFORE):
        first = fleet_rate.run(running, size.nodes, size.nodes)
        late += first.late
        if first.is_held:
            break
    return late
