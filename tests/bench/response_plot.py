# SPDX-License-Identifier: Apache-2.0
"""What do the ways to answer look like side by side? A table, rows for the README, and a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from rich.table import Table

from tests.bench.response_faults import DAY, Setup
from tests.bench.response_fleet import Tally
from tests.bench.titan_plot import HEIGHT, MARGIN, STYLE, WIDTH, panel

HEADS = (
    "policy",
    "jobs interrupted",
    "of these by a board that had failed",
    "by the policy itself",
    "goodput",
    "node-days withheld",
    "repairs",
    "bad boards let back in",
    "healthy nodes disturbed",
    "nodes disturbed at once",
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one way to answer came to. `excess` counts the moments over the budget, None where there is none."""

    name: str
    tally: Tally
    excess: int | None = None

    @property
    def interrupted(self) -> int:
        """How often any job was interrupted."""
        return self.tally.interruptions.total()

    def row(self) -> tuple[str, ...]:
        """Its figures, in the order of HEADS."""
        tally = self.tally
        return (
            self.name,
            f"{self.interrupted:,}",
            f"{tally.by_failed_before:,}",
            f"{tally.interruptions['response']:,}",
            f"{tally.goodput:.2%}",
            f"{tally.withheld / DAY:,.0f}",
            f"{tally.repairs.total():,}",
            f"{tally.let_in:,}",
            f"{tally.healthy:,}",
            f"{tally.at_once['fleet']:,}",
        )

    def to_json(self) -> dict[str, Any]:
        """Give its figures for a program."""
        tally = self.tally
        return {
            "policy": self.name,
            "interruptions": dict(sorted(tally.interruptions.items())),
            "by_boards_that_had_failed": tally.by_failed_before,
            "goodput": round(tally.goodput, 6),
            "withheld_node_days": round(tally.withheld / DAY, 2),
            "repairs": {str(action): count for action, count in sorted(tally.repairs.items())},
            "handed_back_at_the_door": tally.handed_back,
            "let_back_in": tally.let_in,
            "healthy_disturbed": tally.healthy,
            "at_once": dict(sorted(tally.at_once.items())),
            "moments_over_budget": self.excess,
        }


def comparison(answers: Sequence[Answer]) -> Table:
    """Put the figures side by side, a column for each way to answer."""
    table = Table("", *(one.name for one in answers))
    for column in table.columns[1:]:
        column.justify = "right"
    for head, *figures in list(zip(HEADS, *(one.row() for one in answers), strict=True))[1:]:
        table.add_row(head, *figures)
    return table


def markdown(answers: Sequence[Answer]) -> list[str]:
    """Write the same as lines of the README."""
    lines = list(zip(HEADS, *(one.row() for one in answers), strict=True))
    lines[0] = ("", *lines[0][1:])
    return [f"| {' | '.join(one)} |".replace("|  |", "| |") for one in lines]


def draw(setup: Setup, answers: Sequence[Answer]) -> str:
    """Draw what jobs and nodes suffer under each way to answer, as SVG."""
    panels: list[tuple[str, str, dict[str, tuple[float, str]]]] = [
        ("Jobs interrupted", "bar", {one.name: _bar(one.interrupted) for one in answers}),
        ("Badput, % of the time", "cost", {one.name: _share(1 - one.tally.goodput) for one in answers}),
        ("Bad boards let back in", "cost", {one.name: _bar(one.tally.let_in) for one in answers}),
        ("Node-days withheld", "cost", {one.name: _bar(one.tally.withheld / DAY) for one in answers}),
    ]
    step = (WIDTH - 2 * MARGIN) / len(panels)
    names = [{_short(name): bar for name, bar in bars.items()} for _, _, bars in panels]
    drawn = "".join(
        panel(MARGIN + at * step, step - MARGIN, title, kind, names[at]) for at, (title, kind, _) in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-labelledby="title desc" font-family="system-ui, sans-serif" font-size="14">\n'
        "  <!-- SPDX-License-Identifier: Apache-2.0 -->\n"
        f'  <title id="title">{setup.days} simulated days of {setup.nodes:,} nodes, answered in three ways</title>\n'
        f'  <desc id="desc">{escape(_told(panels))}.</desc>\n'
        f"  <style>{STYLE}\n  </style>\n{drawn}"
        f'  <text class="small" x="{MARGIN}" y="{HEIGHT - 8}">'
        "forget: restart and forget; at once: replace at once; rules: the rules of this project</text>\n</svg>\n"
    )


def _told(panels: Sequence[tuple[str, str, Mapping[str, tuple[float, str]]]]) -> str:
    return "; ".join(
        f"{title}: " + ", ".join(f"{name} {text}" for name, (_, text) in bars.items()) for title, _, bars in panels
    )


def _short(name: str) -> str:
    return {"restart and forget": "forget", "replace at once": "at once"}.get(name, "rules")


def _bar(value: float) -> tuple[float, str]:
    return value, f"{value:,.0f}"


def _share(value: float) -> tuple[float, str]:
    return value, f"{100 * value:.2f}"
