# SPDX-License-Identifier: Apache-2.0
"""Which records bear a text that somebody copied from a log or a label?"""

from __future__ import annotations

from registry.store.database import Snapshot

_LITERAL = str.maketrans({"!": "!!", "%": "!%", "_": "!_"})
"""What stands for itself in a pattern whose escape is `!`."""


def nodes_of_instance(snapshot: Snapshot, text: str, limit: int) -> list[tuple[str, str]]:
    """Return (node, provider id) of the lives with this provider id, the newest first; by its last part where none is.

    `i-0abc` is the last part of `aws:///us-east-1a/i-0abc`. That way looks at every life there was.
    """
    select = "SELECT n.name, i.provider_id FROM instance i JOIN node n ON n.id = i.node_id WHERE i.provider_id"
    order = f"ORDER BY i.id DESC LIMIT {limit:d}"
    whole = snapshot.all(f"{select} = ? {order}", (text,))
    found = whole or snapshot.all(f"{select} LIKE ? ESCAPE '!' {order}", ("%/" + text.translate(_LITERAL),))
    return [(name, provider_id) for name, provider_id in found]


def node_names(snapshot: Snapshot, beginning: str, limit: int) -> list[str]:
    """Return the names of nodes that begin like this, capitals aside, in their order."""
    sql = f"SELECT name FROM node WHERE LOWER(name) LIKE ? ESCAPE '!' ORDER BY name LIMIT {limit:d}"
    return [name for (name,) in snapshot.all(sql, (beginning.lower().translate(_LITERAL) + "%",))]


def count_tickets(snapshot: Snapshot, ticket: str) -> int:
    """Return how many open holds bear this ticket."""
    row = snapshot.one("SELECT COUNT(*) FROM quarantine WHERE ticket = ? AND state = 'open'", (ticket,))
    return row[0] if row else 0


def released_with_ticket(snapshot: Snapshot, ticket: str, limit: int) -> list[str]:
    """Return the holds, by our id, that bore this ticket and are over, the newest first."""
    sql = f"SELECT id FROM quarantine WHERE ticket = ? AND state <> 'open' ORDER BY id DESC LIMIT {limit:d}"
    return [hold_id for (hold_id,) in snapshot.all(sql, (ticket,))]
