# SPDX-License-Identifier: Apache-2.0
"""Are pictures well-formed, without styles of their own, and never without their numbers?"""

from __future__ import annotations

from datetime import timedelta
from xml.etree import ElementTree as ET

import pytest

from api.console.charts import Bar, Point, Series, bars, line, mark, path, rect, svg, table, text, trend
from tests.clock import NOON

SVG = "{http://www.w3.org/2000/svg}"
WICKED = "<b>&\"'"


def parse(markup: str) -> ET.Element:
    """Read markup as strictly as XML is read."""
    return ET.fromstring(f'<div xmlns="http://www.w3.org/2000/svg">{markup}</div>')  # noqa: S314 - our own


def test_what_is_put_into_a_picture_stays_text() -> None:
    shapes = [
        rect(0, 0, 1, 1, WICKED, told=WICKED),
        line(0, 0, 1, 1, "axis", told=WICKED),
        mark(0, 0, "bad", told=WICKED),
        path([(0, 0), (1, 1)], "trend"),
        text(0, 0, WICKED),
    ]

    drawn = parse(svg(10, 10, WICKED, WICKED, shapes))

    assert [one.text for one in drawn.iter(f"{SVG}title")] == [WICKED] * 4
    assert [one.text for one in drawn.iter(f"{SVG}text")] == [WICKED]
    assert not [one for one in drawn.iter() if "style" in one.attrib]


def test_a_bar_chart_is_its_own_table() -> None:
    drawn = bars("What <is>", [Bar("a & b", 4, "/x?a=1&b=2"), Bar("c", 1, said="one")])

    widths = [float(one.attrib["width"]) for one in parse(drawn).iter(f"{SVG}rect")]
    assert widths == [100, 25]
    assert '<a href="/x?a=1&amp;b=2">a &amp; b</a>' in drawn
    assert ">one</td>" in drawn


def test_bars_of_nothing_are_drawn_all_the_same() -> None:
    assert len([*parse(bars("none", [Bar("a", 0)])).iter(f"{SVG}rect")]) == 1


def test_a_trend_goes_up_from_zero_and_has_all_its_numbers_in_a_table() -> None:
    points = [Point(NOON + timedelta(hours=at), value) for at, value in enumerate((0.0, 5.0, 10.0))]
    drawn = trend("GPUs held", (Series("held", points, "bad"), Series("all", points[::-1], "plain")), unit="GPUs")

    lines = [one.attrib["points"] for one in parse(drawn).iter(f"{SVG}polyline")]
    heights = [float(one.split(",")[1]) for one in lines[0].split()]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2])
    assert heights[0] > heights[2], "up is less"
    rows = [[cell.text for cell in row.iter(f"{SVG}td")] for row in parse(drawn).iter(f"{SVG}tr")]
    assert rows[1:] == [
        ["2026-11-29 12:00:00 UTC", "0", "10"],
        ["2026-11-29 13:00:00 UTC", "5", "5"],
        ["2026-11-29 14:00:00 UTC", "10", "0"],
    ]


def test_a_trend_at_one_moment_and_of_nothing_can_be_drawn() -> None:
    points = [Point(NOON, 0.0), Point(NOON, 0.0)]

    assert parse(trend("nothing", (Series("held", points, "bad"),), unit="GPUs")) is not None


def test_a_table_escapes_its_cells() -> None:
    assert "&lt;b&gt;" in table("t", ["<i>"], [["<b>"]])
    assert "<i>" not in table("t", ["<i>"], [["<b>"]])
