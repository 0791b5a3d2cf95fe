# SPDX-License-Identifier: Apache-2.0
"""Does the worst of several results count, and are the derived checks derived as promised?"""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest

from registry.domain.checks import (
    FINDINGS_LIMIT,
    WORST_FIRST,
    advance,
    awaited_until,
    count_check,
    identity_check,
    kind_of,
    worst,
)
from registry.domain.known import MatchedBy, Outcome
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus
from tests.clock import NOON

FAIL, UNKNOWN, SKIPPED, WARN, PASS, NONE = WORST_FIRST


def ecc(status: CheckStatus, device: str | None = None, message: str | None = None) -> CheckResult:
    return CheckResult("gpu.ecc", status, device=device, message=message)


def match(outcome: str = "known", matched_by: str = "uuid", kind: str = "gpu", reason: str = "told") -> Any:
    return SimpleNamespace(
        outcome=Outcome(outcome), matched_by=MatchedBy(matched_by), entry=SimpleNamespace(kind=kind), reason=reason
    )


def test_every_status_has_its_rank() -> None:
    assert set(WORST_FIRST) == set(CheckStatus)


def test_the_worse_of_two_counts_in_any_order() -> None:
    for one, other in permutations(WORST_FIRST, 2):
        assert worst([one, other]) is min(one, other, key=WORST_FIRST.index)


def test_no_result_is_unknown() -> None:
    assert worst([]) is UNKNOWN


@pytest.mark.parametrize(
    ("listed", "expected", "is_partial", "status"),
    [
        (8, 8, False, PASS),
        (0, 0, False, PASS),
        (7, 8, False, FAIL),
        (9, 8, False, FAIL),
        (1, 0, False, FAIL),
        (8, 8, True, FAIL),
        (7, None, True, FAIL),
    ],
)
def test_a_count_passes_only_when_equal_and_whole(
    listed: int, expected: int | None, is_partial: bool, status: CheckStatus
) -> None:
    result = count_check("gpu", listed, expected, is_partial=is_partial)

    assert result is not None
    assert (result.name, result.status) == ("gpu.count", status)
    assert str(listed) in (result.message or "")


def test_where_nothing_is_expected_nothing_is_counted() -> None:
    assert count_check("efa", 3, None, is_partial=False) is None


@pytest.mark.parametrize(
    ("matches", "status"),
    [
        ([match()], PASS),
        ([match("new", "none")], PASS),
        ([match(), match("known", "slot")], UNKNOWN),
        ([match("unidentified", "none")], UNKNOWN),
        ([match("unidentified", "none"), match("conflict")], FAIL),
        ([match(), match("conflict", kind="efa")], PASS),
        ([match("conflict", kind="efa")], NONE),
        ([], NONE),
    ],
)
def test_identity_passes_only_when_every_gpu_is_told_apart(matches: list[Any], status: CheckStatus) -> None:
    assert identity_check("gpu", matches).status is status


def test_too_few_are_unknown_while_late_ones_are_awaited() -> None:
    until = NOON + timedelta(seconds=120)
    short, whole, many = (
        count_check("efa", listed, 16, is_partial=False, awaited_until=until) for listed in (14, 16, 17)
    )

    assert short == CheckResult(
        "efa.count", UNKNOWN, message="14 of 16 listed; late ones are waited for until 2026-11-29T12:02:00Z"
    )
    assert whole is not None
    assert many is not None
    assert (whole.status, many.status) == (PASS, FAIL)


def test_a_list_known_to_be_incomplete_fails_at_any_time() -> None:
    result = count_check("efa", 14, 16, is_partial=True, awaited_until=NOON)

    assert result is not None
    assert result.status is FAIL


@pytest.mark.parametrize(("kind", "age", "is_awaited"), [("efa", 0, True), ("efa", 119, True), ("efa", 120, False)])
def test_efas_are_awaited_for_a_while_after_a_boot(kind: str, age: int, is_awaited: bool) -> None:
    until = awaited_until(kind, NOON, Policy(), NOON + timedelta(seconds=age))

    assert until == (NOON + timedelta(seconds=120) if is_awaited else None)
    assert awaited_until("gpu", NOON, Policy(), NOON) is None


def test_a_warning_leaves_its_finding() -> None:
    warned = ecc(WARN, "a", "two in the life of the board")
    first = advance(None, [ecc(PASS)], run_id="r1", at=NOON)

    assert advance(first, [warned], run_id="r2", at=NOON).findings == (warned,)
    assert first.findings == ()


def test_identity_says_what_is_wrong_and_how_often() -> None:
    result = identity_check("gpu", [match("conflict", reason="A serial twice."), match("conflict")])

    assert result == CheckResult("gpu.identity", FAIL, message="A serial twice. (and 1 more)")


def test_the_clock_of_a_check_runs_from_the_change_of_status_not_of_the_message() -> None:
    first = advance(None, [ecc(FAIL, "a", "one")], run_id="r1", at=NOON)
    later = NOON + timedelta(seconds=30)

    second = advance(first, [ecc(FAIL, "b", "two")], run_id="r2", at=later)

    assert (second.since, second.at, second.run_id) == (NOON, later, "r2")
    assert second.findings == (ecc(FAIL, "b", "two"),)


def test_a_new_status_starts_the_clock_again() -> None:
    first = advance(None, [ecc(FAIL)], run_id="r1", at=NOON)
    later = NOON + timedelta(seconds=30)

    assert advance(first, [ecc(PASS)], run_id="r2", at=later).since == later


def test_a_later_part_of_a_run_does_not_take_back_what_the_run_said() -> None:
    first = advance(None, [ecc(FAIL, "a")], run_id="r1", at=NOON)

    second = advance(first, [ecc(FAIL, "a"), ecc(PASS, "b")], run_id="r1", at=NOON + timedelta(seconds=1))

    assert (second.status, second.since, second.findings) == (FAIL, NOON, (ecc(FAIL, "a"),))


def test_a_check_that_was_not_run_keeps_its_state() -> None:
    with pytest.raises(ValueError, match="no results"):
        advance(None, [], run_id="r1", at=NOON)


def test_findings_are_limited_and_the_worst_are_kept() -> None:
    many = [ecc(UNKNOWN, str(number)) for number in range(200)]

    findings = advance(None, [*many, ecc(FAIL, "x")], run_id="r1", at=NOON).findings

    assert len(findings) == FINDINGS_LIMIT
    assert findings[0] == ecc(FAIL, "x")


def test_the_name_of_a_check_says_its_kind() -> None:
    names = ["gpu.ecc", "efa.link", "dcgm.diag", "disk.space"]

    assert [kind_of(name) for name in names] == ["gpu", "efa", "gpu", None]
