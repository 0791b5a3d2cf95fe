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

    `fold` is what they amount to, `totals` the sums of its ledger, and `events` how many are kept. Those up to
    `sealed_at` are not, and `base` is what they amounted to. Rows of `BRIEF` have no base and an empty fold.
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
    sealed_at: datetime | None
    base: str | None
    fold: Fold


_NAMES = tuple(one.name for one in fields(Job))
COLUMNS = ", ".join(f"j.{name}" for name in _NAMES)
BRIEF = COLUMNS.replace("j.base", "NULL").replace("j.fold", "NULL")
"""The same without the fold, which may be long and which lists do not show."""

_TIMES = ("recorded_at", "started_at", "ended_at", "last_at", "sealed_at")


def job_of(row: Row) -> Job:
    """Make a job of a row of `COLUMNS`, or of `BRIEF`."""
    values = dict(zip(_NAMES, row, strict=True))
    for name in _TIMES:
        values[name] = from_micros(values[name])
    return Job(
        **{
            **values,
            "totals": load_totals(values["totals"]),
            "fold": load_fold(values["fold"]) if values["fold"] else Fold(),
        }
    )


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
        sealed_at=None,
        base=None,
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


def list_events(snapshot: Snapshot, job: Job, *, after: int) -> list[JobEvent]:
    """Return the messages of a job that are of a later time than so many microseconds, in no order."""
    rows = snapshot.all("SELECT event_id, at, body FROM job_event WHERE job = ? AND at > ?", (job.id, after))
    return load_events((row[0], row[1], row[2]) for row in rows)


def find_mark(snapshot: Snapshot, job: Job, *, before: int) -> Fold:
    """Return what the messages up to a time before that one amount to: the newest mark, or what is sealed."""
    row = snapshot.one("SELECT fold FROM job_mark WHERE job = ? AND at < ? ORDER BY at DESC LIMIT 1", (job.id, before))
    text = row[0] if row else job.base
    return load_fold(text) if text else Fold()


def drop_marks(tx: Transaction, job: Job, *, since: int) -> None:
    """Forget the marks that do not know of a message at that time."""
    tx.execute("DELETE FROM job_mark WHERE job = ? AND at >= ?", (job.id, since))


def save_mark(tx: Transaction, job: Job) -> None:
    """Keep what the messages amount to by now."""
    tx.execute(
        "INSERT INTO job_mark (job, at, recorded_at, fold) VALUES (?, ?, ?, ?) ON CONFLICT (job, at) DO UPDATE "
        "SET fold = excluded.fold, recorded_at = excluded.recorded_at",
        (job.id, job.fold.mark, to_micros(tx.now), dump_fold(job.fold)),
    )


def find_sealable(snapshot: Snapshot, recorded_before: datetime, limit: int) -> list[tuple[str, int]]:
    """Return the newest mark of each of so many jobs that was made before a time: our id of the job, and `at`."""
    rows = snapshot.all(
        f"SELECT job, MAX(at) FROM job_mark WHERE recorded_at < ? GROUP BY job ORDER BY job LIMIT {limit:d}",
        (to_micros(recorded_before),),
    )
    return [(row[0], int(row[1])) for row in rows]


def seal(tx: Transaction, row_id: str, at: int) -> None:
    """Let go of the messages up to a mark, and keep what they amounted to."""
    tx.execute(
        "UPDATE job SET sealed_at = ?, base = (SELECT m.fold FROM job_mark m WHERE m.job = job.id AND m.at = ?), "
        "events = events - (SELECT COUNT(*) FROM job_event e WHERE e.job = job.id AND e.at <= ?) WHERE id = ?",
        (at, at, at, row_id),
    )
    for table in ("job_event", "job_mark"):
        tx.execute(f"DELETE FROM {table} WHERE job = ? AND at <= ?", (row_id, at))


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


def text_of(event: JobEvent) -> tuple[int, str]:
    """Give time and body of a message as `bodies_of` has them."""
    return event.at, dump_event(event)


def list_nodes(snapshot: Snapshot, job: Job) -> list[str]:
    """Return every node that a start of the job named."""
    rows: list[Any] = snapshot.all("SELECT node FROM job_node WHERE job = ? ORDER BY node", (job.id,))
    return [row[0] for row in rows]
