# SPDX-License-Identifier: Apache-2.0
"""Is a node's time put to its gravest reason, and to whose doing that is?"""

from __future__ import annotations

from datetime import datetime

import pytest

from registry.domain.capacity import CapacityState, Place, place_of
from registry.domain.checks import CheckState
from registry.domain.decision import Decision, Disposition, Reason, ReasonCode
from registry.domain.failures import Cause
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus


def place(now: datetime, *reasons: Reason, fault: str | None = None, is_repaired: bool = False, **check: str) -> Place:
    """Where the time of a node with these reasons goes; `check` are failing checks with their codes."""
    decision = Decision("n", not reasons, Disposition.ADMIT, reasons, 0, 2, "", 0, now)
    states = {
        name.replace("_", "."): CheckState(
            name, CheckStatus.FAIL, now, now, "r", (CheckResult(name, CheckStatus.FAIL, code=code or None),)
        )
        for name, code in check.items()
    }
    return place_of(
        decision,
        hold_causes={"by-rule": "driver", "by-hand": None, "in-words": "smells of smoke"},
        checks=states,
        fault_cause=lambda: fault,
        policy=Policy(),
        is_repaired=is_repaired,
    )


def reason(code: ReasonCode, **more: str) -> Reason:
    return Reason(code, "x", **more)


@pytest.mark.parametrize("code", list(ReasonCode))
def test_every_reason_has_a_place_that_is_not_available(now: datetime, code: ReasonCode) -> None:
    found = place(now, reason(code))

    assert found.state is not CapacityState.AVAILABLE
    assert found.cause in set(Cause)


def test_a_node_that_may_take_work_costs_nobody_anything(now: datetime) -> None:
    assert place(now) == Place(CapacityState.AVAILABLE, None)


@pytest.mark.parametrize(
    ("codes", "state"),
    [
        (["passes_insufficient"], CapacityState.WAITING_FOR_PASSES),
        (["check_failing", "passes_insufficient"], CapacityState.FAILING),
        (["report_stale", "check_failing"], CapacityState.STALE),
        (["report_stale", "device_quarantined", "passes_insufficient"], CapacityState.QUARANTINED),
        (["quarantine_withheld"], CapacityState.QUARANTINED),
        (["device_quarantined", "maintenance"], CapacityState.UNDER_REPAIR),
        (["maintenance", "service_safe_mode"], CapacityState.SAFE_MODE),
    ],
)
def test_the_gravest_reason_says_where_the_time_goes(now: datetime, codes: list[str], state: CapacityState) -> None:
    assert place(now, *(reason(ReasonCode(code)) for code in codes)).state is state


def test_what_somebody_repairs_is_there_by_the_doing_of_what_is_repaired(now: datetime) -> None:
    failing = reason(ReasonCode.CHECK_FAILING, check="gpu.ecc")
    assert place(now, failing, gpu_ecc="", is_repaired=True) == Place(CapacityState.UNDER_REPAIR, Cause.HARDWARE)
    assert place(now, is_repaired=True).state is CapacityState.AVAILABLE
    safe = reason(ReasonCode.SERVICE_SAFE_MODE)
    assert place(now, safe, is_repaired=True).state is CapacityState.SAFE_MODE


@pytest.mark.parametrize(
    ("hold", "cause"),
    [("by-rule", Cause.DRIVER), ("by-hand", Cause.UNKNOWN), ("in-words", Cause.UNKNOWN), ("nobody", Cause.UNKNOWN)],
)
def test_a_hold_has_the_cause_that_is_written_on_it(now: datetime, hold: str, cause: Cause) -> None:
    assert place(now, reason(ReasonCode.DEVICE_QUARANTINED, quarantine=hold)).cause is cause


@pytest.mark.parametrize(("fault", "cause"), [(None, Cause.PLATFORM), ("user", Cause.USER), ("odd", Cause.UNKNOWN)])
def test_a_node_waits_for_the_proof_that_its_fault_is_over(now: datetime, fault: str | None, cause: Cause) -> None:
    assert place(now, reason(ReasonCode.PASSES_INSUFFICIENT), fault=fault).cause is cause


@pytest.mark.parametrize(
    ("name", "code", "cause"),
    [
        ("gpu.ecc", "", Cause.HARDWARE),
        ("gpu.xid", "xid_13", Cause.USER),
        ("gpu.xid", "never_heard_of", Cause.HARDWARE),
        ("efa.link", "", Cause.HARDWARE),
        ("kubelet", "", Cause.PLATFORM),
    ],
)
def test_a_failing_check_is_the_doing_of_its_code_or_of_what_it_looks_at(
    now: datetime, name: str, code: str, cause: Cause
) -> None:
    found = place(now, reason(ReasonCode.CHECK_FAILING, check=name), **{name.replace(".", "_"): code})

    assert found == Place(CapacityState.FAILING, cause)


def test_nobody_knows_why_a_node_is_silent_or_a_check_cannot_tell(now: datetime) -> None:
    assert place(now, reason(ReasonCode.REPORT_STALE)).cause is Cause.UNKNOWN
    assert place(now, reason(ReasonCode.CHECK_UNKNOWN, check="gpu.ecc")).cause is Cause.UNKNOWN
