# SPDX-License-Identifier: Apache-2.0
"""Which runs count as a pass? Each rule of a clean pass, at the service, with the words of the answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus
from registry.services.profiles import set_profile
from tests.fleet import ALICE, CLEAN_GPU, Fleet, efa, gpu, passing
from tests.services.runs import GPUS, events, results, told


def test_two_clean_runs_a_gap_apart_admit(fleet: Fleet) -> None:
    first = fleet.report()
    assert told(first) == (True, None, 1)
    assert first["pass"] == {"counted": True, "because": None, "detail": None, "have": 1, "need": 2}
    assert first["admission"]["admitted"] is False

    fleet.clock.advance(30)
    second = fleet.report()
    assert told(second) == (True, None, 2)
    assert second["admission"]["admitted"] is True


@pytest.mark.parametrize(("seconds", "counts"), [(0, False), (29.9, False), (30, True)])
def test_the_gap_is_from_start_to_start(fleet: Fleet, seconds: float, counts: bool) -> None:
    fleet.report()
    fleet.clock.advance(seconds)
    assert told(fleet.report()) == ((True, None, 2) if counts else (False, "gap_too_short", 1))


def test_a_run_that_began_before_the_counted_one_ended_does_not_count(fleet: Fleet) -> None:
    fleet.clock.advance(1000)
    now = fleet.clock.now
    fleet.report(started_at=now - timedelta(seconds=100), finished_at=now, sent_at=now)
    # Its start is 70 s after the first one's start, and 30 s before the first one's end.
    later = fleet.clock.advance(20)
    answer = fleet.report(started_at=later - timedelta(seconds=50), finished_at=later, sent_at=later)
    assert told(answer) == (False, "gap_too_short", 1)


def test_a_nodes_clock_is_not_believed_only_its_differences(fleet: Fleet) -> None:
    slow = fleet.clock.now - timedelta(days=400)
    fleet.report(started_at=slow, finished_at=slow, sent_at=slow)
    fleet.clock.advance(30)
    answer = fleet.report(started_at=slow, finished_at=slow, sent_at=slow)
    assert told(answer) == (True, None, 2)


def test_later_clean_runs_write_no_event(fleet: Fleet) -> None:
    fleet.admit()
    before = fleet.decide().sequence
    for _ in range(3):
        fleet.clock.advance(30)
        assert told(fleet.report()) == (True, None, 2)
    assert fleet.decide().sequence == before
    assert [one["have"] for one in events(fleet, "pass.counted")] == [1, 2]


def test_a_run_of_several_reports_counts_once_it_is_complete(fleet: Fleet) -> None:
    set_profile(fleet.db, "p", {**GPUS, "efa": {"count": 2}}, actor=ALICE, now=fleet.clock.now)
    gpus, efas = [gpu(n) for n in range(4)], [efa(n) for n in range(2)]

    def part(run: str, **what: Any) -> tuple[bool, str | None, int]:
        return told(fleet.report(profile="p", run_id=run, **what))

    assert part("run-1", devices=gpus, covers=frozenset({"gpu"})) == (False, "check_missing", 0)
    fleet.clock.advance(5)
    assert part("run-1", devices=efas, covers=frozenset({"efa"}), checks=()) == (False, "check_missing", 0)
    fleet.clock.advance(5)
    assert part("run-1", entries=None, checks=passing("efa.link")) == (True, None, 1)
    assert part("run-1", entries=None, checks=passing("efa.link")) == (False, "duplicate_run", 1)


def test_the_start_of_a_run_is_not_after_its_first_part(fleet: Fleet) -> None:
    fleet.report(run_id="run-1")
    fleet.clock.advance(29)
    assert told(fleet.report(run_id="run-2", checks=()))[1] == "check_missing"
    fleet.clock.advance(10)
    answer = fleet.report(run_id="run-2", entries=None)
    assert told(answer) == (False, "gap_too_short", 1)


def test_a_part_that_comes_later_can_still_spoil_its_run(fleet: Fleet) -> None:
    fleet.report(run_id="run-1")
    answer = fleet.report(run_id="run-1", entries=None, checks=results(gpu__thermal="fail"))
    assert told(answer) == (False, "duplicate_run", 0)
    assert [one["why"] for one in events(fleet, "passes.reset")] == ["check_failed"]


@pytest.mark.parametrize("status", ["pass", "warn", "not_applicable"])
def test_what_a_required_check_may_say(fleet: Fleet, status: str) -> None:
    assert told(fleet.report(checks=results(gpu__ecc=status)))[:2] == (True, None)


@pytest.mark.parametrize(("status", "left"), [("fail", 0), ("unknown", 1), ("skipped", 1)])
def test_an_unclean_required_check_does_not_count_and_only_a_fail_resets(fleet: Fleet, status: str, left: int) -> None:
    fleet.report()
    fleet.clock.advance(30)
    answer = fleet.report(checks=results(gpu__ecc=status))
    assert told(answer) == (False, "check_not_clean", left)
    assert answer["pass"]["detail"] == "gpu.ecc"
    fleet.clock.advance(30)
    assert told(fleet.report()) == (True, None, left + 1)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("fail", (False, "check_not_clean", 0)),
        ("unknown", (False, "check_not_clean", 1)),
        ("skipped", (True, None, 2)),
        ("warn", (True, None, 2)),
    ],
)
def test_an_optional_check_spoils_a_run_when_it_fails_or_cannot_tell(
    fleet: Fleet, status: str, expected: tuple[bool, str | None, int]
) -> None:
    fleet.report()
    fleet.clock.advance(30)
    assert told(fleet.report(checks=results(gpu__thermal=status))) == expected


def test_the_worst_of_several_results_for_one_check_counts(fleet: Fleet) -> None:
    checks = (
        *passing(*CLEAN_GPU),
        CheckResult("gpu.ecc", CheckStatus.SKIPPED),
        CheckResult("gpu.ecc", CheckStatus.WARN),
    )
    assert told(fleet.report(checks=checks))[:2] == (False, "check_not_clean")


@pytest.mark.parametrize("absent", CLEAN_GPU)
def test_an_incomplete_run_resets_nothing(fleet: Fleet, absent: str) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    answer = fleet.report(checks=passing(*(name for name in CLEAN_GPU if name != absent)))
    assert told(answer) == (False, "check_missing", 2)
    assert answer["pass"]["detail"] == absent
    assert answer["admission"]["admitted"] is True


def test_a_run_without_a_list_lacks_the_checks_that_a_list_gives(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    answer = fleet.report(entries=None)
    assert told(answer) == (False, "check_missing", 2)
    assert answer["pass"]["detail"] == "gpu.count"


def test_results_of_checks_that_the_server_derives_are_not_taken_from_a_node(fleet: Fleet) -> None:
    answer = fleet.report(devices=[gpu(0), gpu(1)], checks=passing(*CLEAN_GPU, "gpu.count", "gpu.identity"))
    assert told(answer)[:2] == (False, "check_not_clean")
    assert [one["code"] for one in answer["warnings"]] == ["check_derived"]


def test_a_per_boot_check_is_waited_for_and_needed_once_a_boot(fleet: Fleet) -> None:
    set_profile(fleet.db, "p", {**GPUS, "per_boot_checks": ["dcgm.diag"]}, actor=ALICE, now=fleet.clock.now)
    early = fleet.report(profile="p")
    assert told(early) == (False, "check_missing", 0)
    assert early["pass"]["detail"] == "dcgm.diag"
    fleet.clock.advance(30)
    assert told(fleet.report(profile="p", checks=results(dcgm__diag="skipped"))) == (False, "check_missing", 0)
    fleet.clock.advance(30)
    assert told(fleet.report(profile="p", checks=results(dcgm__diag="pass"))) == (True, None, 1)
    fleet.clock.advance(30)
    assert told(fleet.report(profile="p")) == (True, None, 2)
    fleet.clock.advance(30)
    assert told(fleet.report(profile="p", boot="boot-2")) == (False, "check_missing", 0)


def test_a_slow_per_boot_check_completes_the_run_it_belongs_to(fleet: Fleet) -> None:
    set_profile(fleet.db, "p", {**GPUS, "per_boot_checks": ["dcgm.diag"]}, actor=ALICE, now=fleet.clock.now)
    fleet.report(profile="p", run_id="slow")
    fleet.clock.advance(200)
    answer = fleet.report(profile="p", run_id="slow", entries=None, checks=passing("dcgm.diag"))
    assert told(answer) == (True, None, 1)


def test_a_clean_result_that_came_with_a_failing_one_is_no_clean_result(fleet: Fleet) -> None:
    set_profile(fleet.db, "p", {**GPUS, "per_boot_checks": ["dcgm.diag"]}, actor=ALICE, now=fleet.clock.now)
    both = (*passing(*CLEAN_GPU, "dcgm.diag"), CheckResult("dcgm.diag", CheckStatus.FAIL))
    assert told(fleet.report(profile="p", checks=both))[0] is False
    fleet.clock.advance(30)
    assert told(fleet.report(profile="p")) == (False, "check_missing", 0)


def test_a_run_that_ended_too_long_ago_does_not_count(fleet: Fleet) -> None:
    sent = fleet.clock.now
    finished = sent - timedelta(seconds=901)
    assert told(fleet.report(finished_at=finished, sent_at=sent)) == (False, "too_old", 0)
    finished = sent - timedelta(seconds=900)
    assert told(fleet.report(finished_at=finished, sent_at=sent)) == (True, None, 1)


@pytest.mark.parametrize(("ahead", "expected"), [(5, (True, None, 1)), (5.1, (False, "from_future", 0))])
def test_a_run_may_not_finish_after_it_arrived(
    fleet: Fleet, ahead: float, expected: tuple[bool, str | None, int]
) -> None:
    assert told(fleet.report(finished_at=fleet.clock.now + timedelta(seconds=ahead))) == expected


def test_the_same_look_again_is_no_new_pass_and_no_sign_of_life(fleet: Fleet) -> None:
    """C50, at the service."""
    fleet.report(stamps=("Sun Nov 29 12:00:00 2026",))
    for _ in range(5):
        fleet.clock.advance(30)
        answer = fleet.report(stamps=("Sun Nov 29 12:00:00 2026",))
        assert told(answer) == (False, "content_repeated", 1)
    assert "report_stale" in fleet.codes()
    fleet.clock.advance(751)
    assert told(fleet.report(stamps=("Sun Nov 29 12:00:00 2026",)))[1:] == ("content_repeated", 0)
    assert told(fleet.report(stamps=("Sun Nov 29 12:15:00 2026",))) == (True, None, 1)
    assert "report_stale" not in fleet.codes()


@pytest.mark.parametrize(("silence", "left"), [(900, 2), (901, 0)])
def test_a_silence_longer_than_a_pass_may_age_ends_the_passes(fleet: Fleet, silence: int, left: int) -> None:
    fleet.admit()
    fleet.clock.advance(silence)
    assert fleet.decide().have == left
    assert told(fleet.report())[2] == max(1, left)
    assert len(events(fleet, "passes.reset")) == (0 if left else 1)


def test_standing_passes_do_not_age_while_reports_arrive(fleet: Fleet) -> None:
    fleet.admit()
    for _ in range(40):
        fleet.clock.advance(100)
        fleet.report(checks=())
    assert fleet.decide().admitted


def test_a_profile_that_is_written_anew_sets_passes_to_zero(fleet: Fleet) -> None:
    set_profile(fleet.db, "p", GPUS, actor=ALICE, now=fleet.clock.now)
    fleet.admit(profile="p")
    assert fleet.decide().admitted
    set_profile(fleet.db, "p", {**GPUS, "per_boot_checks": ["dcgm.diag"]}, actor=ALICE, now=fleet.clock.now)
    assert fleet.codes() == ["passes_insufficient"]
    assert [one["why"] for one in events(fleet, "passes.reset")] == ["profile_changed"]


def test_a_profile_written_as_it_was_changes_nothing(fleet: Fleet) -> None:
    set_profile(fleet.db, "p", GPUS, actor=ALICE, now=fleet.clock.now)
    fleet.admit(profile="p")
    set_profile(fleet.db, "p", GPUS, actor=ALICE, now=fleet.clock.now)
    assert fleet.decide().admitted


@pytest.mark.parametrize("needed", [1, 2, 3])
def test_the_policy_says_how_many_passes_are_needed_and_how_far_apart(fleet: Fleet, needed: int) -> None:
    fleet.policy = Policy(pass_count=needed, pass_gap_seconds=0)
    haves = [fleet.report()["pass"]["have"] for _ in range(needed + 2)]
    assert haves == [*range(1, needed + 1), needed, needed]
    assert fleet.decide().admitted
