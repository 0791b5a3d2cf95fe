# SPDX-License-Identifier: Apache-2.0
"""What is the memory worth? A month of faults in a large fleet, answered by this project's rules and in two other ways.

    python -m tests.bench.response [--nodes N] [--days N] [--seed N] [--intensity X] [--found PERCENT]
                                   [--again-hours H] [--plot FILE] [--json FILE]

A simulation, from fault to fault: the rules of `registry.domain` are the real ones, the fleet is not. Faults come as
often as Llama 3 met them, and the same ones for each way to answer; one board in a thousand fails thirty times as
often; machines that are given back are handed out again; a check goes wrong twice; a zone goes dark. What nobody has
published is assumed, and can be asked otherwise: how many boards are broken for good (`response_faults.SHOWN`), when
such a board fails again, and whether a test finds it. Nothing is measured but counts, so no load of the machine changes
a figure. Exit code 1 when the rules let a bad board back in although tests find all of them, or exceeded their budget.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.bench import response_plot
from tests.bench.response_faults import DAY, Setup, plan_of
from tests.bench.response_fleet import Response
from tests.bench.response_plot import Answer
from tests.bench.response_policies import AtOnce, Forgetful
from tests.bench.response_rules import Pratique
from tests.bench.response_world import World

WAYS: tuple[Callable[[World], Response], ...] = (Forgetful, AtOnce, Pratique)


def compare(setup: Setup, console: Console) -> Iterator[Answer]:
    """Let the same month pass under each way to answer."""
    plan = plan_of(setup)
    with Progress(*COLUMNS, console=console) as progress:
        for make in WAYS:
            world = World(plan, make)
            name = world.response.name
            task = progress.add_task(name, total=setup.end)
            tally = world.run(_ticker(progress, task, name))
            yield Answer(name, tally, world.response.excess if isinstance(world.response, Pratique) else None)


COLUMNS = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())


def _ticker(progress: Progress, task: TaskID, name: str) -> Callable[[float], None]:
    def tick(now: float) -> None:
        progress.update(task, completed=now, description=f"{name}, day {now / DAY:.0f}")

    return tick


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, and put the ways side by side."""
    usual = Setup()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=usual.nodes)
    parser.add_argument("--days", type=int, default=usual.days)
    parser.add_argument("--seed", type=int, default=usual.seed)
    parser.add_argument("--intensity", type=float, default=usual.intensity, help="times the published rate")
    parser.add_argument("--found", type=int, default=usual.found, help="percent of bad boards that a test finds")
    parser.add_argument("--again-hours", type=float, default=usual.again_hours, help="until a bad board fails again")
    parser.add_argument("--plot", type=Path, help="draw the comparison into this SVG")
    parser.add_argument("--json", type=Path, help="write all figures into this file")
    asked = parser.parse_args(arguments)
    setup = Setup(asked.nodes, asked.days, asked.seed, asked.intensity, asked.found, asked.again_hours)
    console = Console(width=None if sys.stdout.isatty() else 120)
    answers = list(compare(setup, console))
    console.print(response_plot.comparison(answers))
    if asked.plot:
        asked.plot.write_text(response_plot.draw(setup, answers), encoding="utf-8")
    if asked.json:
        asked.json.write_text(json.dumps([one.to_json() for one in answers], indent=2) + "\n", encoding="utf-8")
    ours = next(one for one in answers if one.excess is not None)
    console.print(f"the rules let {ours.tally.let_in} bad boards back in, and exceeded the budget {ours.excess} times")
    return 1 if ours.excess or (ours.tally.let_in and setup.found == usual.found) else 0


if __name__ == "__main__":
    sys.exit(main())
