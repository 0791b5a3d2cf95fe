# SPDX-License-Identifier: Apache-2.0
"""Is a node admitted only when nothing speaks against it, and does every "no" say why?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.admission import (
    Decision,
    DeviceRef,
    Disposition,
    ExitCode,
    HoldOn,
    NodeFacts,
    Reason,
    ReasonCode,
    Withheld,
    decide,
    decide_hardware,
    exit_code,
)
from registry.domain.checks import CheckState
from registry.domain.condition_shown import Condition, ConditionStatus
from registry.domain.events import Actor, ActorKind
from registry.domain.policy import Policy
from registry.domain.profiles import Profile
from registry.domain.quarantine import HoldMatch
from registry.domain.reports import CheckResult, CheckStatus
from tests.clock import NOON

PROFILE = Profile(
    "p", gpu_count=8, efa_count=None, required_checks=("gpu.ecc", "efa.link"), per_boot_checks=("dcgm.diag",)
)
GPU = DeviceRef(id="d1", kind="gpu", serial="1654", uuid="GPU-1", slot="0000:53:00.0")
OTHER = DeviceRef(id="d2", kind="gpu", serial="1655", uuid="GPU-2", slot="0000:64:00.0")


def make_facts(**changes: Any) -> NodeFacts:
    """A healthy node; a test states only what is wrong with it."""
    facts = NodeFacts(
        node="node-a",
        is_known=True,
        profile_name="p",
        profile=PROFILE,
        silence_seconds=12.5,
        devices=(GPU, OTHER),
        listed_counts={"gpu": 8},
        have=2,
    )
    return replace(facts, **changes)


def make_hold(**changes: Any) -> HoldOn:
    hold = HoldOn(
        hold_id="q1", device=GPU, owner=Actor(ActorKind.RULE, "xid_79"), reason="fell off the bus", opened_at=NOON
    )
    return replace(hold, **changes)


def make_check(status: CheckStatus, *findings: CheckResult, name: str = "gpu.ecc") -> dict[str, CheckState]:
    return {name: CheckState(name, status, since=NOON, at=NOON, run_id="r1", findings=findings)}


def decision(**changes: Any) -> Decision:
    return decide(make_facts(**changes), policy=Policy(), policy_digest="sha256:0", sequence=7, now=NOON)


def only_reason(**changes: Any) -> Reason:
    (reason,) = decision(**changes).reasons
    return reason


def codes(**changes: Any) -> list[str]:
    return [reason.code.value for reason in decision(**changes).reasons]


WRONGS: dict[ReasonCode, dict[str, Any]] = {
    ReasonCode.PROFILE_UNKNOWN: {"profile": None},
    ReasonCode.REPORT_STALE: {"silence_seconds": 121.0},
    ReasonCode.DEVICE_QUARANTINED: {"holds": (make_hold(),)},
    ReasonCode.NODE_QUARANTINED: {"holds": (make_hold(device=None, match=HoldMatch.CHASSIS),)},
    ReasonCode.QUARANTINE_WITHHELD: {"withheld": (Withheld("xid_79", "fell off the bus", GPU, NOON),)},
    ReasonCode.DEVICE_MISSING: {"listed_counts": {"gpu": 7}},
    ReasonCode.DEVICE_UNEXPECTED: {"listed_counts": {"gpu": 9}},
    ReasonCode.DEVICE_UNIDENTIFIED: {"unidentified": (DeviceRef(kind="gpu", slot="0000:01:00.0"),)},
    ReasonCode.IDENTITY_CONFLICT: {"conflicts": ((GPU, "GPU-1 shows another serial"),)},
    ReasonCode.FAULT_UNATTACHED: {"unattached": (("xid_79", "0000:99:00.0", NOON),)},
    ReasonCode.CHECK_FAILING: {"checks": make_check(CheckStatus.FAIL)},
    ReasonCode.CHECK_UNKNOWN: {"checks": make_check(CheckStatus.UNKNOWN)},
    ReasonCode.CONDITION_FAILURE: {
        "conditions": (Condition("ready", ConditionStatus.FAILURE, NOON, "check_failing", "kubelet stopped"),)
    },
    ReasonCode.PASSES_INSUFFICIENT: {"have": 1},
    ReasonCode.MAINTENANCE: {"maintenance_until": NOON + timedelta(hours=1), "maintenance_reason": "new firmware"},
    ReasonCode.SERVICE_SAFE_MODE: {"safe_mode": True},
}


def test_a_healthy_node_is_admitted() -> None:
    answer = decision()

    assert answer.to_json() == {
        "node": "node-a",
        "admitted": True,
        "disposition": "admit",
        "reasons": [],
        "passes": {"have": 2, "need": 2},
        "policy": "sha256:0",
        "sequence": 7,
        "decided_at": "2026-11-29T12:00:00.000000Z",
    }
    assert answer.as_line() == "admit 0 - -"


def test_a_node_of_which_only_the_name_is_known_is_unknown_and_nothing_else() -> None:
    answer = decide(NodeFacts(node="node-a", have=2), policy=Policy(), policy_digest="", sequence=0, now=NOON)

    assert [reason.code for reason in answer.reasons] == [ReasonCode.NODE_UNKNOWN]
    assert answer.as_line() == "hold 13 node_unknown -"
    assert (answer.have, answer.need) == (0, 2)


def test_a_known_node_without_any_facts_is_not_admitted() -> None:
    facts = NodeFacts(node="node-a", is_known=True)

    answer = decide(facts, policy=Policy(), policy_digest="", sequence=0, now=NOON)

    assert [reason.code.value for reason in answer.reasons] == [
        "profile_unknown",
        "report_stale",
        "passes_insufficient",
    ]


@pytest.mark.parametrize("code", WRONGS)
def test_each_wrong_gives_its_reason_and_a_next_step(code: ReasonCode) -> None:
    reason = only_reason(**WRONGS[code])

    assert reason.code is code
    assert "Next: " in reason.message
    assert reason.message.endswith(".")
    assert ".." not in reason.message


def test_all_reasons_are_given_in_the_order_of_the_codes() -> None:
    everything: dict[str, Any] = {}
    for wrong in WRONGS.values():
        everything.update(wrong)
    everything["holds"] = (make_hold(device=None), make_hold())
    everything["listed_counts"] = {"gpu": 7, "efa": 3}
    everything["expected"] = {"gpu": 8, "efa": 2}
    everything["checks"] = {
        **make_check(CheckStatus.FAIL, name="gpu.xid"),
        **make_check(CheckStatus.SKIPPED, name="efa.link"),
    }
    everything["required_checks"] = ("efa.link",)

    assert codes(**everything) == [code.value for code in ReasonCode if code is not ReasonCode.NODE_UNKNOWN]


@given(st.sets(st.sampled_from(sorted(WRONGS))))
def test_a_node_is_admitted_exactly_when_no_reason_is_given(chosen: set[ReasonCode]) -> None:
    wrongs: dict[str, Any] = {}
    for code in chosen:
        wrongs.update(WRONGS[code])

    answer = decision(**wrongs)

    assert answer.admitted is (not answer.reasons) is (not chosen)
    assert (answer.disposition is Disposition.ADMIT) is answer.admitted
    assert (exit_code(answer) is ExitCode.ADMITTED) is answer.admitted


def test_a_quarantined_device_is_named_with_since_when_by_whom_and_why() -> None:
    reason = only_reason(holds=(make_hold(),))

    assert reason.message.startswith(
        "GPU 1654 in 0000:53:00.0 is in quarantine since 2026-11-29T12:00:00Z by rule xid_79: fell off the bus."
    )
    assert reason.to_json() == {
        "code": "device_quarantined",
        "message": reason.message,
        "device": {"id": "d1", "kind": "gpu", "serial": "1654", "uuid": "GPU-1", "slot": "0000:53:00.0"},
        "quarantine": "q1",
        "match": "hardware",
    }


def test_two_holds_on_one_device_are_one_reason_that_names_both() -> None:
    newer = make_hold(hold_id="q2", owner=Actor(ActorKind.OPERATOR, "bob"), opened_at=NOON + timedelta(seconds=1))

    reason = only_reason(holds=(newer, make_hold()))

    assert reason.quarantine == "q1"
    assert "Also held by operator bob (q2)." in reason.message


def test_each_held_device_has_its_reason() -> None:
    assert codes(holds=(make_hold(), make_hold(device=OTHER))) == ["device_quarantined", "device_quarantined"]


def test_a_hold_on_a_place_says_that_it_ends_with_the_instance() -> None:
    efa = DeviceRef(id="e1", kind="efa", slot="0000:50:00.0")

    reason = only_reason(holds=(make_hold(device=efa, match=HoldMatch.PLACE),))

    assert reason.match == "place"
    assert "EFA adapter e1 in 0000:50:00.0" in reason.message
    assert "ends with this instance" in reason.message


def test_every_missing_device_is_named() -> None:
    reasons = decision(listed_counts={"gpu": 6}, missing=(OTHER, GPU)).reasons

    assert [(reason.code.value, reason.device) for reason in reasons] == [
        ("device_missing", GPU),
        ("device_missing", OTHER),
    ]
    assert "6 of 8 GPUs are listed" in reasons[0].message


def test_a_shortfall_that_no_missing_device_explains_is_told_in_numbers() -> None:
    reason = only_reason(listed_counts={"gpu": 6})

    assert (reason.code, reason.device, reason.have, reason.need) == (ReasonCode.DEVICE_MISSING, None, 6, 8)


@pytest.mark.parametrize(
    ("listed", "expected", "found"),
    [
        ({"gpu": 7}, {"gpu": 7}, []),
        ({"gpu": 8}, {"gpu": 7}, ["device_unexpected"]),
        ({"gpu": 8, "efa": 5}, {}, []),
        ({"gpu": 8, "efa": 5}, {"efa": 0}, ["device_unexpected"]),
        ({"gpu": 8, "efa": 0}, {"efa": 4}, ["device_missing"]),
        ({"gpu": 8, "efa": None}, {"efa": 4}, []),
        ({"gpu": 7}, {}, ["device_missing"]),
    ],
)
def test_counts_follow_the_waiver_then_the_profile_and_say_nothing_where_neither_does(
    listed: dict[str, int | None], expected: dict[str, int | None], found: list[str]
) -> None:
    assert codes(listed_counts=listed, expected=expected) == found


def test_a_missing_device_is_no_reason_while_the_count_is_met() -> None:
    assert codes(listed_counts={"gpu": 7}, expected={"gpu": 7}, missing=(GPU,)) == []


def test_a_failing_check_is_one_reason_per_failing_device() -> None:
    findings = [
        CheckResult("gpu.ecc", CheckStatus.FAIL, device="GPU-2", message="4 uncorrectable errors"),
        CheckResult("gpu.ecc", CheckStatus.FAIL, device="0000:53:00.0"),
        CheckResult("gpu.ecc", CheckStatus.FAIL, device="0000:53:00.0"),
        CheckResult("gpu.ecc", CheckStatus.UNKNOWN, device="1655"),
        CheckResult("gpu.ecc", CheckStatus.FAIL),
    ]

    reasons = decision(checks=make_check(CheckStatus.FAIL, *findings)).reasons

    assert [(reason.check, reason.device) for reason in reasons] == [("gpu.ecc", GPU), ("gpu.ecc", OTHER)]
    assert "4 uncorrectable errors." in reasons[1].message


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("GPU-9", DeviceRef(kind="gpu", uuid="GPU-9")),
        ("0000:99:00.0", DeviceRef(kind="gpu", slot="0000:99:00.0")),
        ("1999", DeviceRef(kind="gpu", serial="1999")),
        ("shared", DeviceRef(kind="gpu", serial="shared")),
    ],
)
def test_a_finding_on_a_device_that_cannot_be_told_keeps_its_text(text: str, device: DeviceRef) -> None:
    pair = (replace(GPU, serial="shared"), replace(OTHER, serial="shared"))
    finding = CheckResult("gpu.ecc", CheckStatus.FAIL, device=text)

    assert only_reason(devices=pair, checks=make_check(CheckStatus.FAIL, finding)).device == device


def test_an_optional_check_that_fails_still_blocks() -> None:
    finding = CheckResult("gpu.thermal", CheckStatus.FAIL, code="hot")

    reason = only_reason(checks=make_check(CheckStatus.FAIL, finding, name="gpu.thermal"))

    assert (reason.code, reason.check) == (ReasonCode.CHECK_FAILING, "gpu.thermal")
    assert ": hot. Next" in reason.message


@pytest.mark.parametrize("status", [CheckStatus.UNKNOWN, CheckStatus.SKIPPED])
def test_only_a_required_check_has_to_know(status: CheckStatus) -> None:
    assert codes(checks=make_check(status)) == ["check_unknown"]
    assert codes(checks=make_check(status, name="gpu.thermal")) == []


def test_lacking_passes_say_how_many_when_to_come_again_and_what_has_not_come() -> None:
    start = NOON - timedelta(seconds=10)

    answer = decision(have=1, last_counted_start=start, checks=make_check(CheckStatus.PASS))

    (reason,) = answer.reasons
    assert (reason.have, reason.need, reason.retry_at) == (1, 2, NOON + timedelta(seconds=20))
    assert "No result in this boot yet: efa.link, dcgm.diag." in reason.message
    assert answer.as_line() == "hold 11 passes_insufficient 2026-11-29T12:00:20.000000Z"


def test_a_long_silence_takes_the_passes_and_a_short_one_does_not() -> None:
    assert codes(silence_seconds=120) == []
    assert codes(silence_seconds=900) == ["report_stale"]
    assert codes(silence_seconds=901) == ["report_stale", "passes_insufficient"]
    assert codes(silence_seconds=None) == ["report_stale", "passes_insufficient"]


def test_maintenance_ends_at_its_time() -> None:
    assert only_reason(**WRONGS[ReasonCode.MAINTENANCE]).until == NOON + timedelta(hours=1)
    assert codes(maintenance_until=NOON) == []


@pytest.mark.parametrize(
    ("wrongs", "disposition"),
    [
        ({"holds": (make_hold(),)}, Disposition.HOLD),
        ({"holds": (make_hold(), make_hold(device=OTHER, drain=True))}, Disposition.DRAIN),
        (WRONGS[ReasonCode.CONDITION_FAILURE], Disposition.DRAIN),
        (WRONGS[ReasonCode.REPORT_STALE], Disposition.HOLD),
        (WRONGS[ReasonCode.CHECK_FAILING], Disposition.HOLD),
    ],
)
def test_work_is_moved_away_only_when_somebody_asked_or_a_condition_says_so(
    wrongs: dict[str, Any], disposition: Disposition
) -> None:
    assert decision(**wrongs).disposition is disposition


def test_a_problem_or_an_unknown_condition_is_no_reason_of_its_own() -> None:
    mild = (ConditionStatus.PROBLEM, ConditionStatus.UNKNOWN)

    assert decision(conditions=tuple(Condition("ready", one, NOON, "x", "") for one in mild)).admitted


def test_what_comes_and_goes_is_a_failing_check_though_it_is_well_at_the_moment() -> None:
    end = NOON + timedelta(hours=1)
    flaps = Condition("efa.link.flapping", ConditionStatus.PROBLEM, NOON, "flapping", "it changed", clears_at=end)

    answer = decision(conditions=(flaps,))

    assert [(one.code, one.check) for one in answer.reasons] == [(ReasonCode.CHECK_FAILING, "efa.link.flapping")]
    assert answer.disposition is Disposition.HOLD
    assert "2026-11-29T13:00:00Z" in answer.reasons[0].message


@pytest.mark.parametrize(
    ("chosen", "code"),
    [
        ([ReasonCode.IDENTITY_CONFLICT, ReasonCode.DEVICE_QUARANTINED], 12),
        ([ReasonCode.DEVICE_UNIDENTIFIED, ReasonCode.PASSES_INSUFFICIENT], 12),
        ([ReasonCode.DEVICE_QUARANTINED, ReasonCode.PROFILE_UNKNOWN], 10),
        ([ReasonCode.NODE_QUARANTINED, ReasonCode.PASSES_INSUFFICIENT], 10),
        ([ReasonCode.MAINTENANCE, ReasonCode.PASSES_INSUFFICIENT], 13),
        ([ReasonCode.DEVICE_MISSING], 13),
        ([ReasonCode.PASSES_INSUFFICIENT], 11),
    ],
)
def test_the_gravest_reason_gives_the_exit_code(chosen: list[ReasonCode], code: int) -> None:
    wrongs: dict[str, Any] = {}
    for one in chosen:
        wrongs.update(WRONGS[one])

    assert exit_code(decision(**wrongs)) == code


def test_the_line_names_each_code_once() -> None:
    answer = decision(holds=(make_hold(), make_hold(device=OTHER)), have=1)

    assert answer.as_line() == "hold 10 device_quarantined,passes_insufficient 2026-11-29T12:00:00.000000Z"


def test_a_device_of_which_nothing_is_known_is_still_named() -> None:
    assert str(DeviceRef(kind="gpu", slot="0000:01:00.0")) == "GPU without identity in 0000:01:00.0"
    assert str(DeviceRef()) == "Device without identity"


@pytest.mark.parametrize(("drain", "disposition"), [(False, Disposition.HOLD), (True, Disposition.DRAIN)])
def test_hardware_alone_is_judged_by_its_holds(drain: bool, disposition: Disposition) -> None:
    facts = NodeFacts("", holds=(make_hold(drain=drain),))

    found = decide_hardware(facts, policy=Policy(), policy_digest="sha256:0", sequence=7, now=NOON)

    assert [reason.code for reason in found.reasons] == [ReasonCode.DEVICE_QUARANTINED]
    assert (found.admitted, found.disposition) == (False, disposition)


def test_hardware_alone_without_holds_is_let_in() -> None:
    found = decide_hardware(NodeFacts(""), policy=Policy(), policy_digest="sha256:0", sequence=7, now=NOON)

    assert (found.admitted, found.disposition, found.reasons) == (True, Disposition.ADMIT, ())


def test_fewer_adapters_than_ever_were_are_a_setting_and_none_of_them_is_called_broken() -> None:
    reason = only_reason(listed_counts={"gpu": 8, "efa": 1}, expected={"efa": 4})

    assert (reason.code, reason.device, reason.have, reason.need) == (ReasonCode.DEVICE_MISSING, None, 1, 4)
    assert "interfaces of the launch template" in reason.message
    assert "lspci" not in reason.message
    assert "power cycle" not in reason.message
