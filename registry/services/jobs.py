# SPDX-License-Identifier: Apache-2.0
"""What did a job say of itself, how was its time spent, and how much of it was worth it?

Beginnings, interruptions and ends go into the history. Progress and pauses do not: like an unchanged heartbeat such a
message moves one row on and writes no event, because a job sends thousands of them and none decides anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from registry.domain.actors import Actor, Subject, SubjectKind
from registry.domain.errors import InvalidField, NotFound
from registry.domain.events import Draft, EventType
from registry.domain.goodput import Account, Ledger, Slot, account_of
from registry.domain.job_events import JobEvent, JobEventKind, why_not
from registry.domain.job_phases import Phase
from registry.domain.policy import Policy
from registry.domain.times import rfc3339, rfc3339_or_none
from registry.services.pages import Page, PageRequest, page_of, slice_of
from registry.store import jobs, search, tallies
from registry.store.database import Database, Transaction, from_micros, to_micros
from registry.store.jobs import Job

EVENTS_MAX = 100_000
"""Messages of one job that are kept at a time: five a minute for two weeks."""

MARK_EVERY = 1000
"""After how many messages it is kept what they amount to: so many at most are counted anew for one that is late."""

KEPT = timedelta(days=14)
"""How long messages are kept one by one after they came, so that what is late may come between them."""

SEALED_AT_ONCE = 20
"""Jobs whose old messages are let go of in one round, some thousands of rows."""

AGE_MAX = timedelta(days=400)
"""How old the time of a message may be: no objective looks back further."""

_MICROS = 1_000_000
_TYPES = {
    JobEventKind.STARTED: EventType.JOB_STARTED,
    JobEventKind.INTERRUPTED: EventType.JOB_INTERRUPTED,
    JobEventKind.ENDED: EventType.JOB_ENDED,
}


def record_job_events(
    db: Database, job_id: str, told: Sequence[JobEvent], *, actor: Actor, policy: Policy, now: datetime
) -> list[dict[str, Any]]:
    """Take a job's messages, in whatever order, and say one by one what came of each; none hinders another.

    The same `event_id` again is `already_recorded`; with other content it is refused, as is what cannot be understood,
    comes from the future or is older than `AGE_MAX`. A job is known from its first message on. Raises StoreUnavailable.
    """
    with db.write(now) as tx:
        job = jobs.find_job(tx, job_id) or jobs.new_job(tx, job_id, str(actor))
        known = jobs.bodies_of(tx, job, [one.event_id for one in told])
        taken: list[JobEvent] = []
        items = []
        for event in told:
            text = jobs.text_of(event)
            if known.get(event.event_id) == text:
                items.append({"event_id": event.event_id, "outcome": "already_recorded"})
                continue
            reason = _why_refused(job, event, len(taken), policy, now)
            if event.event_id in known:
                reason = f"The event_id {event.event_id!r} was used for another message: choose a new one."
            if reason is not None:
                said = {"code": InvalidField.code, "message": reason}
                items.append({"event_id": event.event_id, "outcome": "refused", **said})
                continue
            job.unit = job.unit or event.unit
            known[event.event_id] = text
            taken.append(event)
            items.append({"event_id": event.event_id, "outcome": "recorded"})
        if taken:
            _take(tx, job, taken, actor)
        return items


def _why_refused(job: Job, event: JobEvent, taken: int, policy: Policy, now: datetime) -> str | None:
    """Say in a sentence what keeps a message that is new from being taken, or None."""
    if (reason := why_not(event) or _why_not_then(job, from_micros(event.at), policy, now)) is not None:
        return reason
    if event.unit is not None and job.unit not in (None, event.unit):
        return f"This job counts its progress in {job.unit}: go on with that."
    if job.events + taken >= EVENTS_MAX:
        return f"Of this job {EVENTS_MAX} messages are kept already: one a minute is enough."
    return None


def _why_not_then(job: Job, at: datetime, policy: Policy, now: datetime) -> str | None:
    if at > now + timedelta(seconds=policy.future_tolerance_seconds):
        return f"It says {rfc3339(at)}, which is yet to come: set the clock of whoever sends it."
    if at < now - AGE_MAX:
        return f"It is older than {AGE_MAX.days} days."
    if job.sealed_at is not None and at <= job.sealed_at:
        return f"This job's messages up to {rfc3339(job.sealed_at)} are added up for good, and none fits between them."
    return None


def _take(tx: Transaction, job: Job, taken: Sequence[JobEvent], actor: Actor) -> None:
    """Bring the job and all sums in line with messages that are new."""
    if job.events == 0:
        jobs.save_job(tx, job)  # what follows refers to it
    if min(one.at for one in taken) <= job.fold.mark:
        delta = _count_anew(tx, job, taken)
    else:
        job.fold.take(taken)
        delta = job.fold.delta
        if job.fold.phase is Phase.ENDED or (job.events + len(taken)) // MARK_EVERY > job.events // MARK_EVERY:
            jobs.save_mark(tx, job)
    job.fold.delta = Ledger()
    for slot, amount in delta.items():
        job.totals.put(Slot(0, 0, slot.kind, slot.cause), amount)
    job.events += len(taken)
    _describe(job)
    jobs.save_job(tx, job)
    jobs.insert_events(tx, job, taken)
    tallies.add_jobs(tx, delta)
    for event in sorted(taken, key=lambda one: (one.at, one.event_id)):
        _record(tx, job, event, actor)


def _count_anew(tx: Transaction, job: Job, taken: Sequence[JobEvent]) -> Ledger:
    """Count the messages since the last mark before the new ones, without and with them; return the difference."""
    first = min(one.at for one in taken)
    jobs.drop_marks(tx, job, since=first)
    before, job.fold = (jobs.find_mark(tx, job, before=first) for _ in range(2))
    known = jobs.list_events(tx, job, after=job.fold.mark)
    before.take(known)
    for part in _parts(sorted((*known, *taken), key=lambda one: one.at)):
        job.fold.take(part)
        jobs.save_mark(tx, job)
    return job.fold.delta.change_from(before.delta)


def _parts(ordered: Sequence[JobEvent]) -> Iterator[Sequence[JobEvent]]:
    """Part messages after every thousand or so, and never between two of one moment."""
    start = 0
    while start < len(ordered):
        end = min(start + MARK_EVERY, len(ordered))
        while end < len(ordered) and ordered[end].at == ordered[end - 1].at:
            end += 1
        yield ordered[start:end]
        start = end


def seal_old(db: Database, *, now: datetime) -> None:
    """Let go of messages that came more than `KEPT` ago, and keep what they amount to.

    No figure changes, and what is history stays in the history: so this writes no event.
    """
    with db.read() as snapshot:
        is_due = bool(jobs.find_sealable(snapshot, now - KEPT, 1))
    if not is_due:
        return
    with db.write(now) as tx:
        for row_id, at in jobs.find_sealable(tx, now - KEPT, SEALED_AT_ONCE):
            jobs.seal(tx, row_id, at)


def _describe(job: Job) -> None:
    """Let the columns that lists are asked by say what the fold says."""
    found = job.fold
    job.state, job.nodes, job.devices = found.phase, found.nodes, found.devices
    job.outcome, job.last_at = found.outcome, from_micros(found.mark)
    job.started_at, job.ended_at = from_micros(found.started_at), from_micros(found.ended_at)


def _record(tx: Transaction, job: Job, event: JobEvent, actor: Actor) -> None:
    """Put a message into the history, if it is of a kind that belongs there."""
    if event.kind not in _TYPES:
        return
    said = {
        "cause": event.cause,
        "outcome": event.outcome,
        "step": event.step,
        "checkpoint": event.checkpoint,
        "message": event.message,
        "devices": event.devices or None,
        "nodes": len(event.nodes) or None,
    }
    data = {name: value for name, value in said.items() if value is not None}
    subjects = (Subject(SubjectKind.JOB, job.job_id), *(Subject(SubjectKind.NODE, one) for one in event.nodes))
    observed = rfc3339(from_micros(event.at))
    told = {"job_id": job.job_id, "event_id": event.event_id, "observed_at": observed, **data}
    tx.record(Draft(_TYPES[event.kind], actor, subjects, told))


def list_jobs(db: Database, filters: Mapping[str, str], page: PageRequest) -> Page:
    """Return jobs by any of their fields. Raises InvalidField."""
    with db.read() as snapshot:
        rows = search.list_jobs(snapshot, filters, slice_of(page))
        return page_of(rows, page, lambda one: str(one.id), _shown)


def show_job(db: Database, job_id: str, *, now: datetime) -> dict[str, Any]:
    """Return one job with all that its time was spent on. Raises NotFound."""
    with db.read() as snapshot:
        job = jobs.find_job(snapshot, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.")
        found = account_of(job.totals)
        silent = None if job.fold.phase is Phase.ENDED else max(0, to_micros(now) - job.fold.mark)
        return {
            **_shown(job),
            "step": job.fold.step,
            "durable": job.fold.durable,
            "attempts": job.fold.attempts,
            "events": job.events,
            "node_names": jobs.list_nodes(snapshot, job),
            **account_shown(found, untold=sum(one.micros for one in job.fold.open)),
            "checkpoints": found.checkpoints,
            "silent_seconds": None if silent is None else silent / _MICROS,
        }


def _shown(job: Job) -> dict[str, Any]:
    found = account_of(job.totals)
    return {
        "job_id": job.job_id,
        "state": str(job.state),
        "outcome": job.outcome,
        "unit": job.unit,
        "nodes": job.nodes,
        "devices": job.devices,
        "goodput": found.goodput,
        "interruptions": sum(found.interruptions.values()),
        "started_at": rfc3339_or_none(job.started_at),
        "ended_at": rfc3339_or_none(job.ended_at),
        "last_at": rfc3339(job.last_at),
        "recorded_at": rfc3339(job.recorded_at),
        "reporter": job.reporter,
    }


def account_shown(found: Account, *, untold: int = 0) -> dict[str, Any]:
    """Give an account as the API answers it. `untold` are microseconds whose progress the next message will tell."""
    interruptions = sum(found.interruptions.values())
    return {
        "ettr": found.ettr,
        "allocated_seconds": found.allocated / _MICROS,
        "productive_seconds": found.productive / _MICROS,
        "queued_seconds": found.queued / _MICROS,
        "untold_seconds": untold / _MICROS,
        "mttf_seconds": found.allocated / interruptions / _MICROS if interruptions else None,
        "badput": [
            {"kind": str(kind), "cause": str(cause), "seconds": micros / _MICROS}
            for (kind, cause), micros in found.badput.items()
        ],
        "interruptions_by_cause": {str(cause): count for cause, count in sorted(found.interruptions.items())},
    }
