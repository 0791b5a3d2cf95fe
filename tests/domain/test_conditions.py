# SPDX-License-Identifier: Apache-2.0
"""When does a failing check become a failure, when is it over, and do timers follow the status and nothing else?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.checks import CheckState
from registry.domain.condition_shown import Condition, ConditionStatus, worst_first
from registry.domain.condition_words import Said, Word, is_same_news, words_of
from registry.domain.conditions import Judge, News, Record, ended
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus
from registry.domain.staleness import Outage, elapsed, moment_after
from tests.clock import NOON

POLICY = Policy()
RESTLESS = Policy(condition_flap_changes=3, condition_flap_window_seconds=2500)
"""One in which flapping is nothing rare."""
TOLERANCE, CLEAR, UNKNOWN = 600, 300, 1800
WELL, BAD, BLIND = Word.WELL, Word.BAD, Word.UNKNOWN
SAID = Said("gpu.ecc.dbe", "two errors")
Step: TypeAlias = tuple[float, Word]


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def begin(name: str = "gpu.ecc", second: float = 0) -> Record:
    return Record(name, WELL, at(second))


def tell(steps: Iterable[Step], judge: Judge | None = None, name: str = "gpu.ecc") -> tuple[Record, list[News]]:
    """Say these words at these seconds."""
    record, heard = begin(name), []
    for second, word in steps:
        record, news = (judge or Judge(POLICY)).hear(record, word, SAID, at(second))
        heard += news
    return record, heard


def status(steps: Iterable[Step], second: float, judge: Judge | None = None, name: str = "gpu.ecc") -> str:
    """Where the condition of the check stands at a second."""
    judge = judge or Judge(POLICY)
    return str(judge.condition(tell(steps, judge, name)[0], at(second)).status)


def told(news: Iterable[News]) -> list[tuple[str, str, float]]:
    return [(one.type.value.split(".")[1], one.condition.name, (one.at - NOON).total_seconds()) for one in news]


# --- problem, failure, over -------------------------------------------------------------------------------------------


def test_a_failing_check_is_a_problem_at_once_and_a_failure_after_its_tolerance() -> None:
    steps = [(0, BAD)]

    assert [status(steps, second) for second in (0, 599.999, 600, 9999)] == ["problem", "problem", "failure", "failure"]


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        *((name, 600) for name in ("gpu.ecc", "efa.link", "dcgm.diag", "nvswitch.fatal", "fabric.manager")),
        ("condition.accelerated_hardware_ready", 600),
        ("condition.gpu_mem_watch", 600),
        ("condition.nv_switch_down", 600),
        ("condition.sys_logs_xid_error", 600),
        ("condition.amdgpu_xgmi", 600),
        ("condition.kernel_deadlock", 1800),
        ("condition.storage_ready", 1800),
        ("nvme.wear", 1800),
        ("gpu.identity", None),
        ("gpu.ecc.flapping", 600),
    ],
)
def test_accelerators_have_ten_minutes_others_thirty_and_contradicting_records_for_ever(
    name: str, tolerance: int | None
) -> None:
    assert POLICY.limits_of(name).tolerance_seconds == tolerance


def test_a_problem_that_is_never_a_failure_stays_a_problem() -> None:
    assert status([(0, BAD)], 10**8, name="gpu.identity") == "problem"


def test_a_failure_is_over_when_all_was_well_for_long_enough_and_a_problem_at_once() -> None:
    failed = [(0, BAD), (700, WELL)]

    assert [status(failed, second) for second in (700, 999.999, 1000)] == ["failure", "failure", "ok"]
    assert status([(0, BAD), (10, WELL)], 10) == "ok"


def test_what_comes_back_before_it_was_over_goes_on_where_it_was() -> None:
    steps = [(0, BAD), (400, WELL), (500, BAD)]
    record, _ = tell(steps)

    shown = Judge(POLICY).condition(record, at(550))

    assert (shown.status, shown.since, shown.failure_at) == (ConditionStatus.PROBLEM, NOON, at(700))
    assert [status(steps, second) for second in (699, 700)] == ["problem", "failure"]


def test_what_comes_back_after_it_was_over_begins_anew() -> None:
    record, _ = tell([(0, BAD), (400, WELL), (700, BAD)])

    shown = Judge(POLICY).condition(record, at(710))

    assert (shown.since, shown.failure_at) == (at(700), at(1300))


def test_a_failure_says_since_when_it_is_one_and_when_it_will_be_over() -> None:
    record, _ = tell([(0, BAD), (700, WELL)])

    shown = Judge(POLICY).condition(record, at(800))

    assert (shown.failure_at, shown.clears_at) == (at(600), at(1000))
    assert shown.to_json() == {
        "name": "gpu.ecc",
        "status": "failure",
        "since": "2026-11-29T12:00:00.000000Z",
        "failure_at": "2026-11-29T12:10:00.000000Z",
        "clears_at": "2026-11-29T12:16:40.000000Z",
        "reason": "gpu.ecc.dbe",
        "message": "two errors",
        "tolerance_seconds": 600,
    }


# --- nobody looked ----------------------------------------------------------------------------------------------------


def test_what_nobody_can_look_at_is_never_more_than_unknown_and_is_told_after_its_own_tolerance() -> None:
    judge = Judge(POLICY)
    record, news = tell([(0, BLIND)])

    assert (news, judge.due_at(record)) == ([], at(UNKNOWN))
    _, news = judge.catch_up(record, at(UNKNOWN))

    assert told(news) == [("opened", "gpu.ecc", UNKNOWN)]
    assert status([(0, BLIND)], 10**8) == "unknown"


def test_the_tolerance_stands_still_while_nobody_can_look() -> None:
    steps = [(0, BAD), (100, BLIND), (5000, BAD)]

    assert status(steps[:2], 4000) == "unknown"
    assert [status(steps, second) for second in (5499, 5500)] == ["problem", "failure"]


def test_a_failure_that_nobody_can_look_at_stays_one_and_keeps_its_reason() -> None:
    judge = Judge(POLICY)
    record, _ = tell([(0, BAD)])
    record, _ = judge.hear(record, BLIND, Said("check_unknown", "the tool is away"), at(700))

    shown = judge.condition(record, at(9000))

    assert (shown.status, shown.reason) == (ConditionStatus.FAILURE, "gpu.ecc.dbe")


def test_being_well_must_be_seen_to_count_towards_the_end() -> None:
    steps = [(0, BAD), (700, WELL), (800, BLIND), (2000, WELL)]

    assert [status(steps, second) for second in (2299, 2300)] == ["failure", "ok"]


def test_times_that_are_left_out_use_up_neither_tolerance_nor_the_time_of_being_well() -> None:
    away = Judge(POLICY, (Outage(at(300), at(1300)), Outage(at(1700), at(1800))))
    steps = [(0, BAD)]

    assert [status(steps, second, away) for second in (1599, 1600)] == ["problem", "failure"]
    steps = [(0, BAD), (1650, WELL)]
    assert [status(steps, second, away) for second in (2049, 2050)] == ["failure", "ok"]


# --- what the history hears -------------------------------------------------------------------------------------------


def test_the_history_hears_each_step_once_however_often_it_is_looked_at() -> None:
    judge = Judge(POLICY)
    record, heard = begin(), []
    for second in range(0, 3000, 100):
        word = BAD if second < 1000 else WELL
        record, news = judge.hear(record, word, SAID, at(second))
        heard += news
        record, news = judge.catch_up(record, at(second))
        heard += news

    assert told(heard) == [("opened", "gpu.ecc", 0), ("failed", "gpu.ecc", 600), ("cleared", "gpu.ecc", 1300)]


def test_what_came_about_with_nobody_looking_is_told_with_the_next_word() -> None:
    _, news = tell([(0, BAD), (5000, WELL), (9000, BAD)])

    assert told(news) == [
        ("opened", "gpu.ecc", 0),
        ("failed", "gpu.ecc", 600),
        ("cleared", "gpu.ecc", 5300),
        ("opened", "gpu.ecc", 9000),
    ]


def test_a_relapse_before_the_end_opens_nothing_again() -> None:
    _, news = tell([(0, BAD), (100, WELL), (200, BAD), (250, WELL), (300, BAD)])

    assert told(news) == [("opened", "gpu.ecc", 0)]


def test_what_ends_with_its_instance_is_told_as_over_if_it_was_told_at_all() -> None:
    opened, _ = tell([(0, BAD)])

    assert told(ended(opened, at(50))) == [("cleared", "gpu.ecc", 50)]
    assert ended(tell([(0, BLIND)])[0], at(50)) == ()


def test_what_is_well_and_was_long_enough_is_forgotten() -> None:
    judge = Judge(POLICY)
    record, _ = tell([(0, BAD), (100, WELL)])
    seen = []
    while not judge.is_forgotten(record):
        due = judge.due_at(record)
        assert due is not None
        seen.append((due - NOON).total_seconds())
        record, _ = judge.catch_up(record, due)

    assert seen == [400, 3700]  # over, and no change left in the window
    assert judge.due_at(record) is None


# --- flapping ---------------------------------------------------------------------------------------------------------


def drops(count: int, *, every: float = 60, first: float = 0) -> list[Step]:
    """So many drops of a few seconds each."""
    return [(first + every * number + late, word) for number in range(count) for late, word in ((0, BAD), (10, WELL))]


def test_six_changes_within_an_hour_are_flapping_until_the_window_is_over() -> None:
    judge = Judge(POLICY)
    before, _ = tell(drops(3)[:5])
    record, news = tell(drops(3))

    assert judge.flapping(before, at(129)) is None
    found = judge.flapping(record, at(131))
    assert found is not None
    assert (found.name, found.status, found.since) == ("gpu.ecc.flapping", ConditionStatus.PROBLEM, at(130))
    assert found.clears_at == at(3600)
    assert told(news) == [("opened", "gpu.ecc", 0), ("opened", "gpu.ecc.flapping", 130)]
    _, news = judge.catch_up(record, at(3600))
    assert told(news) == [("cleared", "gpu.ecc", 430), ("cleared", "gpu.ecc.flapping", 3600)]


def test_flapping_is_a_failure_only_when_it_still_comes_and_goes_after_its_tolerance() -> None:
    steady, _ = tell(drops(3))
    restless, _ = tell(drops(13))

    assert [one.status for one in Judge(POLICY).standing(steady, at(3000))] == [ConditionStatus.PROBLEM]
    found = Judge(POLICY).flapping(restless, at(731))
    assert found is not None
    assert (found.status, found.since) == (ConditionStatus.FAILURE, at(130))


def test_slow_changes_are_not_flapping() -> None:
    record, _ = tell(drops(6, every=2000))

    assert Judge(POLICY).flapping(record, at(10011)) is None


def test_a_monitor_that_comes_and_goes_is_no_flapping_device() -> None:
    steps = [(60 * number, WELL if number % 2 else BLIND) for number in range(40)]

    assert Judge(POLICY).standing(tell(steps)[0], at(2341)) == ()


def test_bad_with_gaps_in_which_nobody_looked_is_one_story() -> None:
    steps = [(60 * number, BLIND if number % 2 else BAD) for number in range(40)]
    record, _ = tell(steps)

    assert (record.changes, record.since) == ((NOON,), NOON)


# --- laws -------------------------------------------------------------------------------------------------------------

words = st.sampled_from([WELL, BAD, BLIND])
gaps = st.floats(0.5, 2000, allow_nan=False).map(lambda seconds: round(seconds, 1))


@st.composite
def stories(draw: st.DrawFn) -> list[Step]:
    steps, second = [], 0.0
    for gap in draw(st.lists(gaps, min_size=1, max_size=14)):
        steps.append((second, draw(words)))
        second += gap
    return steps


outages = st.lists(st.tuples(gaps, gaps).map(lambda two: Outage(at(two[0]), at(two[0] + two[1]))), max_size=3)


def seen_bad(steps: Sequence[Step], until: float, left_out: Sequence[Outage]) -> timedelta:
    """How long the newest word was bad in all, as a reader of the story counts it: times left out do not count."""
    ends = [second for second, _ in steps[1:]] + [until]
    spans = [(start, end) for (start, word), end in zip(steps, ends, strict=True) if word is BAD]
    return sum(
        (elapsed(at(start), at(min(end, until)), left_out) for start, end in spans if start < until), timedelta()
    )


@given(stories(), gaps, outages)
def test_nothing_is_a_failure_before_it_was_seen_bad_for_its_tolerance(
    steps: list[Step], later: float, left_out: list[Outage]
) -> None:
    end = steps[-1][0] + later
    shown = status(steps, end, Judge(POLICY, tuple(left_out)))

    if shown == "failure":
        assert seen_bad(steps, end, left_out) >= timedelta(seconds=TOLERANCE)
    if all(word is not BAD for _, word in steps):
        assert shown in {"ok", "unknown"}


@given(st.floats(0.5, 5000).map(lambda seconds: round(seconds, 1)), outages)
def test_what_is_bad_all_the_time_is_a_failure_exactly_after_its_tolerance(
    later: float, left_out: list[Outage]
) -> None:
    is_due = elapsed(NOON, at(later), left_out) >= timedelta(seconds=TOLERANCE)

    assert (status([(0, BAD)], later, Judge(POLICY, tuple(left_out))) == "failure") is is_due


@given(stories(), st.lists(st.text(max_size=5), min_size=14, max_size=14), gaps)
def test_other_reasons_and_messages_move_no_timer(steps: list[Step], reasons: list[str], later: float) -> None:
    judge, plain, varied = Judge(POLICY), begin(), begin()
    for (second, word), reason in zip(steps, reasons, strict=False):
        plain, _ = judge.hear(plain, word, SAID, at(second))
        varied, _ = judge.hear(varied, word, Said(reason, reason), at(second))
        varied, _ = judge.hear(varied, word, Said("again", reason), at(second))

    assert replace(varied, said=SAID) == replace(plain, said=SAID)


@given(stories(), st.lists(gaps, max_size=5), gaps, outages)
def test_looking_in_between_changes_no_answer(
    steps: list[Step], looks: list[float], later: float, left_out: list[Outage]
) -> None:
    """A restart, a worker that is late, and one that is busy, all see the same."""
    judge = Judge(RESTLESS, tuple(left_out))
    end = steps[-1][0] + later
    plain, first = tell(steps, judge)
    record, heard = begin(), []
    moments = sorted(
        [*((second, word) for second, word in steps), *((look, None) for look in looks if look < end)], key=_when
    )
    for second, word in moments:
        record, news = (
            judge.catch_up(record, at(second)) if word is None else judge.hear(record, word, SAID, at(second))
        )
        heard += news
    plain, last = judge.catch_up(plain, at(end))
    record, news = judge.catch_up(record, at(end))

    assert judge.standing(record, at(end)) == judge.standing(plain, at(end))
    assert sorted(told([*heard, *news])) == sorted(told([*first, *last]))


def _when(step: tuple[float, Word | None]) -> tuple[float, bool]:
    return step[0], step[1] is not None


@given(stories(), outages)
def test_whatever_is_due_is_told_when_it_is_due_and_not_before(steps: list[Step], left_out: list[Outage]) -> None:
    judge = Judge(RESTLESS, tuple(left_out))
    record, _ = tell(steps, judge)
    for _ in range(8):
        due = judge.due_at(record)
        if due is None:
            return
        moment = max(due, at(steps[-1][0]))
        early, nothing = judge.catch_up(record, moment - timedelta(microseconds=1))
        early = replace(early, changes=record.changes, flaps_since=record.flaps_since)  # old ones go unnoticed
        assert due < at(steps[-1][0]) or (nothing, early) == ((), record)
        before = record
        record, _ = judge.catch_up(record, moment)
        assert record != before
    raise AssertionError("it never comes to rest")


@given(outages, gaps, gaps)
def test_a_moment_after_a_length_is_the_first_at_which_it_has_elapsed(
    left_out: list[Outage], begin_at: float, length: float
) -> None:
    since, lasted = at(begin_at), timedelta(seconds=length)
    moment = moment_after(since, lasted, left_out)

    assert elapsed(since, moment, left_out) == lasted
    assert elapsed(since, moment - timedelta(microseconds=1), left_out) < lasted


# --- from checks to words ---------------------------------------------------------------------------------------------


def check(state: CheckStatus, *findings: tuple[CheckStatus, str | None, str | None]) -> CheckState:
    found = tuple(CheckResult("gpu.ecc", word, device, code) for word, device, code in findings)
    return CheckState("gpu.ecc", state, NOON, NOON, "run", found)


FAIL, UNSEEN, SKIPPED, PASS, WARN = (
    *(CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.SKIPPED),
    *(CheckStatus.PASS, CheckStatus.WARN),
)


@pytest.mark.parametrize(
    ("state", "expected", "others"),
    [
        (check(PASS), {}, WELL),
        (check(WARN, (WARN, "A", None)), {}, WELL),
        (check(FAIL), {None: BAD}, WELL),
        (check(FAIL, (FAIL, None, "x")), {None: BAD}, WELL),
        (check(FAIL, (FAIL, "A", "x"), (WARN, "B", None)), {"A": BAD}, WELL),
        (check(FAIL, (FAIL, "A", "x"), (UNSEEN, "B", None)), {"A": BAD, "B": BLIND}, WELL),
        (check(FAIL, (FAIL, "A", "x"), (UNSEEN, "A", None)), {"A": BAD}, WELL),
        (check(FAIL, (FAIL, "A", "x"), (UNSEEN, None, None)), {"A": BAD, None: BLIND}, BLIND),
        (check(UNSEEN), {None: BLIND}, BLIND),
        (check(SKIPPED), {None: BLIND}, BLIND),
        (check(SKIPPED, (SKIPPED, None, "x")), {None: BLIND}, BLIND),
        (check(UNSEEN, (UNSEEN, "A", None)), {"A": BLIND}, WELL),
    ],
)
def test_a_check_says_a_word_of_each_device(state: CheckState, expected: dict[str | None, Word], others: Word) -> None:
    heard = words_of(state)

    assert {device: word for device, (word, _) in heard.named.items()} == expected
    assert heard.others is others
    assert heard.of("Z")[0] is others


@given(st.permutations([(FAIL, "A", "b.code"), (FAIL, "A", "a.code"), (UNSEEN, "A", None), (FAIL, "B", None)]))
def test_the_order_of_findings_is_of_no_account(
    findings: list[tuple[CheckStatus, str | None, str | None]],
) -> None:
    heard = words_of(check(FAIL, *findings))

    assert heard.named == {"A": (BAD, Said("a.code", "")), "B": (BAD, Said("check_failing", ""))}


def test_the_same_check_on_another_device_is_news() -> None:
    before = {"gpu.ecc": check(FAIL, (FAIL, "A", "x"))}

    assert is_same_news(before, {"gpu.ecc": check(FAIL, (FAIL, "A", "y"))})
    assert not is_same_news(before, {"gpu.ecc": check(FAIL, (FAIL, "B", "x"))})


def test_the_worst_stands_first() -> None:
    found = [Condition(word, ConditionStatus(word), NOON, "", "") for word in ("unknown", "ok", "failure", "problem")]

    assert [one.name for one in worst_first(found)] == ["failure", "problem", "unknown", "ok"]
