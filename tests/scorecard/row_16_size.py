# SPDX-License-Identifier: Apache-2.0
"""Row 16: how much slower are admission, report and a device's history in a fleet that is a hundred times as large?

Both fleets are served at the same time and asked in turns; a figure is the median of the ratios of such rounds. `N` is
the number of devices of the large fleet, which has five events for each; the small one has a hundredth of the devices
and a fiftieth of the events.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from registry.store.database import open_database
from tests.bench import load, machine, rows
from tests.bench.fleet import data_folder
from tests.bench.generator import ask
from tests.bench.load import Size
from tests.bench.serving import PEPPER, server
from tests.scorecard.ground import folder
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
    with data_folder() as data, load.kept(engine, sizes, data, PEPPER.encode()) as (urls, _), ExitStack() as stack:
        small, large = (stack.enter_context(_serving(url, size)) for url, size in zip(urls, sizes, strict=True))
        slower = {what: _slower(small[0], large[0], small[1][row], large[1][row], n) for row, what in ASKED.items()}
    progress(n)
    seen = {f"{what}, per cent of the small fleet's time": round(ratio * 100) for what, ratio in slower.items()}
    return Measured(n, {f"slower by more than {SLOWER_MAX}": sum(r > SLOWER_MAX for r in slower.values())}, seen)


@contextmanager
def _serving(url: str, size: Size) -> Iterator[tuple[str, dict[str, Path]]]:
    """A server on a fleet, and the files of what is asked of it."""
    with folder() as here, server(url, here, {}) as running:
        db = open_database(url)
        files = rows.write_all(here, size, db, PEPPER.encode(), datetime.now(UTC))
        db.close_all()
        yield running.url, files


def _slower(small: str, large: str, few: Path, many: Path, n: int) -> float:
    """How many times as long the large fleet takes: the median of rounds in which both are asked."""
    rounds, seconds = WINDOWS if n >= LONG_FROM else SHORT_WINDOWS
    for url, file in ((small, few), (large, many)):  # so that nobody pays for opening connections and reading pages
        ask(url, file, seconds)
    ratios = []
    for _ in range(rounds):
        windows = ask(small, few, seconds), ask(large, many, seconds)
        speeds = [one.requests / one.seconds for one in windows]
        ratios.append(speeds[0] / speeds[1])
    return statistics.median(ratios)
