# SPDX-License-Identifier: Apache-2.0
"""Where is a device, and does its history tell every step: attached, moved, swapped, detached, vanished, returned?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from registry.domain.errors import CoversRequired, InvalidField, SlotRepeated
from registry.services.devices import show_device
from registry.services.history import device_history
from registry.services.nodes import grant_waiver, retire_node, show_node
from registry.services.profiles import set_profile
from tests.fleet import ALICE, EVERYTHING, Fleet, efa, gpu, serial, uuid

BOTH = frozenset({"gpu", "efa"})
GPUS = frozenset({"gpu"})
PLACING = {"device.attached", "device.moved", "device.swapped", "device.detached", "device.vanished", "device.returned"}


def steps(fleet: Fleet, number: int) -> list[str]:
    """What happened to a GPU's place, in words, oldest first."""
    told = device_history(fleet.db, uuid(number), {}, EVERYTHING).items
    return [one["type"].removeprefix("device.") for one in told if one["type"] in PLACING]


def device(fleet: Fleet, number: int) -> dict[str, Any]:
    return show_device(fleet.db, uuid(number), now=fleet.clock.now)


def place(fleet: Fleet, number: int) -> tuple[Any, Any, Any]:
    """State, node and slot of a GPU."""
    shown = device(fleet, number)
    return shown["state"], shown["node"], shown["slot"]


def slot(number: int) -> str:
    return str(gpu(number).slot)


def on_node(fleet: Fleet, node: str = "node-a") -> list[tuple[Any, ...]]:
    shown = show_node(fleet.db, node, policy=fleet.policy, now=fleet.clock.now)
    return [(one["slot"], one["serial"], one["state"]) for one in shown["devices"]]


def test_a_listed_device_is_attached_once(fleet: Fleet) -> None:
    for _ in range(3):
        fleet.report(devices=[gpu(1)])
    assert place(fleet, 1) == ("in_service", "node-a", slot(1))
    assert steps(fleet, 1) == ["attached"]


def test_a_device_moves_within_its_node(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1)])
    fleet.report(devices=[gpu(1, at=5)])
    assert place(fleet, 1) == ("in_service", "node-a", slot(5))
    assert steps(fleet, 1) == ["attached", "moved"]


def test_two_devices_change_places_and_keep_their_histories(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1), gpu(2)])
    fleet.report(devices=[gpu(1, at=2), gpu(2, at=1)])
    assert [place(fleet, n)[2] for n in (1, 2)] == [slot(2), slot(1)]
    assert steps(fleet, 1) == steps(fleet, 2) == ["attached", "moved"]


def test_three_devices_change_places_in_a_ring(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1), gpu(2), gpu(3)])
    fleet.report(devices=[gpu(1, at=2), gpu(2, at=3), gpu(3, at=1)])
    assert [place(fleet, n)[2] for n in (1, 2, 3)] == [slot(2), slot(3), slot(1)]


def test_a_device_whose_slot_is_taken_is_swapped_out(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1)])
    fleet.report(devices=[gpu(2, at=1)])
    assert place(fleet, 1) == ("detached", None, None)
    assert place(fleet, 2) == ("in_service", "node-a", slot(1))
    assert steps(fleet, 1) == ["attached", "swapped"]
    assert steps(fleet, 2) == ["swapped", "attached"]


def test_two_nodes_swap_a_device_each(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1)])
    fleet.report("node-b", instance="i-b", devices=[gpu(2)])
    fleet.report(devices=[gpu(2, at=1)])
    fleet.report("node-b", instance="i-b", devices=[gpu(1, at=2)])
    assert place(fleet, 1) == ("in_service", "node-b", slot(2))
    assert place(fleet, 2) == ("in_service", "node-a", slot(1))
    assert "identity_conflict" not in fleet.codes() + fleet.codes("node-b")


def test_a_device_moves_to_another_node_with_its_history(fleet: Fleet) -> None:
    """C18."""
    fleet.report()
    fleet.fail("xid_13", device=uuid(1))
    fleet.report("node-b", instance="i-b", devices=[gpu(1)])
    assert place(fleet, 1) == ("in_service", "node-b", slot(1))
    assert steps(fleet, 1) == ["attached", "moved"]
    told = device_history(fleet.db, uuid(1), {}, EVERYTHING).items
    assert [one["data"]["node"] for one in told if one["type"] == "failure.recorded"] == ["node-a"]
    assert fleet.report(devices=[gpu(0), gpu(2), gpu(3)])["pass"]["because"] == "check_not_clean"
    assert "identity_conflict" not in fleet.codes("node-b")


def test_a_vanished_device_is_missing_in_its_open_place_and_returns(fleet: Fleet) -> None:
    fleet.report()
    for _ in range(2):
        fleet.report(devices=[gpu(0), gpu(2), gpu(3)])
    assert place(fleet, 1) == ("missing", "node-a", slot(1))
    fleet.report()
    assert place(fleet, 1) == ("in_service", "node-a", slot(1))
    assert steps(fleet, 1) == ["attached", "vanished", "returned"]


def test_a_vanished_device_may_return_in_another_slot_or_elsewhere(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1), gpu(2)])
    fleet.report(devices=[], covers=GPUS)
    fleet.report(devices=[gpu(1, at=7)])
    fleet.report("node-b", instance="i-b", devices=[gpu(2)])
    assert place(fleet, 1) == ("in_service", "node-a", slot(7))
    assert place(fleet, 2) == ("in_service", "node-b", slot(2))


def test_a_vanished_device_whose_slot_is_taken_later_is_swapped_out(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1)])
    fleet.report(devices=[], covers=GPUS)
    fleet.report(devices=[gpu(2, at=1)])
    assert place(fleet, 1)[0] == "detached"
    assert steps(fleet, 1) == ["attached", "vanished", "swapped"]


def test_each_drop_is_an_event_of_each_missing_device(fleet: Fleet) -> None:
    """C39."""
    body = {"gpu": {"count": 8}}
    set_profile(fleet.db, "p", body, actor=ALICE, now=fleet.clock.now)
    for count in (8, 8, 6, 4):
        fleet.clock.advance(30)
        fleet.report(profile="p", devices=[gpu(n) for n in range(count)])
    assert [steps(fleet, n) for n in (3, 4, 5, 6, 7)] == [["attached"], *[["attached", "vanished"]] * 4]
    assert fleet.codes().count("device_missing") == 4


def test_a_new_instance_closes_all_places(fleet: Fleet) -> None:
    fleet.report()
    fleet.report(instance="i-2", boot="boot-2", devices=[gpu(9)])
    assert place(fleet, 1) == ("detached", None, None)
    assert steps(fleet, 1) == ["attached", "detached"]
    assert "device_missing" in fleet.codes()
    assert all(one.device is None for one in fleet.decide().reasons if one.code == "device_missing")


def test_a_new_instance_without_a_list_has_no_device(fleet: Fleet) -> None:
    fleet.report()
    fleet.report(instance="i-2", boot="boot-2", entries=None)
    assert place(fleet, 1)[0] == "detached"
    assert on_node(fleet) == []


def test_a_new_boot_keeps_the_places_until_it_lists(fleet: Fleet) -> None:
    fleet.report()
    fleet.report(boot="boot-2", entries=None)
    assert place(fleet, 1) == ("in_service", "node-a", slot(1))
    fleet.report(boot="boot-2", devices=[gpu(0), gpu(2), gpu(3)])
    assert place(fleet, 1) == ("missing", "node-a", slot(1))


def test_a_retired_node_keeps_no_device(fleet: Fleet) -> None:
    fleet.report()
    retire_node(fleet.db, "node-a", reason="sold", actor=ALICE, policy=fleet.policy, now=fleet.clock.now)
    assert place(fleet, 1) == ("detached", None, None)
    assert steps(fleet, 1) == ["attached", "detached"]


def test_a_waived_device_is_let_go_when_granted_and_when_it_goes_later(fleet: Fleet) -> None:
    fleet.report()
    fleet.report(devices=[gpu(0), gpu(2), gpu(3)])
    until = fleet.clock.now + timedelta(hours=1)
    grant_waiver(
        fleet.db,
        "node-a",
        kind="gpu",
        count=2,
        until=until,
        reason="spare on order",
        actor=ALICE,
        now=fleet.clock.now,
    )
    assert place(fleet, 1)[0] == "detached"
    assert steps(fleet, 1) == ["attached", "vanished", "detached"]
    fleet.report(devices=[gpu(0), gpu(2)])
    assert place(fleet, 3)[0] == "detached"
    assert steps(fleet, 3) == ["attached", "detached"]


# --- for what a list speaks ------------------------------------------------------------------------------------------


def test_a_list_speaks_only_for_the_kinds_that_it_covers(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1), efa(1)], covers=BOTH)
    fleet.report(devices=[gpu(1)], covers=GPUS)
    assert [one[2] for one in on_node(fleet)] == ["in_service", "in_service"]
    fleet.report(devices=[gpu(1)], covers=BOTH)
    assert len(on_node(fleet)) == 1
    fleet.report(devices=[efa(1)], covers=frozenset({"efa"}))
    assert place(fleet, 1) == ("in_service", "node-a", slot(1))


def test_a_list_without_covers_must_hold_every_kind_that_is_expected(fleet: Fleet) -> None:
    body = {"gpu": {"count": 1}, "efa": {"count": 1}}
    set_profile(fleet.db, "p", body, actor=ALICE, now=fleet.clock.now)
    with pytest.raises(CoversRequired):
        fleet.report(profile="p", devices=[gpu(1)])
    with pytest.raises(CoversRequired):
        fleet.report(profile="p", devices=[])
    assert fleet.codes() == ["node_unknown"]
    fleet.report(profile="p", devices=[gpu(1), efa(1)])
    fleet.report(profile="p", devices=[gpu(1)], covers=BOTH)
    assert "device_missing" in fleet.codes()


def test_a_kind_that_is_listed_must_be_covered(fleet: Fleet) -> None:
    with pytest.raises(InvalidField):
        fleet.report(devices=[gpu(1), efa(1)], covers=GPUS)


def test_an_empty_covering_list_says_there_are_none(fleet: Fleet) -> None:
    fleet.report()
    fleet.report(devices=[], covers=GPUS)
    assert fleet.codes().count("device_missing") == 4


def test_a_report_without_a_list_changes_no_place(fleet: Fleet) -> None:
    fleet.report()
    fleet.report(entries=None)
    assert place(fleet, 1) == ("in_service", "node-a", slot(1))


def test_a_partial_list_calls_nobody_missing_and_its_count_fails(fleet: Fleet) -> None:
    fleet.report()
    fleet.report(devices=[gpu(0), gpu(2)], partial=GPUS)
    assert place(fleet, 1) == ("in_service", "node-a", slot(1))
    assert steps(fleet, 1) == ["attached"]
    assert "check_failing" in fleet.codes()


def test_a_partial_list_can_still_swap(fleet: Fleet) -> None:
    fleet.report()
    fleet.report(devices=[gpu(9, at=1)], partial=GPUS)
    assert place(fleet, 1)[0] == "detached"
    assert place(fleet, 2)[0] == "in_service"


def test_a_list_that_has_a_slot_twice_is_refused_whole(fleet: Fleet) -> None:
    with pytest.raises(SlotRepeated):
        fleet.report(devices=[gpu(0), gpu(1, uuid=None), gpu(2, at=1, uuid=None)])
    assert fleet.codes() == ["node_unknown"]


def test_an_entry_without_a_slot_keeps_the_slot_of_its_unit(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1)])
    fleet.report(devices=[gpu(1, slot=None)])
    assert place(fleet, 1) == ("in_service", "node-a", slot(1))
    assert steps(fleet, 1) == ["attached"]


def test_the_order_of_a_list_is_nothing(fleet: Fleet) -> None:
    """C119."""
    fleet.admit()
    before = fleet.decide().sequence
    fleet.clock.advance(30)
    fleet.report(devices=[gpu(n) for n in (3, 1, 0, 2)])
    assert (fleet.decide().sequence, fleet.decide().admitted) == (before, True)


def test_an_entry_known_by_its_slot_alone_can_add_faults_and_clear_none(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    lost = gpu(1, serial="[Unknown Error]", uuid=None, model="ERR!")
    answer = fleet.report(devices=[gpu(0), lost, gpu(2), gpu(3)])
    assert answer["pass"]["because"] == "check_not_clean"
    assert place(fleet, 1) == ("in_service", "node-a", slot(1))
    assert device(fleet, 1)["model"] == "NVIDIA H100 80GB HBM3"
    fleet.fail("xid_79", node="node-a", slot=slot(1))
    assert "device_quarantined" in fleet.codes()
    assert device(fleet, 1)["serial"] == serial(1)
