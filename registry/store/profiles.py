# SPDX-License-Identifier: Apache-2.0
"""What have operators said that nodes should carry, and where have they accepted less for a while?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.store.database import Snapshot, Transaction, from_micros, new_id, to_micros


@dataclass(frozen=True, slots=True)
class Waiver:
    """An operator accepts `count` devices of a kind on a node until a time."""

    id: str
    node_id: str
    kind: str
    count: int
    until_at: datetime
    reason: str
    granted_by: str
    granted_at: datetime
    ended_at: datetime | None


_WAIVER = "id, node_id, kind, count, until_at, reason, granted_by, granted_at, ended_at"


def find_profile_body(snapshot: Snapshot, name: str) -> Any:
    """Return the body of a profile that an operator set, or None."""
    row = snapshot.one("SELECT body FROM profile WHERE name = ?", (name,))
    return row and json.loads(row[0])


def list_profile_bodies(snapshot: Snapshot) -> dict[str, Any]:
    """Return the bodies of all profiles that operators set."""
    return {name: json.loads(body) for name, body in snapshot.all("SELECT name, body FROM profile ORDER BY name")}


def save_profile(tx: Transaction, name: str, body: dict[str, Any]) -> None:
    """Write a profile, new or changed."""
    tx.execute(
        "INSERT INTO profile (name, body, updated_at) VALUES (?, ?, ?) "
        "ON CONFLICT (name) DO UPDATE SET body = excluded.body, updated_at = excluded.updated_at",
        (name, json.dumps(body), to_micros(tx.now)),
    )


def nodes_of_profile(snapshot: Snapshot, name: str) -> list[str]:
    """Return the ids of the nodes that last reported under this profile."""
    return [row[0] for row in snapshot.all("SELECT node_id FROM node_state WHERE profile = ?", (name,))]


def _waiver(row: Sequence[Any]) -> Waiver:
    id_, node_id, kind, count, until, reason, by, granted, ended = row
    at = from_micros
    return Waiver(id_, node_id, kind, count, at(until), reason, by, at(granted), at(ended))


def waivers_of(snapshot: Snapshot, node_id: str, now: datetime) -> dict[str, Waiver]:
    """Return the waivers in force on a node, by kind. One whose time is over is none, ended in the records or not."""
    rows = snapshot.all(
        f"SELECT {_WAIVER} FROM waiver WHERE node_id = ? AND ended_at IS NULL AND until_at > ?",
        (node_id, to_micros(now)),
    )
    return {row[2]: _waiver(row) for row in rows}


def open_waiver(snapshot: Snapshot, node_id: str, kind: str) -> Waiver | None:
    """Return the waiver of this kind that has not been ended in the records."""
    row = snapshot.one(
        f"SELECT {_WAIVER} FROM waiver WHERE node_id = ? AND kind = ? AND ended_at IS NULL", (node_id, kind)
    )
    return _waiver(row) if row else None


def overdue_waivers(snapshot: Snapshot, now: datetime) -> list[Waiver]:
    """Return the waivers whose time is over and whose end is not in the records yet."""
    rows = snapshot.all(f"SELECT {_WAIVER} FROM waiver WHERE ended_at IS NULL AND until_at <= ?", (to_micros(now),))
    return [_waiver(row) for row in rows]


def insert_waiver(
    tx: Transaction, *, node_id: str, kind: str, count: int, until_at: datetime, reason: str, by: str
) -> Waiver:
    """Write a new waiver; none of the kind may be open on the node."""
    waiver = Waiver(new_id(tx.now), node_id, kind, count, until_at, reason, by, tx.now, None)
    tx.execute(
        f"INSERT INTO waiver ({_WAIVER}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        (waiver.id, node_id, kind, count, to_micros(until_at), reason, by, to_micros(tx.now)),
    )
    return waiver


def end_waiver(tx: Transaction, waiver: Waiver) -> None:
    """End a waiver; it stays as history."""
    tx.execute("UPDATE waiver SET ended_at = ? WHERE id = ?", (to_micros(tx.now), waiver.id))
