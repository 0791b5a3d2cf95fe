# SPDX-License-Identifier: Apache-2.0
"""How does a number become a picture? As SVG made here, with the same numbers as a table beside it.

Colours come from classes in the style sheet, so that light, dark and a strict policy hold; every picture has a title
and a description, and no fact is in it that the table lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup, escape

from api.console.words import clock, number

WIDTH = 360
"""Units of a picture's width: it is drawn for a phone, where one unit is one pixel, and grows no further than twice."""

TREND_HEIGHT = 120
_EDGE = 4
_LABEL = 12
"""Height of a line of text in a picture, in units."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of a bar chart: its label, which may be a link, and its value."""

    label: str
    value: float
    href: str | None = None
    tone: str = "plain"
    said: str | None = None
    """The value in words; the number itself where there are none."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value at one time."""

    at: datetime
    value: float


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a picture over time: what it counts, its values, and the class it is drawn with."""

    label: str
    points: Sequence[Point]
    kind: str


def svg(width: float, height: float, title: str, desc: str, body: Iterable[Markup], *, kind: str = "") -> Markup:
    """Make a picture of shapes, with what it shows said in a title and a description."""
    return Markup(
        '<svg class="chart {kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{title}. {desc}">'
        "<title>{title}</title><desc>{desc}</desc>{body}</svg>"
    ).format(kind=kind, width=width, height=height, title=title, desc=desc, body=Markup("").join(body))


def rect(x: float, y: float, width: float, height: float, kind: str, *, told: str = "") -> Markup:
    """Draw a box; `told` is what a pointer that rests on it reads."""
    return Markup(
        '<rect class="{kind}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}">{told}</rect>'
    ).format(kind=kind, x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), told=_told(told))


def line(x1: float, y1: float, x2: float, y2: float, kind: str, *, told: str = "") -> Markup:
    """Draw a line."""
    return Markup('<line class="{kind}" x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}">{told}</line>').format(
        kind=kind, x1=x1, y1=y1, x2=x2, y2=y2, told=_told(told)
    )


def path(points: Sequence[tuple[float, float]], kind: str) -> Markup:
    """Draw a line through points."""
    told = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
    return Markup('<polyline class="{kind}" points="{told}" />').format(kind=kind, told=told)


def mark(x: float, y: float, kind: str, *, size: float = 4, told: str = "") -> Markup:
    """Draw a diamond around a point: a thing that happened at a moment."""
    corners = ((x, y - size), (x + size, y), (x, y + size), (x - size, y))
    points = " ".join(f"{one:.2f},{other:.2f}" for one, other in corners)
    return Markup('<polygon class="{kind}" points="{points}">{told}</polygon>').format(
        kind=kind, points=points, told=_told(told)
    )


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "label") -> Markup:
    """Write a word; `anchor` says which end of it stands at the point: start, middle or end."""
    return Markup('<text class="{kind}" x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}">{words}</text>').format(
        kind=kind, x=x, y=y, anchor=anchor, words=words
    )


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Make a table; what is no Markup is escaped. It scrolls in a box of its own."""
    heads = Markup("").join(Markup('<th scope="col">{}</th>').format(one) for one in head)
    lines = Markup("").join(
        Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row))
        for row in rows
    )
    return Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table><caption>{caption}</caption>'
        "<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"
    ).format(caption=caption, heads=heads, lines=lines)


def with_table(picture: Markup, caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Put a picture and the table of its numbers together; the table is shown when it is asked for."""
    return Markup("<figure>{}<details><summary>The numbers: {}</summary>{}</details></figure>").format(
        picture, caption, table(caption, head, rows)
    )


def bars(caption: str, rows: Sequence[Bar], *, head: tuple[str, str] = ("What", "How many")) -> Markup:
    """Make a bar chart that is its own table: one line for each bar, its number beside it. Empty for no bars."""
    most = max((row.value for row in rows), default=0) or 1
    lines = Markup("").join(
        Markup('<tr><th scope="row">{}</th><td class="number">{}</td><td class="bar">{}</td></tr>').format(
            Markup('<a href="{}">{}</a>').format(row.href, row.label) if row.href else row.label,
            row.said or number(row.value),
            _bar(row.value / most * 100, row.tone),
        )
        for row in rows
    )
    return Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table class="bars">'
        "<caption>{caption}</caption>"
        '<thead><tr><th scope="col">{}</th><th scope="col">{}</th><th scope="col" class="bar">{}</th></tr></thead>'
        "<tbody>{lines}</tbody></table></div>"
    ).format(*head, "Share", caption=caption, lines=lines)


def trend(title: str, series: Sequence[Series], *, unit: str) -> Markup:
    """Draw how values went over the same two or more moments, from zero up, with their table."""
    points = [point for one in series for point in one.points]
    first, last = points[0].at, points[-1].at
    most = max(point.value for point in points) or 1
    span = (last - first).total_seconds() or 1
    low = TREND_HEIGHT - _LABEL - 2 * _EDGE
    high = 2 * _LABEL

    def place(point: Point) -> tuple[float, float]:
        share = (point.at - first).total_seconds() / span
        return _EDGE + share * (WIDTH - 2 * _EDGE), low - point.value / most * (low - high)

    body = [
        line(_EDGE, low, WIDTH - _EDGE, low, "axis"),
        line(_EDGE, high, WIDTH - _EDGE, high, "axis"),
        *(path([place(point) for point in one.points], f"trend {one.kind}") for one in series),
        text(_EDGE, _LABEL, f"{number(round(most))} {unit}"),
        text(_EDGE, TREND_HEIGHT - _EDGE, clock(first)[5:16]),
        text(WIDTH - _EDGE, TREND_HEIGHT - _EDGE, clock(last)[5:16], anchor="end"),
    ]
    told = [f"{one.label} {number(round(one.points[-1].value))} {unit}" for one in series]
    desc = f"From {clock(first)} to {clock(last)}, at most {number(round(most))} {unit}; now {', '.join(told)}"
    key = Markup("").join(
        Markup('<span class="key {}">{}</span> ').format(one.kind, words)
        for one, words in zip(series, told, strict=True)
    )
    rows = [
        (clock(moment[0].at), *(number(round(point.value, 1)) for point in moment))
        for moment in zip(*(one.points for one in series), strict=True)
    ]
    picture = svg(WIDTH, TREND_HEIGHT, title, desc, body)
    head = ("time", *(f"{one.label}, {unit}" for one in series))
    return with_table(picture + Markup('<p class="keys">Now {}</p>').format(key), title, head, rows)


def _bar(percent: float, tone: str) -> Markup:
    return Markup(
        '<svg class="inline-bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{}</svg>'
    ).format(rect(0, 0, max(percent, 0.5), 8, f"fill-{tone}"))


def _told(words: str) -> Markup:
    return Markup("<title>{}</title>").format(words) if words else escape("")
