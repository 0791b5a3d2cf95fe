# SPDX-License-Identifier: Apache-2.0
"""When was a node in maintenance? What was seen of it then is no evidence, however late it comes."""

from __future__ import annotations

from datetime import datetime

from registry.store.database import Snapshot, Transaction, to_micros
from registry.store.nodes import Node


def insert_maintenance(tx: Transaction, node: Node, until: datetime) -> None:
    """Keep a window of maintenance that is over."""
    tx.execute(
        "INSERT INTO maintenance (node_id, from_at, until_at) VALUES (?, ?, ?)",
        (node.id, to_micros(node.maintenance_from), to_micros(until)),
    )


def was_in_maintenance(snapshot: Snapshot, node: Node, at: datetime) -> bool:
    """Return True when a time falls inside a window of maintenance of the node, past ones included."""
    since, until = node.maintenance_from, node.maintenance_until
    if since is not None and until is not None and since <= at < until:
        return True
    moment = to_micros(at)
    row = snapshot.one(
        "SELECT 1 FROM maintenance WHERE node_id = ? AND from_at <= ? AND until_at > ? LIMIT 1",
        (node.id, moment, moment),
    )
    return row is not None
