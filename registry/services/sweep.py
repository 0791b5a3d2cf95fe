# SPDX-License-Identifier: Apache-2.0
"""What has ended by itself, and is not in the history yet? No answer waits for this: each is judged at the read."""

from __future__ import annotations

from datetime import datetime

from registry.domain.actors import SYSTEM
from registry.services.holding import release_expired
from registry.services.nodes import OVERDUE, end_maintenance, end_waiver
from registry.store import nodes
from registry.store.database import Database
from registry.store.holds import expired
from registry.store.profiles import overdue_waivers


def sweep(db: Database, *, now: datetime) -> None:
    """Write the events of holds, waivers and maintenance whose time is over. Any number of processes may call it."""
    with db.read() as snapshot:
        is_due = expired(snapshot, now) or overdue_waivers(snapshot, now) or nodes.out_of_maintenance(snapshot, now)
    if not is_due:
        return
    with db.write(now) as tx:
        release_expired(tx)
        for waiver in overdue_waivers(tx, now):
            node = nodes.get_node_by_id(tx, waiver.node_id)
            if node is not None:
                end_waiver(tx, node, waiver, SYSTEM)
        for node in nodes.out_of_maintenance(tx, now):
            end_maintenance(tx, node, SYSTEM, OVERDUE)
