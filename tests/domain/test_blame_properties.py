# SPDX-License-Identifier: Apache-2.0
"""What holds of every verdict, whatever was told and known?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from registry.domain.attribution import CULPRIT, judge
from registry.domain.excerpts import Places
from registry.domain.failures import CATALOGUE, Cause
from registry.domain.findings import window
from registry.domain.job_failures import (
    Attribution,
    Grade,
    JobFailure,
    NodeChange,
    Retry,
    Signal,
    Surroundings,
    Verdict,
)
from registry.domain.job_signals import read_signals
from registry.domain.policy import Policy
from tests.domain.blame import NODES, change, check, fault, job, signal

POLICY = Policy()
SECONDS = st.integers(-4000, 1500)
NODE = st.sampled_from(NODES)
KINDS = st.sampled_from(
    [
        *("nccl_timeout", "nccl_error", "data_loading_stalled", "exception", "xid_79", "xid_13", "link_down"),
        *("oom_killed", "preempted", "checkpoint_failed", "node_lost", "loss_nan", "slow_rank", "odd"),
    ]
)
DETAILS = st.sampled_from(
    [None, "KeyError: 'x'", "toward node-h", "uncorrectable ECC error encountered", "Stale file handle", "hello"]
)
LINES = st.lists(
    st.sampled_from(
        [
            *("KeyError: 'x'", "node-b: uncorrectable ECC error encountered", "CUDA out of memory", "hello"),
            *("[rank1]: Watchdog caught collective operation timeout", "nfs: server f not responding"),
            *("NVRM: Xid (PCI:0000:18:00): 31, pid=1", "connection closed by node-h"),
        ]
    ),
    max_size=5,
)
SIGNALS = st.lists(
    st.builds(
        lambda kind, seconds, rank, node, detail: signal(kind, seconds, rank=rank, node=node, detail=detail),
        *(KINDS, SECONDS, st.none() | st.integers(0, 63), st.none() | NODE, DETAILS),
    ),
    max_size=8,
)
FAULTS = st.lists(
    st.builds(
        fault,
        st.sampled_from(sorted(CATALOGUE)),
        NODE,
        st.none() | st.sampled_from(["gpu-1", "gpu-2", "efa-1"]),
        SECONDS,
    ),
    max_size=6,
)
CHECKS = st.lists(
    st.builds(check, st.sampled_from(["gpu.count", "efa.link", "gpu.thermal"]), NODE, SECONDS), max_size=3
)
CHANGES = st.lists(st.builds(change, st.sampled_from(NodeChange), NODE, SECONDS), max_size=4)
JOBS = st.builds(
    lambda signals, lines, code: job(signals=tuple(signals), log_excerpt="\n".join(lines) or None, exit_code=code),
    *(SIGNALS, LINES, st.sampled_from([None, 1, 134, 137, 139, 143])),
)
AROUND = st.builds(
    lambda faults, checks, nodes: Surroundings(faults=tuple(faults), checks=tuple(checks), nodes=tuple(nodes)),
    *(FAULTS, CHECKS, CHANGES),
)


def essence(found: Verdict) -> tuple[Any, ...]:
    """Who is blamed and what to do, without the words."""
    return found.attribution, found.cause, found.confidence, found.retry, found.nodes, found.devices


@given(JOBS, AROUND, st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_told_does_not_matter(
    told: JobFailure, around: Surroundings, random: Any
) -> None:
    def mixed(things: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(random.sample(things, len(things)))

    other = replace(told, signals=mixed(told.signals), nodes=mixed(told.nodes))
    around_other = Surroundings(mixed(around.faults), mixed(around.checks), mixed(around.nodes))
    assert judge(other, around_other, POLICY) == judge(told, around, POLICY)


@given(JOBS, AROUND, st.lists(st.tuples(st.integers(0, 63), NODE, SECONDS), max_size=8))
def test_more_witnesses_never_bring_blame_on_anybody(
    told: JobFailure, around: Surroundings, witnesses: list[tuple[int, str, int]]
) -> None:
    # Ranks are left out: what names a rank beside a node also tells where the rank is.
    more = [Signal("nccl_timeout", told.failed_at + timedelta(seconds=s), None, node) for _, node, s in witnesses]
    before, after = judge(told, around, POLICY), judge(replace(told, signals=(*told.signals, *more)), around, POLICY)
    # What a program shows after a timeout does not explain it, so it speaks less for the program, and less against
    # the platform.
    is_eased = any(
        one.grade is Grade.SYMPTOM and one.cause is Cause.USER for one in read_signals(told, Places.of(told))
    )
    assert is_eased or essence(after) == essence(before)
    assert after.cause is not Cause.USER or before.cause is Cause.USER


@given(st.lists(st.tuples(st.sampled_from(["nccl_timeout", "hang", "peer_gone"]), NODE), max_size=64))
def test_witnesses_alone_blame_nobody(witnesses: list[tuple[str, str]]) -> None:
    found = judge(job(signals=tuple(signal(kind, node=node) for kind, node in witnesses)), Surroundings(), POLICY)
    assert (found.attribution, found.confidence, found.devices) == (Attribution.UNDECIDED, 0, ())


@given(JOBS, AROUND)
def test_a_verdict_is_a_function_of_what_it_is_made_of(told: JobFailure, around: Surroundings) -> None:
    assert judge(told, around, POLICY) == judge(told, around, POLICY)


@given(JOBS, AROUND)
def test_attribution_cause_retry_and_exclusions_agree(told: JobFailure, around: Surroundings) -> None:
    found = judge(told, around, POLICY)
    assert 0 <= found.confidence <= 99
    if found.attribution is Attribution.APPLICATION:
        assert (found.cause, found.retry, found.nodes, found.devices) == (Cause.USER, Retry.DO_NOT_RETRY, (), ())
    elif found.attribution is Attribution.PLATFORM:
        assert found.cause in {Cause.HARDWARE, Cause.DRIVER, Cause.PLATFORM}
        assert bool(found.nodes) == (found.retry is Retry.EXCLUDE_NODES)
        assert found.devices == () or found.retry in {Retry.EXCLUDE_NODES, Retry.EXCLUDE_DEVICES}
    else:
        assert (found.cause, found.devices) == (None, ())
        assert (found.retry is Retry.EXCLUDE_NODES) == bool(found.nodes)


@given(JOBS, AROUND)
def test_a_device_is_left_out_only_for_a_fault_of_its_own_within_the_window(
    told: JobFailure, around: Surroundings
) -> None:
    begin, end = window(told, POLICY)
    own = {one.device for one in around.faults if begin <= one.at <= end and one.cause is not Cause.USER}
    assert set(judge(told, around, POLICY).devices) <= own


@given(JOBS, AROUND)
def test_whoever_is_blamed_has_weighty_evidence_that_is_told(told: JobFailure, around: Surroundings) -> None:
    found = judge(told, around, POLICY)
    if found.cause is not None:
        assert any(one.cause is found.cause and one.weight >= CULPRIT for one in found.evidence)
