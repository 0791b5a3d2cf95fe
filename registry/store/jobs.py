# SPDX-License-Identifier: Apache-2.0
"""Which jobs are there, what did each say of itself, and what does that amount to?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from registry.domain.goodput import Ledger
from registry.domain.job_events import JobEvent
from registry.domain.job_fold import Fold
from registry.store.database import Row, Snapshot, Transaction, from_micros, new_id, to_micros
from registry.store.fold_column import dump_event, dump_fold, dump_totals, load_events, load_fold, load_totals


@dataclass(slots=True)
class Job:
    """A job as its messages left it. `last_at` is the time of the latest of them, by the job's own clock.

    `fold` is what they amount to, and `totals` the sums of its ledger. Rows of `BRIEF` have an empty fold.
    """

    id: str
    job_id: str
    recorded_at: datetime
    reporter: str
    state: str
    unit: str | None
    nodes: int
    devices: int
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    last_at: datetime
    events: int
    totals: Ledger
    fold: Fold


_NAMES = tuple(one.name for one in fields(Job))
COLUMNS = ", ".join(f"j.{name}" for name in _NAMES)
BRIEF = COLUMNS.replace("j.fold", "NULL")
"""The same without the fold, which may be long and which lists do not show."""

_TIMES = ("recorded_at", "started_at", "ended_at", "last_at")


def job_of(row: Row) -> Job:
    """Make a job of a row of `COLUMNS`, or of `BRIEF`."""
    values = dict(zip(_NAMES, row, strict=True))
    for name in _TIMES:
        values[name] = from_micros(values[name])
    return Job(**{**values, "totals": load_totals(values["totals"]), "fold": load_fold(values["fold"]) if values["fold"] else Fold()})


def find_job(snapshot: Snapshot, job_id: str) -> Job | None:
    """Return the job that calls itself so."""
    row = snapshot.one(f"SELECT {COLUMNS} FROM job j WHERE j.job_id = ?", (job_id,))
    return job_of(row) if row else None


def new_job(tx: Transaction, job_id: str, reporter: str) -> Job:
    """Make a job that has said nothing yet; `save_job` writes it."""
    fold = Fold()
    return Job(
        id=new_id(tx.now),
        job_id=job_id,
        recorded_at=tx.now,
        reporter=reporter,
        state=fold.phase,
        unit=None,
        nodes=0,
        devices=0,
        started_at=None,
        ended_at=None,
        outcome=None,
        last_at=from_micros(0),
        events=0,
        totals=Ledger(),
        fold=fold,
    )


def save_job(tx: Transaction, job: Job) -> None:
    """Write the whole row."""
    marks = ", ".join("?" for _ in _NAMES)
    changes = ", ".join(f"{name} = excluded.{name}" for name in _NAMES[4:])
    values = [_stored(job, name) for name in _NAMES]
    tx.execute(
        f"INSERT INTO job ({', '.join(_NAMES)}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {changes}", values
    )


def _stored(job: Job, name: str) -> object:
    value = getattr(job, name)
    if name in _TIMES:
        return to_micros(value)
    if name == "totals":
        return dump_totals(value)
    return dump_fold(value) if name == "fold" else value


def bodies_of(snapshot: Snapshot, job: Job, event_ids: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Return time and body of those of these messages that are known."""
    found = {}
    for event_id in set(event_ids):
        row = snapshot.one("SELECT at, body FROM job_event WHERE job = ? AND event_id = ?", (job.id, event_id))
        if row is not None:
            found[event_id] = (int(row[0]), str(row[1]))
    return found


def list_events(snapshot: Snapshot, job: Job) -> list[JobEvent]:
    """Return all messages of a job, in no order."""
    rows = snapshot.all("SELECT event_id, at, body FROM job_event WHERE job = ?", (job.id,))
    return load_events((row[0], row[1], row[2]) for row in rows)


def insert_events(tx: Transaction, job: Job, events: Sequence[JobEvent]) -> None:
    """Keep messages, and which nodes their starts had. Raises Duplicate for an id that the job has used."""
    now = to_micros(tx.now)
    tx.many(
        "INSERT INTO job_event (job, event_id, at, recorded_at, body) VALUES (?, ?, ?, ?, ?)",
        [(job.id, one.event_id, one.at, now, dump_event(one)) for one in events],
    )
    nodes = {name for one in events if one.devices for name in one.nodes}
    if nodes:
        tx.many(
            "INSERT INTO job_node (job, node) VALUES (?, ?) ON CONFLICT DO NOTHING",
            [(job.id, name) for name in sorted(nodes)],
        )


def count_by_state(snapshot: Snapshot) -> dict[str, int]:
    """Return how many jobs are in each state."""
    return {row[0]: int(row[1]) for row in snapshot.all("SELECT state, COUNT(*) FROM job GROUP BY state")}


def text_of(event: JobEvent) -> tuple[int, str]:
    """Give time and body of a message as `bodies_of` has them."""
    return event.at, dump_event(event)


def list_nodes(snapshot: Snapshot, job: Job) -> list[str]:
    """Return every node that a start of the job named."""
    rows: list[Any] = snapshot.all("SELECT node FROM job_node WHERE job = ? ORDER BY node", (job.id,))
    return [row[0] for row in rows]
