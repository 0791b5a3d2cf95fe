# SPDX-License-Identifier: Apache-2.0
"""A job failed: who is to blame, and what shall be done with it? Asked before it is tried again.

It opens no quarantine. What is wrong with devices and nodes is decided by their own faults; this reads them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from registry.domain.actors import Actor
from registry.domain.attribution import judge
from registry.domain.canonical import canonical
from registry.domain.errors import FieldError, InvalidField, NotFound
from registry.domain.events import EventType
from registry.domain.findings import next_look, window
from registry.domain.job_failures import JobFailure, Surroundings, Verdict, told
from registry.domain.policy import Policy
from registry.domain.times import rfc3339
from registry.services.job_revisions import record_event, with_verdict
from registry.services.job_surroundings import gather, together, with_faults
from registry.services.pages import Page, PageRequest, page_of, slice_of
from registry.services.targets import get_unit
from registry.store import job_failures, search
from registry.store.database import Database, Snapshot, Transaction, new_id
from registry.store.job_failures import Record

TOLD, TOLD_AGAIN = "told", "more was told"
"""Why a verdict was given: for the first time, or because another message came under the same job and moment."""


def judge_job_failure(
    db: Database, job: JobFailure, *, actor: Actor, policy: Policy, now: datetime
) -> tuple[str, dict[str, Any]]:
    """Say who is to blame for a failed job, and remember it under the job's id and the moment it failed.

    Answers `judged` for a failure that is new. The same message again is `already_judged` and answers the verdict in
    force. Another message under the same job and moment tells more of the same failure: it takes the place of the
    first, and is `revised` where the verdict is another then, else `already_judged`.

    Raises InvalidField for a job that failed before it began, or in the future.
    """
    _check_times(job, policy, now)
    digest = hashlib.sha256(canonical(told(job)).encode()).hexdigest()
    with db.read() as snapshot:
        known = job_failures.find_by_key(snapshot, job.job_id, job.failed_at)
        if known is not None and digest in known.tellings:
            return "already_judged", shown(known)
        around = gather(snapshot, job, policy, now)
    verdict = judge(job, around, policy)
    with db.write(now) as tx:
        known = job_failures.find_by_key(tx, job.job_id, job.failed_at)
        if known is not None and digest in known.tellings:
            return "already_judged", shown(known)
        # Between the view and the turn to write, somebody may have recorded a fault that belongs to this.
        current = with_faults(tx, together(known.facts, around) if known else around, job, policy)
        verdict = verdict if current == around else judge(job, current, policy)
        if known is None:
            return "judged", shown(_insert(tx, job, current, verdict, digest, actor, policy))
        outcome, record = _tell_more(tx, known, job, current, verdict, digest, actor, policy)
        return outcome, shown(record)


def _check_times(job: JobFailure, policy: Policy, now: datetime) -> None:
    if job.failed_at < job.started_at:
        errors = (FieldError("/failed_at", "is before started_at"),)
        raise InvalidField("A job cannot fail before it began.", errors=errors)
    if (job.failed_at - now).total_seconds() > policy.future_tolerance_seconds:
        errors = (FieldError("/failed_at", "is in the future"),)
        raise InvalidField("That failure is still to come: look at the clock of whoever tells it.", errors=errors)


def _insert(
    tx: Transaction,
    job: JobFailure,
    around: Surroundings,
    verdict: Verdict,
    digest: str,
    actor: Actor,
    policy: Policy,
) -> Record:
    record = Record(
        id=new_id(tx.now),
        job_id=job.job_id,
        failed_at=job.failed_at,
        started_at=job.started_at,
        user_name=job.user,
        exit_code=job.exit_code,
        signal=job.signal,
        reporter=str(actor),
        job=job,
        tellings=(digest,),
        facts=around,
        attribution="",
        cause=None,
        confidence=0,
        retry="",
        verdict={},
        revision=1,
        recorded_at=tx.now,
        judged_at=tx.now,
    )
    judged = with_verdict(record, verdict)
    job_failures.insert_record(tx, judged, verdict, window(job, policy))
    job_failures.set_look(tx, judged.id, next_look(job, policy, tx.now))
    record_event(tx, judged, verdict, actor, EventType.JOB_FAILURE_JUDGED, TOLD)
    return judged


def _tell_more(
    tx: Transaction,
    known: Record,
    job: JobFailure,
    around: Surroundings,
    verdict: Verdict,
    digest: str,
    actor: Actor,
    policy: Policy,
) -> tuple[str, Record]:
    """Take what was told now for what was told of the failure; with an event, whether the verdict is another or not."""
    is_other = verdict.to_json() != known.verdict
    more = replace(
        known,
        started_at=job.started_at,
        user_name=job.user,
        exit_code=job.exit_code,
        signal=job.signal,
        job=job,
        tellings=(*known.tellings, digest),
        facts=around,
        revision=known.revision + 1,
        judged_at=tx.now,
    )
    revised = with_verdict(more, verdict)
    job_failures.update_record(tx, revised, verdict, TOLD_AGAIN, window(job, policy))
    record_event(tx, revised, verdict, actor, EventType.JOB_FAILURE_REVISED, TOLD_AGAIN)
    return "revised" if is_other else "already_judged", revised


def list_job_failures(db: Database, filters: Mapping[str, str], page: PageRequest) -> Page:
    """Return failed jobs by any of their fields.

    `node` is any node of the job, `device` (our id, a serial or a UUID) one that the verdict leaves out of a retry.
    """
    with db.read() as snapshot:
        wanted = {**filters}
        if "device" in wanted:
            wanted["device"] = get_unit(snapshot, wanted["device"]).id
        rows = search.list_job_failures(snapshot, wanted, slice_of(page))
        return page_of(rows, page, lambda one: str(one.id), shown)


def show_job_failure(db: Database, id_: str) -> dict[str, Any]:
    """Return one failed job with all that was told of it and every verdict that was given. Raises NotFound."""
    with db.read() as snapshot:
        record = job_failures.find_by_id(snapshot, id_)
        if record is None:
            raise NotFound(f"There is no job failure {id_}.")
        return {**shown(record), **_told_of(record), "history": _history(snapshot, record)}


def shown(record: Record) -> dict[str, Any]:
    """Give a failed job as the API answers it."""
    return {
        "id": record.id,
        "job_id": record.job_id,
        "user": record.user_name,
        "reporter": record.reporter,
        "started_at": rfc3339(record.started_at),
        "failed_at": rfc3339(record.failed_at),
        "exit_code": record.exit_code,
        "signal": record.signal,
        **record.verdict,
        "revision": record.revision,
        "recorded_at": rfc3339(record.recorded_at),
        "judged_at": rfc3339(record.judged_at),
    }


def _told_of(record: Record) -> dict[str, Any]:
    said = told(record.job)
    return {"nodes": said["nodes"], "log_excerpt": said.get("log_excerpt"), "signals": said.get("signals", [])}


def _history(snapshot: Snapshot, record: Record) -> list[dict[str, Any]]:
    return [
        {"revision": one.revision, "at": rfc3339(one.at), "because": one.because, **one.verdict}
        for one in job_failures.history_of(snapshot, record.id)
    ]
