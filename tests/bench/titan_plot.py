# SPDX-License-Identifier: Apache-2.0
"""What do the figures of a replay look like? A table beside what was expected, one of policies, a drawing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from rich.table import Table

from tests.bench.titan_counts import DAY, WORDS, Outcome

WIDTH, HEIGHT, MARGIN = 860, 250, 20
TOP, BASE = 64, 210
"""Where the longest bar of a panel ends, and where all begin."""

STYLE = """
    .bar { fill: #57606a; }
    .cost { fill: #9a6700; }
    .gain { fill: #1a7f37; }
    .base { stroke: #57606a; }
    text { fill: #1f2328; }
    .small { font-size: 12px; fill: #57606a; }
    @media (prefers-color-scheme: dark) {
      .bar { fill: #8b949e; }
      .cost { fill: #d29922; }
      .gain { fill: #3fb950; }
      .base { stroke: #8b949e; }
      text { fill: #e6edf3; }
      .small { fill: #9ea7b1; }
    }"""

HEADS = (
    "held at",
    "boards held",
    "episodes averted",
    "GPU-days withheld",
    "GPU-days each",
    "never failed again",
    "in no node again",
)


def comparison(expected: Mapping[str, float], got: Mapping[str, float]) -> Table:
    """Put what the service counts beside what it should."""
    table = Table("quantity", "expected", "got", "")
    for column in table.columns[1:3]:
        column.justify = "right"
    for name, value in expected.items():
        is_equal = got[name] == value
        table.add_row(
            name, f"{value:,}", f"{got[name]:,}", "" if is_equal else "DIFFERS", style=None if is_equal else "bold"
        )
    return table


def policy_rows(outcomes: Iterable[Outcome]) -> list[tuple[str, ...]]:
    """Tell what each policy would have meant, in the order of HEADS."""
    return [
        (
            f"the {WORDS[one.episode]} episode",
            f"{one.held:,}",
            f"{one.averted:,}",
            f"{one.withheld / DAY:,.0f}",
            f"{one.days_each:,.0f}" if one.days_each is not None else "-",
            f"{one.spared:,}",
            f"{one.idle:,}",
        )
        for one in outcomes
    ]


def policies(outcomes: Iterable[Outcome]) -> Table:
    """Put the policies side by side."""
    table = Table(*HEADS)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in policy_rows(outcomes):
        table.add_row(*row)
    return table


def draw(counts: Mapping[str, float], outcomes: Sequence[Outcome]) -> str:
    """Draw the rates before and after a first episode, and what each policy averts and costs, as SVG."""
    by_word = {WORDS[one.episode]: one for one in outcomes}
    panels: list[tuple[str, str, dict[str, tuple[float, str]]]] = [
        (
            "Episodes per GPU-year",
            "bar",
            {
                "all": _bar(counts["episodes per GPU-year"], ".4f"),
                "after the first": _bar(counts["episodes per GPU-year after the first"], ".2f"),
            },
        ),
        ("Episodes averted", "gain", {word: _bar(one.averted, ",.0f") for word, one in by_word.items()}),
        (
            "GPU-years withheld",
            "cost",
            {word: _bar(one.withheld / DAY / 365.25, ",.1f") for word, one in by_word.items()},
        ),
        (
            "GPU-days for each averted",
            "cost",
            {word: _bar(one.days_each or 0, ",.0f") for word, one in by_word.items()},
        ),
    ]
    step = (WIDTH - 2 * MARGIN) / len(panels)
    drawn = "".join(panel(MARGIN + at * step, step - MARGIN, *one) for at, one in enumerate(panels))
    told = "; ".join(
        f"{title}: " + ", ".join(f"{name} {text}" for name, (_, text) in bars.items()) for title, _, bars in panels
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-labelledby="title desc" font-family="system-ui, sans-serif" font-size="14">\n'
        "  <!-- SPDX-License-Identifier: Apache-2.0 -->\n"
        '  <title id="title">Holding a GPU at its first, second or third failure episode</title>\n'
        f'  <desc id="desc">{escape(told)}.</desc>\n'
        f"  <style>{STYLE}\n  </style>\n{drawn}"
        f'  <text class="small" x="{MARGIN}" y="{HEIGHT - 8}">'
        "first, second, third: the episode at which a board is held</text>\n</svg>\n"
    )


def _bar(value: float, form: str) -> tuple[float, str]:
    return value, format(value, form)


def panel(left: float, width: float, title: str, kind: str, bars: Mapping[str, tuple[float, str]]) -> str:
    """Draw one group of bars from `left` on, each with its value and the text for it."""
    longest = max(value for value, _ in bars.values()) or 1
    step = width / len(bars)
    lines = [
        f'<text x="{left:.0f}" y="30">{escape(title)}</text>',
        f'<line class="base" x1="{left:.0f}" y1="{BASE}" x2="{left + width:.0f}" y2="{BASE}"/>',
    ]
    for at, (name, (value, text)) in enumerate(bars.items()):
        height = (BASE - TOP) * value / longest
        middle = left + (at + 0.5) * step
        size = f'x="{middle - step * 0.32:.1f}" y="{BASE - height:.1f}" width="{step * 0.64:.1f}" height="{height:.1f}"'
        lines += [
            f'<rect class="{kind}" {size}/>',
            _label(middle, BASE - height - 6, text),
            _label(middle, BASE + 16, name, "small"),
        ]
    return "".join(f"  {line}\n" for line in lines)


def _label(x: float, y: float, text: str, class_: str = "") -> str:
    of_class = f' class="{class_}"' if class_ else ""
    return f'<text{of_class} x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'


def to_json(expected: Mapping[str, float], got: Mapping[str, float], outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Give all figures for a program."""
    return {
        "counts": {name: {"expected": value, "got": got[name]} for name, value in expected.items()},
        "policies": [
            {
                "episode": one.episode,
                "held": one.held,
                "averted": one.averted,
                "withheld_days": round(one.withheld / DAY, 1),
                "spared": one.spared,
                "idle": one.idle,
            }
            for one in outcomes
        ],
    }
