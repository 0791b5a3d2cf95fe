# SPDX-License-Identifier: Apache-2.0
"""Does the service carry 100,000 GPUs in 12,500 nodes with their EFAs, and five million events?

    python -m tests.bench.fleet load  [--engine E] [--data FOLDER] [--size fleet]
    python -m tests.bench.fleet rate  [--engine E] [--data FOLDER] [--size fleet] [--seconds 600] [--rate 417] [--ramp]
    python -m tests.bench.fleet storm [--engine E] [--nodes 10000] [--spread 60]

`load` puts a fleet into FOLDER, where `rate`, `make bench` and rows 14 and 16 of the scorecard find it, the last two as
BENCH_DATA. Nothing is asserted: the scorecard does that, with the same code.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from tests.bench import fleet_rate, fleet_storm, load
from tests.bench.load import Size
from tests.bench.serving import PEPPER, server
from tests.scorecard.ground import folder, records

SIZES = {size.name: size for size in (load.FLEET, load.LARGE, load.SMALL)}
P99_MAX_SECONDS = 0.1
RAMP_SECONDS = 20.0
"""How long each higher rate is tried."""


@contextmanager
def data_folder(asked: Path | None = None) -> Iterator[Path]:
    """Give the folder where fleets are kept: the one that is asked for, else BENCH_DATA, else one that goes again.

    Every user can reach it, because PostgreSQL may run as another one.
    """
    kept = asked or (Path(os.environ["BENCH_DATA"]) if os.environ.get("BENCH_DATA") else None)
    if kept is not None:
        kept.mkdir(exist_ok=True)
        yield kept.absolute()
        return
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def rate(engine: str, size: Size, data: Path, seconds: float, per_second: float, *, is_ramp: bool) -> None:
    """Let a fleet report for so long, and show what came of it."""
    kept = load.kept(engine, [size], data, PEPPER.encode())
    with kept as ((url,), _), folder() as here, server(url, here, {}) as running:
        reports = max(1, int(seconds * per_second))
        _show(fleet_rate.shown(fleet_rate.run(running, size.nodes, reports, per_second)))
        if is_ramp:
            held = fleet_rate.highest_held(running, size.nodes, RAMP_SECONDS, P99_MAX_SECONDS)
            _show([("highest rate held", f"{held} a second")])


def storm(engine: str, nodes: int, spread: float | None) -> None:
    """Boot a fleet that nobody knows, and show what came of it."""
    with records(engine) as url, folder() as here:
        _show(fleet_storm.shown(fleet_storm.run(url, here, nodes, spread=spread)))


def _show(lines: Iterable[tuple[str, str]]) -> None:
    console = Console(width=160)
    for what, told in lines:
        console.print(f"{what}: {told}", highlight=False)


def main() -> None:
    """Do what is asked on one engine after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["load", "rate", "storm"])
    parser.add_argument("--engine", choices=["sqlite", "postgresql"], action="append")
    parser.add_argument("--data", type=Path, help="where fleets are kept for the next run")
    parser.add_argument("--size", choices=list(SIZES), default="fleet")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=fleet_rate.RATE)
    parser.add_argument("--ramp", action="store_true", help="also look for the highest rate that is held")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--spread", type=float, help="seconds within which all boot; 0 is all at once")
    asked = parser.parse_args()
    for engine in asked.engine or ["sqlite", "postgresql"]:
        begun = time.monotonic()
        if asked.what == "storm":
            storm(engine, asked.nodes, asked.spread)
        else:
            with data_folder(asked.data) as data:
                if asked.what == "rate":
                    rate(engine, SIZES[asked.size], data, asked.seconds, asked.rate, is_ramp=asked.ramp)
                else:
                    with load.kept(engine, [SIZES[asked.size]], data, PEPPER.encode()) as ((url,), _):
                        _show([("loaded", url)])
        _show([(f"{asked.what} on {engine}", f"{time.monotonic() - begun:.0f} s")])


if __name__ == "__main__":
    main()
