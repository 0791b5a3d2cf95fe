# SPDX-License-Identifier: Apache-2.0
"""Who is stale, and is it ever our own fault?"""

from __future__ import annotations

import pytest

from registry.services.life import beat
from registry.services.nodes import show_node
from tests.fleet import Fleet


def up(fleet: Fleet, seconds: int) -> None:
    """Let the service be up for so long, with a sign of life every ten seconds."""
    for _ in range(seconds // 10):
        fleet.clock.advance(10)
        beat(fleet.db, fleet.clock.now, fleet.policy)


@pytest.fixture
def node_a(fleet: Fleet) -> Fleet:
    """A service that is up, and node-a admitted in it."""
    beat(fleet.db, fleet.clock.now, fleet.policy)
    fleet.report()
    up(fleet, 30)
    fleet.report()
    assert fleet.decide().admitted
    return fleet


@pytest.mark.parametrize(("seconds", "is_stale"), [(120, False), (130, True)])
def test_a_node_is_stale_after_a_silence_while_the_service_was_up(node_a: Fleet, seconds: int, is_stale: bool) -> None:
    up(node_a, seconds)
    assert ("report_stale" in node_a.codes()) is is_stale


def test_stale_is_hold_and_never_drain_and_ends_with_the_next_report(node_a: Fleet) -> None:
    up(node_a, 600)
    decision = node_a.decide()
    assert (node_a.codes(), decision.disposition) == (["report_stale"], "hold")
    assert show_node(node_a.db, "node-a", policy=node_a.policy, now=node_a.clock.now)["state"] == "stale"
    node_a.report()
    assert node_a.decide().admitted


@pytest.mark.parametrize("outage", [31, 3600, 100_000])
def test_our_own_outage_makes_nobody_stale_and_costs_nobody_a_pass(node_a: Fleet, outage: int) -> None:
    up(node_a, 60)
    node_a.clock.advance(outage)
    resumed = beat(node_a.db, node_a.clock.now, node_a.policy)
    assert resumed is not None
    assert node_a.decide().admitted
    up(node_a, 60)
    assert node_a.decide().admitted
    up(node_a, 10)
    assert node_a.codes() == ["report_stale"]


def test_several_outages_are_all_left_out(node_a: Fleet) -> None:
    for _ in range(4):
        up(node_a, 20)
        node_a.clock.advance(1000)
        beat(node_a.db, node_a.clock.now, node_a.policy)
    assert node_a.decide().admitted
    assert node_a.report()["pass"]["have"] == 2


def test_a_node_that_reports_after_an_outage_keeps_its_passes(node_a: Fleet) -> None:
    node_a.clock.advance(5000)
    beat(node_a.db, node_a.clock.now, node_a.policy)
    answer = node_a.report()
    assert (answer["pass"]["have"], answer["admission"]["admitted"]) == (2, True)


def test_an_outage_before_the_last_report_excuses_nobody(node_a: Fleet) -> None:
    node_a.clock.advance(5000)
    beat(node_a.db, node_a.clock.now, node_a.policy)
    node_a.report()
    up(node_a, 130)
    assert node_a.codes() == ["report_stale"]


def test_a_contest_is_not_ended_by_our_own_outage(node_a: Fleet) -> None:
    node_a.report("node-b", instance="i-b")
    node_a.report()
    assert "identity_conflict" in node_a.codes("node-b")
    node_a.clock.advance(5000)
    beat(node_a.db, node_a.clock.now, node_a.policy)
    assert "identity_conflict" in node_a.codes("node-b")


def test_every_page_of_a_stale_node_says_so(node_a: Fleet) -> None:
    up(node_a, 600)
    assert node_a.decide().as_line() == "hold 13 report_stale -"
