# SPDX-License-Identifier: Apache-2.0
"""Is there a way around the rules: a list taken for known, evidence that is lost, a release that nothing earned?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from registry.domain.failures import Effect
from registry.domain.reports import CheckResult, CheckStatus, ReportedFailure
from registry.domain.rules import Rule
from registry.services.failures import withdraw_failure
from registry.services.history import list_events
from registry.services.nodes import set_maintenance
from registry.services.profiles import set_profile
from tests.fleet import ALICE, EVERYTHING, Fleet, gpu, passing, serial, uuid
from tests.services.test_breaker import bring_up, is_withheld, look, name


def twin(number: int, **changes: Any) -> Any:
    return gpu(number, serial=serial(0), model="NVIDIA GB200", **changes)


@pytest.mark.parametrize("away", [300, 2000])
def test_a_twin_that_appeared_while_a_node_was_silent_is_a_conflict_when_it_returns(fleet: Fleet, away: int) -> None:
    one = {"profile": "g5.xlarge", "devices": [twin(0)]}
    other = {"profile": "g5.xlarge", "devices": [twin(1)], "instance": "i-2"}
    fleet.admit("node-a", **one)
    fleet.clock.advance(away)
    fleet.admit("node-b", **other)
    fleet.clock.advance(30)
    fleet.admit("node-a", **one)
    fleet.admit("node-b", **other)
    assert "identity_conflict" in fleet.codes("node-a") + fleet.codes("node-b")


def test_the_same_list_without_covers_is_taken(fleet: Fleet) -> None:
    fleet.report(covers=frozenset({"gpu", "efa"}))
    fleet.clock.advance(30)

    again = fleet.report()

    assert again["pass"]["counted"]


def test_another_policy_matches_a_known_list_anew(fleet: Fleet) -> None:
    pair = [twin(0), twin(1)]
    set_profile(fleet.db, "pair", {"gpu": {"count": 2}}, actor=ALICE, now=fleet.clock.now)
    fleet.admit(profile="pair", devices=pair)
    assert fleet.codes() == []
    fleet.policy = replace(fleet.policy, board_units_max=1)
    fleet.clock.advance(30)
    fleet.report(profile="pair", devices=pair)
    assert "identity_conflict" in fleet.codes()


def test_a_permanent_fault_of_a_past_boot_after_a_release_holds_again(fleet: Fleet) -> None:
    fleet.admit()
    fault = lambda id_: ReportedFailure(id_, "xid_79", slot=gpu(1).slot, occurred_at=fleet.clock.now)  # noqa: E731
    fleet.report(failures=(fault("a"),))
    (hold,) = fleet.open_holds()
    fleet.clock.advance(60)
    fleet.release(hold["id"])
    fleet.clock.advance(60)
    again = fault("b")
    fleet.clock.advance(60)
    fleet.report(boot="boot-2")
    fleet.clock.advance(30)
    fleet.report(boot="boot-1", failures=(again,))
    assert [one["owner"] for one in fleet.open_holds()] == ["rule:xid_79"]


def test_a_late_finding_is_put_to_what_was_in_the_slot_then(fleet: Fleet) -> None:
    fleet.admit()
    at = fleet.clock.now
    fleet.clock.advance(300)
    swapped = [gpu(0), gpu(9, at=1), gpu(2), gpu(3)]
    fleet.admit(boot="boot-2", devices=swapped)
    failed = CheckResult("gpu.row_remap", CheckStatus.FAIL, gpu(1).slot, "gpu.row_remap.failed", "as printed")
    fleet.report(
        boot="boot-1", checks=(*passing("gpu.ecc", "gpu.xid"), failed), finished_at=at, sent_at=fleet.clock.now
    )
    held = [one["uuid"] for hold in fleet.open_holds() for one in _devices(fleet, hold)]
    assert uuid(9) not in held


def _devices(fleet: Fleet, hold: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"uuid": one["value"]} for one in hold["identifiers"] if one["type"] == "uuid"]


def test_what_a_reset_clears_is_looked_for_on_the_device_and_not_in_its_slot(fleet: Fleet) -> None:
    pending = CheckResult("gpu.row_remap", CheckStatus.FAIL, gpu(1).slot, "gpu.row_remap.pending", "as printed")
    clear = CheckResult("gpu.row_remap", CheckStatus.PASS, gpu(1).slot)
    rest = passing("gpu.ecc", "gpu.xid")
    fleet.report(checks=(*rest, pending))
    fleet.clock.advance(30)
    fleet.report(devices=[gpu(0), gpu(9, at=1), gpu(2), gpu(3)], checks=(*rest, clear))
    resets = [
        one["data"]
        for one in list_events(fleet.db, {}, EVERYTHING).items
        if one["type"] == "failure.recorded" and one["data"]["code"] == "gpu_reset"
    ]
    assert [one["serial"] for one in resets] == []


def test_an_injected_reset_proves_no_restart(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    fleet.fail("xid_48", device=uuid(1))
    assert [one["release_policy"] for one in fleet.open_holds()] == ["after_passes"]
    fleet.clock.advance(30)
    fleet.fail("gpu_reset", device=uuid(1), evidence={"injected": True})
    for _ in range(4):
        fleet.clock.advance(30)
        fleet.report()
    assert len(fleet.open_holds()) == 1


def test_withdrawing_the_newer_of_two_faults_leaves_what_the_older_one_was_withheld_for(fleet: Fleet) -> None:
    bring_up(fleet, 6)
    for number in range(4):
        fleet.fail("xid_79", device=uuid(number))
    fleet.fail("xid_79", device=uuid(5), occurred_at=fleet.clock.now)
    assert is_withheld(fleet, 5)
    fleet.clock.advance(30)
    look(fleet, 5, boot="boot-2")
    fleet.clock.advance(30)
    newer = fleet.fail("xid_79", device=uuid(5), occurred_at=fleet.clock.now)
    withdraw_failure(fleet.db, newer["failure"]["id"], reason="a typo", actor=ALICE, now=fleet.clock.now)
    for _ in range(3):
        fleet.clock.advance(30)
        look(fleet, 5, boot="boot-2")
    assert fleet.codes(name(5)) != []


def test_withdrawing_one_fault_is_no_release_of_the_device(fleet: Fleet) -> None:
    bring_up(fleet, 6)
    for number in range(4):
        fleet.fail("xid_79", device=uuid(number))
    seen_at = fleet.clock.now
    wrong = fleet.fail("xid_79", device=uuid(5), occurred_at=fleet.clock.now)
    fleet.clock.advance(700)
    withdraw_failure(fleet.db, wrong["failure"]["id"], reason="a typo", actor=ALICE, now=fleet.clock.now)
    fleet.clock.advance(5)
    fleet.fail("xid_64", device=uuid(5), occurred_at=seen_at + timedelta(seconds=1))
    assert "rule:xid_64" in [one["owner"] for one in fleet.open_holds()]


def test_a_withholding_that_opens_after_all_ends_with_an_event(fleet: Fleet) -> None:
    bring_up(fleet, 3)
    for number in range(2):
        fleet.fail("xid_48", device=uuid(number))
    fleet.clock.advance(601)
    for number in range(3):
        look(fleet, number)
    fleet.fail("xid_48", device=uuid(1))
    types = [one["type"] for one in list_events(fleet.db, {}, EVERYTHING).items]
    assert (types.count("quarantine.withheld"), sum("withh" in one for one in types)) == (1, 2)


def test_a_slot_match_teaches_no_firmware(fleet: Fleet) -> None:
    set_profile(fleet.db, "one", {"gpu": {"count": 1}}, actor=ALICE, now=fleet.clock.now)
    fleet.report(profile="one", devices=[gpu(0, firmware={"vbios": "1"})])
    blank = gpu(0, serial="[N/A]", uuid=None)
    for vbios in ("1", "1", "2"):
        fleet.clock.advance(30)
        fleet.report(profile="one", devices=[replace(blank, firmware={"vbios": vbios})])
    assert "device.changed" not in [one["type"] for one in list_events(fleet.db, {}, EVERYTHING).items]


def test_the_boot_that_shows_a_fault_is_no_restart_after_it(fleet: Fleet) -> None:
    """The kernel's log of the first report has a fault from before it."""
    before = fleet.clock.now - timedelta(seconds=30)
    fleet.report(failures=(ReportedFailure("a", "xid_48", slot=gpu(1).slot, occurred_at=before),))
    assert [one["release_policy"] for one in fleet.open_holds()] == ["after_passes"]
    for _ in range(4):
        fleet.clock.advance(30)
        fleet.report()
    assert len(fleet.open_holds()) == 1


def test_a_burst_that_outlasts_maintenance_has_effect(fleet: Fleet) -> None:
    fleet.admit()
    start = fleet.clock.now
    set_maintenance(
        fleet.db,
        "node-a",
        until=start + timedelta(seconds=60),
        reason="new driver",
        actor=ALICE,
        policy=fleet.policy,
        now=start,
    )
    for seconds, count in ((30, 1), (300, 5)):
        fleet.clock.now = start + timedelta(seconds=seconds)
        burst = ReportedFailure(
            "a",
            "xid_79",
            slot=gpu(1).slot,
            occurred_at=start + timedelta(seconds=30),
            last_at=fleet.clock.now,
            count=count,
        )
        fleet.report(failures=(burst,))
    assert [one["owner"] for one in fleet.open_holds()] == ["rule:xid_79"]


def test_a_fault_in_a_report_under_a_serial_that_two_units_share_holds_their_board(fleet: Fleet) -> None:
    set_profile(fleet.db, "pair", {"gpu": {"count": 2}}, actor=ALICE, now=fleet.clock.now)
    pair = [twin(0), twin(1)]
    fleet.admit(profile="pair", devices=pair)
    fleet.clock.advance(30)
    fleet.report(profile="pair", devices=pair, failures=(ReportedFailure("a", "xid_79", device=serial(0)),))
    for _ in range(3):
        fleet.clock.advance(30)
        fleet.report(profile="pair", devices=pair)
    assert fleet.codes() == ["device_quarantined"] * 2


def test_a_fault_of_a_device_that_nobody_knows_is_unattached(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    fleet.report(failures=(ReportedFailure("a", "xid_79", device=uuid(77)),))
    for _ in range(3):
        fleet.clock.advance(30)
        fleet.report()
    assert fleet.codes() == ["fault_unattached"]


def test_the_breaker_counts_every_node_that_one_hold_puts_out(fleet: Fleet) -> None:
    for number in range(2, 4):
        fleet.report(name(number), [gpu(number)], instance=f"i-{number}", profile="g5.xlarge")
    fleet.report("node-a", [twin(0)], profile="g5.xlarge")
    fleet.clock.advance(300)
    fleet.report("node-b", [twin(1)], profile="g5.xlarge", instance="i-b")
    fleet.fail("xid_48", device=uuid(1))
    assert fleet.open_holds() == []


def test_a_real_fault_is_not_hidden_by_an_injected_one_of_the_same_time(fleet: Fleet) -> None:
    fleet.admit()
    at = fleet.clock.now
    fleet.fail("xid_79", device=uuid(1), occurred_at=at, evidence={"injected": True})
    fleet.fail("xid_79", device=uuid(1), occurred_at=at)
    assert [one["owner"] for one in fleet.open_holds()] == ["rule:xid_79"]


def test_a_node_whose_clock_is_slow_shows_new_evidence_after_a_release(fleet: Fleet) -> None:
    """`sent_at` tells how slow it is."""
    fleet.admit()
    slow = timedelta(hours=1)
    fleet.report(failures=(ReportedFailure("a", "xid_79", slot=gpu(1).slot, occurred_at=fleet.clock.now - slow),))
    fleet.release(fleet.open_holds()[0]["id"])
    fleet.clock.advance(300)
    claimed = fleet.clock.now - slow
    fleet.report(failures=(ReportedFailure("b", "xid_79", slot=gpu(1).slot, occurred_at=claimed),), sent_at=claimed)
    assert [one["owner"] for one in fleet.open_holds()] == ["rule:xid_79"]


def test_a_reset_is_no_fault_that_a_rule_counts(fleet: Fleet) -> None:
    rule = Rule("chatter", count=3, within_seconds=3600, effect=Effect.RECORD)
    fleet.policy = replace(fleet.policy, rules=(rule,))
    fleet.admit()
    for code in ("gpu_reset", "driver_loaded", "xid_13"):
        fleet.clock.advance(5)
        fleet.fail(code, device=uuid(1), occurred_at=fleet.clock.now)
    assert fleet.open_holds() == []


def test_a_finding_that_waited_in_a_spool_over_a_release_is_from_before_it(fleet: Fleet) -> None:
    """The agent spools a message as it was composed, `sent_at` included."""
    fleet.admit(seq=None)
    fleet.report(seq=1)
    fleet.clock.advance(30)
    composed = fleet.clock.now  # the server cannot be reached: sequence 2 waits
    fleet.clock.advance(60)
    (item,) = fleet.hold({"device": uuid(1)})
    fleet.clock.advance(60)
    fleet.release(item["quarantine"]["id"])
    fleet.clock.advance(60)
    fleet.report(seq=3)
    failed = CheckResult("gpu.row_remap", CheckStatus.FAIL, gpu(1).slot, "gpu.row_remap.failed", "as printed")
    fleet.report(
        seq=2,
        checks=(*passing("gpu.ecc", "gpu.xid"), failed),
        started_at=composed,
        finished_at=composed,
        sent_at=composed,
    )
    assert fleet.open_holds() == []
