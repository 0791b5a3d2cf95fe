# SPDX-License-Identifier: Apache-2.0
"""Where did the time of all jobs and of all nodes go, in any window that ends about now?

Sums stand in rows of two widths: a short window is read from the fine ones, a long one from the coarse ones, and either
begins where a row begins. The fine ones are kept for two days, which is more than the longest window they are read for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from registry.domain.capacity import CapacityState, Place
from registry.domain.failures import Cause
from registry.domain.goodput import BUCKET, Amount, Ledger, Slot
from registry.store.database import Snapshot, Transaction, from_micros, to_micros
from registry.store.fold_column import slot_of

HOUR = 3_600_000_000
WIDTHS = (BUCKET, HOUR)
FINE_WINDOW_SECONDS = 6 * 3600
"""The longest window that is read from fine rows: 72 of them by cause."""

KEPT = {BUCKET: timedelta(days=2), HOUR: timedelta(days=400)}
"""How long rows are kept: an objective looks back for 366 days at most."""

_COARSE = 1000
"""Device-time is added up in milliseconds: a year of a million devices is more microseconds than 64 bits hold."""

_JOBS = (
    "INSERT INTO job_tally (width, at, size, kind, cause, micros, node_micros, device_micros, begun) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (width, at, size, kind, cause) DO UPDATE SET "
    "micros = job_tally.micros + excluded.micros, node_micros = job_tally.node_micros + excluded.node_micros, "
    "device_micros = job_tally.device_micros + excluded.device_micros, "
    "begun = job_tally.begun + excluded.begun"
)
_CAPACITY = (
    "INSERT INTO capacity_tally (width, at, profile, state, cause, node_micros, device_micros) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (width, at, profile, state, cause) DO UPDATE SET "
    "node_micros = capacity_tally.node_micros + excluded.node_micros, "
    "device_micros = capacity_tally.device_micros + excluded.device_micros"
)
_SEEN = (
    "INSERT INTO capacity_seen (width, at, micros) VALUES (?, ?, ?) ON CONFLICT (width, at) DO UPDATE SET "
    "micros = capacity_seen.micros + excluded.micros"
)


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much of something there was: nodes and devices, or, over time, both times microseconds."""

    nodes: int = 0
    devices: int = 0

    def plus(self, other: Capacity) -> Capacity:
        """Add another."""
        return Capacity(self.nodes + other.nodes, self.devices + other.devices)


# --- jobs -------------------------------------------------------------------------------------------------------------


def add_jobs(tx: Transaction, delta: Mapping[Slot, Amount]) -> None:
    """Add what a job's ledger changed by."""
    rows = []
    for width in WIDTHS:
        wide = Ledger()
        for slot, amount in delta.items():
            wide.put(slot._replace(bucket=slot.bucket - slot.bucket % width), amount)
        rows += [(width, at, size, kind, cause or "", *amount) for (at, size, kind, cause), amount in wide.items()]
    tx.many(_JOBS, rows)


def sum_jobs(snapshot: Snapshot, now: datetime, seconds: int) -> Ledger:
    """Return where the time of all jobs went in a window up to now, by size class, kind and cause."""
    rows = snapshot.all(
        "SELECT size, kind, cause, SUM(micros), SUM(node_micros), SUM(device_micros / 1000), SUM(begun) "
        "FROM job_tally WHERE width = ? AND at >= ? GROUP BY size, kind, cause",
        _since(now, seconds),
    )
    found = Ledger()
    for size, kind, cause, micros, nodes, devices, count in rows:
        amount = Amount(int(micros), int(nodes), int(devices) * _COARSE, int(count))
        found.put(slot_of(0, int(size), kind, cause or None), amount)
    return found


# --- capacity ---------------------------------------------------------------------------------------------------------


def find_look(snapshot: Snapshot) -> datetime | None:
    """Return when the nodes were looked at last."""
    row = snapshot.one("SELECT last_at FROM capacity_look WHERE id = 1")
    return from_micros(row[0]) if row else None


def set_look(tx: Transaction) -> None:
    """Say that they are looked at now."""
    tx.execute(
        "INSERT INTO capacity_look (id, last_at) VALUES (1, ?) ON CONFLICT (id) DO UPDATE "
        "SET last_at = excluded.last_at",
        (to_micros(tx.now),),
    )


def add_capacity(tx: Transaction, seen: Mapping[tuple[str, Place], Capacity], micros: int) -> None:
    """Let what was seen, by profile and place, stand for the last so many microseconds."""
    for width in WIDTHS:
        at = to_micros(tx.now) - to_micros(tx.now) % width
        rows = [
            (width, at, profile, place.state, place.cause or "", one.nodes * micros, one.devices * micros)
            for (profile, place), one in seen.items()
        ]
        tx.many(_CAPACITY, rows)
        tx.execute(_SEEN, (width, at, micros))


def sum_capacity(snapshot: Snapshot, now: datetime, seconds: int) -> dict[Place, Capacity]:
    """Return where the time of all nodes went in a window up to now."""
    rows = snapshot.all(
        "SELECT state, cause, SUM(node_micros), SUM(device_micros / 1000) FROM capacity_tally "
        "WHERE width = ? AND at >= ? GROUP BY state, cause",
        _since(now, seconds),
    )
    return {
        Place(CapacityState(state), Cause(cause) if cause else None): Capacity(int(nodes), int(devices) * _COARSE)
        for state, cause, nodes, devices in rows
    }


def sum_seen(snapshot: Snapshot, now: datetime, seconds: int) -> int:
    """Return for how many microseconds of a window up to now anybody looked at the nodes."""
    row = snapshot.one("SELECT SUM(micros) FROM capacity_seen WHERE width = ? AND at >= ?", _since(now, seconds))
    return int(row[0] or 0) if row else 0


def forget_old(tx: Transaction) -> None:
    """Drop the rows that no window reaches any more."""
    for width, kept in KEPT.items():
        limit = to_micros(tx.now - kept)
        for table in ("job_tally", "capacity_tally", "capacity_seen"):
            tx.execute(f"DELETE FROM {table} WHERE width = ? AND at < ?", (width, limit))


def list_owned(snapshot: Snapshot) -> list[str]:
    """Return the names of all nodes that are not retired, in an order that stays."""
    return [row[0] for row in snapshot.all("SELECT name FROM node WHERE retired_at IS NULL ORDER BY id")]


def newest_fault_cause(snapshot: Snapshot, name: str) -> str | None:
    """Return whose doing the newest fault of a node was that set its passes to zero in this boot, if one did."""
    row = snapshot.one(
        "SELECT f.cause FROM node n JOIN node_state s ON s.node_id = n.id JOIN failure f ON f.node_id = n.id "
        "WHERE n.name = ? AND f.boot_id = s.boot_id AND f.effect <> 'record' AND f.muted IS NULL "
        "AND f.state = 'active' ORDER BY f.last_at DESC LIMIT 1",
        (name,),
    )
    return str(row[0]) if row else None


def _since(now: datetime, seconds: int) -> tuple[int, int]:
    """Give the width of rows that a window is read from, and where its first row begins."""
    width = BUCKET if seconds <= FINE_WINDOW_SECONDS else HOUR
    start = to_micros(now) - seconds * 1_000_000
    return width, start - start % width
