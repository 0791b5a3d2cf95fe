# SPDX-License-Identifier: Apache-2.0
"""What is in a device's past, by the newest first and never more than a page can show? Flat, however long it lives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from registry.domain.events import EventType
from registry.store.database import Row, Snapshot, Transaction, from_micros, new_id, to_micros
from registry.store.failures import COLUMNS, Failure, failure_of

EVENTS_LOOKED_AT = 2000
"""How many of a device's newest events are looked through for passes: some milliseconds."""

FAILURES_LOOKED_AT = 500
"""How many of a device's failures are asked for their sights, those seen last."""


@dataclass(frozen=True, slots=True)
class Place:
    """One placement, with what is known of the machine. `chassis` is its serial, where the instance gave one."""

    node: str
    node_id: str
    slot: str | None
    since: datetime
    until: datetime | None
    ended_by: str | None
    missing_since: datetime | None
    provider_id: str
    chassis: str | None


@dataclass(frozen=True, slots=True)
class Group:
    """The failures of one code in one place. `counted` have an effect: neither muted nor withdrawn."""

    code: str
    node: str | None
    node_id: str | None
    slot: str | None
    chassis: str | None
    failures: int
    times: int
    counted: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class SightSeen:
    """One sight of a failure. `state` and `muted` are those of the failure."""

    at: datetime
    count: int
    code: str
    severity: str
    state: str
    muted: str | None
    node: str | None
    slot: str | None


@dataclass(frozen=True, slots=True)
class Note:
    """What a person wrote about a device."""

    id: str
    device_id: str
    text: str
    noted_by: str
    noted_at: datetime


def list_places(snapshot: Snapshot, device_id: str, limit: int) -> tuple[list[Place], int]:
    """Return the newest placements of a device, and how many it has had."""
    rows = snapshot.all(
        "SELECT n.name, p.node_id, p.slot, p.since_at, p.until_at, p.ended_by, p.missing_since, l.provider_id, "
        "l.chassis FROM placement p JOIN node n ON n.id = p.node_id JOIN instance l ON l.id = p.instance_id "
        "WHERE p.device_id = ? ORDER BY p.since_at DESC, p.id DESC LIMIT ?",
        (device_id, limit),
    )
    return [_place(row) for row in rows], _count(snapshot, "placement", device_id)


def _place(row: Row) -> Place:
    node, node_id, slot, since, until, ended_by, missing, provider_id, chassis = row
    times = (from_micros(since), from_micros(until))
    return Place(node, node_id, slot, *times, ended_by, from_micros(missing), provider_id, chassis)


def _count(snapshot: Snapshot, table: str, device_id: str) -> int:
    row = snapshot.one(f"SELECT count(*) FROM {table} WHERE device_id = ?", (device_id,))
    return int(row[0]) if row else 0


_SEEN_AT = "CASE WHEN f.occurred_at < f.recorded_at THEN f.occurred_at ELSE f.recorded_at END"
"""The reporter's claim, but never later than its receipt. No claim compares as NULL, which CASE takes for no."""


def list_groups(snapshot: Snapshot, device_id: str) -> list[Group]:
    """Return the failures of a device by code and place."""
    rows = snapshot.all(
        "SELECT f.code, n.name, f.node_id, f.slot, l.chassis, count(*), sum(f.count), "
        "sum(CASE WHEN f.state = 'active' AND f.muted IS NULL THEN 1 ELSE 0 END), "
        f"min({_SEEN_AT}), max(f.last_at) FROM failure f LEFT JOIN node n ON n.id = f.node_id "
        "LEFT JOIN instance l ON l.id = f.instance_id WHERE f.device_id = ? "
        "GROUP BY f.code, n.name, f.node_id, f.slot, l.chassis",
        (device_id,),
    )
    return [_group(row) for row in rows]


def _group(row: Row) -> Group:
    code, node, node_id, slot, chassis, failures, times, counted, first, last = row
    counts = (int(failures), int(times), int(counted))
    return Group(code, node, node_id, slot, chassis, *counts, from_micros(first), from_micros(last))


def list_sights(snapshot: Snapshot, device_id: str, limit: int) -> list[SightSeen]:
    """Return the newest sights of a device's failures."""
    rows = snapshot.all(
        "SELECT s.first_at, s.count, f.code, f.severity, f.state, f.muted, n.name, f.slot "
        "FROM (SELECT * FROM failure WHERE device_id = ? ORDER BY last_at DESC LIMIT ?) f "
        "JOIN sight s ON s.failure = f.id LEFT JOIN node n ON n.id = f.node_id "
        "WHERE s.count > 0 ORDER BY s.first_at DESC, s.id DESC LIMIT ?",
        (device_id, FAILURES_LOOKED_AT, limit),
    )
    return [SightSeen(from_micros(row[0]), int(row[1]), *row[2:]) for row in rows]


def page_failures(snapshot: Snapshot, device_id: str, after: str, limit: int) -> list[tuple[Failure, str | None]]:
    """Return failures of a device in the order they were recorded, each with the name of its node."""
    rows = snapshot.all(
        f"SELECT {COLUMNS}, n.name FROM failure f LEFT JOIN node n ON n.id = f.node_id "
        "WHERE f.device_id = ? AND f.id > ? ORDER BY f.id LIMIT ?",
        (device_id, after, limit),
    )
    return [(failure_of(row[:-1]), row[-1]) for row in rows]


def failed_in_slot(snapshot: Snapshot, node_id: str, slot: str, besides: str, limit: int) -> list[tuple[Failure, str]]:
    """Return failures that other devices showed in a slot of a node, newest first, each with what names its device."""
    rows = snapshot.all(
        f"SELECT {COLUMNS}, COALESCE(d.serial, d.uuid, d.id) FROM (SELECT DISTINCT p.device_id AS id FROM placement p "
        "WHERE p.node_id = ? AND p.slot = ? AND p.device_id <> ?) o JOIN failure f ON f.device_id = o.id "
        "JOIN device d ON d.id = o.id "
        "WHERE f.node_id = ? AND f.slot = ? AND f.state = 'active' AND f.muted IS NULL "
        "ORDER BY f.last_at DESC, f.id DESC LIMIT ?",
        (node_id, slot, besides, node_id, slot, limit),
    )
    return [(failure_of(row[:-1]), row[-1]) for row in rows]


def list_passes(snapshot: Snapshot, device_id: str, limit: int) -> tuple[list[tuple[datetime, str | None]], bool]:
    """Return when clean runs that covered a device counted, and on which node, newest first; and if these are all."""
    last = count_events(snapshot, device_id)
    rows = snapshot.all(
        "SELECT e.at, (SELECT s.id FROM event_subject s WHERE s.event = e.sequence AND s.kind = 'node' LIMIT 1) "
        "FROM event_subject o CROSS JOIN event e WHERE o.kind = 'device' AND o.id = ? AND o.ordinal > ? "
        "AND e.sequence = o.event AND e.type = ? ORDER BY o.ordinal DESC LIMIT ?",
        (device_id, last - EVENTS_LOOKED_AT, EventType.PASS_COUNTED, limit + 1),
    )
    is_all = last <= EVENTS_LOOKED_AT and len(rows) <= limit
    return [(from_micros(at), node) for at, node in rows[:limit]], is_all


def count_events(snapshot: Snapshot, device_id: str) -> int:
    """Return how many events a device has: each is counted on from the one before."""
    row = snapshot.one("SELECT max(ordinal) FROM event_subject WHERE kind = 'device' AND id = ?", (device_id,))
    return int(row[0] or 0) if row else 0


def insert_note(tx: Transaction, device_id: str, text: str, *, by: str) -> Note:
    """Keep what a person wrote about a device."""
    note = Note(new_id(tx.now), device_id, text, by, tx.now)
    tx.execute(
        "INSERT INTO device_note (id, device_id, text, noted_by, noted_at) VALUES (?, ?, ?, ?, ?)",
        (note.id, device_id, text, by, to_micros(tx.now)),
    )
    return note


def list_notes(snapshot: Snapshot, device_id: str, limit: int) -> list[Note]:
    """Return the newest notes about a device, the newest first."""
    rows = snapshot.all(
        "SELECT id, text, noted_by, noted_at FROM device_note WHERE device_id = ? ORDER BY id DESC LIMIT ?",
        (device_id, limit),
    )
    return [Note(id_, device_id, text, by, from_micros(at)) for id_, text, by, at in rows]


def models_named(snapshot: Snapshot, limit: int) -> list[str]:
    """Return the models that devices have, in their order: by steps along an index, one for each word."""
    rows = snapshot.all(
        "WITH RECURSIVE word(text) AS (SELECT MIN(model) FROM device UNION ALL "
        "SELECT (SELECT MIN(d.model) FROM device d WHERE d.model > w.text) FROM word w WHERE w.text IS NOT NULL) "
        "SELECT text FROM word WHERE text IS NOT NULL LIMIT ?",
        (limit,),
    )
    return [row[0] for row in rows]
