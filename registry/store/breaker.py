# SPDX-License-Identifier: Apache-2.0
"""Which nodes have rules put out of work of late, and of how many?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from registry.store.database import Snapshot, Transaction, to_micros
from registry.store.devices import in_chunks


@dataclass(frozen=True, slots=True)
class Held:
    """A node that a rule has held, with the profile and the zone that it had then."""

    node_id: str
    profile: str
    zone: str | None


def carrying(snapshot: Snapshot, device_ids: Iterable[str]) -> list[Held]:
    """Return the nodes on which these units are placed."""
    rows = in_chunks(
        snapshot,
        lambda marks: (
            "SELECT DISTINCT s.node_id, s.profile, s.zone FROM placement p JOIN node_state s ON s.node_id = p.node_id "
            f"WHERE p.until_at IS NULL AND p.device_id IN ({marks})"
        ),
        device_ids,
    )
    return [Held(*row) for row in rows]


def as_node(snapshot: Snapshot, name: str) -> list[Held]:
    """Return the node of this name, if it has reported."""
    rows = snapshot.all(
        "SELECT s.node_id, s.profile, s.zone FROM node n JOIN node_state s ON s.node_id = n.id WHERE n.name = ?",
        (name,),
    )
    return [Held(*row) for row in rows]


def insert_newly_held(tx: Transaction, hold_id: str, held: Held) -> None:
    """Note that a rule's hold has put a node out of work."""
    tx.execute(
        "INSERT INTO newly_held (quarantine_id, node_id, opened_at, profile, zone) VALUES (?, ?, ?, ?, ?)",
        (hold_id, held.node_id, to_micros(tx.now), held.profile, held.zone),
    )


def held_since(snapshot: Snapshot, since: datetime) -> list[Held]:
    """Return the nodes that rules have held later than a time, whether they are free again or not."""
    rows = snapshot.all(
        "SELECT DISTINCT node_id, profile, zone FROM newly_held WHERE opened_at > ?", (to_micros(since),)
    )
    return [Held(*row) for row in rows]


def count_fleet(snapshot: Snapshot, since: datetime) -> int:
    """Return how many unretired nodes have reported since a time."""
    return _count(snapshot, since)


def count_profile(snapshot: Snapshot, profile: str, since: datetime) -> int:
    """Return the same of those that name a profile."""
    return _count(snapshot, since, "s.profile", profile)


def count_zone(snapshot: Snapshot, zone: str | None, since: datetime) -> int:
    """Return the same of those in a zone; nodes that name none are in one together."""
    return _count(snapshot, since, "s.zone", zone)


def _count(snapshot: Snapshot, since: datetime, column: str | None = None, value: str | None = None) -> int:
    """Count all, which an index gives, and take off the silent and the retired ones, which are few.

    Counting those that reported would look at every row: all of them did.
    """
    moment, params = to_micros(since), (value,) if value else ()
    is_one = "" if column is None else f"WHERE {column} {'= ?' if value else 'IS NULL'}"
    # Not by the index of the column, which nearly all rows may share.
    also = "" if column is None else f"AND COALESCE({column}, '') = {'?' if value else repr('')}"
    row = snapshot.one(
        f"SELECT (SELECT COUNT(*) FROM node_state s {is_one}) - "
        f"(SELECT COUNT(*) FROM node_state s WHERE s.reported_at < ? {also}) - "
        "(SELECT COUNT(*) FROM node n CROSS JOIN node_state s WHERE n.retired_at IS NOT NULL AND s.node_id = n.id "
        f"AND s.reported_at >= ? {also})",
        (*params, moment, *params, moment, *params),
    )
    return int(row[0]) if row else 0
