# SPDX-License-Identifier: Apache-2.0
"""Does a run count exactly when nothing speaks against it, and is the first objection named?"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from registry.domain.passes import (
    Because,
    Run,
    RunTimes,
    Standing,
    Verdict,
    clean,
    effective_have,
    judge,
    resets,
    retry_at,
    run_times,
)
from registry.domain.policy import Policy
from registry.domain.profiles import Profile
from registry.domain.reports import CheckStatus
from tests.clock import NOON

PROFILE = Profile(
    "p", gpu_count=2, efa_count=1, required_checks=("gpu.ecc", "efa.link"), per_boot_checks=("dcgm.diag",)
)
UNITS = {"gpu": frozenset({"g1", "g2"}), "efa": frozenset({"e1"})}
POLICY = Policy()


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def make_run(**changes: Any) -> Run:
    run = Run(
        run_id="r2",
        times=RunTimes(start=at(-10), end=NOON),
        received_at=NOON,
        finished_at=NOON,
        results={"gpu.ecc": CheckStatus.PASS, "efa.link": CheckStatus.PASS},
        listed=UNITS,
        is_current=True,
    )
    return replace(run, **changes)


def make_standing(**changes: Any) -> Standing:
    return replace(Standing(clean_in_boot=frozenset({"dcgm.diag"})), **changes)


def verdict(run: Run | None = None, standing: Standing | None = None, **changes: Any) -> Verdict:
    asked: dict[str, Any] = {"profile": PROFILE, "expected": {}, "placed": UNITS, "policy": POLICY, "now": NOON}
    return judge(run or make_run(), standing or make_standing(), **{**asked, **changes})


def results(**changes: CheckStatus | None) -> dict[str, CheckStatus]:
    named = {name.replace("_", ".", 1): status for name, status in changes.items()}
    merged = {**make_run().results, **named}
    return {name: status for name, status in merged.items() if status is not None}


def because(answer: Verdict) -> tuple[Because | None, str | None]:
    assert answer.counted is (answer.because is None)
    return answer.because, answer.detail


def test_a_run_counts_when_nothing_speaks_against_it() -> None:
    assert verdict() == Verdict(counted=True)


@pytest.mark.parametrize("status", [CheckStatus.PASS, CheckStatus.WARN, CheckStatus.NOT_APPLICABLE])
def test_remarks_and_what_does_not_apply_are_clean(status: CheckStatus) -> None:
    assert clean(status)
    assert verdict(make_run(results=results(gpu_ecc=status))).counted


@pytest.mark.parametrize("status", [CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.SKIPPED])
def test_a_required_check_must_have_looked_and_found_it_right(status: CheckStatus) -> None:
    assert not clean(status)
    assert because(verdict(make_run(results=results(gpu_ecc=status)))) == (Because.CHECK_NOT_CLEAN, "gpu.ecc")


def test_an_optional_check_may_be_skipped_but_not_fail_or_be_unable_to_tell() -> None:
    assert verdict(make_run(results=results(gpu_thermal=CheckStatus.SKIPPED))).counted
    for status in (CheckStatus.FAIL, CheckStatus.UNKNOWN):
        answer = verdict(make_run(results=results(gpu_thermal=status)))
        assert because(answer) == (Because.CHECK_NOT_CLEAN, "gpu.thermal")


def test_a_required_check_without_a_result_is_missing_even_when_another_fails() -> None:
    run = make_run(results=results(gpu_ecc=CheckStatus.FAIL, efa_link=None))

    assert because(verdict(run)) == (Because.CHECK_MISSING, "efa.link")


def test_a_slow_check_is_waited_for_once_in_a_boot() -> None:
    assert because(verdict(standing=Standing())) == (Because.CHECK_MISSING, "dcgm.diag")


def test_without_a_profile_nothing_counts() -> None:
    assert because(verdict(profile=None)) == (Because.CHECK_MISSING, "profile")


@pytest.mark.parametrize(
    ("listed", "detail"),
    [
        ({**UNITS, "gpu": frozenset({"g1"})}, "gpu: 1 of 2 listed"),
        ({**UNITS, "gpu": frozenset({"g1", "g9"})}, "gpu: the list is not what is placed"),
        ({**UNITS, "gpu": frozenset({"g1", "g2", "g3"})}, "gpu: 3 of 2 listed"),
        ({"gpu": UNITS["gpu"]}, "efa: 0 of 1 listed"),
        ({}, "efa: 0 of 1 listed"),
    ],
)
def test_a_run_must_list_exactly_what_is_placed_and_expected(listed: dict[str, frozenset[str]], detail: str) -> None:
    assert because(verdict(make_run(listed=listed))) == (Because.COUNTS_UNMET, detail)


def test_a_waiver_changes_the_count_that_is_expected() -> None:
    one = {**UNITS, "gpu": frozenset({"g1"})}

    assert verdict(make_run(listed=one), placed=one, expected={"gpu": 1}).counted
    assert because(verdict(expected={"gpu": 1})) == (Because.COUNTS_UNMET, "gpu: 2 of 1 listed")


def test_a_kind_that_is_neither_expected_nor_placed_needs_no_list() -> None:
    gpus = {"gpu": UNITS["gpu"]}

    assert verdict(make_run(listed=gpus), placed=gpus, profile=replace(PROFILE, efa_count=None)).counted
    assert verdict(make_run(listed=gpus), placed=gpus, expected={"efa": 0}).counted


@pytest.mark.parametrize(
    ("run", "standing", "expected"),
    [
        (make_run(is_current=False), {}, Because.NOT_CURRENT),
        (make_run(finished_at=at(5)), {}, None),
        (make_run(finished_at=at(5.1)), {}, Because.FROM_FUTURE),
        (make_run(finished_at=None), {}, None),
        (make_run(times=RunTimes(at(-960), at(-900))), {}, None),
        (make_run(times=RunTimes(at(-960), at(-901))), {}, Because.TOO_OLD),
        (make_run(), {"counted_run_ids": frozenset({"r2"})}, Because.DUPLICATE_RUN),
        (make_run(is_content_repeated=True), {}, Because.CONTENT_REPEATED),
        (make_run(), {"newest_fault_at": at(-11)}, None),
        (make_run(), {"newest_fault_at": at(-10)}, Because.FAULT_NEWER),
        (make_run(), {"newest_release_at": at(-11)}, None),
        (make_run(), {"newest_release_at": at(-10)}, Because.FAULT_NEWER),
        (make_run(), {"last_start": at(-40), "last_end": at(-10)}, None),
        (make_run(), {"last_start": at(-40), "last_end": at(-9)}, Because.GAP_TOO_SHORT),
        (make_run(), {"last_start": at(-39), "last_end": at(-39)}, Because.GAP_TOO_SHORT),
        (make_run(), {"newest_fault_at": NOON, "last_start": at(-10)}, Because.FAULT_NEWER),
        (make_run(is_content_repeated=True), {"counted_run_ids": frozenset({"r2"})}, Because.DUPLICATE_RUN),
    ],
)
def test_times_and_neighbours(run: Run, standing: dict[str, Any], expected: Because | None) -> None:
    assert verdict(run, make_standing(**standing)).because is expected


def test_the_reasons_are_looked_at_in_their_order() -> None:
    """Everything is wrong; mending the first named reason uncovers the next, down to the last."""
    run = make_run(
        is_current=False,
        finished_at=at(60),
        times=RunTimes(at(-2000), at(-1000)),
        is_content_repeated=True,
        results={"gpu.ecc": CheckStatus.FAIL},
        listed={},
    )
    standing = make_standing(counted_run_ids=frozenset({"r2"}), newest_fault_at=NOON, last_start=at(-20))
    mends: dict[Because, dict[str, Any]] = {
        Because.NOT_CURRENT: {"is_current": True},
        Because.FROM_FUTURE: {"finished_at": NOON},
        Because.TOO_OLD: {"times": make_run().times},
        Because.DUPLICATE_RUN: {"run_id": "r3"},
        Because.CONTENT_REPEATED: {"is_content_repeated": False},
        Because.CHECK_MISSING: {"results": results(gpu_ecc=CheckStatus.FAIL)},
        Because.CHECK_NOT_CLEAN: {"results": results()},
        Because.COUNTS_UNMET: {"listed": UNITS},
        Because.FAULT_NEWER: {},
    }
    named = []

    for mend in mends.values():
        named.append(verdict(run, standing).because)
        run = replace(run, **mend)
    standing = replace(standing, newest_fault_at=None)
    named.append(verdict(run, standing).because)

    assert named == list(Because)


@pytest.mark.parametrize(
    ("claims", "start", "end"),
    [
        ({}, 0, 0),
        ({"started_at": at(-60), "finished_at": at(-10), "sent_at": at(-3)}, -57, -7),
        # A clock an hour behind, or ahead, shifts nothing: only differences count.
        ({"started_at": at(-3660), "finished_at": at(-3610), "sent_at": at(-3603)}, -57, -7),
        ({"started_at": at(3540), "finished_at": at(3590), "sent_at": at(3597)}, -57, -7),
        # Times that run backwards lengthen nothing.
        ({"started_at": at(50), "finished_at": at(-10), "sent_at": at(-30)}, 0, 0),
        ({"started_at": at(-60)}, -60, 0),
        ({"finished_at": at(-10)}, -10, -10),
    ],
)
def test_a_run_is_put_on_the_clock_of_the_server(claims: dict[str, datetime], start: float, end: float) -> None:
    assert run_times(received_at=NOON, first_received_at=NOON, **claims) == RunTimes(at(start), at(end))


def test_a_run_began_at_the_latest_when_its_first_part_came() -> None:
    assert run_times(received_at=NOON, first_received_at=at(-300)) == RunTimes(at(-300), NOON)


def test_only_a_failure_resets() -> None:
    for status in CheckStatus:
        assert resets(make_run(results={"gpu.thermal": status})) is (status is CheckStatus.FAIL)


@pytest.mark.parametrize(
    ("have", "silence", "standing"), [(2, 0, 2), (2, 900, 2), (2, 901, 0), (2, None, 0), (5, 0, 2), (0, 0, 0)]
)
def test_passes_stand_until_the_silence_is_longer_than_a_pass_may_age(
    have: int, silence: float | None, standing: int
) -> None:
    assert effective_have(have, silence, POLICY) == standing


@pytest.mark.parametrize(("last", "again"), [(None, 0), (-30, 0), (-10, 20), (-900, 0)])
def test_the_next_try_is_after_the_gap_and_never_in_the_past(last: float | None, again: float) -> None:
    last_start = None if last is None else at(last)

    assert retry_at(last_start, POLICY, NOON) == at(again)
