# SPDX-License-Identifier: Apache-2.0
"""Which rows are to be measured, and how often? Then it is done, part by part, and SCORECARD.md is written anew.

    python -m tests.scorecard [--row N] [--n N | --share 0.1] [--seed S] [--engine E] [--again]

Rows that were done with the same N, seed and code are not repeated. Exit code 1 when a row that was measured is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.project import ROOT
from tests.scorecard import page
from tests.scorecard.ledger import Entry, Ledger, code_digest
from tests.scorecard.measured import NotRun
from tests.scorecard.rows import ROWS, Row
from tests.scorecard.surroundings import describe

COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
    TimeRemainingColumn(),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the page after each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", type=int, action="append", help="this row only; may be given again")
    parser.add_argument("--n", type=int, help="so many trials in place of the row's own N")
    parser.add_argument("--share", type=float, default=1.0, help="this share of the row's own N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=["sqlite", "postgresql"], help="this engine only")
    parser.add_argument("--again", action="store_true", help="also what was done already")
    parser.add_argument("--folder", type=Path, default=ROOT, help="where SCORECARD.md and scorecard.json are kept")
    asked = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 160)
    ledger = Ledger(asked.folder / "scorecard.json")
    is_met = True
    for row in ROWS:
        if row.run is None or (asked.row and row.number not in asked.row):
            continue
        wanted = asked.n or max(1, int(row.full * asked.share))
        for engine in row.engines:
            if asked.engine in {None, engine}:
                entry = measure(row, engine, wanted, asked.seed, ledger, console, again=asked.again)
                is_met &= entry.not_run is not None or entry.measured.is_met
                (asked.folder / "SCORECARD.md").write_text(page.write(ROWS, ledger), encoding="utf-8")
    return 0 if is_met else 1


def measure(
    row: Row, engine: str, wanted: int, seed: int, ledger: Ledger, console: Console, *, again: bool = False
) -> Entry:
    """Do what is left of a row, and keep each part as soon as it is done."""
    assert row.run is not None
    entry = ledger.get(row.name, engine)
    if again or entry is None or not entry.is_same_work(wanted, seed, code_digest()):
        entry = Entry(wanted, seed, code_digest(), describe(engine))
    with Progress(*COLUMNS, console=console) as progress:
        task = progress.add_task(f"{row.number} {row.name}, {engine}", total=wanted, completed=entry.measured.n)
        while not entry.is_done:
            left = min(row.part, wanted - entry.measured.n)
            try:
                # Each part has a seed of its own, which anybody can repeat alone.
                part = row.run(left, seed + len(entry.parts), engine, lambda more: progress.advance(task, more))
            except NotRun as error:
                entry = Entry(wanted, seed, code_digest(), describe(engine), not_run=str(error))
                ledger.put(row.name, engine, entry)
                break
            entry = entry.plus(part)
            ledger.put(row.name, engine, entry)
    console.print(f"{row.number} {row.name}, {engine}: {page.told(entry)} (N {entry.measured.n:,} of {wanted:,})")
    return entry


if __name__ == "__main__":
    sys.exit(main())
