# SPDX-License-Identifier: Apache-2.0
"""Does the service remember a fleet's life as it was told? Ten cards, twelve nodes, and all that is odd in a real one.

The small table is made up. The published one is no part of this project; its test runs where it is kept beside it, or
where PRATIQUE_TITAN says.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
from defusedxml import ElementTree
from rich.console import Console

from registry.services.history import list_events
from registry.services.pages import PageRequest
from registry.store.database import Database, open_database
from registry.store.verifying import verify_chain
from tests.bench import titan, titan_plot
from tests.bench.titan_counts import DAY, PUBLISHED, WORDS, count, holds_at, outcome, outcomes
from tests.bench.titan_reading import remember
from tests.bench.titan_replay import Moment, moments, replay
from tests.bench.titan_rows import CODES, Fault, Lives, Spell, read_lives
from tests.clock import NOON
from tests.project import ROOT

SMALL = Path(__file__).with_name("titan_small.csv")
PUBLIC = Path(os.environ.get("PRATIQUE_TITAN", ROOT.parent / "shared" / "titan" / "gc_full.csv"))

HOUR = timedelta(hours=1)

COUNTED_BY_HAND = {
    "serials": 10,
    "locations": 12,
    "failures": 13,
    "double-bit errors": 8,
    "off the bus": 5,
    "serials that failed": 6,
    "failures on a serial that had failed before": 7,
    "episodes": 11,
    "serials with a first episode": 6,
    "episodes after the first": 5,
    "serials that failed again after the first": 2,
    "serials with a second episode": 2,
    "episodes after the second": 3,
    "serials with a third episode": 2,
    "episodes after the third": 1,
    "serials installed at another location after an episode": 2,
    "serials seen at more than one location": 3,
    "the same, counting where a failure was told of": 5,
    "locations with failures": 7,
    "locations with failures of two or more serials": 2,
    titan.CARRIED: 4,
    titan.REFUSED: 4,
}


def time_in_nodes(lives: Lives) -> timedelta:
    return sum((one.until - one.since for one in lives.spells), timedelta())


def quiet() -> Console:
    return Console(file=io.StringIO())


@contextmanager
def opened(url: str) -> Iterator[Database]:
    db = open_database(url)
    try:
        yield db
    finally:
        db.close_all()


def events_of(url: str) -> Counter[str]:
    with opened(url) as db:
        return Counter(one["type"] for one in list_events(db, {}, PageRequest(1000)).items)


def test_the_service_counts_what_was_counted_by_hand(database_url: str) -> None:
    result = titan.run(SMALL, database_url, console=quiet())

    assert {name: result.got[name] for name in COUNTED_BY_HAND} == COUNTED_BY_HAND
    assert result.got == result.expected
    assert [(one.held, one.averted, one.spared, one.idle) for one in result.outcomes] == [
        (6, 5, 4, 2),
        (2, 3, 0, 0),
        (2, 1, 1, 1),
    ]
    with opened(database_url) as db, db.read() as snapshot:
        assert verify_chain(snapshot).ok


def test_two_nodes_that_show_one_board_dispute_it_until_one_shows_it_no_more(database_url: str) -> None:
    titan.run(SMALL, database_url, console=quiet())

    seen = events_of(database_url)

    assert (seen["conflict.opened"], seen["conflict.resolved"]) == (1, 1)


def test_a_replay_that_was_interrupted_goes_on_where_it_stopped(database_url: str) -> None:
    told = list(moments(read_lives(SMALL)))
    left: list[Moment] = []

    def stop(moment: Moment) -> None:
        left.append(moment)
        if len(left) == len(told) // 2:
            raise KeyboardInterrupt

    with opened(database_url) as db:
        with pytest.raises(KeyboardInterrupt):
            replay(db, told, stop)
        half = list_events(db, {}, PageRequest(1)).items[0]["sequence"]
    result = titan.run(SMALL, database_url, console=quiet())
    whole = events_of(database_url).total()
    again = titan.run(SMALL, database_url, console=quiet())

    assert result.is_exact
    assert again.is_exact
    assert 0 < half < whole == events_of(database_url).total()


def test_a_record_that_the_file_does_not_have_is_told_of(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    lines = SMALL.read_text(encoding="utf-8").splitlines()
    other.write_text("\n".join([*lines, lines[1].replace("0990000000001,n1", "0990000000011,n13")]), encoding="utf-8")
    address = f"sqlite:///{tmp_path / 'titan.db'}"
    options = ["--database", address, "--plot", str(tmp_path / "plot.svg"), "--json", str(tmp_path / "figures.json")]

    first = titan.main([str(other), *options])
    second = titan.main([str(SMALL), *options])

    assert (first, second) == (0, 1)
    assert '"expected": 10,\n      "got": 11' in (tmp_path / "figures.json").read_text(encoding="utf-8")
    ElementTree.parse(tmp_path / "plot.svg")


def test_failures_within_a_day_are_one_episode_and_later_ones_another() -> None:
    lives = read_lives(SMALL)

    at = holds_at(lives, 2)["0990000000002"]
    held_at_second = outcome(lives, 2, {"0990000000002": at})

    assert at == holds_at(lives, 1)["0990000000002"] + timedelta(days=58, hours=17, minutes=30)
    assert "0990000000003" not in holds_at(lives, 2)
    # May, and from July to the end; March was before the hold.
    assert held_at_second.withheld / DAY == 31 + 183


def test_the_first_rows_alone_are_a_fleet_too() -> None:
    assert count(read_lives(SMALL, 2))["serials"] == 2


@st.composite
def fleets(draw: st.DrawFn) -> Lives:
    """Five cards that go from node to node of three at any hour, beside three that stay, and fail here and there."""
    spells = [Spell(f"099000000020{number}", f"n{number}", NOON, NOON + 400 * HOUR) for number in (1, 2, 3)]
    faults: dict[tuple[str, str, datetime], Fault] = {}
    for number in range(5):
        serial, at = f"099000000010{number}", NOON
        for _ in range(draw(st.integers(1, 4))):
            since = at + draw(st.integers(0, 30)) * HOUR
            at = since + draw(st.integers(1, 60)) * HOUR
            spells.append(Spell(serial, f"n{draw(st.integers(1, 3))}", since, at))
            hours = draw(st.sets(st.integers(0, (at - since) // HOUR), max_size=2))
            for hour in hours:
                code, then = draw(st.sampled_from(sorted(CODES.values()))), since + hour * HOUR
                # One card fails once at a time: the service takes a second word of it for the same failure.
                place = f"n{draw(st.integers(1, 3))}" if draw(st.booleans()) else spells[-1].location
                faults.setdefault((serial, code, then), Fault(serial, place, code, then))
    told = tuple(faults.values())
    serials, places = frozenset(one.serial for one in spells), frozenset(one.location for one in (*spells, *told))
    return Lives(tuple(spells), told, serials, places, max(one.until for one in spells))


@hypothesis.settings(max_examples=10)
@hypothesis.given(lives=fleets())
def test_any_fleet_is_remembered_as_it_was(sqlite_template: Path, lives: Lives) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(sqlite_template, folder, dirs_exist_ok=True)
        with opened(f"sqlite:///{folder}/registry.db") as db:
            replay(db, list(moments(lives)), lambda _: None)
            remembered = remember(db, lives.end, lambda _: None)

    assert count(remembered.lives) == count(lives)
    assert time_in_nodes(remembered.lives) == time_in_nodes(lives)
    assert outcomes(remembered.lives, remembered.held_at) == outcomes(lives, {n: holds_at(lives, n) for n in WORDS})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a,b\n1,2\n", "is no table of"),
        ("{head}\n", "no rows"),
        ("{head}\n0990000000001,n1,yesterday,2021-01-01 00:00:00,,,\n", "line 2: 'yesterday' is no time"),
        ("{head}\n0990000000001,n1,,2021-01-01 00:00:00,,,FIRE\n", "line 2: no serial"),
    ],
    ids=["other columns", "nothing", "no time", "unknown event"],
)
def test_another_file_is_refused_with_the_line(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "other.csv"
    file.write_text(text.format(head=SMALL.read_text(encoding="utf-8").splitlines()[0]), encoding="utf-8")

    with pytest.raises(ValueError, match=reason):
        read_lives(file)


def test_the_drawing_tells_its_figures_in_words() -> None:
    lives = read_lives(SMALL)
    found = outcomes(lives, {number: holds_at(lives, number) for number in WORDS})

    drawn = ElementTree.fromstring(titan_plot.draw(count(lives), found))

    assert "Episodes averted: first 5, second 3, third 1" in (drawn.findtext("{*}desc") or "")
    assert len(drawn.findall("{*}rect")) == 2 + 3 + 3 + 3


@pytest.mark.skipif(not PUBLIC.is_file(), reason="the published table is not here")
def test_the_arithmetic_gives_the_published_figures_and_the_readme_tells_them() -> None:
    lives = read_lives(PUBLIC)
    counted = count(lives)
    found = outcomes(lives, {number: holds_at(lives, number) for number in WORDS})
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert counted == PUBLISHED
    assert titan_plot.draw(counted, found) == (ROOT / "docs" / "titan.svg").read_text(encoding="utf-8")
    for _, *figures in titan_plot.policy_rows(found):
        assert f" | {' | '.join(figures)} |" in readme
