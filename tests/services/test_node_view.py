# SPDX-License-Identifier: Apache-2.0
"""What does a person see of one node: its slots, its passes, its conditions, and who was there before?"""

from __future__ import annotations

import pytest

from registry.domain.errors import NotFound
from registry.domain.reports import CheckResult, CheckStatus
from registry.domain.slot_grid import Grid
from registry.services import node_view
from registry.services.node_view import NodeView, view_node, words_of_nodes
from registry.services.nodes import retire_node
from tests.fleet import ALICE, Fleet, efa, gpu, passing, serial


def view(fleet: Fleet, name: str = "node-a") -> NodeView:
    return view_node(fleet.db, name, policy=fleet.policy, now=fleet.clock.now)


def states(grid: Grid) -> list[str]:
    return [str(one.state) for one in grid.cells]


def test_a_large_machine_has_a_cell_for_each_of_its_slots(fleet: Fleet) -> None:
    fleet.report(devices=[*map(gpu, range(8)), *map(efa, range(32))], profile="p5.48xlarge")
    gpus, efas = view(fleet).grids
    assert (gpus.kind, len(gpus.cells), gpus.sentence) == ("gpu", 8, "8 of 8 listed.")
    assert (efas.kind, len(efas.cells), efas.sentence) == ("efa", 32, "32 of 32 listed.")
    assert (gpus.cells[0].tail, efas.cells[0].tail) == (serial(0)[-6:], "rdmap0s0")


def test_each_cell_says_how_it_stands_with_its_slot(fleet: Fleet) -> None:
    fleet.report()
    fleet.hold({"device": serial(1)})
    fleet.clock.advance(31)
    fleet.report(devices=[gpu(0), gpu(1), gpu(2, serial="N/A", uuid=None, slot="0000:99:00.0")])
    (grid,) = view(fleet).grids
    assert states(grid) == ["in_service", "quarantined", "missing", "missing", "unidentified"]
    assert grid.sentence == "3 of 4 listed; 1 short."
    assert [one.since for one in grid.cells if one.state == "missing"] == [fleet.clock.now] * 2


def test_a_card_that_another_node_lists_by_now_is_elsewhere(fleet: Fleet) -> None:
    fleet.report()
    fleet.clock.advance(31)
    fleet.report("node-b", [gpu(0), *map(gpu, (11, 12, 13))], instance="i-2")
    (grid,) = view(fleet).grids
    assert states(grid)[0] == "elsewhere"


def test_more_than_expected_shows_which_came_last(fleet: Fleet) -> None:
    fleet.report()
    fleet.clock.advance(31)
    fleet.report(devices=map(gpu, range(5)))
    (grid,) = view(fleet).grids
    assert states(grid) == [*["in_service"] * 4, "unexpected"]


def test_a_node_that_never_sent_a_list_shows_what_it_should_have(fleet: Fleet) -> None:
    fleet.report(entries=None)
    (grid,) = view(fleet).grids
    assert (states(grid), grid.sentence) == (["never_seen"] * 4, "No list has come yet; 4 expected.")


def test_passes_are_counted_with_the_time_of_the_next_one_that_may_count(fleet: Fleet) -> None:
    fleet.report()
    first = fleet.clock.now
    fleet.clock.advance(10)
    one = view(fleet).passes
    assert (one.have, one.need, one.counted_start) == (1, 2, first)
    assert one.next_at is not None
    assert (one.next_at - first).total_seconds() == fleet.policy.pass_gap_seconds

    fleet.clock.advance(21)
    fleet.report()
    two = view(fleet).passes
    assert (two.have, two.next_at, two.counted_total) == (2, None, 2)


def test_conditions_are_told_with_since_and_when_they_become_failures(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(31)
    fleet.report(checks=(*passing("gpu.row_remap", "gpu.xid"), CheckResult("gpu.ecc", CheckStatus.FAIL)))
    (one,) = view(fleet).conditions
    assert (one.name, one.status, one.since) == ("gpu.ecc", "problem", fleet.clock.now)


# --- who was here before ----------------------------------------------------------------------------------------------


def tenants(fleet: Fleet, name: str = "node-a") -> list[tuple[str | None, str | None, list[str], str, str | None]]:
    """Slot, serial, what failed there, what it is now, and where."""
    return [
        (one.stay.slot, one.device.serial, [fault.code for fault in one.faults], one.state, one.node_now)
        for one in view(fleet, name).tenants
    ]


def swap(fleet: Fleet, number: int, *, at: int = 0) -> None:
    """Put GPU `number` into a slot of node-a."""
    fleet.clock.advance(31)
    fleet.report(devices=[gpu(number, at=at), *map(gpu, (1, 2, 3))])


def test_a_slot_remembers_who_was_in_it_and_what_failed_there(fleet: Fleet) -> None:
    fleet.report()
    fleet.fail("xid_79", device=serial(0), node="node-a", occurred_at=fleet.clock.now)
    fleet.fail("xid_31", device=serial(0), node="node-a", occurred_at=fleet.clock.now)  # the program's: recorded only
    swap(fleet, 20)
    fleet.clock.advance(31)
    fleet.report("node-b", [gpu(0, at=5), *map(gpu, (11, 12, 13))], instance="i-2")

    assert tenants(fleet) == [(gpu(0).slot, serial(0), ["xid_79"], "quarantined", "node-b")]


def test_faults_elsewhere_are_not_put_to_the_slot(fleet: Fleet) -> None:
    fleet.report()
    swap(fleet, 20)
    fleet.clock.advance(31)
    fleet.report("node-b", [gpu(0, at=5), *map(gpu, (11, 12, 13))], instance="i-2")
    fleet.clock.advance(5)
    fleet.fail("xid_79", device=serial(0), node="node-b", occurred_at=fleet.clock.now)

    assert [faults for _, _, faults, _, _ in tenants(fleet)] == [[]]


def test_the_same_cards_in_a_new_instance_are_no_new_tenants(fleet: Fleet) -> None:
    fleet.report()
    fleet.clock.advance(31)
    fleet.report(instance="i-2", boot="boot-2")
    assert tenants(fleet) == []


def test_one_tenant_whose_machine_came_anew_is_told_once_with_the_whole_time(fleet: Fleet) -> None:
    began = fleet.clock.now
    fleet.report()
    fleet.clock.advance(31)
    fleet.report(instance="i-2", boot="boot-2")
    fleet.clock.advance(31)
    left = fleet.clock.now
    fleet.report(devices=[gpu(20, at=0), *map(gpu, (1, 2, 3))], instance="i-2", boot="boot-2")

    (one,) = view(fleet).tenants
    assert (one.stay.since_at, one.stay.until_at, one.device.serial) == (began, left, serial(0))


def test_no_more_than_the_newest_few_of_a_slot_are_told(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_view, "TENANTS_MAX", 2)
    fleet.report()
    for number in (20, 21, 22, 23):
        swap(fleet, number)
    assert [card for _, card, _, _, _ in tenants(fleet)] == [serial(22), serial(21)]


def test_slots_that_are_no_more_keep_their_tenants(fleet: Fleet) -> None:
    fleet.report()
    fleet.clock.advance(31)
    fleet.report(devices=[gpu(20 + at, at=40 + at) for at in range(4)], instance="i-2", boot="boot-2")
    assert [slot for slot, *_ in tenants(fleet)] == [gpu(at).slot for at in range(4)]


def test_adapters_known_by_place_alone_are_told_apart_from_hardware(fleet: Fleet) -> None:
    for life in ("i-1", "i-2"):
        fleet.report(
            devices=[*map(gpu, range(8)), *map(efa, range(32))], profile="p5.48xlarge", instance=life, boot=f"b-{life}"
        )
        fleet.clock.advance(31)
    assert {one.is_hardware for one in view(fleet).tenants} == {False}


# --- lives ------------------------------------------------------------------------------------------------------------


def boots(fleet: Fleet) -> list[tuple[str, bool, int, list[str]]]:
    return [
        (one.life.provider_id, one.is_current, one.life.boots, [boot.boot_id for boot in one.boots])
        for one in view(fleet).lives
    ]


def test_every_machine_under_the_name_is_listed_with_its_boots_the_newest_first(fleet: Fleet) -> None:
    for life, boot in (("i-1", "a"), ("i-1", "b"), ("i-2", "c")):
        fleet.report(instance=life, boot=boot)
        fleet.clock.advance(31)
    assert boots(fleet) == [("i-2", True, 1, ["c"]), ("i-1", False, 2, ["b", "a"])]


def test_of_many_lives_and_boots_the_newest_are_shown_and_the_rest_is_said(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_view, "LIVES_MAX", 1)
    monkeypatch.setattr(node_view, "BOOTS_MAX", 1)
    for life, boot in (("i-1", "a"), ("i-2", "b"), ("i-2", "c")):
        fleet.report(instance=life, boot=boot)
    assert boots(fleet) == [("i-2", True, 2, ["c"])]
    assert view(fleet).more_lives


def test_a_retired_node_shows_its_past_and_lacks_no_pass(fleet: Fleet) -> None:
    fleet.admit()
    retire_node(fleet.db, "node-a", reason="gone", actor=ALICE, policy=fleet.policy, now=fleet.clock.now)
    shown = view(fleet)
    assert shown.passes.next_at is None
    assert [one.device.serial for one in shown.tenants] == [serial(at) for at in range(4)]
    assert [one.is_current for one in shown.lives] == [True]


def test_the_holds_that_meet_a_node_are_there(fleet: Fleet) -> None:
    fleet.report()
    fleet.hold({"device": serial(1)}, {"node": "node-a"}, {"device": serial(99)})
    assert sorted(one["target_kind"] for one in view(fleet).holds) == ["board", "node"]


def test_a_name_that_nobody_bears_is_not_found(fleet: Fleet) -> None:
    with pytest.raises(NotFound):
        view(fleet, "node-z")


def test_the_words_to_filter_by_are_those_that_nodes_use(fleet: Fleet) -> None:
    for number, (profile, zone) in enumerate((("g5.12xlarge", "b"), ("g5.xlarge", "a"), ("g5.xlarge", None))):
        fleet.report(
            f"node-{number}", [], covers=frozenset({"gpu"}), profile=profile, zone=zone, instance=f"i-{number}"
        )
    assert words_of_nodes(fleet.db) == (["g5.12xlarge", "g5.xlarge"], ["a", "b"])
