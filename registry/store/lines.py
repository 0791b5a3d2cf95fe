# SPDX-License-Identifier: Apache-2.0
"""What did the newest list of each kind say, line by line? Long, and written only when a list says something new.

It stands beside the node's row, which every report rewrites.
"""

from __future__ import annotations

from typing import Any

from registry.store.column_json import dump, load
from registry.store.database import Snapshot, Transaction

Line = dict[str, Any]
"""One line: the unit it was, if any, usable values by name, and everything printed."""


def lines_of(snapshot: Snapshot, node_id: str) -> dict[str, list[Line]]:
    """Return the lines of a node's newest lists by kind, in the order of the lists."""
    rows = snapshot.all("SELECT kind, lines FROM node_list WHERE node_id = ?", (node_id,))
    return {kind: load(lines) for kind, lines in rows}


def save_lines(tx: Transaction, node_id: str, kind: str, lines: list[Line]) -> None:
    """Keep the lines of a list in the place of those before."""
    tx.execute(
        "INSERT INTO node_list (node_id, kind, lines) VALUES (?, ?, ?) "
        "ON CONFLICT (node_id, kind) DO UPDATE SET lines = excluded.lines",
        (node_id, kind, dump(lines)),
    )


def forget_lines(tx: Transaction, node_id: str) -> None:
    """Keep none: the machine that sent them is gone."""
    tx.execute("DELETE FROM node_list WHERE node_id = ?", (node_id,))
