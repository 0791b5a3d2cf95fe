# SPDX-License-Identifier: Apache-2.0
"""Is a failed job judged by what is on record, remembered once, and judged anew when more comes to light?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from registry.domain.actors import Actor, ActorKind
from registry.domain.errors import InvalidField, NotFound
from registry.domain.job_failures import JobFailure, Signal
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus, ReportedFailure
from registry.services import job_revisions
from registry.services.failures import record_failures, withdraw_failure
from registry.services.history import list_events
from registry.services.job_failures import judge_job_failure, list_job_failures, show_job_failure
from registry.services.job_revisions import JOBS_IN_PASSING, SIGNALS_IN_PASSING, judge_due, look_again
from registry.services.life import beat
from registry.services.nodes import set_maintenance
from registry.store import job_failures
from tests.fleet import ALICE, CLEAN_GPU, EVERYTHING, Fleet, gpu, passing, serial

HOURS = timedelta(hours=6)


def fail(fleet: Fleet, job_id: str = "job-1", at: datetime | None = None, **changes: Any) -> tuple[str, dict[str, Any]]:
    """Tell that a job on node-a and node-b failed now, or then."""
    failed_at = at or fleet.clock.now
    nodes = changes.pop("nodes", ("node-a", "node-b"))
    job = JobFailure(job_id, nodes, failed_at - HOURS, failed_at, **changes)
    return judge_job_failure(fleet.db, job, actor=ALICE, policy=fleet.policy, now=fleet.clock.now)


def events(fleet: Fleet, **filters: str) -> list[dict[str, Any]]:
    found = list_events(fleet.db, filters, EVERYTHING).items
    return [one for one in found if one["type"].startswith("job_failure.")]


@pytest.fixture
def two(fleet: Fleet) -> Fleet:
    """Two nodes that take work, with GPUs 0 to 3 and 4 to 7."""
    fleet.admit("node-a")
    fleet.admit("node-b", devices=[gpu(number) for number in range(4, 8)], instance="i-2")
    fleet.clock.advance(60)
    return fleet


def test_a_fault_on_record_is_found_and_its_device_left_out(two: Fleet) -> None:
    fault = two.fail("xid_79", device=serial(5))["failure"]

    outcome, found = fail(two, exit_code=134)

    assert outcome == "judged"
    assert (found["attribution"], found["cause"], found["retry"]) == ("platform", "hardware", "exclude_devices")
    assert found["exclude"] == {"nodes": [], "devices": [fault["device"]]}
    assert serial(5) in found["evidence"][0]["what"]
    assert found["evidence"][0]["node"] == "node-b"
    assert (found["revision"], found["reporter"], found["exit_code"]) == (1, "operator:alice", 134)


def test_it_opens_no_quarantine(two: Fleet) -> None:
    fail(two, log_excerpt="node-b: RuntimeError: CUDA error: uncorrectable ECC error encountered")

    assert two.open_holds() == []
    assert two.decide("node-b").admitted


def test_a_fault_on_another_node_or_long_ago_is_none_of_it(two: Fleet) -> None:
    two.fail("xid_79", device=serial(5))
    assert fail(two, "job-2", nodes=("node-a",))[1]["attribution"] == "undecided"
    two.clock.advance(3600)
    assert fail(two, "job-3")[1]["attribution"] == "undecided"


@pytest.mark.parametrize("why", ["withdrawn", "maintenance", "injected"])
def test_a_fault_without_effect_has_none_here(two: Fleet, why: str) -> None:
    evidence = {"injected": True} if why == "injected" else None
    if why == "maintenance":
        until = two.clock.now + HOURS
        set_maintenance(two.db, "node-b", until=until, reason="x", actor=ALICE, policy=two.policy, now=two.clock.now)
        two.clock.advance(1)
    fault = two.fail("xid_79", device=serial(5), occurred_at=two.clock.now, evidence=evidence)["failure"]
    if why == "withdrawn":
        withdraw_failure(two.db, fault["id"], reason="a test", actor=ALICE, now=two.clock.now)

    assert fail(two)[1]["attribution"] == "undecided"


def test_the_same_message_again_changes_nothing(two: Fleet) -> None:
    first = fail(two, exit_code=1)
    again = fail(two, exit_code=1)

    assert again == ("already_judged", first[1])
    assert len(events(two)) == 1


def test_another_message_tells_more_of_the_same_failure(two: Fleet) -> None:
    at = two.clock.now
    _, first = fail(two, at=at, exit_code=1)
    two.clock.advance(30)
    outcome, second = fail(two, at=at, exit_code=1, log_excerpt="KeyError: 'x'")

    assert (first["attribution"], second["attribution"]) == ("undecided", "application")
    assert (outcome, second["id"], second["revision"]) == ("revised", first["id"], 2)
    assert fail(two, at=at, exit_code=1) == ("already_judged", second)
    history = show_job_failure(two.db, first["id"])["history"]
    assert [(one["revision"], one["because"], one["attribution"]) for one in history] == [
        (1, "told", "undecided"),
        (2, "more was told", "application"),
    ]
    assert [one["type"] for one in events(two)] == ["job_failure.judged", "job_failure.revised"]


def test_what_was_seen_then_is_kept_when_it_is_over(two: Fleet) -> None:
    at = two.clock.now
    bad = (*passing(*CLEAN_GPU[1:]), CheckResult("gpu.ecc", CheckStatus.FAIL))
    two.report("node-a", checks=bad)
    assert fail(two, at=at)[1]["exclude"]["nodes"] == ["node-a"]
    two.clock.advance(30)
    two.report("node-a")

    assert fail(two, at=at, exit_code=134)[1]["exclude"]["nodes"] == ["node-a"]


def test_a_fault_that_comes_later_revises_the_verdict_with_its_event(two: Fleet) -> None:
    at = two.clock.now
    _, first = fail(two, at=at)
    two.clock.advance(300)
    fault = two.fail("xid_79", device=serial(5), occurred_at=at - timedelta(seconds=20))["failure"]

    found = show_job_failure(two.db, first["id"])
    assert (found["attribution"], found["revision"]) == ("platform", 2)
    assert found["exclude"]["devices"] == [fault["device"]]
    assert found["history"][1]["because"] == "a fault was recorded"
    revised = events(two, device=serial(5))[-1]
    assert (revised["type"], revised["actor"]["kind"]) == ("job_failure.revised", "system")
    assert revised["data"]["devices"][0]["serial"] == serial(5)
    assert revised["data"]["devices"][0]["node"] == "node-b"


def test_a_job_of_many_signals_is_judged_anew_by_the_worker(two: Fleet) -> None:
    at = two.clock.now
    told = tuple(Signal("nccl_timeout", at, rank, "node-a") for rank in range(SIGNALS_IN_PASSING + 1))
    _, first = fail(two, at=at, signals=told)
    two.clock.advance(60)
    two.fail("xid_79", device=serial(5), occurred_at=at)
    assert show_job_failure(two.db, first["id"])["revision"] == 1

    for _ in range(2):
        judge_due(two.db, policy=two.policy, now=two.clock.now)

    found = show_job_failure(two.db, first["id"])
    assert (found["revision"], found["cause"]) == (2, "hardware")
    assert found["history"][-1]["because"] == "a fault was recorded"


def test_of_many_short_jobs_on_a_node_the_newest_are_judged_by_whoever_writes_a_fault_and_the_rest_by_the_worker(
    two: Fleet,
) -> None:
    at = two.clock.now
    ids = [fail(two, f"job-{number}", at)[1]["id"] for number in range(JOBS_IN_PASSING + 4)]
    two.clock.advance(60)
    two.fail("xid_79", device=serial(5), occurred_at=at)

    def revised() -> set[str]:
        return {id_ for id_ in ids if show_job_failure(two.db, id_)["revision"] == 2}

    assert revised() == set(ids[-JOBS_IN_PASSING:])
    judge_due(two.db, policy=two.policy, now=two.clock.now)
    assert revised() == set(ids)


def test_one_round_of_the_worker_looks_at_many_small_jobs_and_at_few_large_ones(
    two: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_revisions, "AT_ONCE", 10)
    signals = tuple(Signal("nccl_timeout", two.clock.now, rank, "node-a") for rank in range(8 * SIGNALS_IN_PASSING))
    for number in range(2):
        fail(two, f"large-{number}", signals=signals)
    for number in range(10):
        fail(two, f"small-{number}")
    two.clock.advance(two.policy.report_stale_seconds + 61)
    told = []
    for _ in range(4):
        look_again(two.db, policy=two.policy, now=two.clock.now)
        with two.db.read() as snapshot:
            told.append(len(job_failures.list_to_look_at(snapshot, two.clock.now, 100)))
    assert told == [11, 9, 0, 0]


def test_a_node_that_shows_as_silent_after_the_message_revises_the_verdict(two: Fleet) -> None:
    _, first = fail(two)
    assert first["attribution"] == "undecided"
    two.clock.advance(two.policy.report_stale_seconds + 61)
    two.report("node-a")

    look_again(two.db, policy=two.policy, now=two.clock.now)

    found = show_job_failure(two.db, first["id"])
    assert (found["revision"], found["cause"], found["exclude"]["nodes"]) == (2, "platform", ["node-b"])
    assert found["history"][-1]["because"] == "the nodes were looked at again"
    two.report("node-b", devices=[gpu(number) for number in range(4, 8)], instance="i-2")
    two.clock.advance(two.policy.blame_after_seconds)
    two.report("node-a")
    two.report("node-b", devices=[gpu(number) for number in range(4, 8)], instance="i-2")
    look_again(two.db, policy=two.policy, now=two.clock.now)
    assert show_job_failure(two.db, first["id"])["revision"] == 2, "that it came back does not undo the silence"


def test_a_check_that_begins_to_fail_within_the_window_revises_the_verdict(two: Fleet) -> None:
    _, first = fail(two)
    two.clock.advance(30)
    failing = (*passing("gpu.row_remap", "gpu.xid"), CheckResult("gpu.ecc", CheckStatus.FAIL))
    for seconds in (two.policy.blame_after_seconds, 1):
        two.report("node-a")
        two.report("node-b", devices=[gpu(number) for number in range(4, 8)], instance="i-2", checks=failing)
        two.clock.advance(seconds)

    look_again(two.db, policy=two.policy, now=two.clock.now)

    found = show_job_failure(two.db, first["id"])
    assert (found["cause"], found["exclude"]["nodes"]) == ("hardware", ["node-b"])


def test_what_is_looked_at_again_and_says_the_same_is_let_be(two: Fleet) -> None:
    _, first = fail(two, log_excerpt="RuntimeError: CUDA error: device-side assert triggered")
    for seconds in (two.policy.report_stale_seconds + 61, two.policy.blame_after_seconds, 1):
        two.clock.advance(seconds)
        two.report("node-a")
        two.report("node-b", devices=[gpu(number) for number in range(4, 8)], instance="i-2")
        look_again(two.db, policy=two.policy, now=two.clock.now)

    assert show_job_failure(two.db, first["id"])["revision"] == 1
    with two.db.read() as snapshot:
        assert job_failures.list_to_look_at(snapshot, two.clock.now + timedelta(days=9), 9) == []


def test_of_many_that_tell_of_one_failure_at_once_one_is_the_first(two: Fleet) -> None:
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _: fail(two, exit_code=1)[0], range(8)))

    assert sorted(outcomes) == ["already_judged"] * 7 + ["judged"]
    assert len(events(two)) == 1


def test_a_fault_outside_the_window_revises_nothing(two: Fleet) -> None:
    fail(two)
    two.clock.advance(3600)
    two.fail("xid_79", device=serial(5))

    assert len(events(two)) == 1


def test_a_fault_that_is_withdrawn_takes_the_verdict_back(two: Fleet) -> None:
    fault = two.fail("xid_79", device=serial(5))["failure"]
    _, first = fail(two)
    two.clock.advance(60)
    withdraw_failure(two.db, fault["id"], reason="the neighbour's", actor=ALICE, now=two.clock.now)

    found = show_job_failure(two.db, first["id"])
    assert (found["attribution"], found["exclude"]["devices"]) == ("undecided", [])
    assert found["history"][-1]["because"] == "a fault was withdrawn"


def test_many_faults_in_one_message_judge_a_job_once(two: Fleet) -> None:
    at = two.clock.now
    fail(two, at=at)
    two.clock.advance(60)
    many = [ReportedFailure(f"f-{number}", "xid_74", device=serial(number), occurred_at=at) for number in range(4, 8)]
    record_failures(two.db, many, actor=ALICE, node_scope=None, policy=two.policy, now=two.clock.now)

    assert [one["data"]["revision"] for one in events(two)] == [1, 2]
    assert len(events(two)[-1]["data"]["exclude"]["devices"]) == 4


def test_a_fault_that_a_boot_shows_again_under_a_later_job_counts_for_that_too(two: Fleet) -> None:
    two.fail("xid_13", device=serial(5), occurred_at=two.clock.now)
    fail(two, "job-1")
    two.clock.advance(7200)
    two.fail("xid_13", device=serial(5), occurred_at=two.clock.now)

    assert any("xid_13" in one["what"] for one in fail(two, "job-2")[1]["evidence"])


def test_a_programs_fault_becomes_the_devices_under_jobs_of_several_people(two: Fleet) -> None:
    verdicts = []
    for user in ("ana", "bo", "cy"):
        two.fail("xid_13", device=serial(5), occurred_at=two.clock.now)
        verdicts.append(fail(two, f"job-of-{user}", user=user)[1]["cause"])
        two.clock.advance(86400)

    assert verdicts == [None, None, "hardware"]


def test_a_node_that_fell_silent_is_found_and_our_own_outage_silences_none(two: Fleet) -> None:
    beat(two.db, two.clock.now, two.policy)
    two.clock.advance(400)
    at = two.clock.now
    assert fail(two, "job-1", at=at, nodes=("node-a",))[1]["cause"] == "platform"
    beat(two.db, two.clock.now, two.policy)

    assert fail(two, "job-2", at=at, nodes=("node-a",))[1]["cause"] is None


def test_a_boot_and_another_instance_under_a_job_are_found(two: Fleet) -> None:
    two.report("node-a", boot="boot-2")
    two.report("node-b", devices=[gpu(number) for number in range(4, 8)], instance="i-3")
    two.clock.advance(30)

    words = [one["what"] for one in fail(two)[1]["evidence"]]
    assert "node node-a came up under another boot" in words
    assert "node node-b was replaced by another instance" in words


def test_a_hold_on_a_device_of_the_job_is_told(two: Fleet) -> None:
    two.hold({"device": serial(5)}, cause="hardware")

    (found,) = fail(two)[1]["evidence"]
    assert (found["for"], found["node"]) == ("hardware", "node-b")
    assert "quarantine" in found["what"]


def test_a_node_that_never_reported_is_told_and_made_no_record(two: Fleet) -> None:
    _, found = fail(two, nodes=("node-a", "ghost"))

    assert "ghost" in found["evidence"][-1]["what"]
    assert [one["what"] for one in fail(two, "job-2", nodes=("ghost",))[1]["evidence"]] == [
        "1 of the nodes never reported, and nothing is known of them: ghost"
    ]


def test_witnesses_have_nothing_in_their_history_and_culprits_have(two: Fleet) -> None:
    two.fail("xid_79", device=serial(5))
    told = tuple(Signal("nccl_timeout", two.clock.now, rank, "node-a") for rank in range(8))
    fail(two, signals=told)

    assert events(two, node="node-a") == []
    assert [one["type"] for one in events(two, node="node-b")] == ["job_failure.judged"]
    assert [one["type"] for one in events(two, device=serial(5))] == ["job_failure.judged"]


def test_a_list_is_narrowed_by_node_device_and_verdict(two: Fleet) -> None:
    two.fail("xid_79", device=serial(5))
    hardware = fail(two, "job-1")[1]["id"]
    own = fail(two, "job-2", nodes=("node-a",), log_excerpt="KeyError: 'x'")[1]["id"]

    def ids(**filters: str) -> list[str]:
        return [one["id"] for one in list_job_failures(two.db, filters, EVERYTHING).items]

    assert ids() == [hardware, own]
    assert ids(node="node-a") == [hardware, own]
    assert ids(node="node-b") == ids(device=serial(5)) == ids(cause="hardware") == [hardware]
    assert ids(attribution="application") == ids(retry="do_not_retry") == [own]
    assert ids(device=serial(4)) == []


@pytest.mark.parametrize("seconds", [-1, 7])
def test_a_job_that_fails_before_it_begins_or_tomorrow_is_refused(two: Fleet, seconds: int) -> None:
    now = two.clock.now
    failed = now - HOURS + timedelta(seconds=-1) if seconds < 0 else now + timedelta(seconds=seconds)
    job = JobFailure("job-1", ("node-a",), now - HOURS, failed)

    with pytest.raises(InvalidField):
        judge_job_failure(two.db, job, actor=ALICE, policy=two.policy, now=now)
    assert events(two) == []


def test_a_failure_that_is_not_there_is_not_found(fleet: Fleet) -> None:
    with pytest.raises(NotFound):
        show_job_failure(fleet.db, "nothing")


def test_all_that_was_told_is_shown_as_it_was_told(two: Fleet) -> None:
    told = (Signal("nccl_timeout", two.clock.now, 3, "node-a", "x"), Signal("odd", two.clock.now))
    found = show_job_failure(two.db, fail(two, signals=told, log_excerpt="a\nb", user="ana", signal="SIGKILL")[1]["id"])

    assert found["nodes"] == ["node-a", "node-b"]
    assert found["log_excerpt"] == "a\nb"
    assert [one["kind"] for one in found["signals"]] == ["nccl_timeout", "odd"]
    assert (found["user"], found["signal"]) == ("ana", "SIGKILL")


def test_another_policy_judges_by_its_own_numbers(two: Fleet) -> None:
    two.fail("xid_79", device=serial(5))
    job = JobFailure("job-1", ("node-b",), two.clock.now - HOURS, two.clock.now)
    actor = Actor(ActorKind.OPERATOR, "bo")
    strict = Policy(blame_confidence_percent=100)

    assert judge_job_failure(two.db, job, actor=actor, policy=strict, now=two.clock.now)[1]["cause"] is None
