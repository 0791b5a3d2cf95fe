# SPDX-License-Identifier: Apache-2.0
"""Is a life drawn whole, within bounds, and is what is left out said?"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.timeline import (
    BARS_MAX,
    ELSEWHERE,
    LANES_MAX,
    MARKS_MAX,
    PLACES,
    STAYS_MAX,
    TICKS_MAX,
    Bar,
    Life,
    Mark,
    Stay,
    Tick,
    Timeline,
    make_timeline,
)
from registry.domain.timeline_svg import describe, draw_svg

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = BEGIN + timedelta(days=100)


def day(number: float) -> datetime:
    return BEGIN + timedelta(days=number)


def make(**parts: object) -> Timeline:
    return make_timeline(Life(**parts), registered_at=BEGIN, now=NOW)  # type: ignore[arg-type]


def test_nodes_stand_in_the_order_in_which_it_came_to_them() -> None:
    made = make(
        stays=[Stay("c", "s", day(50)), Stay("a", "s", day(20), day(50)), Stay("b", "s", day(0), day(20))],
        stays_in_all=3,
    )

    assert [lane.name for lane in made.lanes] == ["b", "a", "c"]
    assert made.folded == ()


def test_a_device_that_came_back_has_one_line_for_its_node() -> None:
    made = make(stays=[Stay("a", "s", day(50)), Stay("b", "s", day(20), day(50)), Stay("a", "t", day(0), day(20))])

    assert [(lane.name, [stay.slot for stay in lane.stays]) for lane in made.lanes] == [("a", ["t", "s"]), ("b", ["s"])]


def test_a_failure_that_names_no_node_has_a_line_of_its_own() -> None:
    made = make(marks=[Mark(day(5), "xid_79", None)], times_in_all=1)

    assert [(lane.name, len(lane.dots)) for lane in made.lanes] == [(ELSEWHERE, 1)]


def test_failures_at_one_place_are_one_cross_that_counts_and_shows_the_worst() -> None:
    near = [
        Mark(day(10.01), "xid_48", "a", severity="fatal", count=3),
        Mark(day(10), "xid_63", "a", severity="warning", count=2),
        Mark(day(60), "xid_63", "a", severity="warning"),
    ]

    (lane,) = make(marks=near, times_in_all=6).lanes

    assert [(dot.codes, dot.severity, dot.count) for dot in lane.dots] == [
        (("xid_63", "xid_48"), "fatal", 5),
        (("xid_63",), "warning", 1),
    ]
    assert (lane.dots[0].at, lane.dots[0].last_at) == (day(10), day(10.01))


def test_what_has_no_effect_is_not_joined_with_what_has() -> None:
    (lane,) = make(marks=[Mark(day(10), "xid_48", "a"), Mark(day(10), "xid_48", "a", is_quiet=True)]).lanes

    assert sorted(dot.is_quiet for dot in lane.dots) == [False, True]


def test_holds_that_overlap_lie_under_one_another() -> None:
    made = make(
        bars=[
            Bar("3", day(40), None, "o", "r"),
            Bar("2", day(5), day(30), "o", "r"),
            Bar("1", day(0), day(10), "o", "r"),
        ]
    )

    assert [[bar.id for bar in row] for row in made.bars] == [["1", "3"], ["2"]]


def test_what_is_older_than_fits_is_counted_and_said() -> None:
    made = make(
        stays=[Stay(f"n{at}", "s", day(99 - at / 10), day(99.05 - at / 10)) for at in range(STAYS_MAX + 5)],
        marks=[Mark(day(99), "xid_63", "n0")] * (MARKS_MAX + 1),
        ticks=[Tick(day(99), "n0")] * (TICKS_MAX + 1),
        bars=[Bar(str(at), day(99), None, "o", "r") for at in range(BARS_MAX + 1)],
        stays_in_all=STAYS_MAX + 30,
        times_in_all=1000,
    )

    assert made.folded == (
        "Older stays that are not drawn: 30.",
        f"Older sights of failures that are not drawn: {1000 - MARKS_MAX}.",
        f"Nodes that it left longest ago that are not drawn: {STAYS_MAX - LANES_MAX}.",
        "Older passes are not drawn.",
        "Older holds are not drawn.",
    )
    assert [lane.name for lane in made.lanes][-1] == "n0"
    assert len(made.lanes) == LANES_MAX


def test_a_device_without_a_past_is_a_line_of_dates() -> None:
    made = make_timeline(Life(), registered_at=NOW, now=NOW)

    assert (made.lanes, made.bars, made.share(NOW)) == ((), (), 0.0)
    assert draw_svg(made, "GPU 1").startswith("<svg")


MOMENTS = st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - with zones
NODES = st.sampled_from(["a", "b", "<i>&\"'", None])


@st.composite
def lives(draw: st.DrawFn) -> Life:
    def pair() -> tuple[datetime, datetime | None]:
        since = draw(MOMENTS)
        return since, draw(st.none() | st.just(since + timedelta(days=3)))

    stays = [Stay(draw(NODES) or "c", draw(NODES), *pair()) for _ in range(draw(st.integers(0, 4)))]
    marks = [
        Mark(draw(MOMENTS), draw(st.sampled_from(["xid_79", "x<y"])), draw(NODES), count=draw(st.integers(1, 9)))
        for _ in range(draw(st.integers(0, 6)))
    ]
    ticks = [Tick(draw(MOMENTS), draw(NODES)) for _ in range(draw(st.integers(0, 4)))]
    bars = [Bar(str(at), *pair(), "rule:x", "be<cause") for at in range(draw(st.integers(0, 4)))]
    times = sum(one.count for one in marks)
    return Life(stays, marks, ticks, bars, stays_in_all=len(stays), times_in_all=times)


@given(lives(), MOMENTS, MOMENTS)
def test_nothing_is_lost_and_all_lies_within_the_picture(life: Life, registered_at: datetime, now: datetime) -> None:
    made = make_timeline(life, registered_at=registered_at, now=now)

    assert sum(dot.count for lane in made.lanes for dot in lane.dots) == life.times_in_all
    assert sum(len(lane.stays) for lane in made.lanes) == len(life.stays)
    assert sum(len(lane.ticks) for lane in made.lanes) == len(life.ticks)
    assert sorted(bar.id for row in made.bars for bar in row) == sorted(bar.id for bar in life.bars)
    assert made.folded == ()
    assert all(made.begin <= dot.at for lane in made.lanes for dot in lane.dots)
    assert all(len(lane.dots) <= 2 * (PLACES + 1) for lane in made.lanes)
    for row in made.bars:
        assert all((one.until or made.end) <= other.since for one, other in pairwise(row))
    json.dumps(made.to_json())


@given(lives())
def test_what_is_drawn_is_whole_xml_and_says_what_it_shows(life: Life) -> None:
    made = make_timeline(life, registered_at=BEGIN, now=NOW)

    root = ET.fromstring(draw_svg(made, 'GPU <"1">', is_alone=True))  # noqa: S314 - our own

    names = [element.text for element in root.iter() if element.tag.endswith("}title")]
    assert names[0] == 'Life of GPU <"1">'
    assert describe(made) in [element.text for element in root.iter() if element.tag.endswith("}desc")]
    kinds = [element.get("class") for element in root.iter()]
    assert kinds.count("tl-stay") == len(life.stays)
    assert kinds.count("tl-pass") == len(life.ticks)
    assert kinds.count("tl-hold") == len(life.bars)


@pytest.mark.parametrize(("moment", "share"), [(day(-1), 0.0), (day(0), 0.0), (day(50), 0.5), (day(200), 1.0)])
def test_places_are_shares_of_the_whole(moment: datetime, share: float) -> None:
    assert make().share(moment) == share
