# SPDX-License-Identifier: Apache-2.0
"""How much is there of everything? Counted in the database, without a look at each device's own state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from registry.store.database import Row, Snapshot, to_micros
from registry.store.search import DEVICE_STATE

_SPECIAL = (
    "SELECT d.kind, p.id IS NOT NULL, p.missing_since IS NOT NULL, {state} FROM device d "
    "LEFT JOIN placement p ON p.device_id = d.id AND p.until_at IS NULL WHERE d.id IN ("
    "SELECT u.id FROM hold_target t JOIN device u ON u.board_id = t.ref WHERE t.kind = 'board' AND t.is_open = 1 "
    "UNION SELECT t.ref FROM hold_target t WHERE t.kind = 'unit' AND t.is_open = 1 "
    "UNION SELECT x.ref FROM conflict_party x WHERE x.kind = 'device' AND x.is_open = 1)"
)
"""The few devices that something speaks against: only they need their state worked out one by one."""


def count_devices(snapshot: Snapshot, now: datetime) -> Counter[tuple[str, str]]:
    """Return how many devices there are by (kind, state)."""
    found: Counter[tuple[str, str]] = Counter()
    for kind, count in snapshot.all("SELECT kind, COUNT(*) FROM device GROUP BY kind"):
        found[kind, "detached"] += count
    placed = (
        "SELECT kind, missing_since IS NOT NULL, COUNT(*) FROM placement WHERE until_at IS NULL "
        "GROUP BY kind, missing_since IS NOT NULL"
    )
    for kind, is_missing, count in snapshot.all(placed):
        found[kind, "detached"] -= count
        found[kind, "missing" if is_missing else "in_service"] += count
    for kind, is_placed, is_missing, state in snapshot.all(_SPECIAL.format(state=DEVICE_STATE), (to_micros(now),)):
        usual = "detached" if not is_placed else "missing" if is_missing else "in_service"
        found[kind, usual] -= 1
        found[kind, state] += 1
    return found


def count_nodes(snapshot: Snapshot, now: datetime, heard_since: datetime) -> Counter[str]:
    """Return how many nodes are retired, in maintenance, stale (silent since before a time) or reporting.

    Nearly all report, so those are what is left of all when the few others are taken off: no node's row is looked at.
    """
    moment, heard = to_micros(now), to_micros(heard_since)
    retired_is, resting_is = "n.retired_at IS NOT NULL", "n.maintenance_until > ? AND n.retired_at IS NULL"
    quiet = (
        "(SELECT COUNT(*) FROM node n LEFT JOIN node_state s ON s.node_id = n.id WHERE {} "
        "AND (s.reported_at IS NULL OR s.reported_at < ?))"
    )
    total, told, silent, retired, resting, silent_off = snapshot.all(
        "SELECT (SELECT COUNT(*) FROM node), (SELECT COUNT(*) FROM node_state), "
        "(SELECT COUNT(*) FROM node_state WHERE reported_at < ?), "
        f"(SELECT COUNT(*) FROM node n WHERE {retired_is}), (SELECT COUNT(*) FROM node n WHERE {resting_is}), "
        f"{quiet.format(retired_is)} + {quiet.format(resting_is)}",
        (heard, moment, heard, moment, heard),
    )[0]
    stale = total - told + silent - silent_off
    found = {"retired": retired, "maintenance": resting, "stale": stale}
    return Counter({state: count for state, count in found.items() if count}) + Counter(
        {"reporting": total - sum(found.values())}
    )


def count_open_holds(snapshot: Snapshot, now: datetime) -> Counter[tuple[str, str]]:
    """Return how many holds are in force by (kind of owner, kind of target)."""
    sql = (
        "SELECT q.owner, q.target_kind, COUNT(*) FROM quarantine q WHERE q.state = 'open' "
        "AND (q.release_policy <> 'at_expiry' OR q.expires_at > ?) GROUP BY q.owner, q.target_kind"
    )
    found: Counter[tuple[str, str]] = Counter()
    for owner, target_kind, count in snapshot.all(sql, (to_micros(now),)):
        found[owner.partition(":")[0], target_kind] += count
    return found


def count_withheld(snapshot: Snapshot) -> int:
    """Return how many holds the breaker withheld that still stand."""
    return _number(snapshot.all("SELECT COUNT(*) FROM withheld WHERE ended_at IS NULL"))


def count_open_conflicts(snapshot: Snapshot) -> int:
    """Return how many conflicts wait for a person or another list."""
    return _number(snapshot.all("SELECT COUNT(*) FROM conflict WHERE state = 'open'"))


def _number(rows: Sequence[Row]) -> int:
    return int(rows[0][0])
