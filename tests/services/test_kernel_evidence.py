# SPDX-License-Identifier: Apache-2.0
"""What does a kernel log that is read again and again still prove, and what of it is over?"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from registry.domain.failures import Effect
from registry.domain.reports import CheckResult, CheckStatus, ReportedFailure
from registry.services.failure_pages import list_failures
from registry.services.failures import withdraw_failure
from registry.services.nodes import set_maintenance, show_node
from tests.fleet import ALICE, CLEAN_GPU, EVERYTHING, Fleet, gpu, passing, uuid

SLOT = gpu(1).slot
XID = "gpu.xid"


def line(
    code: str = "xid_79", at: datetime | None = None, *, count: int = 1, last_at: datetime | None = None, **more: Any
) -> ReportedFailure:
    """A fault as a kernel log tells it: dated, or of an unknown time."""
    evidence = {"source": "kernel_log", **more}
    id_ = f"line-{code}-{at}"
    return ReportedFailure(id_, code, slot=SLOT, occurred_at=at, count=count, last_at=last_at or at, evidence=evidence)


def read(fleet: Fleet, *lines: ReportedFailure, code: str | None = None, **changes: Any) -> dict[str, Any]:
    """A report a gap later, with these lines; a log that shows any fails its check."""
    fleet.clock.advance(31)
    failing = () if code is None and not lines else (CheckResult(XID, CheckStatus.FAIL, SLOT, code),)
    checks = (*passing(*CLEAN_GPU), *failing)
    return fleet.report(failures=lines, checks=checks, **changes)


def counts(fleet: Fleet) -> list[tuple[str, int]]:
    return sorted((one["code"], one["count"]) for one in list_failures(fleet.db, {}, EVERYTHING).items)


def release_all(fleet: Fleet) -> None:
    fleet.clock.advance(10)
    for one in fleet.open_holds():
        fleet.release(one["id"])


def owners(fleet: Fleet) -> list[str]:
    return sorted(one["owner"] for one in fleet.open_holds())


def keep_out(fleet: Fleet, until: datetime) -> None:
    """Maintenance of the node until a time."""
    now = fleet.clock.now
    set_maintenance(fleet.db, "node-a", until=until, reason="driver", actor=ALICE, policy=fleet.policy, now=now)


def why(fleet: Fleet) -> list[str]:
    """What is said of the check on the node's page."""
    shown = show_node(fleet.db, "node-a", policy=fleet.policy, now=fleet.clock.now)
    (check,) = [one for one in shown["checks"] if one["name"] == XID]
    assert check["status"] == "pass", check
    return [one["message"] for one in check["findings"]]


# --- what is settled ------------------------------------------------------------------------------------------------


def test_a_dated_line_of_the_boot_before_undoes_no_pass(fleet: Fleet) -> None:
    fleet.admit()
    old = line("xid_119", fleet.clock.now)
    read(fleet, old)
    for _ in range(2):
        read(fleet, boot="boot-2")
    assert fleet.decide().admitted

    answer = read(fleet, old, boot="boot-2")

    assert (answer["pass"]["have"], answer["admission"]["admitted"]) == (2, True)
    assert why(fleet) == ["the kernel log still shows xid_119: it is of an earlier boot"]
    assert counts(fleet) == [("xid_119", 1)]


def test_a_line_of_the_boot_before_that_has_come_again_in_this_one_fails_it(fleet: Fleet) -> None:
    fleet.admit()
    began = fleet.clock.now
    read(fleet, line("xid_119", began))
    for _ in range(2):
        read(fleet, boot="boot-2")

    read(fleet, line("xid_119", began, count=2, last_at=fleet.clock.now), boot="boot-2")

    assert {"device_quarantined", "check_failing"} <= set(fleet.codes())


def test_what_was_withdrawn_and_released_fails_nothing(fleet: Fleet) -> None:
    fleet.admit()
    fault = line(at=fleet.clock.now)
    read(fleet, fault)
    (failure,) = list_failures(fleet.db, {}, EVERYTHING).items
    withdraw_failure(fleet.db, failure["id"], reason="the neighbour's", actor=ALICE, now=fleet.clock.advance(1))
    release_all(fleet)

    for _ in range(2):
        answer = read(fleet, fault)

    assert answer["admission"]["admitted"]
    assert why(fleet) == ["the kernel log still shows xid_79: somebody has withdrawn it"]


def test_a_fault_that_comes_again_after_it_was_withdrawn_is_one(fleet: Fleet) -> None:
    fleet.admit()
    began = fleet.clock.now
    read(fleet, line(at=began))
    (failure,) = list_failures(fleet.db, {}, EVERYTHING).items
    withdraw_failure(fleet.db, failure["id"], reason="the neighbour's", actor=ALICE, now=fleet.clock.advance(1))
    release_all(fleet)
    fleet.clock.advance(60)

    for _ in range(2):
        read(fleet, line(at=began, count=2, last_at=began + timedelta(seconds=90)))

    assert owners(fleet) == ["rule:xid_79"]
    assert counts(fleet) == [("xid_79", 1), ("xid_79", 1)]


@pytest.mark.parametrize("code", [None, "xid_79"])
def test_a_line_of_maintenance_that_is_delivered_late_fails_nothing(fleet: Fleet, code: str | None) -> None:
    fleet.admit()
    until = fleet.clock.now + timedelta(hours=1)
    keep_out(fleet, until)
    then = fleet.clock.advance(60)
    ended = fleet.clock.advance(60)
    keep_out(fleet, ended)
    for _ in range(2):
        read(fleet)

    answer = read(fleet, line(at=then), code=code)

    assert answer["admission"]["admitted"]
    assert why(fleet) == ["the kernel log still shows xid_79: it was during maintenance"]


@pytest.mark.parametrize("code", [None, "xid_79"])
def test_a_line_that_a_person_has_released_has_no_effect(fleet: Fleet, code: str | None) -> None:
    fleet.admit()
    fault = line(at=fleet.clock.now)
    read(fleet, fault, code=code)
    assert {"device_quarantined", "check_failing"} <= set(fleet.codes())
    release_all(fleet)

    for _ in range(2):
        answer = read(fleet, fault, code=code)

    assert answer["admission"]["admitted"]
    assert why(fleet) == ["the kernel log still shows xid_79: a person has released the device since"]
    assert (owners(fleet), counts(fleet)) == ([], [("xid_79", 1)])


def test_what_somebody_reports_by_a_check_alone_is_settled_by_a_release_and_news_when_it_begins_again(
    fleet: Fleet,
) -> None:
    fleet.admit()
    read(fleet, code="xid_79")
    read(fleet, code="xid_79")
    assert (owners(fleet), counts(fleet)) == (["rule:xid_79"], [("xid_79", 1)])
    assert "check_failing" in fleet.codes()
    release_all(fleet)
    for _ in range(2):
        assert read(fleet, code="xid_79")["pass"]["because"] is None
    assert fleet.decide().admitted

    read(fleet)
    read(fleet, code="xid_79")

    assert (owners(fleet), counts(fleet)) == (["rule:xid_79"], [("xid_79", 2)])


def test_a_code_that_the_policy_only_records_fails_nothing(fleet: Fleet) -> None:
    fleet.admit()
    fleet.policy = replace(fleet.policy, effects=(("xid_48", Effect.RECORD),))

    answer = read(fleet, line("xid_48", fleet.clock.now))

    assert answer["admission"]["admitted"]
    assert why(fleet) == ["the kernel log still shows xid_48: by the policy it is only recorded"]


def test_another_line_beside_one_that_is_over_fails_the_check(fleet: Fleet) -> None:
    fleet.admit()
    fault = line(at=fleet.clock.now)
    read(fleet, fault)
    release_all(fleet)
    read(fleet, fault)
    assert "check_failing" not in fleet.codes()

    read(fleet, fault, line("xid_119", fleet.clock.now))

    assert "check_failing" in fleet.codes()


def test_what_is_only_recorded_does_not_vouch_for_a_line_that_is_still_on_the_way(fleet: Fleet) -> None:
    fleet.admit()
    read(fleet, line("xid_43", fleet.clock.now))
    assert "check_failing" in fleet.codes()


@pytest.mark.parametrize("slot", [None, "0000:99:00.0"])
def test_a_line_of_no_known_device_fails_nothing_once_it_is_withdrawn(fleet: Fleet, slot: str | None) -> None:
    fleet.admit()
    fault = replace(line(at=fleet.clock.now), slot=slot)
    failing = CheckResult(XID, CheckStatus.FAIL, slot)
    fleet.clock.advance(31)
    fleet.report(failures=(fault,), checks=(*passing(*CLEAN_GPU), failing))
    assert "check_failing" in fleet.codes()
    (failure,) = list_failures(fleet.db, {}, EVERYTHING).items
    withdraw_failure(fleet.db, failure["id"], reason="a test", actor=ALICE, now=fleet.clock.advance(1))

    for _ in range(2):
        fleet.clock.advance(31)
        answer = fleet.report(failures=(fault,), checks=(*passing(*CLEAN_GPU), failing))

    assert answer["admission"]["admitted"]


def test_uuids_name_the_device_as_slots_do(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(31)
    fault = replace(line(at=fleet.clock.now), slot=None, device=uuid(1))
    failing = CheckResult(XID, CheckStatus.FAIL, uuid(1))
    fleet.report(failures=(fault,), checks=(*passing(*CLEAN_GPU), failing))
    release_all(fleet)
    for _ in range(2):
        fleet.clock.advance(31)
        fleet.report(failures=(fault,), checks=(*passing(*CLEAN_GPU), failing))
    assert fleet.decide().admitted
