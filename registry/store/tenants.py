# SPDX-License-Identifier: Apache-2.0
"""Who was in the slots of a node before, did it fail there, and which machines and boots has the name had?

Each query walks an index from its end and stops after a few rows, however long the node has lived.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from registry.store.database import Snapshot, from_micros, to_micros
from registry.store.placements import Placement

# One probe of the index (node_id, slot, since_at) for each slot, not one row for each device that was ever there.
_SLOTS = (
    "WITH RECURSIVE seen(slot) AS ("
    "SELECT MIN(slot) FROM placement WHERE node_id = ? UNION ALL "
    "SELECT (SELECT MIN(p.slot) FROM placement p WHERE p.node_id = ? AND p.slot > s.slot) FROM seen s "
    "WHERE s.slot IS NOT NULL) SELECT slot FROM seen WHERE slot IS NOT NULL LIMIT ?"
)


@dataclass(frozen=True, slots=True)
class FaultHere:
    """A fault that counted while its device was in a slot."""

    code: str
    severity: str
    count: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Life:
    """One instance of a node's name; `boots` is how many boots it has had."""

    id: str
    provider_id: str
    ordinal: int
    started_at: datetime
    ended_at: datetime | None
    boots: int


@dataclass(frozen=True, slots=True)
class BootOfLife:
    """One boot of an instance; the first has ordinal 1."""

    boot_id: str
    ordinal: int
    started_at: datetime


def slots_ever(snapshot: Snapshot, node_id: str, limit: int) -> list[str]:
    """Return the slots in which a node ever had a device, in their order, at most `limit`."""
    return [row[0] for row in snapshot.all(_SLOTS, (node_id, node_id, limit))]


def faults_during(snapshot: Snapshot, stay: Placement, limit: int) -> list[FaultHere]:
    """Return the faults of a device that counted while it was in a slot, the newest first.

    Left out is what has no effect: recorded only, muted, or withdrawn.
    """
    # COALESCE keeps the database to the faults of the device: a node has those of all that were ever on it.
    rows = snapshot.all(
        "SELECT code, severity, count, last_at FROM failure WHERE device_id = ? AND last_at >= ? AND last_at <= ? "
        "AND COALESCE(node_id, '') = ? AND effect <> 'record' AND muted IS NULL AND state = 'active' "
        "ORDER BY last_at DESC LIMIT ?",
        (stay.device_id, to_micros(stay.since_at), _end(stay), stay.node_id, limit),
    )
    return [FaultHere(code, severity, count, from_micros(last_at)) for code, severity, count, last_at in rows]


def _end(stay: Placement) -> int:
    assert stay.until_at is not None  # noqa: S101 - only closed placements are asked about
    return int(to_micros(stay.until_at))


def lives_of(snapshot: Snapshot, node_id: str, limit: int) -> list[Life]:
    """Return the instances that bore a node's name, the newest first."""
    rows = snapshot.all(
        "SELECT i.id, i.provider_id, i.ordinal, i.started_at, i.ended_at, "
        "(SELECT COUNT(*) FROM boot b WHERE b.instance_id = i.id) FROM ("
        "SELECT * FROM instance WHERE node_id = ? ORDER BY ordinal DESC LIMIT ?) i ORDER BY i.ordinal DESC",
        (node_id, limit),
    )
    at = from_micros
    return [
        Life(id_, machine, number, at(began), at(ended), boots) for id_, machine, number, began, ended, boots in rows
    ]


def boots_of(snapshot: Snapshot, instance_id: str, limit: int) -> list[BootOfLife]:
    """Return the boots of an instance, the newest first."""
    rows = snapshot.all(
        "SELECT boot_id, ordinal, started_at FROM boot WHERE instance_id = ? ORDER BY ordinal DESC LIMIT ?",
        (instance_id, limit),
    )
    return [BootOfLife(boot_id, ordinal, from_micros(started)) for boot_id, ordinal, started in rows]
