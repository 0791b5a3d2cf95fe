# SPDX-License-Identifier: Apache-2.0
"""Two nodes list one unit: who has it, who is kept out, and until when?"""

from __future__ import annotations

import pytest

from registry.services.devices import show_device
from registry.services.nodes import retire_node
from tests.fleet import ALICE, Fleet, gpu, serial, uuid
from tests.services.disputes import a, b, conflicts, contest, is_disputed, rule

# --- two nodes, one unit ---------------------------------------------------------------------------------------------


def test_one_list_moves_a_unit_and_contests_nothing(fleet: Fleet) -> None:
    b(fleet, gpu(1))
    a(fleet, gpu(1))
    assert not is_disputed(fleet)
    assert not is_disputed(fleet, "node-b")


def test_a_node_that_lists_again_what_it_lost_contests_it_and_both_are_out(fleet: Fleet) -> None:
    contest(fleet)
    assert is_disputed(fleet)
    assert is_disputed(fleet, "node-b")
    (conflict,) = conflicts(fleet, state="open")
    assert (conflict["node"], sorted(conflict["nodes"])) == ("node-b", ["node-a", "node-b"])


@pytest.mark.parametrize("giver", ["node-a", "node-b"])
def test_a_contest_ends_when_either_sends_a_covering_list_without_the_unit(fleet: Fleet, giver: str) -> None:
    contest(fleet)
    (a if giver == "node-a" else b)(fleet, gpu(5))
    assert not is_disputed(fleet)
    assert not is_disputed(fleet, "node-b")
    keeper = {"node-a": "node-b", "node-b": "node-a"}[giver]
    (b if giver == "node-a" else a)(fleet, gpu(1))
    assert show_device(fleet.db, uuid(1), now=fleet.clock.now)["node"] == keeper
    assert not is_disputed(fleet, keeper)


def test_a_list_that_does_not_cover_the_kind_ends_no_contest(fleet: Fleet) -> None:
    contest(fleet)
    fleet.report("node-b", instance="i-b", boot="boot-b", devices=[], covers=frozenset({"efa"}))
    assert is_disputed(fleet)


@pytest.mark.parametrize("silent", ["node-a", "node-b"])
def test_a_contest_ends_when_either_is_stale(fleet: Fleet, silent: str) -> None:
    contest(fleet)
    other = {"node-a": "node-b", "node-b": "node-a"}[silent]
    for _ in range(5):
        fleet.clock.advance(30)
        (b if silent == "node-a" else a)(fleet, gpu(1))
    assert not is_disputed(fleet, other)
    assert show_device(fleet.db, uuid(1), now=fleet.clock.now)["node"] == other


@pytest.mark.parametrize("gone", ["node-a", "node-b"])
def test_a_contest_ends_when_either_is_retired(fleet: Fleet, gone: str) -> None:
    contest(fleet)
    retire_node(fleet.db, gone, reason=None, actor=ALICE, policy=fleet.policy, now=fleet.clock.now)
    other = {"node-a": "node-b", "node-b": "node-a"}[gone]
    assert not is_disputed(fleet, other)
    (b if gone == "node-a" else a)(fleet, gpu(1))
    assert show_device(fleet.db, uuid(1), now=fleet.clock.now)["node"] == other
    assert not is_disputed(fleet, other)


def test_a_contest_ends_when_the_instance_of_either_is_replaced(fleet: Fleet) -> None:
    contest(fleet)
    fleet.report(instance="i-2", boot="boot-2", devices=[gpu(7)])
    assert not is_disputed(fleet, "node-b")


def test_the_holds_of_a_contested_unit_meet_both_nodes(fleet: Fleet) -> None:
    contest(fleet)
    fleet.hold({"device": uuid(1)})
    assert "device_quarantined" in fleet.codes()
    assert "device_quarantined" in fleet.codes("node-b")


def test_a_node_that_knows_of_its_loss_may_list_the_unit_again(fleet: Fleet) -> None:
    b(fleet, gpu(1))
    a(fleet, gpu(1))
    b(fleet, gpu(5))
    b(fleet, gpu(1))
    assert not is_disputed(fleet)
    assert not is_disputed(fleet, "node-b")
    assert show_device(fleet.db, uuid(1), now=fleet.clock.now)["node"] == "node-b"


def test_a_unit_that_is_missing_where_it_moved_may_be_back_where_it_was(fleet: Fleet) -> None:
    b(fleet, gpu(1))
    a(fleet, gpu(1))
    a(fleet, gpu(5))
    b(fleet, gpu(1))
    assert conflicts(fleet) == []
    assert show_device(fleet.db, uuid(1), now=fleet.clock.now)["node"] == "node-b"


def test_the_sibling_of_a_unit_that_is_missing_elsewhere_came_with_its_board(fleet: Fleet) -> None:
    twins = [gpu(n, serial=serial(50), model="NVIDIA GB200") for n in (1, 2)]
    a(fleet, *twins)
    a(fleet, gpu(5))
    b(fleet, *twins)
    assert conflicts(fleet) == []


@pytest.mark.parametrize("as_", ["same_device", "different_devices"])
def test_a_ruling_ends_a_contest(fleet: Fleet, as_: str) -> None:
    contest(fleet)
    rule(fleet, as_)
    assert not is_disputed(fleet)
    assert not is_disputed(fleet, "node-b")
