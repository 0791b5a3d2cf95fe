# SPDX-License-Identifier: Apache-2.0
"""Are a job's messages kept, counted once, and in the history where they belong, whenever they come?"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from registry.domain.failures import Cause
from registry.domain.goodput import Ledger
from registry.domain.job_events import JobEvent, JobEventKind, Outcome, PauseReason, Unit
from registry.domain.policy import Policy
from registry.services import jobs
from registry.services.jobs import list_jobs, record_job_events, seal_old, show_job
from registry.services.pages import PageRequest
from registry.store import jobs as store
from registry.store import tallies
from registry.store.database import Database, open_database, to_micros
from tests.clock import NOON, Clock
from tests.fleet import ALICE, EVERYTHING

BEGIN = NOON - timedelta(hours=6)
_ids = itertools.count(1)


def told(kind: JobEventKind, at: float, **more: Any) -> JobEvent:
    """A message `at` seconds after the beginning."""
    event_id = more.pop("event_id", f"m-{next(_ids)}")
    if kind is JobEventKind.STARTED:
        more = {"nodes": ("node-a", "node-b"), "devices": 16, **more}
    if kind is JobEventKind.PROGRESS:
        more = {"unit": Unit.STEP, **more}
    return JobEvent(event_id, kind, to_micros(BEGIN + timedelta(seconds=at)), **more)


K = JobEventKind
STORY = (
    told(K.STARTED, 0),
    told(K.PROGRESS, 60, step=0),
    told(K.PROGRESS, 1000, step=940, checkpoint=900),
    told(K.PAUSED, 1010, reason=PauseReason.CHECKPOINT),
    told(K.RESUMED, 1020),
    told(K.PROGRESS, 2020, step=1950),
    told(K.INTERRUPTED, 2030, cause=Cause.HARDWARE, nodes=("node-b",), message="GPU fell off the bus"),
    told(K.STARTED, 2100, nodes=("node-a", "node-c")),
    told(K.PROGRESS, 2160, step=900),
    told(K.PROGRESS, 3260, step=2000),
    told(K.ENDED, 3260, outcome=Outcome.COMPLETED, step=2000),
)
HELD_SECONDS = 3260


def tell(db: Database, *events: JobEvent, job: str = "job-1", clock: Clock | None = None) -> list[str]:
    """Send messages and return the outcomes."""
    now = clock.now if clock else NOON
    items = record_job_events(db, job, events, actor=ALICE, policy=Policy(), now=now)
    return [item["outcome"] for item in items]


def page(db: Database, job: str = "job-1") -> dict[str, Any]:
    return show_job(db, job, now=NOON)


def tallied(db: Database, width: int) -> Ledger:
    with db.read() as snapshot:
        return tallies.sum_jobs(snapshot, NOON, 6 * 3600 if width == tallies.BUCKET else 30 * 86_400)


def test_a_story_is_told_and_every_second_of_it_is_put_to_something(db: Database) -> None:
    assert tell(db, *STORY) == ["recorded"] * len(STORY)
    found = page(db)

    assert (found["state"], found["outcome"], found["attempts"], found["step"]) == ("ended", "completed", 2, 2000)
    assert found["allocated_seconds"] == HELD_SECONDS
    assert found["allocated_seconds"] == found["productive_seconds"] + sum(one["seconds"] for one in found["badput"])
    assert found["goodput"] == pytest.approx(found["productive_seconds"] / HELD_SECONDS)
    assert {(one["kind"], one["cause"]) for one in found["badput"]} == {
        ("start_up", "user"),
        ("start_up", "hardware"),
        ("checkpointing", "user"),
        ("lost_progress", "hardware"),
        ("waiting_for_nodes", "hardware"),
    }
    assert found["interruptions_by_cause"] == {"hardware": 1}
    assert found["node_names"] == ["node-a", "node-b", "node-c"]
    assert found["silent_seconds"] is None


@pytest.mark.parametrize("seed", range(3))
def test_late_and_shuffled_messages_give_the_same_page_and_the_same_sums(db: Database, seed: int) -> None:
    tell(db, *STORY)
    in_time, sums = page(db), [tallied(db, width) for width in tallies.WIDTHS]
    shuffled = list(STORY)
    random.Random(seed).shuffle(shuffled)
    for event in shuffled:
        tell(db, event, job="job-2")
    late = page(db, "job-2")

    differs = {"job_id", "recorded_at"}
    assert {k: v for k, v in late.items() if k not in differs} == {k: v for k, v in in_time.items() if k not in differs}
    doubled = [Ledger({slot: one.plus(one) for slot, one in before.items()}) for before in sums]
    assert [tallied(db, width) for width in tallies.WIDTHS] == doubled


def test_the_same_message_again_changes_nothing_and_another_under_its_id_is_refused(db: Database) -> None:
    tell(db, *STORY)
    before = page(db)

    assert tell(db, *STORY) == ["already_recorded"] * len(STORY)
    assert tell(db, told(K.PROGRESS, 5, step=5, event_id=STORY[2].event_id)) == ["refused"]
    assert page(db) == before


def test_a_message_twice_in_one_batch_counts_once(db: Database) -> None:
    event = told(K.STARTED, 0)
    other = told(K.RESUMED, 0, event_id=event.event_id)

    assert tell(db, event, event, other) == ["recorded", "already_recorded", "refused"]
    assert page(db)["events"] == 1


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (told(K.PROGRESS, 6 * 3600 + 6, step=1), "yet to come"),
        (told(K.PROGRESS, -401 * 86_400, step=1), "older than 400 days"),
        (told(K.PROGRESS, 0), "needs step"),
        (told(K.PROGRESS, 0, step=1, unit=Unit.SAMPLES), "in step"),
    ],
)
def test_one_that_is_refused_hinders_no_other(db: Database, event: JobEvent, words: str) -> None:
    items = record_job_events(
        db, "j", [told(K.PROGRESS, 1, step=1), event, told(K.STARTED, 0)], actor=ALICE, policy=Policy(), now=NOON
    )

    assert [item["outcome"] for item in items] == ["recorded", "refused", "recorded"]
    assert words in items[1]["message"]


def test_a_job_of_which_nothing_was_taken_is_not_known(db: Database) -> None:
    assert tell(db, told(K.PROGRESS, 0)) == ["refused"]
    assert list_jobs(db, {}, EVERYTHING).items == []


def test_a_job_sends_only_so_many(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "EVENTS_MAX", 2)

    assert tell(db, *(told(K.PROGRESS, at, step=at) for at in range(3))) == ["recorded", "recorded", "refused"]
    assert tell(db, told(K.PROGRESS, 9, step=9)) == ["refused"]


def events_of(db: Database) -> list[dict[str, Any]]:
    with db.read() as snapshot:
        rows = snapshot.all("SELECT body FROM event ORDER BY sequence")
    return [json.loads(row[0]) for row in rows]


def test_beginnings_interruptions_and_ends_are_history_and_progress_is_not(db: Database) -> None:
    tell(db, *STORY)
    history = events_of(db)

    assert [one["type"] for one in history] == ["job.started", "job.interrupted", "job.started", "job.ended"]
    interrupted = history[1]
    assert [(one["kind"], one["id"]) for one in interrupted["subjects"]] == [("job", "job-1"), ("node", "node-b")]
    assert interrupted["data"] == {
        "job_id": "job-1",
        "event_id": STORY[6].event_id,
        "observed_at": "2026-11-29T06:33:50.000000Z",
        "cause": "hardware",
        "message": "GPU fell off the bus",
        "nodes": 1,
    }
    tell(db, *STORY)
    assert len(events_of(db)) == len(history)


def test_another_process_goes_on_where_the_first_one_died(db: Database, database_url: str) -> None:
    for event in STORY[:7]:
        tell(db, event)
    db.close_all()
    other = open_database(database_url)
    for event in STORY[7:]:
        tell(other, event)
    whole = page(other)
    tell(other, *STORY, job="job-2")

    at_once = page(other, "job-2")
    assert whole["badput"] == at_once["badput"]
    assert whole["productive_seconds"] == at_once["productive_seconds"]
    other.close_all()


def test_what_a_job_has_not_told_yet_is_no_progress_and_no_loss(db: Database) -> None:
    tell(db, *STORY[:3], told(K.PAUSED, 1100, reason=PauseReason.EVALUATION))
    found = page(db)

    assert found["state"] == "paused"
    assert found["untold_seconds"] == 100
    assert found["silent_seconds"] == 6 * 3600 - 1100
    assert found["allocated_seconds"] == 1000


def test_jobs_are_listed_newest_first_by_what_they_are(db: Database, clock: Clock) -> None:
    tell(db, *STORY, job="done", clock=clock)
    tell(db, told(K.STARTED, 0, nodes=("node-z",), devices=8), job="begun", clock=clock)
    names = lambda **filters: [one["job_id"] for one in list_jobs(db, filters, PageRequest(10)).items]  # noqa: E731

    assert names() == ["begun", "done"]
    assert names(state="ended") == ["done"]
    assert names(node="node-z") == ["begun"]
    assert names(node="node-c") == ["done"]
    assert names(devices="8") == ["begun"]
    assert names(ended_at="2026-11-29T00:00:00Z..") == ["done"]
    first = list_jobs(db, {}, PageRequest(1))
    assert [one["job_id"] for one in first.items] == ["begun"]
    assert [one["job_id"] for one in list_jobs(db, {}, PageRequest(1, first.next)).items] == ["done"]


def split(events: Sequence[JobEvent], size: int) -> list[Sequence[JobEvent]]:
    return [events[at : at + size] for at in range(0, len(events), size)]


@pytest.mark.parametrize("size", [1, 3, 5])
def test_how_many_come_at_once_says_nothing(db: Database, size: int) -> None:
    for part in split(STORY, size):
        tell(db, *part)
    found = page(db)
    tell(db, *STORY, job="whole")

    assert found["badput"] == page(db, "whole")["badput"]


@pytest.mark.parametrize("seed", range(4))
def test_marks_on_the_way_change_no_answer(db: Database, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(jobs, "MARK_EVERY", 2)
    tell(db, *STORY, job="whole")
    chance = random.Random(seed)
    shuffled = [*STORY, told(K.RESUMED, 1020, event_id="at-one-moment"), told(K.PROGRESS, 3260, step=2000)]
    chance.shuffle(shuffled)
    for part in split(shuffled, chance.randint(1, 4)):
        tell(db, *part)
    tell(db, *sorted(shuffled, key=lambda one: one.at), job="in-time")

    found, in_time = page(db), page(db, "in-time")
    assert found["badput"] == in_time["badput"]
    assert found["productive_seconds"] == in_time["productive_seconds"]
    assert found["productive_seconds"] == page(db, "whole")["productive_seconds"]


def test_a_late_message_makes_only_those_since_the_last_mark_count_anew(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MARK_EVERY", 10)
    tell(db, told(K.STARTED, 0))
    for at in range(1, 60):
        tell(db, told(K.PROGRESS, 60 * at, step=at))
    read: list[int] = []
    list_events = store.list_events
    monkeypatch.setattr(
        store, "list_events", lambda *a, **k: (found := list_events(*a, **k), read.append(len(found)))[0]
    )
    tell(db, told(K.PROGRESS, 55 * 60 + 30, step=55))
    tell(db, told(K.PROGRESS, 30, step=0))
    tell(db, told(K.PROGRESS, 52 * 60 + 30, step=52))

    assert read[0] < 20
    assert read[1] == 61
    assert read[2] < 20


def test_old_messages_are_added_up_for_good_and_no_figure_changes(db: Database) -> None:
    tell(db, *STORY)
    before, sums = page(db), tallied(db, tallies.HOUR)
    seal_old(db, now=NOON + jobs.KEPT - timedelta(seconds=1))
    assert page(db) == before

    seal_old(db, now=NOON + jobs.KEPT + timedelta(seconds=1))
    sealed = page(db)
    late = record_job_events(db, "job-1", [told(K.PROGRESS, 5, step=5)], actor=ALICE, policy=Policy(), now=NOON)

    assert {**sealed, "events": len(STORY)} == before
    assert sealed["events"] == 0
    assert tallied(db, tallies.HOUR) == sums
    assert "added up for good" in late[0]["message"]
    with db.read() as snapshot:
        assert snapshot.all("SELECT 1 FROM job_mark") == []


def test_a_job_goes_on_after_its_old_messages_went_and_late_ones_count_from_there(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MARK_EVERY", 3)
    for event in STORY[:7]:
        tell(db, event)
    seal_old(db, now=NOON + jobs.KEPT + timedelta(seconds=1))
    kept = page(db)["events"]
    rest = list(STORY[7:])
    for event in reversed(rest):
        tell(db, event)
    tell(db, *STORY, job="whole")

    found, whole = page(db), page(db, "whole")
    assert kept < 7
    assert found["badput"] == whole["badput"]
    assert found["productive_seconds"] == whole["productive_seconds"]
    assert found["attempts"] == whole["attempts"]
