# SPDX-License-Identifier: Apache-2.0
"""What does a decision about a node start from? One row, read in one statement, because every node asks all the time.

Whatever else can speak against a node is only looked for here: which hold it is, or which conflict, is read afterwards,
and for nearly every node there is nothing to read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.domain.checks import CLEAN, CheckState
from registry.domain.reports import CheckStatus
from registry.store.alarms import IS_ALARMED
from registry.store.check_column import load_checks
from registry.store.column_json import load
from registry.store.conditions import IS_STANDING
from registry.store.database import Row, Snapshot, from_micros
from registry.store.nodes import STATE_FIELDS, NodeState, read_state


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """A node's rows, and whether there is anything beside them. Before a report the fields up to `listed` are empty.

    Troubled is a node on which a device is missing or held, held one whose machine is, withheld one on which a rule
    wanted to hold something, conditioned one of which not all checks are well. Alarmed are all nodes at once: the
    service is in safe mode. Overlooked is one in whose silence the service was away. `sequence` is that of the newest
    event.
    """

    node_id: str
    name: str
    retired_at: datetime | None
    maintenance_until: datetime | None
    maintenance_reason: str | None
    instance_id: str | None
    provider_id: str | None
    chassis: str | None
    profile: str | None
    profile_body: str | None
    reported_at: datetime | None
    have: int | None
    counted_start: datetime | None
    checks_text: str | None
    listed: dict[str, dict[str, Any]]
    is_troubled: bool
    is_held: bool
    is_withheld: bool
    is_disputed: bool
    is_unattached: bool
    is_waived: bool
    is_conditioned: bool
    is_alarmed: bool
    is_overlooked: bool
    sequence: int

    @property
    def is_plain(self) -> bool:
        """Whether this row is all that a decision needs: there is nothing beside it, and no device to be named."""
        has_more = (
            *(self.is_troubled, self.is_held, self.is_withheld, self.is_disputed),
            *(self.is_unattached, self.is_waived, self.is_conditioned, self.is_overlooked),
        )
        return not any(has_more) and not any(word in (self.checks_text or "") for word in _TROUBLED)

    def load_checks(self, *, is_brief: bool) -> dict[str, CheckState]:
        """Return the checks of this boot; brief, none when all are clean: then none speaks against the node."""
        text = self.checks_text or "{}"
        return {} if is_brief and not any(word in text for word in _TROUBLED) else load_checks(text)


_TROUBLED = tuple(f'"{status}"' for status in CheckStatus if status not in CLEAN)
"""What stands in the column of checks when one of them is not clean."""

# A scalar subquery is not turned into a join: whatever SQLite's statistics say, open holds are never looked up one by
# one among the placements.
_OPEN = "(SELECT 1 FROM hold_target t WHERE t.is_open = 1 AND t.kind = '{kind}' AND t.ref = {ref} LIMIT 1) IS NOT NULL"
_WITHHELD = _OPEN.replace("hold_target", "withheld_target")
_PLACED_HERE = "FROM placement p WHERE p.instance_id = s.instance_id AND p.until_at IS NULL"
_AMONG = (
    "EXISTS (SELECT 1 FROM hold_target t WHERE t.is_open = 1 AND t.kind = '{kind}' "
    f"AND t.ref = ANY (ARRAY(SELECT {{ref}} {_PLACED_HERE})))"
)
_ON_UNITS = (("unit", "p.device_id"), ("board", "p.board_id"))
# One walk over the few placements of a node, each looked up among the open holds. For PostgreSQL each look is a plan to
# be begun and ended, which costs more than the look: it gets them in a list, and takes a third of the time.
_ON_PLACED = {
    "sqlite": f"EXISTS (SELECT 1 {_PLACED_HERE} AND (p.missing_since IS NOT NULL OR "
    + " OR ".join(_OPEN.format(kind=kind, ref=ref) for kind, ref in _ON_UNITS)
    + "))",
    "postgresql": f"(EXISTS (SELECT 1 {_PLACED_HERE} AND p.missing_since IS NOT NULL) OR "
    + " OR ".join(_AMONG.format(kind=kind, ref=ref) for kind, ref in _ON_UNITS)
    + ")",
}
_ON_MACHINE = " OR ".join(
    (
        _OPEN.format(kind="instance", ref="i.provider_id"),
        _OPEN.format(kind="name", ref="n.name"),
        _OPEN.format(kind="chassis", ref="i.chassis"),
    )
)
# Mostly nothing is withheld anywhere, and then no placement is looked at for it.
_IS_WITHHELD = (
    "(SELECT 1 FROM withheld WHERE ended_at IS NULL LIMIT 1) IS NOT NULL AND ("
    + " OR ".join(
        _WITHHELD.format(kind=kind, ref=ref)
        for kind, ref in (("instance", "i.provider_id"), ("name", "n.name"), ("chassis", "i.chassis"))
    )
    + f" OR EXISTS (SELECT 1 {_PLACED_HERE} AND ("
    + " OR ".join(_WITHHELD.format(kind=kind, ref=ref) for kind, ref in _ON_UNITS)
    + ")))"
)

_COLUMNS = (
    "n.id, n.name, n.retired_at, n.maintenance_until, n.maintenance_reason, s.instance_id, i.provider_id, "
    "i.chassis, s.profile, f.body, s.reported_at, s.have, s.counted_start, s.checks, s.listed, "
    f"{{on_placed}}, ({_ON_MACHINE}), ({_IS_WITHHELD}), "
    "EXISTS (SELECT 1 FROM conflict_party c WHERE c.kind = 'node' AND c.ref = n.id AND c.is_open = 1), "
    "EXISTS (SELECT 1 FROM failure u WHERE u.instance_id = s.instance_id AND u.is_unattached = 1 "
    "AND u.state = 'active'), "
    "EXISTS (SELECT 1 FROM waiver w WHERE w.node_id = n.id AND w.ended_at IS NULL), "
    f"{IS_STANDING}, {IS_ALARMED}, EXISTS (SELECT 1 FROM outage o WHERE o.to_at > s.reported_at), "
    "(SELECT sequence FROM chain_head WHERE id = 1)"
)
_FROM = (
    "FROM node n LEFT JOIN node_state s ON s.node_id = n.id LEFT JOIN instance i ON i.id = s.instance_id "
    "LEFT JOIN profile f ON f.name = s.profile WHERE n.name = ?"
)
_COLUMNS_OF = {engine: _COLUMNS.format(on_placed=on_placed) for engine, on_placed in _ON_PLACED.items()}
_SUMMARY = {engine: f"SELECT {columns} {_FROM}" for engine, columns in _COLUMNS_OF.items()}
_PLACED = f"(SELECT {{join}}(p.kind || ' ' || p.device_id, ',') {_PLACED_HERE} AND p.missing_since IS NULL)"
_STATE = ", ".join(f"s.{name}" for name in STATE_FIELDS)
_KNOWN = {
    engine: f"SELECT {_STATE}, {_PLACED.format(join=join)}, {_COLUMNS_OF[engine]} {_FROM}"
    for engine, join in (("sqlite", "group_concat"), ("postgresql", "string_agg"))
}
_ON_NODE = len(STATE_FIELDS)


@dataclass(frozen=True, slots=True)
class Known:
    """All that a report is compared with: the row of the node's own reports, and which units are there, by kind."""

    summary: NodeSummary
    state: NodeState
    placed: dict[str, list[str]]


def find_known(snapshot: Snapshot, name: str) -> Known | None:
    """Return what is known of a node that reports, in one statement; None before its first report, or when retired."""
    row = snapshot.one(_KNOWN[snapshot.engine], (name,))
    if row is None or row[0] is None:
        return None
    summary = _summary(row[_ON_NODE + 1 :])
    if summary.retired_at is not None:
        return None
    placed: dict[str, list[str]] = {}
    for one in sorted(row[_ON_NODE].split(",")) if row[_ON_NODE] else ():
        kind, _, device_id = one.partition(" ")
        placed.setdefault(kind, []).append(device_id)
    return Known(summary, read_state(row[:_ON_NODE]), placed)


def find_summary(snapshot: Snapshot, name: str) -> NodeSummary | None:
    """Return what a decision about the node of this name starts from."""
    row = snapshot.one(_SUMMARY[snapshot.engine], (name,))
    return _summary(row) if row else None


def _summary(row: Row) -> NodeSummary:
    id_, name, retired, until, reason, instance, provider, chassis, profile, body, reported, have, counted = row[:13]
    checks, listed, *signs, sequence = row[13:]
    is_troubled, is_held, is_withheld, is_disputed, is_unattached, is_waived, *others = map(bool, signs)
    is_conditioned, is_alarmed, is_overlooked = others
    at = from_micros
    return NodeSummary(
        id_,
        name,
        at(retired),
        at(until),
        reason,
        instance,
        provider,
        chassis,
        profile,
        body,
        at(reported),
        have,
        at(counted),
        checks,
        load(listed) if listed else {},
        is_troubled,
        is_held,
        is_withheld,
        is_disputed,
        is_unattached,
        is_waived,
        is_conditioned,
        is_alarmed,
        is_overlooked,
        sequence,
    )
