# SPDX-License-Identifier: Apache-2.0
"""What sets passes to zero, and what leaves them: changes, faults, releases, repeats, and messages that come late."""

from __future__ import annotations

from datetime import timedelta

import pytest

from registry.domain.errors import InstanceSuperseded, ReportIdReused
from registry.domain.reports import ReportedFailure
from registry.services.profiles import set_profile
from tests.fleet import ALICE, Fleet, efa, gpu
from tests.services.runs import GPUS, events, results, told


def test_a_changed_profile_sets_passes_to_zero(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    assert told(fleet.report(profile="g6.12xlarge")) == (True, None, 1)
    assert [one["why"] for one in events(fleet, "passes.reset")] == ["profile_changed"]


def test_a_changed_device_set_sets_passes_to_zero_and_its_run_may_be_the_first(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    answer = fleet.report(devices=[gpu(0), gpu(1), gpu(2), gpu(9, at=3)])
    assert told(answer) == (True, None, 1)
    assert [one["why"] for one in events(fleet, "passes.reset")] == ["devices_changed"]


def test_devices_of_a_kind_that_was_not_listed_before_change_the_device_set(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    answer = fleet.report(devices=[*(gpu(n) for n in range(4)), efa(0)])
    assert told(answer) == (True, None, 1)


def test_the_same_devices_in_other_slots_are_the_same_set(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    assert told(fleet.report(devices=[gpu(0, at=1), gpu(1, at=0), gpu(2), gpu(3)])) == (True, None, 2)


def test_a_list_that_is_not_what_is_placed_does_not_count(fleet: Fleet) -> None:
    five = [*(gpu(n) for n in range(4)), gpu(5)]
    answer = fleet.report(devices=five)
    assert told(answer)[:2] == (False, "check_not_clean")
    assert answer["pass"]["detail"] == "gpu.count"
    set_profile(fleet.db, "p", {**GPUS, "required_checks": ["gpu.ecc"]}, actor=ALICE, now=fleet.clock.now)
    both = frozenset({"gpu", "efa"})
    fleet.report(node="node-b", profile="p", devices=[*(gpu(n) for n in range(10, 14)), efa(1)], covers=both)
    fleet.clock.advance(30)
    gpus_only = fleet.report(
        node="node-b", profile="p", devices=[gpu(n) for n in range(10, 14)], covers=frozenset({"gpu"})
    )
    assert told(gpus_only) == (False, "counts_unmet", 1)


def test_a_new_boot_begins_at_zero_and_its_first_run_counts(fleet: Fleet) -> None:
    fleet.admit()
    answer = fleet.report(boot="boot-2")
    assert told(answer) == (True, None, 1)
    fleet.clock.advance(30)
    assert told(fleet.report(boot="boot-2")) == (True, None, 2)


def test_a_new_instance_begins_at_zero_and_the_old_one_is_not_taken_back(fleet: Fleet) -> None:
    fleet.admit()
    assert told(fleet.report(instance="i-2", boot="boot-9", devices=[gpu(n) for n in range(4, 8)])) == (True, None, 1)
    with pytest.raises(InstanceSuperseded):
        fleet.report(instance="i-1", boot="boot-1")
    with pytest.raises(InstanceSuperseded):
        fleet.report(instance="i-1", boot="boot-3")
    assert fleet.decide().have == 1


def test_a_blocking_fault_sets_passes_to_zero_and_only_later_runs_count(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(60)
    fleet.fail("xid_38", node="node-a", slot=gpu(0).slot)
    assert fleet.codes() == ["passes_insufficient"]
    assert told(fleet.report()) == (False, "fault_newer", 0)
    fleet.clock.advance(1)
    began_before = fleet.report(
        started_at=fleet.clock.now - timedelta(seconds=2), finished_at=fleet.clock.now, sent_at=fleet.clock.now
    )
    assert told(began_before) == (False, "fault_newer", 0)
    assert told(fleet.report()) == (True, None, 1)


def test_a_fault_that_blocks_nothing_resets_nothing(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail("xid_13", node="node-a", slot=gpu(0).slot)
    assert fleet.decide().admitted


def test_a_persons_release_sets_passes_to_zero_and_only_later_runs_count(fleet: Fleet) -> None:
    fleet.admit()
    hold = fleet.hold({"device": gpu(0).serial})[0]["quarantine"]["id"]
    fleet.clock.advance(60)
    fleet.release(hold)
    assert fleet.codes() == ["passes_insufficient"]
    assert told(fleet.report()) == (False, "fault_newer", 0)
    fleet.clock.advance(1)
    assert told(fleet.report()) == (True, None, 1)


def test_a_replayed_report_gets_its_first_answer_and_the_decision_of_now(fleet: Fleet) -> None:
    first = fleet.report(report_id="r-1")
    fleet.clock.advance(30)
    fleet.report(report_id="r-2")
    sequence = fleet.decide().sequence
    again = fleet.report(report_id="r-1")
    assert again["replayed"] is True
    assert again["pass"] == first["pass"]
    assert again["admission"]["admitted"] is True
    assert fleet.decide().sequence == sequence
    with pytest.raises(ReportIdReused):
        fleet.report(report_id="r-1", body_digest="another")


def test_a_replay_is_no_sign_of_life(fleet: Fleet) -> None:
    fleet.report(report_id="r-1")
    fleet.clock.advance(121)
    fleet.report(report_id="r-1")
    assert "report_stale" in fleet.codes()


def test_a_report_that_was_overtaken_stores_evidence_and_changes_no_state(fleet: Fleet) -> None:
    fleet.admit(seq=None)
    fleet.clock.advance(30)
    fleet.report(seq=10)
    late = fleet.report(seq=10, devices=[gpu(0)], checks=results(gpu__ecc="fail"))
    assert told(late) == (False, "not_current", 2)
    assert fleet.decide().admitted
    evidence = (ReportedFailure("late", "xid_63", slot=gpu(0).slot, occurred_at=fleet.clock.now),)
    fleet.report(seq=9, failures=evidence)
    assert fleet.codes() == ["device_quarantined", "passes_insufficient"]


def test_a_seq_counts_within_its_boot(fleet: Fleet) -> None:
    fleet.report(seq=10)
    assert told(fleet.report(boot="boot-2", seq=1)) == (True, None, 1)


@pytest.mark.parametrize(
    ("code", "stands"), [("xid_119", True), ("xid_38", True), ("xid_64", False), ("xid_79", False)]
)
def test_evidence_of_an_earlier_boot_resets_nothing_unless_it_outlives_a_boot(
    fleet: Fleet, code: str, stands: bool
) -> None:
    """C120, by a report of the old boot."""
    fleet.report()
    occurred = fleet.clock.now
    fleet.clock.advance(60)
    fleet.admit(boot="boot-2")
    evidence = (ReportedFailure("old", code, slot=gpu(0).slot, occurred_at=occurred),)
    answer = fleet.report(boot="boot-1", failures=evidence, checks=results(gpu__ecc="fail"))
    assert told(answer)[:2] == (False, "not_current")
    assert fleet.decide().admitted is stands
    assert [(one["code"], one["failure_id"]) for one in events(fleet, "failure.recorded")] == [(code, "old")]


def test_a_boot_that_is_named_as_an_earlier_one_is_over_though_nobody_heard_of_it(fleet: Fleet) -> None:
    """The server was away while the node booted twice, and what waited in the first of them comes late."""
    fleet.admit(boot="boot-1")
    occurred = fleet.clock.advance(60)
    fleet.clock.advance(60)
    fleet.admit(boot="boot-3", earlier_boots=("boot-2", "boot-1", "boot-3", "boot-2"))

    waited = (ReportedFailure("old", "xid_79", slot=gpu(0).slot, occurred_at=occurred),)
    late = fleet.report(boot="boot-2", failures=waited, checks=results(gpu__xid="fail"))
    fleet.clock.advance(30)
    now = fleet.report(boot="boot-3")

    assert (late["pass"]["because"], late["pass"]["detail"]) == ("not_current", "boot")
    assert now["pass"]["because"] is None
    assert fleet.codes() == ["device_quarantined", "passes_insufficient"]
    assert [one["boot_id"] for one in events(fleet, "node.booted")] == ["boot-1", "boot-2", "boot-3"]


@pytest.mark.parametrize(("code", "stands"), [("xid_119", True), ("xid_64", False)])
def test_evidence_of_an_earlier_boot_by_itself_is_judged_by_its_time(fleet: Fleet, code: str, stands: bool) -> None:
    """C120, by the failures route."""
    fleet.report()
    occurred = fleet.clock.now
    fleet.clock.advance(60)
    fleet.admit(boot="boot-2")
    assert fleet.fail(code, device=gpu(0).uuid, occurred_at=occurred)["outcome"] == "recorded"
    assert fleet.decide().admitted is stands


def test_a_node_without_a_known_profile_collects_no_passes(fleet: Fleet) -> None:
    answer = fleet.report(profile="nobody-knows", covers=frozenset({"gpu"}))
    assert told(answer) == (False, "check_missing", 0)
    assert answer["pass"]["detail"] == "profile"


def test_the_passes_of_one_node_are_not_anothers(fleet: Fleet) -> None:
    fleet.admit()
    fleet.report("node-b", devices=[gpu(n) for n in range(4, 8)], instance="i-9")
    assert fleet.decide("node-b").have == 1


@pytest.mark.parametrize(("others", "is_kept"), [(63, True), (64, False)])
def test_the_last_64_report_ids_of_a_node_are_kept(fleet: Fleet, others: int, is_kept: bool) -> None:
    fleet.report(report_id="the-first")
    for number in range(others):
        fleet.report(report_id=f"another-{number}")
    assert fleet.report(report_id="the-first")["replayed"] is is_kept
