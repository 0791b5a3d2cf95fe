# SPDX-License-Identifier: Apache-2.0
"""What does the whole life of a device look like? Stays by node, failures as marks, passes as ticks, holds as bars.

The picture has bounds: what is older than it can show is folded, which means counted and said. Where things lie is a
share of its width, from 0.0 at its beginning to 1.0 at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from registry.domain.times import rfc3339, rfc3339_or_none

LANES_MAX = 12
"""Most nodes that have a lane of their own: more do not fit on a screen, and few devices see so many."""
STAYS_MAX = 200
MARKS_MAX = 300
TICKS_MAX = 200
BARS_MAX = 50
"""Most of each that a picture is made of, the newest ones."""

PLACES = 120
"""How many marks lie beside one another before they are one: 3 pixels each on a phone of 360."""

ELSEWHERE = "no node named"
"""The lane of what nobody said the node of."""


@dataclass(frozen=True, slots=True)
class Stay:
    """The device was in this slot of this node. `until` is None while it is; `ended_by` says how it ended."""

    node: str
    slot: str | None
    since: datetime
    until: datetime | None = None
    ended_by: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A failure was seen, `count` times from `at` on. One that has no effect is `is_quiet`: muted or withdrawn."""

    at: datetime
    code: str
    node: str | None
    slot: str | None = None
    severity: str = "warning"
    count: int = 1
    is_quiet: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """A clean run counted that covered the device."""

    at: datetime
    node: str | None


@dataclass(frozen=True, slots=True)
class Bar:
    """The device was on hold. `until` is None while it is."""

    id: str
    since: datetime
    until: datetime | None
    owner: str
    reason: str


@dataclass(frozen=True, slots=True)
class Life:
    """All that a picture is made of, the newest first, and how much of each there is in all: `times_in_all` counts
    how often failures were seen. Of what is looked for only so far back it says whether it is all.
    """

    stays: Sequence[Stay] = ()
    marks: Sequence[Mark] = ()
    ticks: Sequence[Tick] = ()
    bars: Sequence[Bar] = ()
    stays_in_all: int = 0
    times_in_all: int = 0
    ticks_are_all: bool = True
    bars_are_all: bool = True


@dataclass(frozen=True, slots=True)
class Dot:
    """One or more marks that lie at one place of a lane, the worst of them in front."""

    at: datetime
    last_at: datetime
    codes: tuple[str, ...]
    severity: str
    count: int
    is_quiet: bool


@dataclass(frozen=True, slots=True)
class Lane:
    """What happened on one node, oldest first."""

    name: str
    stays: tuple[Stay, ...]
    dots: tuple[Dot, ...]
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The picture from `begin` to `end`. `bars` come by rows, so that those of one row do not overlap.

    `folded` says in sentences what is not in it.
    """

    begin: datetime
    end: datetime
    lanes: tuple[Lane, ...]
    bars: tuple[tuple[Bar, ...], ...]
    folded: tuple[str, ...]

    def share(self, moment: datetime) -> float:
        """Say where a time lies, from 0.0 to 1.0."""
        return min(max((moment - self.begin) / (self.end - self.begin), 0.0), 1.0)

    def to_json(self) -> dict[str, Any]:
        """Give the picture as data."""
        return {
            "begin": rfc3339(self.begin),
            "end": rfc3339(self.end),
            "nodes": [_lane_json(one) for one in self.lanes],
            "holds": [
                {
                    "id": one.id,
                    "since": rfc3339(one.since),
                    "until": rfc3339_or_none(one.until),
                    "owner": one.owner,
                    "reason": one.reason,
                }
                for row in self.bars
                for one in row
            ],
            "folded": list(self.folded),
        }


def make_timeline(life: Life, *, registered_at: datetime, now: datetime) -> Timeline:
    """Make the picture of a life, up to `now`."""
    stays, marks = life.stays[:STAYS_MAX], life.marks[:MARKS_MAX]
    ticks, bars = life.ticks[:TICKS_MAX], life.bars[:BARS_MAX]
    begins = [*(one.since for one in stays), *(one.since for one in bars)]
    begin = min([registered_at, now, *begins, *(one.at for one in marks), *(one.at for one in ticks)])
    end = max(now, begin + timedelta(seconds=1))  # a picture of no width has no places
    lanes, left = _lanes(stays, marks, ticks)
    counted = (
        (life.stays_in_all - len(stays), "Older stays"),
        (life.times_in_all - sum(one.count for one in marks), "Older sights of failures"),
        (left, "Nodes that it left longest ago"),
    )
    is_whole = (life.ticks_are_all and len(life.ticks) == len(ticks), life.bars_are_all and len(life.bars) == len(bars))
    folded = [f"{what} that are not drawn: {count}." for count, what in counted if count > 0]
    folded += [
        f"Older {what} are not drawn." for is_all, what in zip(is_whole, ("passes", "holds"), strict=True) if not is_all
    ]
    picture = Timeline(begin, end, (), _rows(bars, end), tuple(folded))
    return replace(picture, lanes=tuple(_join_dots(picture, lane) for lane in lanes))


def _lanes(stays: Sequence[Stay], marks: Sequence[Mark], ticks: Sequence[Tick]) -> tuple[list[Lane], int]:
    """Put everything on the lane of its node, in the order in which the device came there; say how many have none."""
    first: dict[str, datetime] = {}
    last: dict[str, datetime] = {}
    came = [(one.node, one.since) for one in stays]
    came += [(one.node or ELSEWHERE, one.at) for one in marks]
    came += [(one.node or ELSEWHERE, one.at) for one in ticks]
    for name, at in came:
        first[name], last[name] = min(at, first.get(name, at)), max(at, last.get(name, at))
    kept = sorted(sorted(last, key=lambda name: (last[name], name))[-LANES_MAX:], key=lambda name: (first[name], name))
    lanes = [
        Lane(
            name,
            tuple(sorted((one for one in stays if one.node == name), key=lambda one: one.since)),
            tuple(_dot(one) for one in sorted(marks, key=lambda one: one.at) if (one.node or ELSEWHERE) == name),
            tuple(sorted((one for one in ticks if (one.node or ELSEWHERE) == name), key=lambda one: one.at)),
        )
        for name in kept
    ]
    return lanes, len(last) - len(kept)


def _join_dots(picture: Timeline, lane: Lane) -> Lane:
    """Make one of the dots that would lie on one another. Those without effect stay apart: they look otherwise."""

    def place(dot: Dot) -> tuple[bool, int]:
        return dot.is_quiet, int(picture.share(dot.at) * PLACES)

    ordered = sorted(lane.dots, key=lambda dot: (place(dot), dot.at))
    joined = [_joined(list(group)) for _, group in groupby(ordered, key=place)]
    return replace(lane, dots=tuple(sorted(joined, key=lambda dot: dot.at)))


def _dot(one: Mark) -> Dot:
    return Dot(one.at, one.at, (one.code,), one.severity, one.count, one.is_quiet)


def _joined(dots: Sequence[Dot]) -> Dot:
    return Dot(
        dots[0].at,
        dots[-1].last_at,
        tuple(dict.fromkeys(code for one in dots for code in one.codes)),
        max((one.severity for one in dots), key=_rank),
        sum(one.count for one in dots),
        dots[0].is_quiet,
    )


_GRAVITY = ("info", "warning", "critical", "fatal")


def _rank(severity: str) -> int:
    return _GRAVITY.index(severity) if severity in _GRAVITY else 0


def _rows(bars: Iterable[Bar], end: datetime) -> tuple[tuple[Bar, ...], ...]:
    """Put bars that overlap under one another."""
    rows: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda one: (one.since, one.id)):
        free = next((row for row in rows if (row[-1].until or end) <= bar.since), None)
        if free is None:
            rows.append([bar])
        else:
            free.append(bar)
    return tuple(tuple(row) for row in rows)


def _lane_json(lane: Lane) -> dict[str, Any]:
    return {
        "node": lane.name,
        "stays": [
            {
                "slot": one.slot,
                "since": rfc3339(one.since),
                "until": rfc3339_or_none(one.until),
                "ended_by": one.ended_by,
            }
            for one in lane.stays
        ],
        "failures": [
            {
                "at": rfc3339(one.at),
                "last_at": rfc3339(one.last_at),
                "codes": list(one.codes),
                "severity": one.severity,
                "count": one.count,
                "has_effect": not one.is_quiet,
            }
            for one in lane.dots
        ],
        "passes": [rfc3339(one.at) for one in lane.ticks],
    }
