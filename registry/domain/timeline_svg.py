# SPDX-License-Identifier: Apache-2.0
"""How is a timeline drawn? As SVG that any width can show: what lies in time is placed by shares, text keeps its size.

Nothing is told by colour alone: a failure is a cross, one without effect a ring, a clean run a stroke below the line, a
hold is hatched. Looks are given by classes, so that a page with a strict policy needs no style of its own in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from html import escape

from registry.domain.timeline import Bar, Dot, Lane, Stay, Timeline
from registry.domain.times import brief

LANE_HEIGHT = 52
ROW_HEIGHT = 20
FOOT_HEIGHT = 66
"""In pixels of a page, whatever its width."""

_CROSS = '<path d="M-5 -5L5 5M-5 5L5 -5"/>'
_RING = '<circle r="5"/>'
_LEGEND = ("✕ failure · ○ failure without effect · ❘ clean run", "▬ in a slot · ▨ on hold")

STYLE = """
.tl{font:12px sans-serif;background:#fff;color:#1b1f24}.tl text{fill:#1b1f24}.tl-line{stroke:#8c959f}
.tl-stay{fill:#b6d4fe;stroke:#0550ae}.tl-failure{stroke:#a40e26;stroke-width:3;fill:none}
.tl-quiet{stroke:#57606a;stroke-width:2;fill:none}.tl-pass{stroke:#116329;stroke-width:2}
.tl-hold{fill:url(#tl-hatch);stroke:#7d4e00}.tl-hatch{stroke:#7d4e00;stroke-width:2}
"""
"""What the classes look like where no page says it: in a file that stands alone."""


def draw_svg(timeline: Timeline, name: str, *, is_alone: bool = False) -> str:
    """Draw a timeline of the device called `name`. Alone, for a file, it brings its own looks and a width."""
    rows = ROW_HEIGHT * len(timeline.bars) + (22 if timeline.bars else 0)
    height = LANE_HEIGHT * len(timeline.lanes) + rows + FOOT_HEIGHT
    own = ' xmlns="http://www.w3.org/2000/svg"' if is_alone else ""
    width = "960" if is_alone else "100%"
    inside = "".join(_inside(timeline, height))
    return (
        f'<svg{own} class="tl" role="img" aria-labelledby="tl-title tl-desc" width="{width}" height="{height}">'
        f'<title id="tl-title">Life of {escape(name)}</title><desc id="tl-desc">{escape(describe(timeline))}</desc>'
        f"{f'<style>{STYLE}</style>' if is_alone else ''}"
        '<defs><pattern id="tl-hatch" width="6" height="6" patternUnits="userSpaceOnUse">'
        '<path class="tl-hatch" d="M0 6L6 0"/></pattern></defs>'
        f'<svg x="2%" width="96%" overflow="visible">{inside}</svg></svg>'
    )


def describe(timeline: Timeline) -> str:
    """Say in words what the picture shows."""
    crosses = [dot for lane in timeline.lanes for dot in lane.dots]
    held = sum(len(row) for row in timeline.bars)
    counts = [
        _many(len(timeline.lanes), "node"),
        _many(sum(dot.count for dot in crosses), "failure seen", "failures seen"),
        _many(sum(len(lane.ticks) for lane in timeline.lanes), "clean run"),
        _many(held, "hold"),
    ]
    told = f"From {brief(timeline.begin)} to {brief(timeline.end)}: {', '.join(counts)}."
    return " ".join([told, *timeline.folded])


def _many(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or f'{one}s'}"


def _inside(timeline: Timeline, height: int) -> Iterator[str]:
    for at, lane in enumerate(timeline.lanes):
        yield from _lane(timeline, lane, at * LANE_HEIGHT)
    top = LANE_HEIGHT * len(timeline.lanes)
    if timeline.bars:
        yield f'<text class="tl-name" x="0" y="{top + 14}">on hold</text>'
    for at, row in enumerate(timeline.bars):
        yield from (_bar(timeline, bar, top + 20 + at * ROW_HEIGHT) for bar in row)
    yield from _foot(timeline, height - FOOT_HEIGHT)


def _lane(timeline: Timeline, lane: Lane, top: int) -> Iterator[str]:
    middle = top + 28
    yield f'<text class="tl-name" x="0" y="{top + 14}">{escape(lane.name)}</text>'
    yield f'<line class="tl-line" x1="0" x2="100%" y1="{middle}" y2="{middle}"/>'
    yield from (_stay(timeline, stay, top + 20) for stay in lane.stays)
    for tick in lane.ticks:
        x = _x(timeline, tick.at)
        title = f"<title>clean run {brief(tick.at)}</title>"
        yield f'<line class="tl-pass" x1="{x}" x2="{x}" y1="{top + 38}" y2="{top + 47}">{title}</line>'
    # Rings first: what has effect lies in front.
    yield from (_dot(timeline, dot, middle) for dot in sorted(lane.dots, key=lambda dot: not dot.is_quiet))


def _stay(timeline: Timeline, stay: Stay, top: int) -> str:
    until = stay.until or timeline.end
    told = f"{stay.slot or 'no slot'}, {brief(stay.since)} to {brief(stay.until) if stay.until else 'now'}"
    return _box("tl-stay", timeline, stay.since, until, top, 16, told)


def _bar(timeline: Timeline, bar: Bar, top: int) -> str:
    until = bar.until or timeline.end
    told = f"{bar.owner}: {bar.reason}, {brief(bar.since)} to {brief(bar.until) if bar.until else 'now'}"
    return _box("tl-hold", timeline, bar.since, until, top, 14, told)


def _box(class_: str, timeline: Timeline, since: datetime, until: datetime, top: int, height: int, told: str) -> str:
    width = max(timeline.share(until) - timeline.share(since), 0.002)
    place = f'x="{_x(timeline, since)}" y="{top}" width="{width:.2%}" height="{height}"'
    return f'<rect class="{class_}" {place}><title>{escape(told)}</title></rect>'


def _dot(timeline: Timeline, dot: Dot, middle: int) -> str:
    until = f" to {brief(dot.last_at)}" if dot.last_at != dot.at else ""
    told = f"{', '.join(dot.codes)}, {dot.severity}, {brief(dot.at)}{until}, {_many(dot.count, 'time')}"
    class_, shape = ("tl-quiet", _RING) if dot.is_quiet else ("tl-failure", _CROSS)
    return (
        f'<svg class="{class_}" x="{_x(timeline, dot.at)}" y="{middle}" overflow="visible">'
        f"<title>{escape(told)}</title>{shape}</svg>"
    )


def _foot(timeline: Timeline, top: int) -> Iterator[str]:
    """Dates below the lines, and what the signs mean."""
    length = timeline.end - timeline.begin
    form = "%Y-%m-%d" if length > timedelta(days=3) else "%m-%d %H:%M"
    yield f'<line class="tl-line" x1="0" x2="100%" y1="{top + 6}" y2="{top + 6}"/>'
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        text = (timeline.begin + length * share).strftime(form)
        yield f'<text class="tl-date" x="{share:.0%}" y="{top + 22}" text-anchor="{anchor}">{text}</text>'
    for at, line in enumerate(_LEGEND):
        yield f'<text class="tl-date" x="0" y="{top + 42 + at * 16}">{line}</text>'


def _x(timeline: Timeline, moment: datetime) -> str:
    return f"{timeline.share(moment):.2%}"
