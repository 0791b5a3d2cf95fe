# SPDX-License-Identifier: Apache-2.0
"""Which jobs failed, what was told of them, and which verdicts have been given?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from registry.domain.job_failures import JobFailure, Signal, Surroundings, Verdict, told
from registry.domain.times import parse_rfc3339
from registry.store.column_json import dump, load
from registry.store.database import Snapshot, Transaction, from_micros, to_micros
from registry.store.job_surroundings import dump_facts, load_facts

TELLINGS_MAX = 32
"""How many digests of what was told are kept: a repeat of an older message is taken for a new one."""


@dataclass(frozen=True, slots=True)
class Record:
    """A failed job with the verdict in force, which is the `revision`-th.

    `tellings` are digests of the messages about it, the newest last. `facts` has no faults: they are read anew.
    """

    id: str
    job_id: str
    failed_at: datetime
    started_at: datetime
    user_name: str | None
    exit_code: int | None
    signal: str | None
    reporter: str
    job: JobFailure
    tellings: tuple[str, ...]
    facts: Surroundings
    attribution: str
    cause: str | None
    confidence: int
    retry: str
    verdict: Mapping[str, Any]
    revision: int
    recorded_at: datetime
    judged_at: datetime


@dataclass(frozen=True, slots=True)
class Given:
    """One verdict as it was given, and because of what."""

    revision: int
    at: datetime
    because: str
    verdict: Mapping[str, Any]


_NAMES = tuple("told" if one.name == "job" else one.name for one in fields(Record))
COLUMNS = ", ".join(f"j.{name}" for name in _NAMES)
_TIMES = ("failed_at", "started_at", "recorded_at", "judged_at")


def record_of(row: Sequence[Any]) -> Record:
    """Make a record of a row of `COLUMNS`."""
    cells = dict(zip(_NAMES, row, strict=True))
    for name in _TIMES:
        cells[name] = from_micros(cells[name])
    job = job_of(load(cells.pop("told")))
    tellings, facts = tuple(load(cells.pop("tellings"))), load_facts(cells.pop("facts"))
    verdict = load(cells.pop("verdict"))
    return Record(**cells, job=job, tellings=tellings, facts=facts, verdict=verdict)


def job_of(said: Mapping[str, Any]) -> JobFailure:
    """Read what was told from the shape of the API."""
    signals = tuple(Signal(**{**one, "at": parse_rfc3339(one["at"])}) for one in said.get("signals", ()))
    times = {name: parse_rfc3339(said[name]) for name in ("started_at", "failed_at")}
    return JobFailure(**{**said, **times, "nodes": tuple(said["nodes"]), "signals": signals})


def find_by_id(snapshot: Snapshot, id_: str) -> Record | None:
    """Return the failure with our id."""
    row = snapshot.one(f"SELECT {COLUMNS} FROM job_failure j WHERE j.id = ?", (id_,))
    return record_of(row) if row else None


def find_by_key(snapshot: Snapshot, job_id: str, failed_at: datetime) -> Record | None:
    """Return the failure of this job at this moment."""
    row = snapshot.one(
        f"SELECT {COLUMNS} FROM job_failure j WHERE j.job_id = ? AND j.failed_at = ?", (job_id, to_micros(failed_at))
    )
    return record_of(row) if row else None


def near(snapshot: Snapshot, node: str, first_at: datetime, last_at: datetime) -> list[tuple[str, int]]:
    """Return the failures that something which happened on a node between two times may have to do with.

    Each with the number of signals that were told of it, the newest first.
    """
    rows: list[tuple[str, int]] = snapshot.all(
        "SELECT w.job_failure, j.signals FROM job_failure_node w JOIN job_failure j ON j.id = w.job_failure "
        "WHERE w.node = ? AND w.until_at >= ? AND w.from_at <= ? ORDER BY w.job_failure DESC",
        (node, to_micros(first_at), to_micros(last_at)),
    )
    return rows


def set_due(tx: Transaction, id_: str, because: str) -> None:
    """Note that a failure is to be judged anew, and why."""
    tx.execute("UPDATE job_failure SET due = ? WHERE id = ?", (because, id_))


def list_due(snapshot: Snapshot, limit: int) -> list[tuple[str, int, str]]:
    """Return the failures that are to be judged anew, those that were told first: with their signals and the reason."""
    rows: list[tuple[str, int, str]] = snapshot.all(
        f"SELECT j.id, j.signals, j.due FROM job_failure j WHERE j.due IS NOT NULL ORDER BY j.id LIMIT {limit:d}"
    )
    return rows


def set_done(tx: Transaction, id_: str) -> None:
    """Note that a failure was judged by all that is on record."""
    tx.execute("UPDATE job_failure SET due = NULL WHERE id = ?", (id_,))


def list_to_look_at(snapshot: Snapshot, now: datetime, limit: int) -> list[tuple[str, int]]:
    """Return the failures whose verdict is to be looked at once more by `now`, those that wait longest first.

    Each with the number of signals that were told of it.
    """
    rows: list[tuple[str, int]] = snapshot.all(
        f"SELECT j.id, j.signals FROM job_failure j WHERE j.look_at <= ? ORDER BY j.look_at, j.id LIMIT {limit:d}",
        (to_micros(now),),
    )
    return rows


def set_look(tx: Transaction, id_: str, at: datetime | None) -> None:
    """Note when a verdict is to be looked at once more; None when it is not."""
    tx.execute("UPDATE job_failure SET look_at = ? WHERE id = ?", (to_micros(at), id_))


def history_of(snapshot: Snapshot, id_: str) -> list[Given]:
    """Return every verdict that was given on a failure, the first one first."""
    rows = snapshot.all(
        "SELECT revision, at, because, verdict FROM job_failure_verdict WHERE job_failure = ? ORDER BY revision", (id_,)
    )
    return [Given(revision, from_micros(at), because, load(verdict)) for revision, at, because, verdict in rows]


def insert_record(tx: Transaction, record: Record, verdict: Verdict, window: tuple[datetime, datetime]) -> None:
    """Write a failure with its nodes, its window and its first verdict. Raises Duplicate for a key that is there."""
    tx.execute(
        f"INSERT INTO job_failure ({', '.join(_NAMES)}, signals) VALUES ({', '.join('?' * (len(_NAMES) + 1))})",
        (*_cells(record), len(record.job.signals)),
    )
    _write_nodes(tx, record, window)
    _write_verdict(tx, record, verdict, "told")


def update_record(
    tx: Transaction, record: Record, verdict: Verdict, because: str, window: tuple[datetime, datetime] | None = None
) -> None:
    """Put a later verdict in force; with a `window`, what was told of the job is another, too."""
    cells = dict(zip(_NAMES, _cells(record), strict=True))
    changes = ", ".join(f"{name} = ?" for name in _NAMES[1:])
    values = (*(cells[name] for name in _NAMES[1:]), len(record.job.signals), record.id)
    tx.execute(f"UPDATE job_failure SET {changes}, signals = ?, due = NULL WHERE id = ?", values)
    if window is not None:
        tx.execute("DELETE FROM job_failure_node WHERE job_failure = ?", (record.id,))
        _write_nodes(tx, record, window)
    tx.execute("DELETE FROM job_failure_device WHERE job_failure = ?", (record.id,))
    _write_verdict(tx, record, verdict, because)


def _cells(record: Record) -> tuple[Any, ...]:
    stored = {
        "told": dump(told(record.job)),
        "tellings": dump(record.tellings[-TELLINGS_MAX:]),
        "facts": dump_facts(record.facts),
        "verdict": dump(record.verdict),
        **{name: to_micros(getattr(record, name)) for name in _TIMES},
    }
    return tuple(stored[name] if name in stored else getattr(record, name) for name in _NAMES)


def _write_nodes(tx: Transaction, record: Record, window: tuple[datetime, datetime]) -> None:
    begin, end = map(to_micros, window)
    tx.many(
        "INSERT INTO job_failure_node (job_failure, node, from_at, until_at) VALUES (?, ?, ?, ?)",
        [(record.id, name, begin, end) for name in record.job.nodes],
    )


def _write_verdict(tx: Transaction, record: Record, verdict: Verdict, because: str) -> None:
    tx.many(
        "INSERT INTO job_failure_device (job_failure, device_id) VALUES (?, ?)",
        [(record.id, one) for one in verdict.devices],
    )
    tx.execute(
        "INSERT INTO job_failure_verdict (job_failure, revision, at, because, verdict) VALUES (?, ?, ?, ?, ?)",
        (record.id, record.revision, to_micros(record.judged_at), because, dump(record.verdict)),
    )
