# SPDX-License-Identifier: Apache-2.0
"""Row 16: how much slower are admission, report and a device's history in a fleet that is a hundred times as large?

Both fleets are loaded and asked in the same way, in windows that take turns among the three; a figure is the median of
its windows. `N` is the number of devices of the large fleet, which has five events for each; the small one has a
hundredth of the devices and a fiftieth of the events.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from registry.store.database import open_database
from tests.bench import load, machine, rows
from tests.bench.generator import ask
from tests.bench.load import Size
from tests.bench.serving import PEPPER, server
from tests.scorecard.ground import folder, postgresql
from tests.scorecard.measured import Measured, Progress

WINDOWS, SHORT_WINDOWS = (7, 2.0), (1, 0.5)
"""How many rounds, and seconds of each."""

LONG_FROM = 100_000
"""For fewer devices than this a short look is enough."""

SLOWER_MAX = 1.3
ASKED = {"a": "admission", "b": "report", "d": "device history"}
"""The rows of the benchmark, and what they ask for."""


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Measure a fleet of `n` devices beside one of a hundredth. There is no chance in it: the seed changes nothing."""
    few = max(n // 100, 8 * machine.DEVICES)
    sizes = Size("small", few, few * 10), Size("large", n, n * 5)
    windows = WINDOWS if n >= LONG_FROM else SHORT_WINDOWS
    small, large = (_speeds(engine, size, windows) for size in sizes)
    progress(n)
    slower = {what: small[row] / large[row] for row, what in ASKED.items()}
    seen = {f"{what}, per cent of the small fleet's time": round(ratio * 100) for what, ratio in slower.items()}
    return Measured(n, {f"slower by more than {SLOWER_MAX}": sum(r > SLOWER_MAX for r in slower.values())}, seen)


def _speeds(engine: str, size: Size, windows: tuple[int, float]) -> dict[str, float]:
    """Requests a second of each row, on a fleet of its own."""
    rounds, seconds = windows
    speeds: dict[str, list[float]] = {row: [] for row in ASKED}
    with _empty(engine) as url, folder() as here:
        load.fill(url, size, PEPPER.encode())
        db = open_database(url)
        with server(url, here, {}) as running:
            files = rows.write_all(here, size, db, PEPPER.encode(), datetime.now(UTC))
            for row in list(ASKED) * rounds:
                window = ask(running.url, files[row], seconds)
                speeds[row].append(window.requests / window.seconds)
        db.close_all()
    return {row: statistics.median(found) for row, found in speeds.items()}


@contextmanager
def _empty(engine: str) -> Iterator[str]:
    if engine == "sqlite":
        with folder() as here:
            yield f"sqlite:///{here / 'registry.db'}"
        return
    with postgresql() as cluster:
        yield cluster.create_database("size")
