# SPDX-License-Identifier: Apache-2.0
"""When does a rule that counts fire, and when not yet?"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.failures import Effect
from registry.domain.rules import Distinct, Over, Rule, Sight, duration, fires
from tests.clock import NOON

RULE = Rule("many", count=3, within_seconds=600, codes=("xid_43",))


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def sight(seconds: float, board: str = "b", node: str = "n", *, count: int = 1, lasted: float = 0) -> Sight:
    return Sight(board, node, at(seconds - lasted), at(seconds), count)


@pytest.mark.parametrize(
    ("times", "is_fired"),
    [
        ([0, 300, 599], True),
        ([0, 300, 600], False),  # the first has just left the window
        ([0, 599], False),
        ([0, 700, 1200, 1299], True),
        ([0], False),
    ],
)
def test_so_many_within_so_long(times: list[float], is_fired: bool) -> None:
    sights = [sight(one) for one in times]
    assert fires(RULE, sights, sights[-1]) is is_fired


def test_evidence_that_comes_late_completes_the_window_it_belongs_to() -> None:
    late = sight(100)
    assert fires(RULE, [sight(0), sight(200), late], late)
    assert not fires(RULE, [sight(0), sight(5000), late], late)


def test_only_windows_that_hold_the_new_sight_are_looked_at() -> None:
    old = [sight(0), sight(1), sight(2)]
    assert not fires(RULE, [*old, sight(5000)], sight(5000))


def test_a_burst_counts_whole_when_all_of_it_is_inside_and_once_when_it_began_before() -> None:
    assert fires(RULE, [sight(100, count=3, lasted=50)], sight(100))
    long = sight(1000, count=300, lasted=900)
    assert not fires(RULE, [long], long)


def test_boards_nodes_and_spells_are_counted_once_each() -> None:
    boards = Rule("b", count=2, within_seconds=600, effect=Effect.HOLD, over=Over.NODE, distinct=Distinct.DEVICES)
    nodes = Rule("n", count=2, within_seconds=600, effect=Effect.HOLD, distinct=Distinct.NODES)
    spells = Rule("s", count=2, within_seconds=600, effect=Effect.HOLD, distinct=Distinct.SPELLS)
    same = [sight(0), sight(10), sight(20)]
    for rule in (boards, nodes, spells):
        assert not fires(rule, same, same[-1])
    assert fires(boards, [*same, sight(30, board="c")], sight(30))
    assert fires(nodes, [*same, sight(30, node="m")], sight(30))
    assert fires(spells, same, same[-1], releases=[at(15)])
    assert not fires(spells, same, same[-1], releases=[at(-5), at(25)])


def test_a_rule_is_concerned_by_code_kind_or_least_effect() -> None:
    assert RULE.concerns("xid_43", None, Effect.RECORD)
    assert not RULE.concerns("xid_31", "app.fault", Effect.PERMANENT)
    by_kind = Rule("k", count=1, within_seconds=1, kinds=("app.fault",))
    assert by_kind.concerns("xid_31", "app.fault", Effect.RECORD)
    assert not by_kind.concerns("xid_31", None, Effect.RECORD)
    by_effect = Rule("e", count=1, within_seconds=1, effect=Effect.QUARANTINE)
    assert by_effect.concerns("x", None, Effect.PERMANENT)
    assert not by_effect.concerns("x", None, Effect.HOLD)


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=12), st.integers(1, 5))
def test_it_fires_exactly_when_some_window_with_the_new_sight_is_full(times: list[int], count: int) -> None:
    rule = Rule("many", count=count, within_seconds=600, codes=("x",))
    new = times[-1]
    full = any(
        start < new <= start + 600 and sum(start < one <= start + 600 for one in times) >= count
        for start in range(new - 600, new)
    )
    assert fires(rule, [sight(one) for one in times], sight(new)) is full


@pytest.mark.parametrize(("seconds", "text"), [(600, "10m"), (90, "90s"), (3600, "1h"), (28 * 86_400, "28d")])
def test_a_length_of_time_is_written_as_a_file_would(seconds: int, text: str) -> None:
    assert duration(seconds) == text
