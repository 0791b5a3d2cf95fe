# SPDX-License-Identifier: Apache-2.0
"""Is the right one blamed for a failed job, and nobody where the evidence does not say?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from registry.domain.failures import Cause
from registry.domain.job_failures import Attribution, Earlier, HoldFact, NodeChange, Retry, Verdict
from registry.domain.policy import Policy
from tests.domain.blame import NODES, at, change, check, fault, job, signal, timeouts, verdict

HARDWARE, DRIVER, PLATFORM, USER = Cause.HARDWARE, Cause.DRIVER, Cause.PLATFORM, Cause.USER


def said(found: Verdict) -> tuple[Cause | None, Retry, tuple[str, ...], tuple[str, ...]]:
    return found.cause, found.retry, found.nodes, found.devices


NOTHING = (None, Retry.ASK, (), ())


def test_a_failure_of_which_nothing_is_known_is_undecided() -> None:
    found = verdict()
    assert found.attribution is Attribution.UNDECIDED
    assert said(found) == NOTHING
    assert found.confidence == 0


def test_a_timeout_beside_an_xid_79_on_one_rank_is_that_devices() -> None:
    found = verdict(job(signals=timeouts()), faults=[fault("xid_79", seconds=-600)])
    assert said(found) == (HARDWARE, Retry.EXCLUDE_DEVICES, (), ("gpu-1",))
    assert found.confidence >= 90


def test_a_timeout_without_any_other_sign_after_data_loading_stalled_is_the_applications() -> None:
    found = verdict(job(signals=(signal("data_loading_stalled", -640, rank=13, node="node-b"), *timeouts())))
    assert found.attribution is Attribution.APPLICATION
    assert said(found) == (USER, Retry.DO_NOT_RETRY, (), ())


@pytest.mark.parametrize("seconds", [-21600 - 1800, 3600])
def test_what_a_job_tells_of_a_time_that_is_not_its_own_says_nothing(seconds: float) -> None:
    assert said(verdict(job(signals=(signal("xid_79", seconds, node="node-c"), *timeouts())))) == NOTHING


def test_what_a_job_tells_of_its_own_life_counts_however_long_its_watchdog_waits() -> None:
    raised = signal("exception", -3700, rank=3, node="node-a", detail="KeyError: 'labels'")
    assert verdict(job(signals=(raised, *timeouts()))).cause is USER


@pytest.mark.parametrize("seconds", [-300, 60])
def test_data_that_stall_after_a_collective_timed_out_are_not_why(seconds: float) -> None:
    early = tuple(replace(one, at=at(-320)) for one in timeouts(8))
    found = verdict(job(signals=(signal("data_loading_stalled", seconds, rank=13, node="node-b"), *early)))
    assert said(found) == NOTHING


@pytest.mark.parametrize("words", ["Unreachable remote", "Unresponsive remote", "unresponsive receiver"])
def test_a_peer_that_does_not_answer_is_a_suspicion_at_the_peer(words: str) -> None:
    lines = "\n".join(f"{name}: libfabric efa: {words}, peer node-h" for name in NODES[:7])
    found = verdict(job(log_excerpt=lines))
    assert (found.cause, found.retry, found.nodes) == (None, Retry.EXCLUDE_NODES, ("node-h",))


def test_stalled_data_beside_a_broken_device_is_the_devices() -> None:
    stalled = signal("data_loading_stalled", -640, rank=13, node="node-b")
    found = verdict(job(signals=(stalled, *timeouts())), faults=[fault("xid_79", seconds=-660)])
    assert found.cause is HARDWARE


@pytest.mark.parametrize("code", ["xid_13", "xid_31", "xid_43"])
def test_a_programs_xid_is_the_users_when_several_devices_show_it_and_open_when_one_does(code: str) -> None:
    assert said(verdict(faults=[fault(code)])) == NOTHING
    spread = [fault(code, device="gpu-1"), fault(code, "node-b", "gpu-2")]
    assert said(verdict(faults=spread)) == (USER, Retry.DO_NOT_RETRY, (), ())


def test_a_cleanup_alone_blames_nobody() -> None:
    assert said(verdict(faults=[fault("xid_45")])) == NOTHING


def test_a_contained_memory_error_is_the_hardwares_and_excludes_nothing() -> None:
    assert said(verdict(faults=[fault("xid_94")])) == (HARDWARE, Retry.AS_IS, (), ())


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        ([], NOTHING),
        (["ana", "ana"], NOTHING),
        (["bo"], NOTHING),
        (["bo", "cy"], (HARDWARE, Retry.EXCLUDE_DEVICES, (), ("gpu-1",))),
    ],
    ids=["alone", "the same person", "one other", "two others"],
)
def test_a_programs_xid_is_the_devices_when_programs_of_several_people_meet_it(
    users: list[str], expected: tuple[Cause | None, Retry, tuple[str, ...], tuple[str, ...]]
) -> None:
    earlier = [Earlier("gpu-1", user, f"job-{number}") for number, user in enumerate(users)]
    assert said(verdict(job(user="ana"), faults=[fault("xid_13")], earlier=earlier)) == expected


def test_who_ran_the_jobs_must_be_known_to_tell_people_apart() -> None:
    earlier = [Earlier("gpu-1", "bo", "job-7"), Earlier("gpu-1", "cy", "job-8")]
    assert verdict(faults=[fault("xid_13")], earlier=earlier).devices == ()


def test_repetition_on_another_device_does_not_count() -> None:
    earlier = [Earlier("gpu-9", "bo", "job-7"), Earlier("gpu-9", "cy", "job-8")]
    assert verdict(job(user="ana"), faults=[fault("xid_13")], earlier=earlier).devices == ()


def test_a_memory_error_before_a_programs_xid_explains_it() -> None:
    found = verdict(faults=[fault("xid_95", seconds=-9), fault("xid_31", seconds=-3)])
    assert said(found) == (HARDWARE, Retry.EXCLUDE_DEVICES, (), ("gpu-1",))


def test_the_first_error_counts_and_links_that_break_afterwards_are_reports_of_it() -> None:
    lost = fault("xid_79", "node-c", "gpu-20", -30)
    links = [fault("xid_74", "node-c", f"gpu-{number}", -28) for number in (21, 22, 23)]
    assert verdict(faults=[lost, *links]).devices == ("gpu-20",)


def test_of_a_rack_that_tells_of_one_link_the_device_whose_link_is_down_is_left_out() -> None:
    down = fault("xid_149", "node-c", "gpu-20", -20)
    others = [fault("xid_145", node, f"gpu-of-{node}", -19) for node in NODES]
    assert verdict(faults=[down, *others]).devices == ("gpu-20",)


def test_a_driver_that_fails_over_a_lost_device_is_not_to_blame() -> None:
    found = verdict(faults=[fault("xid_119", seconds=-40), fault("xid_79", seconds=-30)])
    assert found.cause is HARDWARE


def test_a_diagnostic_that_fails_afterwards_shows_that_the_driver_failed_over_the_device() -> None:
    found = verdict(faults=[fault("xid_109", seconds=-5), fault("gpu.diag_failed", seconds=280)])
    assert said(found) == (HARDWARE, Retry.EXCLUDE_DEVICES, (), ("gpu-1",))


@pytest.mark.parametrize("code", ["gpu.nvml_unknown", "gpu.missing", "gpu.requires_reset"])
def test_that_no_tool_reaches_a_device_whose_driver_hangs_says_nothing_of_the_device(code: str) -> None:
    found = verdict(faults=[fault("xid_119", seconds=-400), fault(code, seconds=-30)])
    assert said(found) == (DRIVER, Retry.EXCLUDE_DEVICES, (), ("gpu-1",))


def test_a_node_that_goes_down_after_its_device_failed_is_explained_by_it() -> None:
    found = verdict(faults=[fault("xid_79", seconds=-200)], nodes=[change(NodeChange.SILENT, seconds=-100)])
    assert said(found) == (HARDWARE, Retry.EXCLUDE_DEVICES, (), ("gpu-1",))


def test_an_exception_before_a_fault_is_the_programs() -> None:
    raised = signal("exception", -60, rank=1, detail="KeyError: 'labels'")
    assert verdict(job(signals=(raised,)), faults=[fault("xid_79", seconds=-10)]).cause is USER


def test_an_exception_just_after_a_fault_follows_from_it() -> None:
    raised = signal("exception", -3, rank=1, detail="KeyError: 'labels'")
    assert verdict(job(signals=(raised,)), faults=[fault("xid_79", seconds=-10)]).cause is HARDWARE


def test_an_exception_long_after_a_fault_leaves_both_standing() -> None:
    raised = signal("exception", -3, rank=1, detail="KeyError: 'labels'")
    found = verdict(job(signals=(raised,)), faults=[fault("xid_79", seconds=-1800)])
    assert said(found) == NOTHING


@pytest.mark.parametrize(
    ("code", "seconds", "is_blamed"),
    [
        ("xid_79", -2700, True),
        ("xid_79", -2701, False),
        ("xid_79", 60, True),
        ("xid_79", 61, False),
        ("gpu.diag_failed", 900, True),
        ("gpu.diag_failed", 901, False),
    ],
)
def test_only_what_is_near_in_time_counts(code: str, seconds: int, *, is_blamed: bool) -> None:
    assert (verdict(faults=[fault(code, seconds=seconds)]).cause is HARDWARE) is is_blamed


def test_the_window_is_the_policys() -> None:
    told = fault("xid_79", seconds=-3000)
    assert verdict(faults=[told], policy=Policy(blame_before_seconds=3600)).cause is HARDWARE


def test_what_was_long_before_the_job_began_is_not_its_affair() -> None:
    assert verdict(job(started_at=at(-60)), faults=[fault("xid_79", seconds=-1000)]).cause is None


def test_a_burst_that_began_before_the_window_and_went_on_counts() -> None:
    burst = replace(fault("xid_95", seconds=-9000), last_at=at(-20), count=80)
    assert verdict(faults=[burst]).cause is HARDWARE


def test_links_that_fail_on_many_nodes_together_are_what_they_share() -> None:
    links = [fault("efa.link_down", f"node-{letter}", f"efa-{letter}", -30) for letter in "abcde"]
    assert said(verdict(faults=links)) == (PLATFORM, Retry.AS_IS, (), ())


def test_links_that_fail_on_a_few_nodes_are_theirs() -> None:
    links = [fault("efa.link_down", f"node-{letter}", f"efa-{letter}", -30) for letter in "ab"]
    assert verdict(faults=links).devices == ("efa-a", "efa-b")


def test_machines_that_vanish_together_are_what_they_share() -> None:
    gone = [change(NodeChange.SILENT, f"node-{letter}") for letter in "abcd"]
    assert said(verdict(nodes=gone)) == (PLATFORM, Retry.AS_IS, (), ())


def test_a_node_that_vanished_before_the_failure_is_left_out() -> None:
    assert said(verdict(nodes=[change(NodeChange.SILENT)])) == (PLATFORM, Retry.EXCLUDE_NODES, ("node-c",), ())


def test_a_node_that_may_have_vanished_after_the_failure_blames_nobody() -> None:
    assert said(verdict(nodes=[change(NodeChange.SILENT, seconds=-20)])) == NOTHING


def test_a_node_that_vanished_then_and_at_which_the_others_point_is_left_out() -> None:
    told = [signal("nccl_error", node=f"node-{letter}", detail="lost node-c") for letter in "abde"]
    found = verdict(job(signals=tuple(told)), nodes=[change(NodeChange.SILENT, seconds=-20)])
    assert said(found) == (PLATFORM, Retry.EXCLUDE_NODES, ("node-c",), ())


def test_a_boot_under_the_job_counts_and_one_afterwards_does_not() -> None:
    assert verdict(nodes=[change(NodeChange.BOOTED, seconds=-120)]).nodes == ("node-c",)
    assert verdict(nodes=[change(NodeChange.BOOTED, seconds=300)]).cause is None


def test_a_node_that_was_replaced_need_not_be_left_out() -> None:
    assert said(verdict(nodes=[change(NodeChange.REPLACED)])) == (PLATFORM, Retry.AS_IS, (), ())


def test_a_check_that_fails_since_then_is_the_nodes() -> None:
    assert said(verdict(checks=[check("gpu.count")])) == (HARDWARE, Retry.EXCLUDE_NODES, ("node-c",), ())


@pytest.mark.parametrize(
    "told", [check("gpu.count", status="unknown"), check("gpu.count", seconds=-90000), check("gpu.thermal")]
)
def test_a_check_that_could_not_look_or_failed_before_or_hinders_no_job_blames_nobody(told: object) -> None:
    assert verdict(checks=[told]).cause is None


def test_a_device_and_its_node_failing_together_leave_out_the_device_alone() -> None:
    found = verdict(faults=[fault("gpu.missing")], checks=[check("gpu.count")])
    assert said(found) == (HARDWARE, Retry.EXCLUDE_DEVICES, (), ("gpu-1",))


def test_a_quarantine_alone_is_a_suspicion() -> None:
    hold = HoldFact("q-1", "node-c", "gpu-1", "hardware", at(-90000))
    assert verdict(holds=[hold]).cause is None


@pytest.mark.parametrize("code", ["gpu.thermal.limit", "xid_92", "efa.errors", "gpu.ecc.sbe_rate", "monitor.silent"])
def test_what_hinders_no_job_does_not_excuse_a_program(code: str) -> None:
    assert verdict(job(log_excerpt="KeyError: 'labels'"), faults=[fault(code)]).cause is USER


def test_many_peers_that_point_at_one_node_make_it_a_suspect_and_fault_nobody() -> None:
    told = [
        signal("efa_unresponsive_remote", -60, node=f"node-{letter}", detail="rising toward node-h")
        for letter in "abcdefg"
    ]
    found = verdict(job(signals=tuple(told)))
    assert found.attribution is Attribution.UNDECIDED
    assert (found.retry, found.nodes, found.devices) == (Retry.EXCLUDE_NODES, ("node-h",), ())
    assert any(one.node == "node-h" and "7 others point at" in one.what for one in found.evidence)
    assert not any(one.weight and one.node for one in found.evidence)


@pytest.mark.parametrize("pointing", ["ab", "a"])
def test_a_few_peers_that_point_at_a_node_make_it_no_suspect(pointing: str) -> None:
    told = [signal("nccl_error", node=f"node-{letter}", detail="to node-h") for letter in pointing]
    assert verdict(job(signals=tuple(told))).nodes == ()


def test_peers_that_point_at_two_nodes_alike_make_neither_a_suspect() -> None:
    told = [signal("nccl_error", node=f"node-{letter}", detail="to node-h") for letter in "abc"]
    told += [signal("nccl_error", node=f"node-{letter}", detail="to node-g") for letter in "abc"]
    assert verdict(job(signals=tuple(told))).nodes == ()


def test_nodes_that_never_reported_are_neither_well_nor_broken() -> None:
    found = verdict(unknown=["node-x", "node-y"])
    assert found.cause is None
    assert "2 of the nodes never reported" in found.evidence[-1].what


def test_evidence_is_told_weightiest_first_and_bounded() -> None:
    faults = [fault("xid_74", f"node-{number % 2}", f"gpu-{number}", -number) for number in range(100)]
    weights = [one.weight for one in verdict(faults=faults).evidence]
    assert weights == sorted(weights, reverse=True)
    assert len(weights) == 32


def test_below_the_policys_confidence_nobody_is_blamed() -> None:
    strict = Policy(blame_confidence_percent=95)
    told = job(log_excerpt="ValueError: shapes do not fit")
    assert verdict(told, policy=strict).attribution is Attribution.UNDECIDED
    assert verdict(told).attribution is Attribution.APPLICATION


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("RuntimeError: DataLoader worker (pid 7) exited unexpectedly", None),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/shard-7'", None),
        ("ValueError: shapes do not fit", Cause.USER),
    ],
)
def test_a_programs_symptoms_are_its_own_only_where_nothing_speaks_against_the_nodes(
    line: str, cause: Cause | None
) -> None:
    assert verdict(job(log_excerpt=line)).cause is Cause.USER
    assert verdict(job(log_excerpt=line), checks=(check("condition.kernel_deadlock"),)).cause is cause
    assert verdict(job(log_excerpt=line), unknown=("node-b",)).cause is cause


def test_a_condition_of_somebody_elses_blames_nobody() -> None:
    found = verdict(job(signals=timeouts()), checks=(check("condition.kernel_deadlock"),))
    assert (found.attribution, found.nodes, found.devices) == (Attribution.UNDECIDED, (), ())
    assert any("condition.kernel_deadlock fails on node-c" in one.what for one in found.evidence)


def test_a_jobs_word_that_a_gpu_is_lost_blames_it_when_something_on_record_bears_it_out() -> None:
    told = job(log_excerpt="node-c: Unable to determine the device handle for GPU0000:18:00.0: GPU is lost.")
    assert verdict(told).attribution is Attribution.UNDECIDED
    assert said(verdict(told, faults=[fault("xid_79")])) == (HARDWARE, Retry.EXCLUDE_DEVICES, (), ("gpu-1",))
    assert verdict(told, checks=(check("gpu.responding"),)).cause is HARDWARE


def test_who_stops_by_hand_what_hangs_already_is_not_blamed_for_the_hang() -> None:
    stopped = signal("user_stop", -1)
    assert verdict(job(signals=(stopped,))).cause is USER
    assert verdict(job(signals=(signal("no_progress", -600), stopped))).attribution is Attribution.UNDECIDED
    assert verdict(job(signals=(stopped, signal("nccl_timeout", 30)))).cause is USER
