# SPDX-License-Identifier: Apache-2.0
"""Is the time of a job put to what it was spent on, to the microsecond, whenever each message came?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from registry.domain.failures import Cause
from registry.domain.goodput import BUCKET, Account, Amount, Ledger, Slot, TimeKind, account_of, size_of, stretches
from registry.domain.job_events import JobEvent, JobEventKind, Outcome, PauseReason, why_not
from registry.domain.job_fold import PENDING_MAX, Fold, fold
from registry.domain.job_phases import Phase

SECOND = 1_000_000
BEGIN = 1_790_000_000 * SECOND
_ids = count(1)


def told(kind: JobEventKind, at: float, **more: Any) -> JobEvent:
    """A message `at` seconds after the beginning."""
    return JobEvent(more.pop("event_id", f"e-{next(_ids)}"), kind, BEGIN + int(at * SECOND), **more)


def started(at: float, *, devices: int = 16, **more: Any) -> JobEvent:
    return told(JobEventKind.STARTED, at, nodes=more.pop("nodes", ("a", "b")), devices=devices, **more)


def progress(at: float, step: int, **more: Any) -> JobEvent:
    return told(JobEventKind.PROGRESS, at, step=step, **more)


def paused(at: float, reason: PauseReason = PauseReason.CHECKPOINT, **more: Any) -> JobEvent:
    return told(JobEventKind.PAUSED, at, reason=reason, **more)


def resumed(at: float, **more: Any) -> JobEvent:
    return told(JobEventKind.RESUMED, at, **more)


def interrupted(at: float, **more: Any) -> JobEvent:
    return told(JobEventKind.INTERRUPTED, at, **more)


def ended(at: float, outcome: Outcome = Outcome.COMPLETED, **more: Any) -> JobEvent:
    return told(JobEventKind.ENDED, at, outcome=outcome, **more)


def account(*events: JobEvent) -> Account:
    return account_of(fold(events).delta)


def seconds(found: Account) -> dict[str, float]:
    """Seconds by `kind/cause`."""
    return {f"{kind}/{cause}" if cause else str(kind): micros / SECOND for (kind, cause), micros in found.spent.items()}


def test_time_before_the_first_progress_is_start_up_and_the_rest_was_worth_it() -> None:
    found = account(started(0), progress(60, 0), progress(1000, 100), ended(1000, step=100))

    assert seconds(found) == {"start_up/user": 60, "productive": 940}
    assert (found.goodput, found.ettr) == (0.94, 0.94)
    assert found.interruptions == {}


def test_a_job_that_says_nothing_of_its_beginning_holds_no_nodes() -> None:
    assert fold([progress(0, 1), paused(5), interrupted(7), ended(9)]).delta == {}
    assert account().goodput is None
    assert account().ettr is None


def test_what_was_done_after_the_last_checkpoint_is_lost_with_the_node() -> None:
    found = account(
        started(0),
        progress(0, 0),
        progress(100, 100, checkpoint=80),
        progress(200, 200),
        interrupted(210, cause=Cause.HARDWARE),
        started(300),
        progress(330, 80),
        progress(450, 200),
    )

    assert seconds(found) == {
        "productive": 80 + 120,
        "lost_progress/hardware": 120 + 10,
        "waiting_for_nodes/hardware": 90,
        "start_up/hardware": 30,
    }
    assert found.interruptions == {Cause.HARDWARE: 1}
    assert found.badput == {
        (TimeKind.LOST, Cause.HARDWARE): 130 * SECOND,
        (TimeKind.WAITING, Cause.HARDWARE): 90 * SECOND,
        (TimeKind.START_UP, Cause.HARDWARE): 30 * SECOND,
    }


def test_the_step_that_is_restored_says_what_was_durable_though_nobody_told() -> None:
    found = account(
        *(started(0), progress(0, 0), progress(100, 100), interrupted(100, cause=Cause.DRIVER)),
        *(started(100.5), progress(100.5, 70), progress(130.5, 100)),
    )

    assert seconds(found) == {"productive": 100, "lost_progress/driver": 30, "waiting_for_nodes/driver": 0.5}


def test_an_interruption_may_say_how_far_the_work_had_come() -> None:
    found = account(
        started(0),
        progress(0, 0),
        interrupted(50, step=50, checkpoint=50, cause=Cause.PLATFORM),
        started(51),
        progress(51, 50),
    )

    assert seconds(found) == {"productive": 50, "waiting_for_nodes/platform": 1}


def test_what_had_been_durable_and_is_done_again_is_lost_once() -> None:
    found = account(
        *(started(0), progress(0, 0), progress(100, 100, checkpoint=100), interrupted(100, cause=Cause.HARDWARE)),
        # The checkpoint at 100 cannot be read.
        *(started(101), progress(101, 40), progress(201, 140)),
    )

    assert seconds(found) == {"productive": 100 + 40, "lost_progress/hardware": 60, "waiting_for_nodes/hardware": 1}


def test_going_back_without_an_interruption_is_the_jobs_own_choice() -> None:
    found = account(started(0), progress(0, 0), progress(100, 100), progress(110, 50), progress(160, 100))

    assert seconds(found) == {"productive": 50 + 50, "lost_progress/user": 50 + 10}
    assert found.interruptions == {}


@pytest.mark.parametrize(
    ("reason", "key"),
    [
        (PauseReason.CHECKPOINT, "checkpointing/user"),
        (PauseReason.WAITING_FOR_NODES, "waiting_for_nodes/platform"),
        (PauseReason.PREEMPTED, "paused/platform"),
        (PauseReason.MAINTENANCE, "paused/platform"),
        (PauseReason.EVALUATION, "paused/user"),
        (PauseReason.OTHER, "paused/user"),
    ],
)
def test_a_pause_is_put_to_its_reason_and_the_work_around_it_to_its_steps(reason: PauseReason, key: str) -> None:
    found = account(started(0), progress(0, 0), paused(40, reason), resumed(60), progress(100, 80))

    assert seconds(found) == {"productive": 80, key: 20}


def test_a_pause_has_the_cause_that_it_names() -> None:
    found = account(started(0), progress(0, 0), paused(0, PauseReason.WAITING_FOR_NODES, cause=Cause.HARDWARE))

    assert seconds(found) == {}
    assert seconds(account(started(0), paused(0, PauseReason.OTHER, cause=Cause.DRIVER), resumed(9))) == {
        "paused/driver": 9
    }


def test_checkpoints_that_work_waits_for_are_counted_and_are_no_interruptions() -> None:
    pauses = [one for at in range(3) for one in (paused(10 + 10 * at), resumed(14 + 10 * at))]
    found = account(started(0), progress(0, 0), *pauses, paused(50, PauseReason.OTHER), resumed(60))

    assert found.checkpoints == 3
    assert found.interruptions == {}
    assert seconds(found)["checkpointing/user"] == 12


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (started(0, nodes=()), "needs nodes"),
        (started(0, devices=0), "needs devices"),
        (JobEvent("e", JobEventKind.PROGRESS, 0), "needs step"),
        (JobEvent("e", JobEventKind.PAUSED, 0), "needs reason"),
        (JobEvent("e", JobEventKind.ENDED, 0), "needs outcome"),
        (resumed(0, step=0), "has no step"),
        (progress(0, 5, checkpoint=6), "cannot hold more"),
        (progress(0, 5, is_released=True), "has no released"),
        (started(0, message="x"), "has no message"),
    ],
)
def test_a_message_that_says_too_little_or_what_means_nothing_is_not_understood(event: JobEvent, words: str) -> None:
    assert words in (why_not(event) or "")


@pytest.mark.parametrize(
    "event",
    [
        *(started(0), progress(0, 0, checkpoint=0, nodes=("a",), cause=Cause.DRIVER), resumed(0, checkpoint=0)),
        paused(0, step=3, checkpoint=3, cause=Cause.USER, is_released=True, message="x"),
        interrupted(0, step=3, checkpoint=3, nodes=("a",), cause=Cause.USER, is_released=True, message="x"),
        *(interrupted(0), ended(0, step=3, checkpoint=3, cause=Cause.USER, message="x")),
    ],
)
def test_a_message_may_say_all_that_means_something(event: JobEvent) -> None:
    assert why_not(event) is None


def test_progress_ends_a_pause_that_nobody_ended() -> None:
    found = account(started(0), progress(0, 0), paused(10, step=10), progress(30, 10), progress(40, 20))

    assert seconds(found) == {"productive": 20, "checkpointing/user": 20}


def test_devices_that_were_given_back_cost_no_allocated_time_and_yet_time() -> None:
    found = account(
        started(0),
        progress(0, 0),
        interrupted(100, step=100, checkpoint=100, cause=Cause.HARDWARE, is_released=True),
        started(300),
        progress(300, 100),
        ended(400, step=200),
    )

    assert seconds(found) == {"productive": 200, "queued/hardware": 200}
    assert (found.allocated, found.goodput, found.ettr) == (200 * SECOND, 1.0, 0.5)
    assert found.badput == {}


def test_a_job_that_was_preempted_begins_again_by_the_platform() -> None:
    found = account(
        *(started(0), progress(0, 0), paused(50, PauseReason.PREEMPTED, step=50, checkpoint=50, is_released=True)),
        *(started(90), progress(100, 50)),
    )

    assert seconds(found) == {"productive": 50, "queued/platform": 40, "start_up/platform": 10}
    assert found.interruptions == {}


def test_a_start_without_a_word_before_is_an_interruption_of_unknown_cause() -> None:
    found = account(started(0), progress(0, 0), progress(10, 10), started(15), progress(16, 0))

    assert found.interruptions == {Cause.UNKNOWN: 1}
    assert seconds(found) == {"lost_progress/unknown": 15, "start_up/unknown": 1}


def test_many_ranks_report_one_interruption_and_a_later_word_names_its_cause() -> None:
    events = [started(0), progress(0, 0), *(interrupted(10 + at) for at in range(3))]
    unknown = account(*events, started(20), progress(20, 0))
    known = account(*events, interrupted(10, event_id="verdict", cause=Cause.HARDWARE), started(20), progress(20, 0))

    assert unknown.interruptions == {Cause.UNKNOWN: 1}
    assert known.interruptions == {Cause.HARDWARE: 1}
    assert seconds(known) == {"lost_progress/hardware": 10, "waiting_for_nodes/hardware": 10}


def test_a_cause_that_is_known_is_not_taken_back() -> None:
    found = account(started(0), interrupted(5, cause=Cause.DRIVER), interrupted(6, cause=Cause.USER), started(7))

    assert found.interruptions == {Cause.DRIVER: 1}


@pytest.mark.parametrize(
    ("outcome", "cause", "expected", "interruptions"),
    [
        (Outcome.COMPLETED, None, {"productive": 120}, {}),
        (Outcome.CANCELLED, None, {"productive": 50, "lost_progress/user": 70}, {}),
        (Outcome.FAILED, None, {"productive": 50, "lost_progress/unknown": 70}, {Cause.UNKNOWN: 1}),
        (Outcome.FAILED, Cause.USER, {"productive": 50, "lost_progress/user": 70}, {Cause.USER: 1}),
    ],
)
def test_the_end_says_whether_what_no_checkpoint_holds_was_worth_it(
    outcome: Outcome, cause: Cause | None, expected: dict[str, float], interruptions: dict[Cause, int]
) -> None:
    found = account(started(0), progress(0, 0), progress(100, 100, checkpoint=50), ended(120, outcome, cause=cause))

    assert seconds(found) == expected
    assert found.interruptions == interruptions


def test_a_job_that_ends_while_it_waits_was_interrupted_once() -> None:
    found = account(started(0), interrupted(5), ended(9, Outcome.FAILED, cause=Cause.HARDWARE))

    assert found.interruptions == {Cause.HARDWARE: 1}
    assert seconds(found) == {"start_up/user": 5, "waiting_for_nodes/hardware": 4}


def test_a_job_that_ended_may_begin_again_and_the_time_between_is_nobodys() -> None:
    found = account(started(0), ended(5), progress(6, 3), started(100), progress(103, 0), progress(110, 7))

    assert seconds(found) == {"start_up/user": 8, "productive": 7}
    assert fold([started(0), ended(5), started(9)]).phase is Phase.STARTING


def test_a_node_that_holds_a_job_back_costs_what_it_takes_longer_than_by_its_own_pace() -> None:
    found = account(
        started(0), progress(0, 0), progress(100, 100), progress(250, 200, nodes=("b",)), ended(250, step=200)
    )

    assert seconds(found) == {"productive": 200, "slow_progress/hardware": 50}


def test_slow_progress_has_the_cause_it_names_and_none_before_the_pace_is_known() -> None:
    slow = progress(100, 100, nodes=("b",), cause=Cause.PLATFORM)

    assert seconds(account(started(0), progress(0, 0), slow)) == {"productive": 100}
    assert seconds(
        account(
            started(0),
            progress(0, 0),
            progress(10, 100),
            slow.__class__(
                "x", JobEventKind.PROGRESS, BEGIN + 30 * SECOND, step=200, nodes=("b",), cause=Cause.PLATFORM
            ),
        )
    ) == {"productive": 20, "slow_progress/platform": 10}


def test_another_number_of_devices_has_another_pace() -> None:
    events = (started(0), progress(0, 0), progress(10, 100), interrupted(10, step=100, checkpoint=100))
    again = (started(11, devices=8), progress(11, 100), progress(30, 200, nodes=("b",)))

    assert seconds(account(*events, *again)) == {"productive": 29, "waiting_for_nodes/unknown": 1}


def test_a_pace_that_took_no_time_makes_all_that_is_held_back_slow() -> None:
    at_once = (started(0), progress(0, 0, event_id="a"), progress(0, 100, event_id="b"))

    assert seconds(account(*at_once, progress(10, 200, nodes=("b",)))) == {"slow_progress/hardware": 10}


def test_word_without_progress_is_no_loss_when_the_step_comes_after_all() -> None:
    found = account(started(0), progress(0, 5), progress(10, 5), progress(20, 5), progress(30, 6))

    assert seconds(found) == {"productive": 30}


def test_many_jobs_are_added_up_by_device() -> None:
    small = fold([started(0, devices=1), progress(0, 0), progress(100, 100)]).delta
    large = fold([started(0, devices=99), ended(100)]).delta
    ledger = Ledger(small)
    ledger.merge(large)

    assert account_of(ledger).goodput == 0.5
    assert account_of(ledger, by_device=True).goodput == 0.01


def test_time_is_cut_where_buckets_end() -> None:
    assert list(stretches(BUCKET - 1, 2 * BUCKET + 5)) == [(0, 1), (BUCKET, BUCKET), (2 * BUCKET, 5)]
    assert list(stretches(7, 7)) == []


@pytest.mark.parametrize(("devices", "size"), [(0, 0), (1, 0), (2, 1), (3, 1), (8, 3), (1023, 9), (1024, 10)])
def test_a_size_class_doubles(devices: int, size: int) -> None:
    assert size_of(devices) == size


def test_a_ledger_forgets_what_adds_up_to_nothing() -> None:
    slot = Slot(0, 0, TimeKind.LOST, Cause.USER)
    before, after = Ledger(), Ledger()
    before.put(slot, Amount(5, 5, 5))
    after.put(slot, Amount(7, 7, 7))

    assert after.change_from(before) == {slot: Amount(2, 2, 2)}
    before.merge(after.change_from(before))
    assert before == after
    assert after.change_from(after) == {}


def test_the_memory_of_a_job_without_checkpoints_has_an_end() -> None:
    last = 2 * PENDING_MAX
    bucket = BUCKET / SECOND
    events = [started(0), *(progress(at * bucket, at) for at in range(last + 1))]
    lost = fold([*events, interrupted(last * bucket, cause=Cause.USER), started(last * bucket)])
    lost.take([progress(last * bucket, 0), progress(2 * last * bucket, last)])
    found = account_of(lost.delta)

    assert len(fold(events).pending) == PENDING_MAX
    assert found.allocated == 2 * last * BUCKET
    # Half was taken for durable, and its repetition is what was lost.
    assert abs(found.productive - last * BUCKET) <= 2 * BUCKET


# --- whatever a job says ----------------------------------------------------------------------------------------------

CAUSES = st.sampled_from([None, *Cause])
STEPS = st.one_of(st.none(), st.integers(0, 60))
TIMES = st.one_of(st.integers(0, 2_000_000_000), st.integers(0, 5).map(lambda at: at * BUCKET))


@st.composite
def messages(draw: st.DrawFn) -> list[JobEvent]:
    """Messages in no order and of no sense, most of them from jobs that begin; at times several at one moment."""
    found = [JobEvent("first", JobEventKind.STARTED, BEGIN, nodes=("a",), devices=8)]
    for number in range(draw(st.integers(0, 10))):
        kind = draw(st.sampled_from(JobEventKind))
        step = draw(st.integers(0, 60)) if kind is JobEventKind.PROGRESS else draw(STEPS)
        event = JobEvent(
            f"e{number}",
            kind,
            BEGIN + draw(TIMES),
            step=step,
            checkpoint=draw(STEPS),
            nodes=("a", "b")[: draw(st.integers(0, 2))],
            devices=draw(st.integers(1, 40)) if kind is JobEventKind.STARTED else 0,
            reason=draw(st.sampled_from(PauseReason)) if kind is JobEventKind.PAUSED else None,
            cause=draw(CAUSES),
            outcome=draw(st.sampled_from(Outcome)) if kind is JobEventKind.ENDED else None,
            is_released=draw(st.booleans()),
        )
        found.append(event)
    return draw(st.permutations(found))


def held(events: Sequence[JobEvent]) -> int:
    """How long the job was between a beginning and an end, told without looking at anything else."""
    total, since = 0, None
    ordered = sorted(events, key=lambda one: one.at)
    for event in ordered:
        if event.kind is JobEventKind.STARTED and since is None:
            since = event.at
        elif event.kind is JobEventKind.ENDED and since is not None:
            total, since = total + event.at - since, None
    return total + (0 if since is None else ordered[-1].at - since)


def told_of(found: Fold) -> int:
    """How much of that time is put to something: all but what its next step will explain."""
    return sum(amount.micros for amount in found.delta.values()) + sum(one.micros for one in found.open)


@settings(max_examples=60)
@given(messages())
def test_all_kinds_together_are_the_time_between_beginning_and_end(events: list[JobEvent]) -> None:
    moments = [{one.at for one in events if one.kind is kind} for kind in (JobEventKind.STARTED, JobEventKind.ENDED)]
    assume(not moments[0] & moments[1])
    found = fold(events)
    account = account_of(found.delta)

    assert told_of(found) == held(events)
    assert account.allocated == account.productive + sum(account.badput.values())
    assert all(micros >= 0 for micros in account.spent.values())
    assert all(one >= 0 for one in account.interruptions.values())
    assert all(min(amount) >= 0 for amount in found.delta.values())


@settings(max_examples=60)
@given(messages())
def test_goodput_lies_between_nothing_and_all(events: list[JobEvent]) -> None:
    account = account_of(fold(events).delta)

    assert account.goodput is None or 0 <= account.goodput <= 1
    assert account.ettr is None or 0 <= account.ettr <= (1 if account.goodput is None else account.goodput)


@settings(max_examples=60)
@given(messages(), st.randoms())
def test_the_order_of_arrival_says_nothing(events: list[JobEvent], chance: Any) -> None:
    shuffled = list(events)
    chance.shuffle(shuffled)

    assert fold(shuffled) == fold(events)


@settings(max_examples=60)
@given(messages(), st.integers(0, 15))
def test_going_on_is_the_same_as_beginning_anew(events: list[JobEvent], upto: int) -> None:
    ordered = sorted(events, key=lambda one: (one.at, one.event_id))
    upto = next((at for at in range(upto, 0, -1) if at >= len(ordered) or ordered[at - 1].at < ordered[at].at), 0)
    going_on = fold(ordered[:upto])
    ledger = Ledger(going_on.delta)
    going_on.delta = Ledger()
    going_on.take(ordered[upto:])
    ledger.merge(going_on.delta)

    assert ledger == fold(events).delta


@settings(max_examples=60)
@given(messages(), st.integers(0, 15))
def test_a_late_message_counts_as_if_it_had_come_in_time(events: list[JobEvent], at: int) -> None:
    late = events[at % len(events)]
    without = [one for one in events if one is not late]
    ledger = fold(without).delta
    whole = fold(events).delta
    ledger.merge(whole.change_from(fold(without).delta))

    assert ledger == whole == fold([*without, late]).delta
