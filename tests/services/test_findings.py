# SPDX-License-Identifier: Apache-2.0
"""When does a failing check open a hold on its device, and how often?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from registry.domain.reports import CheckResult, CheckStatus, ReportedFailure
from registry.services.failure_pages import list_failures
from registry.services.nodes import set_maintenance
from tests.fleet import ALICE, CLEAN_GPU, EVERYTHING, Fleet, gpu, passing, serial, uuid

PENDING, FAILED = "gpu.row_remap.pending", "gpu.row_remap.failed"


def remap(code: str | None = PENDING, device: str = uuid(1)) -> tuple[CheckResult, ...]:
    """Results in which the check of remapped rows fails on GPU 1; with None it is clean on every GPU."""
    rest = [CheckResult("gpu.row_remap", CheckStatus.PASS, uuid(at)) for at in range(4) if uuid(at) != device]
    mine = CheckResult("gpu.row_remap", CheckStatus.FAIL if code else CheckStatus.PASS, device, code, "as printed")
    return (*passing("gpu.ecc", "gpu.xid"), *rest, mine)


def owners(fleet: Fleet) -> list[tuple[str, str]]:
    return [(one["owner"], one["release_policy"]) for one in fleet.open_holds()]


def again(fleet: Fleet, **what: Any) -> dict[str, Any]:
    fleet.clock.advance(30)
    return fleet.report(**what)


@pytest.mark.parametrize(
    ("code", "ends"), [(PENDING, "after_passes"), (FAILED, "manual"), ("gpu.fallen_off_bus", "manual")]
)
@pytest.mark.parametrize("device", [uuid(1), serial(1), str(gpu(1).slot)])
def test_a_finding_holds_its_device_as_the_code_says_and_once(fleet: Fleet, code: str, ends: str, device: str) -> None:
    fleet.admit()
    for _ in range(3):
        again(fleet, checks=remap(code, device))
    assert owners(fleet) == [(f"rule:{code}", ends)]
    assert fleet.open_holds()[0]["devices"] == [
        reason.device.id for reason in fleet.decide().reasons[:1] if reason.device
    ]
    assert [one["count"] for one in list_failures(fleet.db, {}, EVERYTHING).items] == [1]
    assert fleet.codes() == ["device_quarantined", "check_failing", "passes_insufficient"]


@pytest.mark.parametrize(
    "code", ["words_nobody_knows", "dcgm_persistence_mode", "monitor.silent", "gpu.thermal.limit", None]
)
def test_a_setting_a_blind_monitor_and_unknown_words_hold_no_device(fleet: Fleet, code: str | None) -> None:
    """C71, C76: the failing check keeps the node out, and that is all."""
    fleet.admit()
    failing = CheckResult("dcgm.diag", CheckStatus.FAIL, uuid(1), code, "as printed")
    again(fleet, checks=(*passing(*CLEAN_GPU), failing))
    assert owners(fleet) == []
    assert "check_failing" in fleet.codes()


@pytest.mark.parametrize("device", [None, uuid(77), "0000:99:00.0"])
def test_a_finding_of_no_device_here_is_put_to_none(fleet: Fleet, device: str | None) -> None:
    fleet.admit()
    again(fleet, checks=(*passing(*CLEAN_GPU), CheckResult("gpu.row_remap", CheckStatus.FAIL, device, FAILED)))
    assert owners(fleet) == []
    assert "check_failing" in fleet.codes()


def test_a_pending_remap_that_is_gone_was_a_reset_and_two_passes_free_the_device(fleet: Fleet) -> None:
    """C64."""
    fleet.admit()
    again(fleet, checks=remap())
    assert again(fleet, checks=remap(None))["pass"]["have"] == 1
    assert owners(fleet) == [(f"rule:{PENDING}", "after_passes")]
    answer = again(fleet, checks=remap(None))
    assert answer["admission"]["admitted"]
    assert owners(fleet) == []
    assert {one["code"] for one in list_failures(fleet.db, {}, EVERYTHING).items} == {PENDING, "gpu_reset"}


def test_a_failed_remap_that_is_no_longer_shown_frees_nothing(fleet: Fleet) -> None:
    """C67."""
    fleet.admit()
    again(fleet, checks=remap(FAILED))
    for _ in range(3):
        again(fleet, checks=remap(None), boot="boot-2")
    assert owners(fleet) == [(f"rule:{FAILED}", "manual")]


def test_what_a_person_released_is_held_again_only_when_it_fails_anew(fleet: Fleet) -> None:
    fleet.admit()
    again(fleet, checks=remap(FAILED))
    fleet.clock.advance(10)
    fleet.release(fleet.open_holds()[0]["id"])
    again(fleet, checks=remap(FAILED))
    assert owners(fleet) == []
    again(fleet, checks=remap(None))
    again(fleet, checks=remap(FAILED))
    assert owners(fleet) == [(f"rule:{FAILED}", "manual")]
    assert [one["count"] for one in list_failures(fleet.db, {}, EVERYTHING).items] == [2]


@pytest.mark.parametrize(("code", "held"), [(FAILED, 1), ("gpu.ecc.dbe", 0)])
def test_of_an_earlier_boot_only_what_outlives_a_boot_holds(fleet: Fleet, code: str, held: int) -> None:
    """C120."""
    fleet.admit()
    fleet.clock.advance(30)
    fleet.admit(boot="boot-2")
    for _ in range(2):
        again(fleet, checks=remap(code))
    assert len(owners(fleet)) == held
    assert fleet.decide().admitted is not bool(held)
    assert len(list_failures(fleet.db, {}, EVERYTHING).items) == 1


def test_a_check_that_fails_in_maintenance_and_after_it_holds_from_then_on(fleet: Fleet) -> None:
    """C77."""
    fleet.admit()

    def maintain(seconds: int) -> None:
        until = fleet.clock.now + timedelta(seconds=seconds)
        set_maintenance(
            fleet.db, "node-a", until=until, reason="driver", actor=ALICE, policy=fleet.policy, now=fleet.clock.now
        )

    maintain(600)
    again(fleet, checks=remap(FAILED))
    again(fleet, checks=remap(FAILED))
    assert owners(fleet) == []
    fleet.clock.advance(10)
    maintain(0)
    again(fleet, checks=remap(FAILED))
    assert owners(fleet) == [(f"rule:{FAILED}", "manual")]


def test_what_a_message_tells_as_a_fault_has_its_own_time_there(fleet: Fleet) -> None:
    """C57: a log shows the old line again after a release, and the check over the log fails again."""
    fleet.admit()
    line = ReportedFailure("line-1", "xid_79", slot=gpu(1).slot, occurred_at=fleet.clock.now)
    failing = (*passing("gpu.ecc", "gpu.row_remap"), CheckResult("gpu.xid", CheckStatus.FAIL, gpu(1).slot, "xid_79"))
    again(fleet, checks=failing, failures=(line,))
    assert [one["count"] for one in list_failures(fleet.db, {}, EVERYTHING).items] == [1]
    fleet.clock.advance(30)
    fleet.release(fleet.open_holds()[0]["id"])
    again(fleet)
    again(fleet, checks=failing, failures=(line,))
    assert owners(fleet) == []
