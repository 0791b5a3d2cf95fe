# SPDX-License-Identifier: Apache-2.0
"""What can be told of the fleet as a whole: what is held by which cause, what fails most, who is silent?

Those that look at every device or at a month of failures are for the count that is kept; the rest costs what the few
rows cost that it is about.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.store.database import Snapshot, Transaction, from_micros, to_micros
from registry.store.devices import in_chunks
from registry.store.tallies import HOUR

COUNTS = "f.effect <> 'record' AND f.state <> 'withdrawn' AND f.muted IS NULL"
"""Of a failure `f`: that it says something of the hardware, and still stands. No index fits this, which is as it should
be: nearly all failures do."""


@dataclass(frozen=True, slots=True)
class FailingDevice:
    """A device by its failures since a time: how many records, on how many nodes, and when the last was."""

    id: str
    kind: str
    serial: str | None
    uuid: str | None
    model: str | None
    failures: int
    nodes: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Meeting:
    """A held device that turned up on a node: where, since when, and until when unless it is still there."""

    device_id: str
    kind: str
    serial: str | None
    uuid: str | None
    model: str | None
    node: str
    since: datetime
    until: datetime | None


# --- the count that is kept -------------------------------------------------------------------------------------------


def find_count(snapshot: Snapshot) -> tuple[datetime, dict[str, Any]] | None:
    """Return the newest count that was kept, and when it was made."""
    row = snapshot.one("SELECT at, body FROM fleet_count WHERE id = 1")
    return (from_micros(row[0]), json.loads(row[1])) if row else None


def save_count(tx: Transaction, body: Mapping[str, Any]) -> None:
    """Keep a count in place of the one before."""
    tx.execute(
        "INSERT INTO fleet_count (id, at, body) VALUES (1, ?, ?) ON CONFLICT (id) DO UPDATE "
        "SET at = excluded.at, body = excluded.body",
        (to_micros(tx.now), json.dumps(body)),
    )


def count_gpus(snapshot: Snapshot) -> Counter[tuple[str | None, str | None]]:
    """Return how many GPUs there are by (model, driver), the driver as the newest list says it. Looks at them all."""
    rows = snapshot.all("SELECT model, firmware, COUNT(*) FROM device WHERE kind = 'gpu' GROUP BY model, firmware")
    return _by_driver(rows)


def count_gpu_failures(snapshot: Snapshot, since: datetime) -> Counter[tuple[str | None, str | None]]:
    """Return how many failures of GPUs there were since a time by (model, driver of today)."""
    rows = snapshot.all(
        "SELECT d.model, d.firmware, COUNT(*) FROM failure f CROSS JOIN device d "
        f"WHERE d.id = f.device_id AND f.last_at >= ? AND {COUNTS} AND d.kind = 'gpu' GROUP BY d.model, d.firmware",
        (to_micros(since),),
    )
    return _by_driver(rows)


def _by_driver(rows: Iterable[tuple[Any, ...]]) -> Counter[tuple[str | None, str | None]]:
    found: Counter[tuple[str | None, str | None]] = Counter()
    for model, firmware, count in rows:
        found[model, json.loads(firmware).get("driver")] += count
    return found


def first_registered(snapshot: Snapshot) -> datetime | None:
    """Return when the first device became known."""
    row = snapshot.one("SELECT MIN(registered_at) FROM device")
    return from_micros(row[0]) if row and row[0] is not None else None


def list_failing(snapshot: Snapshot, since: datetime, limit: int) -> list[FailingDevice]:
    """Return the devices with the most failures since a time, those with the most first."""
    # Not by the plain column: by its index every failure there ever was would be walked through, device by device.
    device_id = "COALESCE(f.device_id, '')"
    rows = snapshot.all(
        "SELECT t.device_id, d.kind, d.serial, d.uuid, d.model, t.failures, t.nodes, t.last_at FROM ("
        f"SELECT {device_id} AS device_id, COUNT(*) AS failures, COUNT(DISTINCT f.node_id) AS nodes, "
        "MAX(f.last_at) AS last_at "
        f"FROM failure f WHERE f.last_at >= ? AND {device_id} <> '' AND {COUNTS} "
        f"GROUP BY {device_id} ORDER BY failures DESC, last_at DESC LIMIT {limit:d}) t "
        "JOIN device d ON d.id = t.device_id ORDER BY t.failures DESC, t.last_at DESC",
        (to_micros(since),),
    )
    return [
        FailingDevice(id_, kind, serial, uuid, model, failures, nodes, from_micros(last_at))
        for id_, kind, serial, uuid, model, failures, nodes, last_at in rows
    ]


# --- what is read at each look ----------------------------------------------------------------------------------------


def count_holds_by_cause(snapshot: Snapshot, now: datetime) -> Counter[str | None]:
    """Return how many holds are in force by their cause; None is that of those that name none."""
    sql = (
        "SELECT q.cause, COUNT(*) FROM quarantine q WHERE q.state = 'open' "
        "AND (q.release_policy <> 'at_expiry' OR q.expires_at > ?) GROUP BY q.cause"
    )
    return Counter(dict(snapshot.all(sql, (to_micros(now),))))


def list_silent(snapshot: Snapshot, heard_since: datetime, now: datetime, limit: int) -> list[tuple[str, datetime]]:
    """Return nodes that are expected to report and have not since a time, those that fell silent last first."""
    rows = snapshot.all(
        "SELECT n.name, s.reported_at FROM node_state s JOIN node n ON n.id = s.node_id WHERE s.reported_at < ? "
        "AND n.retired_at IS NULL AND (n.maintenance_until IS NULL OR n.maintenance_until <= ?) "
        f"ORDER BY s.reported_at DESC LIMIT {limit:d}",
        (to_micros(heard_since), to_micros(now)),
    )
    return [(name, from_micros(at)) for name, at in rows]


def list_met_again(snapshot: Snapshot, since: datetime, limit: int) -> list[Meeting]:
    """Return held devices that turned up since a time on another node than they failed on, the newest first.

    A hold counts that was in force then. It costs what the holds cost that are open or were released since.
    """
    held = " UNION ".join(
        f"SELECT {unit} AS device_id, q.opened_at, q.released_at FROM quarantine q "
        # From the few holds to what they bind: there are more of both than of holds in force.
        f"CROSS JOIN hold_target t{join} WHERE t.quarantine_id = q.id AND t.kind = '{kind}'{also} AND {which}"
        for kind, unit, join, also in (
            ("unit", "t.ref", "", ""),
            ("board", "u.id", " CROSS JOIN device u", " AND u.board_id = t.ref"),
        )
        for which in ("q.state = 'open'", "q.released_at >= ?")
    )
    rows = snapshot.all(
        f"WITH held AS ({held}) "
        "SELECT DISTINCT d.id, d.kind, d.serial, d.uuid, d.model, n.name, p.since_at, p.until_at FROM held h "
        "CROSS JOIN placement p CROSS JOIN node n CROSS JOIN device d "
        "WHERE p.device_id = h.device_id AND n.id = p.node_id AND d.id = p.device_id AND p.since_at >= ? "
        "AND (h.released_at IS NULL OR p.since_at < h.released_at) "
        "AND (p.until_at IS NULL OR p.until_at > h.opened_at) "
        f"AND EXISTS (SELECT 1 FROM failure f WHERE f.device_id = p.device_id AND {COUNTS} "
        "AND f.node_id IS NOT NULL AND f.node_id <> p.node_id) "
        f"ORDER BY p.since_at DESC, d.id LIMIT {limit:d}",
        (to_micros(since),) * 3,
    )
    return [
        Meeting(id_, kind, serial, uuid, model, node, from_micros(since_at), from_micros(until_at))
        for id_, kind, serial, uuid, model, node, since_at, until_at in rows
    ]


def failed_on(snapshot: Snapshot, device_ids: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of the nodes on which each of these devices failed, in their order."""
    rows = in_chunks(
        snapshot,
        lambda marks: (
            f"SELECT DISTINCT f.device_id, n.name FROM failure f JOIN node n ON n.id = f.node_id WHERE {COUNTS} "
            f"AND f.device_id IN ({marks})"
        ),
        device_ids,
    )
    found: dict[str, list[str]] = {}
    for device_id, name in sorted(rows):
        found.setdefault(device_id, []).append(name)
    return found


def capacity_by_hour(snapshot: Snapshot, since: datetime) -> dict[datetime, dict[str, float]]:
    """Return how many devices were in each state of capacity in each hour since a time, on average while seen."""
    start = to_micros(since) - to_micros(since) % HOUR
    looks = snapshot.all("SELECT at, micros FROM capacity_seen WHERE width = ? AND at >= ?", (HOUR, start))
    seen: dict[int, int] = dict(looks)
    rows = snapshot.all(
        "SELECT at, state, SUM(device_micros / 1000) FROM capacity_tally WHERE width = ? AND at >= ? "
        "GROUP BY at, state",
        (HOUR, start),
    )
    found: dict[datetime, dict[str, float]] = {}
    for at, state, millis in sorted(rows):
        if seen.get(at):
            found.setdefault(from_micros(at), {})[state] = float(millis) * 1000 / seen[at]
    return found
