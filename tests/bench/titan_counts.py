# SPDX-License-Identifier: Apache-2.0
"""How often did the GPUs of a fleet fail, how much more often those that had failed, and what had it cost to hold them?

Asked of what the file says and of what the service remembers, by the same arithmetic; PUBLISHED pins it to figures that
were counted from the file by others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TypeVar

from tests.bench.titan_rows import CODES, Fault, Lives, Spell

EPISODE = timedelta(hours=24)
"""Failures of one GPU that follow one another within this time are one incident."""

YEAR = timedelta(days=365.25)
DAY = timedelta(days=1)

Item = TypeVar("Item", Spell, Fault)

EPISODES_HELD_AT = (1, 2, 3)
"""The policies compared: a board is held when its first, its second, or only its third episode begins."""

WORDS = {1: "first", 2: "second", 3: "third"}

PUBLISHED_STAYS = 36_185
"""Rows of the published file that have an `insert`: 37,343 less 1,158."""

PUBLISHED: Mapping[str, float] = {
    "serials": 30_207,
    "locations": 18_687,
    "failures": 6_367,
    "double-bit errors": 4_826,
    "off the bus": 1_541,
    "serials that failed": 5_190,
    "failures on a serial that had failed before": 1_177,
    "episodes": 5_597,
    "GPU-years": 100_822,
    "episodes per GPU-year": 0.0555,
    "serials with a first episode": 5_190,
    "episodes after the first": 407,
    "serials that failed again after the first": 346,
    "episodes per GPU-year after the first": 1.53,
    "times the rate of all after the first": 28,
    "serials with a second episode": 346,
    "episodes after the second": 61,
    "serials that failed again after the second": 46,
    "serials with a third episode": 46,
    "episodes after the third": 15,
    "serials that failed again after the third": 10,
    "serials installed at another location after an episode": 195,
    "serials seen at more than one location": 4_813,
    "the same, counting where a failure was told of": 4_826,
    "locations with failures": 4_626,
    "locations with failures of two or more serials": 571,
}
"""What a replay of the whole file must give."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What it would have meant to hold every board from the beginning of its n-th episode, n = `episode`.

    `averted` are the episodes that came later, `withheld` the time that the boards were in a node later. `spared`
    boards never failed again: `idle` of them were never in a node again either, so that holding them cost nothing.
    """

    episode: int
    held: int
    averted: int
    withheld: timedelta
    spared: int
    idle: int

    @property
    def days_each(self) -> float | None:
        """Days of a GPU withheld for each episode averted; None where none was."""
        return self.withheld / DAY / self.averted if self.averted else None


def begins(times: Iterable[datetime]) -> list[datetime]:
    """When each episode began, the oldest first."""
    ordered = sorted(times)
    return ordered[:1] + [after for before, after in pairwise(ordered) if after - before > EPISODE]


def count(lives: Lives) -> dict[str, float]:
    """Count everything that PUBLISHED names."""
    faults, spells = _by_serial(lives.faults), _by_serial(lives.spells)
    episodes = {serial: begins(one.at for one in mine) for serial, mine in faults.items()}
    total, years = sum(map(len, episodes.values())), _time_in(lives.spells) / YEAR
    raw = sum(one.count for one in lives.faults)
    rate = total / years if years else 0.0
    return {
        "serials": len(lives.serials),
        "locations": len(lives.locations),
        "failures": raw,
        "double-bit errors": sum(one.count for one in lives.faults if one.code == CODES["DBE"]),
        "off the bus": sum(one.count for one in lives.faults if one.code == CODES["OTB"]),
        "serials that failed": len(faults),
        "failures on a serial that had failed before": raw - len(faults),
        "episodes": total,
        "GPU-years": round(years),
        "episodes per GPU-year": round(rate, 4),
        **_counts_after(episodes, spells, rate),
        "serials installed at another location after an episode": _moved_on(faults, spells, episodes),
        **_counts_of_places(lives),
    }


def _counts_after(
    episodes: Mapping[str, Sequence[datetime]], spells: Mapping[str, Sequence[Spell]], rate: float
) -> dict[str, float]:
    found: dict[str, float] = {}
    for number in EPISODES_HELD_AT:
        word = WORDS[number]
        reached = {serial: times for serial, times in episodes.items() if len(times) >= number}
        later = sum(len(times) - number for times in reached.values())
        found[f"serials with a {word} episode"] = len(reached)
        found[f"episodes after the {word}"] = later
        found[f"serials that failed again after the {word}"] = sum(len(times) > number for times in reached.values())
        if number == 1:
            after = sum((_time_in(spells[one], times[0]) for one, times in reached.items()), timedelta())
            again = later / (after / YEAR) if after else 0.0
            found["episodes per GPU-year after the first"] = round(again, 2)
            found["times the rate of all after the first"] = round(again / rate) if rate else 0
    return found


def _moved_on(
    faults: Mapping[str, Sequence[Fault]],
    spells: Mapping[str, Sequence[Spell]],
    episodes: Mapping[str, Sequence[datetime]],
) -> int:
    """Count those that were put in elsewhere after they had failed."""
    failed_at = {serial: {one.at: one.location for one in mine} for serial, mine in faults.items()}
    return sum(
        any(one.since > at and one.location != failed_at[serial][at] for one in spells[serial] for at in times)
        for serial, times in episodes.items()
    )


def _counts_of_places(lives: Lives) -> dict[str, float]:
    places: dict[str, set[str]] = defaultdict(set)
    failing: dict[str, set[str]] = defaultdict(set)
    for spell in lives.spells:
        places[spell.serial].add(spell.location)
    moved = sum(len(one) > 1 for one in places.values())
    for fault in lives.faults:
        places[fault.serial].add(fault.location)
        failing[fault.location].add(fault.serial)
    return {
        "serials seen at more than one location": moved,
        "the same, counting where a failure was told of": sum(len(one) > 1 for one in places.values()),
        "locations with failures": len(failing),
        "locations with failures of two or more serials": sum(len(one) > 1 for one in failing.values()),
    }


def holds_at(lives: Lives, episode: int) -> dict[str, datetime]:
    """When each board would have been held that had so many episodes."""
    found = {serial: begins(one.at for one in mine) for serial, mine in _by_serial(lives.faults).items()}
    return {serial: times[episode - 1] for serial, times in found.items() if len(times) >= episode}


def outcome(lives: Lives, episode: int, held_at: Mapping[str, datetime]) -> Outcome:
    """Work out what holding these boards from these times would have meant."""
    faults, spells = _by_serial(lives.faults), _by_serial(lives.spells)
    later = {
        serial: sum(begin > at for begin in begins(one.at for one in faults[serial])) for serial, at in held_at.items()
    }
    withheld = {serial: _time_in(spells[serial], at) for serial, at in held_at.items()}
    spared = [serial for serial, number in later.items() if not number]
    return Outcome(
        episode,
        len(held_at),
        sum(later.values()),
        sum(withheld.values(), timedelta()),
        len(spared),
        sum(not withheld[serial] for serial in spared),
    )


def outcomes(lives: Lives, held_at: Mapping[int, Mapping[str, datetime]]) -> list[Outcome]:
    """Work it out for each policy, given the boards that each held."""
    return [outcome(lives, episode, held_at[episode]) for episode in EPISODES_HELD_AT]


def figures_of(found: Iterable[Outcome]) -> dict[str, float]:
    """Name the figures of policies, to compare them like the counts."""
    return {
        f"at the {WORDS[one.episode]} episode: {name}": value
        for one in found
        for name, value in {
            "boards held": one.held,
            "episodes averted": one.averted,
            "GPU-days withheld": round(one.withheld / DAY),
            "boards that never failed again": one.spared,
        }.items()
    }


def in_place_at_end(lives: Lives, serials: Collection[str]) -> set[str]:
    """Those of these boards that are still in a node when the fleet is looked at last."""
    return {one.serial for one in lives.spells if one.until == lives.end} & set(serials)


def _by_serial(items: Iterable[Item]) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = defaultdict(list)
    for one in items:
        found[one.serial].append(one)
    return found


def _time_in(spells: Iterable[Spell], after: datetime | None = None) -> timedelta:
    """How long GPUs were in a node, after a time."""
    lengths = (one.until - (max(one.since, after) if after else one.since) for one in spells)
    return sum((one for one in lengths if one > timedelta()), timedelta())
