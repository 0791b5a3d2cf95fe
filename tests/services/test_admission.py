# SPDX-License-Identifier: Apache-2.0
"""Does every "no" say why: each reason reachable, all of them at once, in their order, in words and in one line?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from registry.domain.admission import Reason, ReasonCode, exit_code
from registry.domain.reports import CheckResult, CheckStatus
from registry.services.nodes import grant_waiver, retire_node, set_maintenance
from registry.services.profiles import set_profile
from tests.fleet import ALICE, CLEAN_GPU, Fleet, efa, gpu, passing, serial, uuid

SLOTS = [str(gpu(n).slot) for n in range(12)]


def the(fleet: Fleet, code: str, node: str = "node-a") -> Reason:
    """The one reason with this code."""
    (reason,) = [one for one in fleet.decide(node).reasons if one.code == code]
    return reason


def unclean(name: str, status: str, device: str | None = None) -> tuple[CheckResult, ...]:
    """The clean checks, this one changed."""
    others = tuple(one for one in passing(*CLEAN_GPU) if one.name != name)
    return (*others, CheckResult(name, CheckStatus(status), device, message="it was seen"))


def never_reported(_: Fleet) -> None:
    pass


def retired(fleet: Fleet) -> None:
    fleet.admit()
    retire_node(fleet.db, "node-a", reason=None, actor=ALICE, policy=fleet.policy, now=fleet.clock.now)


def stale(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(121)


def nameless_profile(fleet: Fleet) -> None:
    fleet.admit(profile="never-heard", covers=frozenset({"gpu"}))


def held(fleet: Fleet) -> None:
    fleet.admit()
    fleet.hold({"device": serial(1)})


def node_held(fleet: Fleet) -> None:
    fleet.admit()
    fleet.hold({"node": "node-a"})


def one_gone(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    fleet.report(devices=[gpu(0), gpu(2), gpu(3)])


def one_more(fleet: Fleet) -> None:
    fleet.admit(devices=[gpu(n) for n in range(5)])


def nobody(fleet: Fleet) -> None:
    fleet.report(devices=[*(gpu(n) for n in range(3)), gpu(3, serial="N/A", uuid="N/A")])


def contradiction(fleet: Fleet) -> None:
    fleet.report()
    fleet.report(devices=[*(gpu(n) for n in range(3)), gpu(3, serial=serial(9))])


def unattached(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail("xid_79", node="node-a", slot="0000:ee:00.0")


def failing(fleet: Fleet) -> None:
    fleet.report(checks=unclean("gpu.thermal", "fail"))


def undecided(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    fleet.report(checks=unclean("gpu.ecc", "unknown"))


def skipped(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    fleet.report(checks=unclean("gpu.ecc", "skipped"))


def fresh(fleet: Fleet) -> None:
    fleet.report()


def in_maintenance(fleet: Fleet) -> None:
    fleet.admit()
    until = fleet.clock.now + timedelta(hours=1)
    set_maintenance(
        fleet.db, "node-a", until=until, reason="a fan", actor=ALICE, policy=fleet.policy, now=fleet.clock.now
    )


@pytest.mark.parametrize(
    ("happened", "codes", "exit_number"),
    [
        (never_reported, ["node_unknown"], 13),
        (retired, ["node_unknown"], 13),
        (stale, ["report_stale"], 13),
        (nameless_profile, ["profile_unknown", "passes_insufficient"], 13),
        (held, ["device_quarantined"], 10),
        (node_held, ["node_quarantined"], 10),
        (one_gone, ["device_missing", "check_failing", "passes_insufficient"], 13),
        (one_more, ["device_unexpected", "check_failing", "passes_insufficient"], 13),
        (nobody, ["device_unidentified", "check_unknown", "passes_insufficient"], 12),
        (contradiction, ["identity_conflict", "check_failing", "passes_insufficient"], 12),
        (unattached, ["fault_unattached", "passes_insufficient"], 13),
        (failing, ["check_failing", "passes_insufficient"], 13),
        (undecided, ["check_unknown"], 13),
        (skipped, ["check_unknown"], 13),
        (fresh, ["passes_insufficient"], 11),
        (in_maintenance, ["maintenance"], 13),
    ],
)
def test_each_reason_is_given_with_its_words_and_its_exit_code(
    fleet: Fleet, happened: Callable[[Fleet], None], codes: list[str], exit_number: int
) -> None:
    happened(fleet)
    decision = fleet.decide()
    assert [one.code for one in decision.reasons] == codes
    assert (decision.admitted, decision.disposition, exit_code(decision)) == (False, "hold", exit_number)
    assert all("Next: " in one.message for one in decision.reasons)
    disposition, number, said, retry = decision.as_line().split(" ")
    assert (disposition, number, said) == ("hold", str(exit_number), ",".join(codes))
    assert (retry != "-") is ("passes_insufficient" in codes)


def test_an_admitted_node_has_no_reason(fleet: Fleet) -> None:
    fleet.admit()
    decision = fleet.decide()
    assert (decision.admitted, decision.disposition, decision.reasons) == (True, "admit", ())
    assert decision.as_line() == "admit 0 - -"
    assert decision.to_json()["passes"] == {"have": 2, "need": 2}


def test_all_reasons_are_given_at_once_in_the_order_of_the_codes(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(n) for n in range(4)])
    fleet.hold({"device": serial(0)}, {"device": serial(2)}, {"node": "node-a"})
    fleet.fail("xid_79", node="node-a", slot="0000:ee:00.0")
    in_maintenance_until = fleet.clock.now + timedelta(hours=1)
    set_maintenance(
        fleet.db,
        "node-a",
        until=in_maintenance_until,
        reason="x",
        actor=ALICE,
        policy=fleet.policy,
        now=fleet.clock.now,
    )
    strange = [gpu(0), gpu(2, serial=serial(9)), gpu(7, serial=None, uuid=None)]
    fleet.report(profile="g5.48xlarge", devices=strange, checks=unclean("gpu.ecc", "fail", SLOTS[0]))
    fleet.clock.advance(121)
    given = fleet.codes()
    assert given == sorted(given, key=lambda code: list(ReasonCode).index(ReasonCode(code)))
    assert set(given) == {
        "report_stale",
        "device_quarantined",
        "node_quarantined",
        "device_missing",
        "device_unidentified",
        "identity_conflict",
        "fault_unattached",
        "check_failing",
        "passes_insufficient",
        "maintenance",
    }
    assert given.count("device_quarantined") == 2
    assert exit_code(fleet.decide()) == 12


def test_one_reason_for_each_held_device_told_by_its_oldest_hold(fleet: Fleet) -> None:
    fleet.admit()
    first = fleet.hold({"device": serial(2)})[0]["quarantine"]["id"]
    fleet.clock.advance(1)
    fleet.fail("xid_79", device=uuid(2))
    fleet.fail("xid_79", device=uuid(1))
    reasons = [one for one in fleet.decide().reasons if one.code == "device_quarantined"]
    assert [one.device.serial for one in reasons if one.device] == [serial(1), serial(2)]
    assert reasons[1].quarantine == first
    assert "xid_79" in reasons[1].message
    assert {one.match for one in reasons} == {"hardware"}
    assert serial(1) in reasons[0].message
    assert SLOTS[1] in reasons[0].message


def test_a_missing_device_is_named_and_one_never_seen_is_counted(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(0), gpu(1), gpu(2)])
    reason = the(fleet, "device_missing")
    assert (reason.device, reason.have, reason.need) == (None, 3, 4)
    fleet.report()
    fleet.report(devices=[gpu(0), gpu(1)])
    gone = [one.device.serial for one in fleet.decide().reasons if one.code == "device_missing" and one.device]
    assert gone == [serial(2), serial(3)]


def test_a_missing_placement_is_no_reason_while_the_count_is_met(fleet: Fleet) -> None:
    fleet.report()
    fleet.report(devices=[gpu(0), gpu(1), gpu(2), gpu(9, at=9)])
    assert "device_missing" not in fleet.codes()
    assert "device_unexpected" not in fleet.codes()


def test_a_kind_of_which_nothing_is_said_is_neither_missing_nor_unexpected(fleet: Fleet) -> None:
    """C90."""
    fleet.admit(devices=[*(gpu(n) for n in range(4)), efa(1), efa(2)])
    assert fleet.decide().admitted


def test_a_failing_check_is_told_device_by_device(fleet: Fleet) -> None:
    both = (*unclean("gpu.ecc", "fail", SLOTS[1]), CheckResult("gpu.ecc", CheckStatus.FAIL, uuid(2)))
    fleet.report(checks=both)
    reasons = [one for one in fleet.decide().reasons if one.code == "check_failing"]
    assert {one.device.serial for one in reasons if one.device} == {serial(1), serial(2)}
    assert {one.check for one in reasons} == {"gpu.ecc"}


def test_a_check_that_failed_blocks_until_it_is_seen_clean_in_this_boot(fleet: Fleet) -> None:
    failing(fleet)
    fleet.clock.advance(30)
    fleet.admit()
    assert fleet.codes() == ["check_failing"]
    fleet.clock.advance(30)
    fleet.report(checks=(*passing(*CLEAN_GPU), *passing("gpu.thermal")))
    assert fleet.decide().admitted
    failing(fleet)
    fleet.clock.advance(30)
    fleet.admit(boot="boot-2")
    assert fleet.decide().admitted


def test_an_optional_check_that_cannot_tell_is_no_reason(fleet: Fleet) -> None:
    fleet.admit()
    fleet.report(checks=unclean("gpu.thermal", "unknown"))
    assert fleet.decide().admitted


def test_a_wrong_model_is_not_one_of_those_that_count(fleet: Fleet) -> None:
    body = {"gpu": {"count": 4, "models": ["NVIDIA H200"]}}
    set_profile(fleet.db, "p", body, actor=ALICE, now=fleet.clock.now)
    fleet.report(profile="p")
    assert "check_failing" in fleet.codes()
    assert "NVIDIA H200" in the_first(fleet, "check_failing").message


def the_first(fleet: Fleet, code: str) -> Reason:
    return next(one for one in fleet.decide().reasons if one.code == code)


def test_retry_at_is_when_a_run_could_count_again(fleet: Fleet) -> None:
    fleet.report()
    earliest = fleet.clock.now + timedelta(seconds=30)
    assert fleet.decide().retry_at == earliest
    fleet.clock.advance(10)
    assert fleet.decide().as_line() == "hold 11 passes_insufficient 2026-11-29T12:00:30.000000Z"
    fleet.clock.advance(50)
    assert fleet.decide().retry_at == fleet.clock.now


def test_a_retired_node_is_unknown_until_it_reports(fleet: Fleet) -> None:
    retired(fleet)
    fleet.clock.advance(60)
    fleet.report()
    assert fleet.codes() == ["passes_insufficient"]


def test_a_hold_on_a_device_that_is_missing_here_still_meets_the_node(fleet: Fleet) -> None:
    held(fleet)
    fleet.report(devices=[gpu(0), gpu(2), gpu(3)])
    grant_waiver(
        fleet.db,
        "node-a",
        kind="efa",
        count=0,
        until=fleet.clock.now + timedelta(hours=1),
        reason="x",
        actor=ALICE,
        now=fleet.clock.now,
    )
    assert "device_quarantined" in fleet.codes()


def test_the_decision_names_its_policy_and_the_newest_event(fleet: Fleet) -> None:
    fleet.admit()
    before = fleet.decide()
    fleet.hold({"device": serial(1)})
    after = fleet.decide()
    assert before.policy == after.policy == fleet.policy.digest
    assert after.sequence == before.sequence + 1
    assert after.decided_at == fleet.clock.now
