# SPDX-License-Identifier: Apache-2.0
"""Which profiles and zones do nodes name? Read by steps along an index, one for each word, not one for each node."""

from __future__ import annotations

from registry.store.database import Snapshot

_STEPS = (
    "WITH RECURSIVE word(text) AS (SELECT MIN({column}) FROM node_state UNION ALL "
    "SELECT (SELECT MIN(s.{column}) FROM node_state s WHERE s.{column} > w.text) FROM word w WHERE w.text IS NOT NULL) "
    "SELECT text FROM word WHERE text IS NOT NULL LIMIT ?"
)


def profiles_named(snapshot: Snapshot, limit: int) -> list[str]:
    """Return the profiles that nodes last reported under, in their order, at most `limit`."""
    return [row[0] for row in snapshot.all(_STEPS.format(column="profile"), (limit,))]


def zones_named(snapshot: Snapshot, limit: int) -> list[str]:
    """Return the zones that nodes last named, in their order, at most `limit`."""
    return [row[0] for row in snapshot.all(_STEPS.format(column="zone"), (limit,))]
