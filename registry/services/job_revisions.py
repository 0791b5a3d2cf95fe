# SPDX-License-Identifier: Apache-2.0
"""Which verdicts on failed jobs does later evidence change?

Asked at once where a fault is written, and by the background worker when silences, boots and checks have come to light.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import accumulate
from typing import Any

from registry.domain.actors import SYSTEM, Actor, Subject, SubjectKind
from registry.domain.attribution import judge
from registry.domain.events import Draft, EventType
from registry.domain.findings import next_look
from registry.domain.job_failures import Surroundings, Verdict
from registry.domain.policy import Policy
from registry.domain.times import rfc3339
from registry.services.job_surroundings import gather, together, with_faults
from registry.services.subjects import of_devices, told
from registry.store import devices, job_failures, nodes
from registry.store.database import Database, Transaction
from registry.store.failures import Failure
from registry.store.job_failures import Record

EVIDENCE_TOLD = 5
"""How many pieces of evidence stand in the history; all of them stand in the records."""

SIGNALS_IN_PASSING = 256
"""Most signals of a job that is judged anew by whoever writes a fault: reading and judging them takes some 20 ms."""

JOBS_IN_PASSING = 16
"""Most jobs, the newest ones, that whoever writes a fault judges anew: of short jobs a node has hundreds in an hour."""

AT_ONCE = 200
"""How many are judged in one round of the background worker, some three seconds' work: a job counts once, and once
more for each `SIGNALS_IN_PASSING` signals."""

LATER_FAULT, WITHDRAWN, ATTACHED = "a fault was recorded", "a fault was withdrawn", "a fault found its device"
LOOKED_AGAIN = "the nodes were looked at again"
"""Why a verdict was asked for anew."""


def note_fault(
    tx: Transaction,
    failure: Failure,
    first_at: datetime,
    last_at: datetime,
    policy: Policy,
    because: str = LATER_FAULT,
) -> None:
    """A fault was written, or taken back, that was seen between these times: judge anew what it may have to do with.

    However many faults one transaction writes, each job is judged once, before it ends. What is too much to be judged
    in passing, because of its signals or because there are many jobs, is left to the background worker (`judge_due`).
    """
    node = nodes.get_node_by_id(tx, failure.node_id) if failure.node_id else None
    if node is None or failure.muted is not None:
        return
    for place, (id_, signals) in enumerate(job_failures.near(tx, node.name, first_at, last_at)):
        is_quick = signals <= SIGNALS_IN_PASSING and place < JOBS_IN_PASSING
        now, later = partial(_judge_anew, tx, id_, policy, because), partial(job_failures.set_due, tx, id_, because)
        tx.at_end(("job_failure", id_), now if is_quick else later)


def judge_due(db: Database, *, policy: Policy, now: datetime) -> None:
    """Judge anew what waits for it, one in a transaction: nobody's report must wait for all of them."""
    with db.read() as snapshot:
        due = job_failures.list_due(snapshot, AT_ONCE)
    for id_, _, because in due[: _affordable([signals for _, signals, _ in due])]:
        with db.write(now) as tx:
            _judge_anew(tx, id_, policy, because)
            job_failures.set_done(tx, id_)


def look_again(db: Database, *, policy: Policy, now: datetime) -> None:
    """Judge anew the failures around which more may have come to light than faults: a few in each round."""
    with db.read() as snapshot:
        waiting = job_failures.list_to_look_at(snapshot, now, AT_ONCE)
        ids = [id_ for id_, _ in waiting[: _affordable([signals for _, signals in waiting])]]
        records = [one for one in (job_failures.find_by_id(snapshot, id_) for id_ in ids) if one is not None]
        seen = [(one, gather(snapshot, one.job, policy, now)) for one in records]
    for record, around in seen:
        with db.write(now) as tx:
            _judge_anew(tx, record.id, policy, LOOKED_AGAIN, around)
            job_failures.set_look(tx, record.id, next_look(record.job, policy, now))


def _affordable(signals: Sequence[int]) -> int:
    """Return how many of these jobs, by their signals, one round can judge; one at least."""
    spent = accumulate(1 + count // SIGNALS_IN_PASSING for count in signals)
    return max(1, sum(cost <= AT_ONCE for cost in spent))


def _judge_anew(tx: Transaction, id_: str, policy: Policy, because: str, around: Surroundings | None = None) -> None:
    """Judge by the faults on record now, and by what else was known then or, where nodes were looked at, is now."""
    record = job_failures.find_by_id(tx, id_)
    if record is None:
        return
    facts = together(record.facts, around) if around else record.facts
    verdict = judge(record.job, with_faults(tx, facts, record.job, policy), policy)
    revise(tx, replace(record, facts=facts), verdict, because=because, actor=SYSTEM)


def revise(tx: Transaction, record: Record, verdict: Verdict, *, because: str, actor: Actor) -> Record:
    """Put another verdict in force, with its event. The same one again changes nothing."""
    if verdict.to_json() == record.verdict:
        return record
    revised = with_verdict(replace(record, revision=record.revision + 1, judged_at=tx.now), verdict)
    job_failures.update_record(tx, revised, verdict, because)
    record_event(tx, revised, verdict, actor, EventType.JOB_FAILURE_REVISED, because)
    return revised


def with_verdict(record: Record, verdict: Verdict) -> Record:
    """Return the record under a verdict."""
    return replace(
        record,
        attribution=str(verdict.attribution),
        cause=verdict.cause and str(verdict.cause),
        confidence=verdict.confidence,
        retry=str(verdict.retry),
        verdict=verdict.to_json(),
    )


def record_event(
    tx: Transaction, record: Record, verdict: Verdict, actor: Actor, type_: EventType, because: str
) -> None:
    """Put a verdict into the history of the job, and of the nodes and devices that it leaves out: of nobody else's.

    A node that only waited has nothing in its history that looks like a fault.
    """
    units = list(devices.get_devices(tx, verdict.devices).values())
    where = {one.device: one.node for one in verdict.evidence if one.device and one.node}
    carriers = [where[one.id] for one in units if one.id in where]
    subjects = (
        Subject(SubjectKind.JOB, record.job_id),
        *of_devices(units, nodes=dict.fromkeys((*verdict.nodes, *carriers))),
    )
    tx.record(Draft(type_, actor, subjects, {**_data(record), "because": because, "devices": _units(units, where)}))


def _data(record: Record) -> dict[str, Any]:
    verdict = record.verdict
    return {
        "job_failure": record.id,
        "job_id": record.job_id,
        "user": record.user_name,
        "failed_at": rfc3339(record.failed_at),
        "nodes": len(record.job.nodes),
        "revision": record.revision,
        **{name: verdict[name] for name in ("attribution", "cause", "confidence", "retry", "exclude")},
        "evidence": [one["what"] for one in verdict["evidence"][:EVIDENCE_TOLD]],
    }


def _units(units: Sequence[devices.Device], where: Mapping[str, str]) -> list[dict[str, Any]]:
    return [told(one, node=where.get(one.id)) for one in units]
