# SPDX-License-Identifier: Apache-2.0
"""Do faults and results of a report find their device, when a tool merely counts it or names one that is not here?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from registry.domain.glance import glance_of
from registry.domain.reports import CheckResult, CheckStatus, Report, ReportedFailure
from registry.services.failure_pages import list_failures
from registry.services.heartbeat import accept_unchanged
from tests.fleet import CLEAN_GPU, EVERYTHING, Fleet, gpu, passing, serial, uuid

FAIL = CheckStatus.FAIL


def fault(ref: str | None = None, number: int = 1, **changes: Any) -> ReportedFailure:
    return ReportedFailure(f"f-{number}", changes.pop("code", "dcgm_faulty_memory"), device=ref, **changes)


def recorded(fleet: Fleet) -> list[dict[str, Any]]:
    return list_failures(fleet.db, {}, EVERYTHING).items


def evidence(fleet: Fleet, *failures: ReportedFailure, **changes: Any) -> dict[str, Any]:
    """A report that brings no list."""
    return fleet.report(entries=None, failures=failures, **changes)


def test_a_counted_device_is_the_one_of_that_place_in_the_last_list_of_the_boot(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(3), gpu(1), gpu(2), gpu(0)])

    evidence(fleet, fault("gpu:1"))

    (failure,) = recorded(fleet)
    assert (failure["serial"], failure["slot"]) == (serial(1), gpu(1).slot)


def test_a_report_that_brings_its_list_is_counted_by_it(fleet: Fleet) -> None:
    fleet.report()

    fleet.report(
        devices=[gpu(3), gpu(2), gpu(1), gpu(0)],
        failures=(fault("gpu:0"),),
        checks=(CheckResult("dcgm.diag", FAIL, "gpu:0", "dcgm_faulty_memory"),),
    )

    (failure,) = recorded(fleet)
    assert (failure["serial"], failure["count"]) == (serial(3), 1)
    reasons = {str(reason.code): reason for reason in fleet.decide().reasons}
    assert reasons["check_failing"].device is not None
    assert reasons["check_failing"].device.serial == serial(3)


@pytest.mark.parametrize(("boot", "ref"), [("boot-1", "gpu:7"), ("boot-2", "gpu:1")], ids=["no such line", "next boot"])
def test_what_no_list_of_this_boot_can_tell_is_the_nodes(fleet: Fleet, boot: str, ref: str) -> None:
    fleet.admit()

    evidence(
        fleet, fault(ref, message="memory"), boot=boot, checks=(CheckResult("dcgm.diag", FAIL, ref, message="memory"),)
    )

    (failure,) = recorded(fleet)
    assert (failure["serial"], failure["node"], failure["attached"]) == (None, "node-a", False)
    assert "fault_unattached" in fleet.codes(), "it outlives a boot, and passes do not end it"
    assert failure["message"] == f"{ref}: memory"
    assert fleet.open_holds() == []
    (reason,) = [one for one in fleet.decide().reasons if one.code == "check_failing"]
    assert reason.device is None
    assert ref in reason.message


def test_nothing_is_counted_by_a_list_that_lacks_devices(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(0), gpu(2), gpu(3)], partial=frozenset({"gpu"}))

    evidence(fleet, fault("gpu:1"))

    assert recorded(fleet)[0]["serial"] is None


def test_a_late_message_of_an_earlier_boot_is_not_counted_by_the_list_of_now(fleet: Fleet) -> None:
    fleet.report()
    fleet.report(boot="boot-2", devices=[gpu(3), gpu(2), gpu(1), gpu(0)])

    evidence(fleet, fault("gpu:0"), boot="boot-1")

    assert recorded(fleet)[0]["serial"] is None


@pytest.mark.parametrize("ref", [serial(77), uuid(10)], ids=["never seen", "on another node"])
def test_a_device_that_is_not_here_keeps_no_report_out(fleet: Fleet, ref: str) -> None:
    fleet.report("node-b", devices=[gpu(10)], instance="i-2")

    for _ in range(2):
        fleet.report(failures=(fault(ref, message="memory"),))

    (failure,) = recorded(fleet)
    assert (failure["serial"], failure["node"]) == (None, "node-a")
    assert failure["message"] == f"{ref}: memory"
    assert fleet.open_holds() == []


def test_a_log_that_shows_an_earlier_boot_does_not_undo_the_passes_of_this_one(fleet: Fleet) -> None:
    fleet.report()
    fleet.clock.advance(600)
    old = fault(None, slot=gpu(1).slot, code="xid_48", occurred_at=fleet.clock.now, evidence={"earlier_boot": True})
    fleet.clock.advance(600)

    answer = fleet.admit(boot="boot-2", failures=(old,))

    assert answer["admission"]["admitted"]
    assert [(one["code"], one["serial"]) for one in recorded(fleet)] == [("xid_48", serial(1))]
    assert fleet.open_holds() == []


@pytest.mark.parametrize(("code", "stands"), [("xid_48", True), ("xid_999", True), ("xid_79", False)])
def test_a_log_that_goes_back_to_before_the_node_was_known_keeps_it_out_only_for_what_outlives_a_boot(
    fleet: Fleet, code: str, stands: bool
) -> None:
    """C120. A journal on disk is older than the node's first report, so no list says what was in the slot then."""
    yesterday = fleet.clock.now - timedelta(days=1)
    old = fault(None, slot=gpu(1).slot, code=code, occurred_at=yesterday, evidence={"earlier_boot": True})

    answer = fleet.admit(failures=(old,))

    assert answer["admission"]["admitted"] is stands
    assert ("fault_unattached" in fleet.codes()) is not stands
    assert [(one["code"], one["serial"]) for one in recorded(fleet)] == [(code, None)]


def test_faults_that_were_told_before_leave_a_report_unchanged(fleet: Fleet) -> None:
    seen_at = fleet.clock.now - timedelta(minutes=5)
    log = (fault(None, slot=gpu(1).slot, code="xid_13", occurred_at=seen_at, last_at=seen_at),)
    fleet.admit(failures=log)
    fleet.clock.advance(fleet.policy.pass_gap_seconds)

    def heard(*failures: ReportedFailure) -> bool:
        said = Report(
            node="node-a",
            report_id="again",
            boot_id="boot-1",
            provider_id="i-1",
            profile="g5.12xlarge",
            entries=tuple(gpu(number) for number in range(4)),
            checks=passing(*CLEAN_GPU),
            failures=failures,
            body_digest="again",
        )
        answer = accept_unchanged(fleet.db, glance_of(said), policy=fleet.policy, now=fleet.clock.now)
        return answer.answer is not None

    gone_on = fault(None, slot=gpu(1).slot, code="xid_13", occurred_at=seen_at, last_at=fleet.clock.now, count=2)
    assert not heard(*log, fault("gpu:0", 2))
    assert not heard(gone_on)
    assert heard(*log)


def test_a_burst_that_goes_on_is_one_fault_with_its_count_and_last_time(fleet: Fleet) -> None:
    first_at = fleet.clock.now - timedelta(minutes=5)

    for count in (3, 3, 5):
        fleet.clock.advance(60)
        last_at = first_at + timedelta(seconds=count)
        fleet.report(
            failures=(fault(None, slot=gpu(1).slot, code="xid_13", occurred_at=first_at, last_at=last_at, count=count),)
        )

    (failure,) = recorded(fleet)
    assert failure["count"] == 5
    assert failure["last_at"].startswith((first_at + timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%S"))


def test_a_fault_of_a_named_card_is_never_laid_to_another_one_in_the_slot(fleet: Fleet) -> None:
    fleet.admit()

    by_serial = fleet.fail("xid_79", node="node-a", slot=gpu(1).slot, device="1650000009999")["failure"]
    by_uuid = fleet.fail("xid_79", node="node-a", slot=gpu(1).slot, device=uuid(99))["failure"]

    assert [one["device"] for one in (by_serial, by_uuid)] == [None, None]
    assert fleet.codes() == ["fault_unattached", "fault_unattached", "passes_insufficient"]


def test_a_slot_says_which_card_is_meant_where_its_name_says_nothing(fleet: Fleet) -> None:
    fleet.admit()

    failure = fleet.fail("xid_79", node="node-a", slot=gpu(1).slot, device="[N/A]")["failure"]

    assert failure["serial"] == serial(1)


THREE = [gpu(3), gpu(1), gpu(2)]
"""GPU 0 has gone out of the four of this boot, and the tools that count may count it still."""


@pytest.mark.parametrize("printed", [False, True])
def test_where_a_list_of_this_boot_was_longer_nobody_knows_whom_a_number_means(fleet: Fleet, printed: bool) -> None:
    lists = [[gpu(3), gpu(0), gpu(1), gpu(2)], THREE]
    if printed:
        lists = [[replace(one, readings={"index": at}) for at, one in enumerate(each)] for each in lists]
    fleet.report(devices=lists[0])
    fleet.clock.advance(30)

    fleet.report(devices=lists[1], failures=(fault("gpu:1"),))

    (failure,) = recorded(fleet)
    assert (failure["device"], failure["slot"], failure["node"]) == (None, None, "node-a")
    assert str(failure["message"]).startswith("gpu:1")
    assert fleet.open_holds() == []


def test_a_list_that_is_whole_again_and_one_of_the_next_boot_are_counted(fleet: Fleet) -> None:
    whole = [gpu(3), gpu(0), gpu(1), gpu(2)]
    for devices in (whole, THREE, whole):
        fleet.clock.advance(30)
        fleet.report(devices=devices)
    evidence(fleet, fault("gpu:1"))
    fleet.clock.advance(30)
    fleet.report(devices=THREE, boot="boot-2")
    evidence(fleet, fault("gpu:1", number=2), boot="boot-2")

    assert [one["serial"] for one in recorded(fleet)] in ([serial(0), serial(1)], [serial(1), serial(0)])
