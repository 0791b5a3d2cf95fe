# SPDX-License-Identifier: Apache-2.0
"""Which contradictions about identity are open, and whom do they block?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from registry.domain.known import Fingerprint
from registry.store.database import Snapshot, Transaction, from_micros, to_micros


@dataclass(frozen=True, slots=True)
class Conflict:
    """What a list of a node showed and the records contradict. `entry` is the line of the list."""

    id: str
    rule: str
    key: str
    state: str
    node_id: str
    instance_id: str
    kind: str
    reason: str
    entry: dict[str, Any]
    fingerprint: Fingerprint
    opened_at: datetime
    resolved_at: datetime | None = None
    resolved_by: str | None = None
    resolved_as: str | None = None
    resolve_reason: str | None = None


_FIELDS = tuple(one.name for one in fields(Conflict))
COLUMNS = ", ".join(f"c.{name}" for name in _FIELDS)


def conflict_of(row: Sequence[Any]) -> Conflict:
    """Make a conflict of a row of `COLUMNS`."""
    values = dict(zip(_FIELDS, row, strict=True))
    for name in ("opened_at", "resolved_at"):
        values[name] = from_micros(values[name])
    values["entry"] = json.loads(values["entry"])
    values["fingerprint"] = Fingerprint(**json.loads(values["fingerprint"]))
    return Conflict(**values)


def find_conflict(snapshot: Snapshot, conflict_id: str) -> Conflict | None:
    """Return the conflict with this id."""
    row = snapshot.one(f"SELECT {COLUMNS} FROM conflict c WHERE c.id = ?", (conflict_id,))
    return conflict_of(row) if row else None


def open_of_node(snapshot: Snapshot, node_id: str) -> list[Conflict]:
    """Return the open conflicts that this node's lists made."""
    rows = snapshot.all(f"SELECT {COLUMNS} FROM conflict c WHERE c.node_id = ? AND c.state = 'open'", (node_id,))
    return [conflict_of(row) for row in rows]


def open_with(snapshot: Snapshot, kind: str, ref: str) -> list[Conflict]:
    """Return the open conflicts that a node or device is part of, whoever's list made them."""
    rows = snapshot.all(
        f"SELECT {COLUMNS} FROM conflict_party p JOIN conflict c ON c.id = p.conflict_id "
        "WHERE p.kind = ? AND p.ref = ? AND p.is_open = 1 ORDER BY c.id",
        (kind, ref),
    )
    return [conflict_of(row) for row in rows]


def parties(snapshot: Snapshot, conflict_id: str, kind: str) -> list[str]:
    """Return the ids of the nodes or devices that are part of a conflict."""
    rows = snapshot.all(
        "SELECT ref FROM conflict_party WHERE conflict_id = ? AND kind = ? ORDER BY ref", (conflict_id, kind)
    )
    return [row[0] for row in rows]


def insert_conflict(tx: Transaction, conflict: Conflict, *, nodes: Iterable[str], devices: Iterable[str]) -> None:
    """Open a conflict between these nodes and devices."""
    tx.execute(
        "INSERT INTO conflict (id, rule, key, state, node_id, instance_id, kind, reason, entry, fingerprint, "
        "opened_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            conflict.id,
            conflict.rule,
            conflict.key,
            conflict.state,
            conflict.node_id,
            conflict.instance_id,
            conflict.kind,
            conflict.reason,
            json.dumps(conflict.entry),
            json.dumps(asdict(conflict.fingerprint)),
            to_micros(conflict.opened_at),
        ),
    )
    tx.many(
        "INSERT INTO conflict_party (conflict_id, kind, ref, is_open) VALUES (?, ?, ?, 1)",
        [*((conflict.id, "node", one) for one in nodes), *((conflict.id, "device", one) for one in devices)],
    )


def end_conflict(tx: Transaction, conflict_id: str, *, by: str, as_: str | None, reason: str) -> None:
    """End a conflict; it stays as history."""
    tx.execute(
        "UPDATE conflict SET state = 'resolved', resolved_at = ?, resolved_by = ?, resolved_as = ?, resolve_reason = ? "
        "WHERE id = ?",
        (to_micros(tx.now), by, as_, reason, conflict_id),
    )
    tx.execute("UPDATE conflict_party SET is_open = 0 WHERE conflict_id = ?", (conflict_id,))
