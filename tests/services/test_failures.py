# SPDX-License-Identifier: Apache-2.0
"""To which device does a fault belong: by name, by place and time, by what the next list shows?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from registry.domain.reports import ReportedFailure
from registry.services.failure_pages import list_failures
from registry.services.failures import record_failures, withdraw_failure
from tests.fleet import ALICE, EVERYTHING, Fleet, gpu, serial, uuid

MIG = "MIG-aaaa0001-0000-0000-0000-000000000001"
SLOT = str(gpu(1).slot)


def withdraw(fleet: Fleet, failure_id: str, reason: str = "a test") -> dict[str, Any]:
    return withdraw_failure(fleet.db, failure_id, reason=reason, actor=ALICE, now=fleet.clock.now)


def where(item: dict[str, Any]) -> tuple[Any, ...]:
    """Which device, node and slot a recorded fault was put to."""
    failure = item["failure"]
    return failure["serial"], failure["node"], failure["slot"], failure["attached"]


# --- where it belongs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ref",
    [serial(1), uuid(1), uuid(1).upper(), f"MIG-{uuid(1)}/7/0", MIG],
    ids=["serial", "uuid", "upper case", "old MIG name", "MIG uuid"],
)
def test_a_device_is_found_by_any_of_its_names(fleet: Fleet, ref: str) -> None:
    fleet.report(devices=[gpu(1, slices=(MIG,)), gpu(2)])
    assert where(fleet.fail("xid_48", device=ref)) == (serial(1), "node-a", SLOT, True)


def test_a_device_is_found_by_our_id(fleet: Fleet) -> None:
    fleet.report()
    id_ = fleet.fail("xid_13", device=serial(1))["failure"]["device"]
    assert where(fleet.fail("xid_48", device=id_))[0] == serial(1)


def test_a_slice_of_no_known_gpu_is_kept_and_makes_no_device(fleet: Fleet) -> None:
    """C07."""
    fleet.admit()
    item = fleet.fail("xid_48", device="MIG-bbbb0001-0000-0000-0000-000000000001")
    assert item["outcome"] == "recorded"
    assert where(item) == (None, None, None, False)
    assert fleet.decide().admitted
    on_node = fleet.fail("xid_48", device="MIG-bbbb0001-0000-0000-0000-000000000002", node="node-a")
    assert where(on_node) == (None, "node-a", None, False)
    assert "fault_unattached" in fleet.codes()


def test_an_unknown_device_is_refused_and_hinders_no_other(fleet: Fleet) -> None:
    fleet.report()
    faults = [ReportedFailure("a", "xid_48", device="1699999999999"), ReportedFailure("b", "xid_48", device=serial(1))]
    items = record_failures(fleet.db, faults, actor=ALICE, node_scope=None, policy=fleet.policy, now=fleet.clock.now)
    assert [(one["outcome"], one.get("code")) for one in items] == [("refused", "not_found"), ("recorded", None)]


def test_a_serial_of_several_units_is_ambiguous_unless_the_slot_says_which(fleet: Fleet) -> None:
    twins = [gpu(n, serial=serial(50), model="NVIDIA GB200") for n in (1, 2)]
    fleet.report(devices=twins)
    refused = fleet.fail("xid_48", device=serial(50))
    assert (refused["outcome"], refused["code"], len(refused["candidates"])) == ("refused", "device_ambiguous", 2)
    item = fleet.fail("xid_48", device=serial(50), node="node-a", slot=gpu(2).slot)
    assert item["failure"]["uuid"] == uuid(2)


@pytest.mark.parametrize("slot", [SLOT, SLOT.upper(), SLOT[5:], f"0000{SLOT}", SLOT[:-2]])
def test_a_place_may_be_written_in_any_form(fleet: Fleet, slot: str) -> None:
    fleet.report()
    assert where(fleet.fail("xid_48", node="node-a", slot=slot)) == (serial(1), "node-a", SLOT, True)


def test_a_place_that_cannot_be_read_is_refused(fleet: Fleet) -> None:
    fleet.report()
    item = fleet.fail("xid_48", node="node-a", slot="0000:zz:00.0")
    assert (item["outcome"], item["code"]) == ("refused", "invalid_field")
    assert "0000:zz:00.0" in item["message"]


def test_a_fault_belongs_to_the_unit_that_was_in_the_slot_at_its_time(fleet: Fleet) -> None:
    first = fleet.clock.now
    fleet.report(devices=[gpu(1)])
    fleet.clock.advance(100)
    fleet.report(devices=[gpu(2, at=1)])
    fleet.clock.advance(100)

    def blamed(seconds: float) -> Any:
        at = first + timedelta(seconds=seconds)
        return where(fleet.fail("xid_13", node="node-a", slot=SLOT, occurred_at=at))[0]

    assert [blamed(seconds) for seconds in (0, 99, 100, 150, 500)] == [serial(1), serial(1), *[serial(2)] * 3]
    assert where(fleet.fail("xid_13", node="node-a", slot=SLOT))[0] == serial(2)


def test_a_fault_before_the_first_list_of_a_boot_belongs_to_what_that_list_shows(fleet: Fleet) -> None:
    fleet.report(entries=None)
    item = fleet.fail("xid_79", node="node-a", slot=SLOT)
    assert where(item) == (None, "node-a", SLOT, False)
    assert "fault_unattached" in fleet.codes()
    fleet.clock.advance(30)
    fleet.report()
    assert fleet.codes() == ["device_quarantined", "passes_insufficient"]
    shown = list_failures(fleet.db, {"device": serial(1)}, EVERYTHING).items
    assert [(one["id"], one["attached"]) for one in shown] == [(item["failure"]["id"], True)]


def test_a_fault_that_came_before_the_node_had_a_life_waits_for_its_first_list(fleet: Fleet) -> None:
    fleet.fail("xid_79", node="node-a", slot=SLOT)
    fleet.fail("xid_79", node="node-a", slot="0000:ee:00.0")
    assert fleet.codes() == ["node_unknown"]
    fleet.report()
    assert fleet.codes() == ["device_quarantined", "fault_unattached", "passes_insufficient"]


def test_a_fault_of_a_new_boot_does_not_blame_the_unit_that_was_there_before(fleet: Fleet) -> None:
    fleet.report()
    fleet.clock.advance(60)
    booted = fleet.clock.now
    fleet.clock.advance(60)
    evidence = (ReportedFailure("f", "xid_79", slot=SLOT, occurred_at=booted),)
    fleet.report(boot="boot-2", devices=[gpu(0), gpu(9, at=1), gpu(2), gpu(3)], failures=evidence)
    shown = list_failures(fleet.db, {}, EVERYTHING).items
    assert [one["serial"] for one in shown] == [serial(9)]


def test_a_fault_of_a_new_boot_waits_when_its_report_brings_no_list(fleet: Fleet) -> None:
    fleet.report()
    fleet.clock.advance(60)
    evidence = (ReportedFailure("f", "xid_79", slot=SLOT, occurred_at=fleet.clock.now - timedelta(seconds=5)),)
    fleet.report(boot="boot-2", entries=None, failures=evidence)
    assert "fault_unattached" in fleet.codes()
    fleet.clock.advance(30)
    fleet.report(boot="boot-2", devices=[gpu(0), gpu(9, at=1), gpu(2), gpu(3)])
    assert [one["serial"] for one in list_failures(fleet.db, {}, EVERYTHING).items] == [serial(9)]


def test_a_unit_that_a_new_boot_does_not_list_is_blamed_by_its_open_place(fleet: Fleet) -> None:
    fleet.report()
    fleet.clock.advance(60)
    evidence = (ReportedFailure("f", "xid_79", slot=SLOT, occurred_at=fleet.clock.now),)
    fleet.report(boot="boot-2", devices=[gpu(0), gpu(2), gpu(3)], failures=evidence)
    assert [one["serial"] for one in list_failures(fleet.db, {}, EVERYTHING).items] == [serial(1)]


def test_an_empty_slot_blames_nobody_who_came_later(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(0)])
    fleet.clock.advance(60)
    at = fleet.clock.now
    fleet.clock.advance(60)
    fleet.report(devices=[gpu(0), gpu(1)])
    assert where(fleet.fail("xid_79", node="node-a", slot=SLOT, occurred_at=at)) == (None, "node-a", SLOT, False)


@pytest.mark.parametrize("end", ["withdrawn", "replaced"])
def test_a_fault_in_a_place_never_seen_blocks_until_withdrawn_or_the_instance_ends(fleet: Fleet, end: str) -> None:
    fleet.admit()
    item = fleet.fail("xid_79", node="node-a", slot="0000:ee:00.0")
    fleet.clock.advance(30)
    fleet.admit()
    assert fleet.codes() == ["fault_unattached"]
    if end == "withdrawn":
        withdraw(fleet, item["failure"]["id"])
    else:
        fleet.admit(instance="i-2", boot="boot-2")
    assert fleet.decide().admitted


def test_a_fault_that_blocks_nothing_blocks_nothing_in_a_place_never_seen(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail("xid_13", node="node-a", slot="0000:ee:00.0")
    assert fleet.decide().admitted
