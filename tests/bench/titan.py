# SPDX-License-Identifier: Apache-2.0
"""Does the service remember eighteen thousand nodes over six years as they were, and when is a GPU best held?

    python -m tests.bench.titan PATH [--limit ROWS] [--database URL] [--plot FILE] [--json FILE]

PATH is `gc_full.csv` of https://github.com/olcf/TitanGPULife. Every stay, swap, failure and hold goes through the real
service at its own time; then the service is asked for all of it, as anybody may ask, and what it says is counted. Exit
code 1 when a count is not what was published (with --limit: not what the rows say). With --database the records are
kept, and a run that was interrupted goes on where it stopped; an address with other records is not for this.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from registry.store.database import Database, open_database
from registry.store.migrations import migrate
from tests.bench import titan_plot
from tests.bench.titan_counts import (
    EPISODES_HELD_AT,
    PUBLISHED,
    PUBLISHED_STAYS,
    Outcome,
    count,
    figures_of,
    holds_at,
    in_place_at_end,
    outcomes,
)
from tests.bench.titan_reading import Memory, remember
from tests.bench.titan_replay import Moment, moments, replay
from tests.bench.titan_rows import Lives, read_lives

CARRIED, REFUSED = "held boards in a node at the end", "nodes refused for these at the end"


@dataclass(frozen=True, slots=True)
class Result:
    """What a replay came to. `expected` and `got` have the same names. `seconds` are those of telling and of asking."""

    messages: int
    seconds: tuple[float, float]
    expected: Mapping[str, float]
    got: Mapping[str, float]
    outcomes: Sequence[Outcome]

    @property
    def is_exact(self) -> bool:
        """True when the service counts everything as it should."""
        return self.expected == self.got


def run(path: Path, url: str, *, limit: int | None = None, console: Console) -> Result:
    """Replay a file, or its first rows, into a migrated database, and ask what the service remembers.

    Raises ValueError for another sort of file, RuntimeError when the service refuses something.
    """
    lives = read_lives(path, limit)
    told = list(moments(lives))
    messages = sum(len(one.messages) for one in told)
    db = open_database(url)
    with closing_all(db), Progress(*COLUMNS, console=console) as progress:
        begun = time.monotonic()
        replay(db, told, _ticker(progress, messages))
        ended = time.monotonic()
        task = progress.add_task("asking", total=None)
        memory = remember(db, lives.end, lambda what: progress.update(task, description=f"asking for {what}"))
        seconds = (ended - begun, time.monotonic() - ended)
    found = outcomes(memory.lives, memory.held_at)
    return Result(messages, seconds, expected_of(lives), _got(memory, lives, found), found)


COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
    TimeRemainingColumn(),
)


@contextmanager
def closing_all(db: Database) -> Iterator[None]:
    """Close the records whatever happens."""
    try:
        yield
    finally:
        db.close_all()


def _ticker(progress: Progress, messages: int) -> Callable[[Moment], None]:
    """Move the bar, and leave a line for each year: a run whose output is kept in a file says where it is, too."""
    task = progress.add_task("", total=messages)
    years: set[int] = set()

    def tick(moment: Moment) -> None:
        progress.update(task, advance=len(moment.messages), description=f"{moment.at:%Y-%m-%d}")
        if moment.at.year not in years:
            years.add(moment.at.year)
            done = progress.tasks[task].completed
            progress.console.print(f"{moment.at:%Y-%m-%d}: {done:,.0f} of {messages:,} messages")

    return tick


def expected_of(lives: Lives) -> dict[str, float]:
    """What must come out: the published figures for the published file, else what the rows say."""
    is_published = len(lives.spells) == PUBLISHED_STAYS
    held_at = {one: holds_at(lives, one) for one in EPISODES_HELD_AT}
    carried = len(in_place_at_end(lives, held_at[1]))
    return {
        **(PUBLISHED if is_published else count(lives)),
        **figures_of(outcomes(lives, held_at)),
        CARRIED: carried,
        REFUSED: carried,
    }


def _got(memory: Memory, lives: Lives, found: Sequence[Outcome]) -> dict[str, float]:
    carried = in_place_at_end(memory.lives, memory.held_at[1])
    return {
        **count(memory.lives),
        **figures_of(found),
        CARRIED: len(carried),
        REFUSED: len(carried & memory.refused),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay, compare, and tell what each policy would have meant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--limit", type=int, help="read so many rows only")
    parser.add_argument("--database", help="keep the records here: sqlite:////absolute/path or postgresql://…")
    parser.add_argument("--plot", type=Path, help="draw the policies into this SVG")
    parser.add_argument("--json", type=Path, help="write all figures into this file")
    asked = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    with tempfile.TemporaryDirectory(prefix="titan-") as folder:
        url = asked.database or f"sqlite:///{Path(folder) / 'titan.db'}"
        migrate(url)
        result = run(asked.path, url, limit=asked.limit, console=console)
    show(result, console)
    if asked.plot:
        asked.plot.write_text(titan_plot.draw(result.got, result.outcomes), encoding="utf-8")
    if asked.json:
        figures = titan_plot.to_json(result.expected, result.got, result.outcomes)
        asked.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0 if result.is_exact else 1


def show(result: Result, console: Console) -> None:
    """Print both tables, and what the run cost."""
    told, asked = result.seconds
    console.print(titan_plot.comparison(result.expected, result.got))
    console.print(titan_plot.policies(result.outcomes))
    speed = result.messages / told if told else 0.0
    console.print(
        f"{result.messages:,} messages in {told:,.0f} s ({speed:,.0f}/s), all asked for again in {asked:,.0f} s"
    )
    console.print("exact" if result.is_exact else "NOT exact")


if __name__ == "__main__":
    sys.exit(main())
