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
from registry.store.database import Snapshot, from_micros


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

    def load_checks(self, *, is_brief: bool) -> dict[str, CheckState]:
        """Return the checks of this boot; brief, none when all are clean: then none speaks against the node."""
        text = self.checks_text or "{}"
        return {} if is_brief and not any(word in text for word in _TROUBLED) else load_checks(text)


_TROUBLED = tuple(f'"{status}"' for status in CheckStatus if status not in CLEAN)
"""What stands in the column of checks when one of them is not clean."""

# One walk over the few placements of a node, each looked up among the open holds. A scalar subquery is not turned into
# a join: whatever SQLite's statistics say, all open holds are never looked up among the placements.
_OPEN = "(SELECT 1 FROM hold_target t WHERE t.is_open = 1 AND t.kind = '{kind}' AND t.ref = {ref} LIMIT 1) IS NOT NULL"
_WITHHELD = _OPEN.replace("hold_target", "withheld_target")
_ON_PLACED = " OR ".join(
    (
        "p.missing_since IS NOT NULL",
        _OPEN.format(kind="unit", ref="p.device_id"),
        _OPEN.format(kind="board", ref="p.board_id"),
    )
)
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
    + " OR EXISTS (SELECT 1 FROM placement p WHERE p.instance_id = s.instance_id AND p.until_at IS NULL AND ("
    + " OR ".join(
        _WITHHELD.format(kind=kind, ref=ref) for kind, ref in (("unit", "p.device_id"), ("board", "p.board_id"))
    )
    + ")))"
)

_SUMMARY = (
    "SELECT n.id, n.name, n.retired_at, n.maintenance_until, n.maintenance_reason, s.instance_id, i.provider_id, "
    "i.chassis, s.profile, f.body, s.reported_at, s.have, s.counted_start, s.checks, s.listed, "
    "EXISTS (SELECT 1 FROM placement p WHERE p.instance_id = s.instance_id AND p.until_at IS NULL "
    f"AND ({_ON_PLACED})), "
    f"({_ON_MACHINE}), ({_IS_WITHHELD}), "
    "EXISTS (SELECT 1 FROM conflict_party c WHERE c.kind = 'node' AND c.ref = n.id AND c.is_open = 1), "
    "EXISTS (SELECT 1 FROM failure u WHERE u.instance_id = s.instance_id AND u.is_unattached = 1 "
    "AND u.state = 'active'), "
    "EXISTS (SELECT 1 FROM waiver w WHERE w.node_id = n.id AND w.ended_at IS NULL), "
    f"{IS_STANDING}, {IS_ALARMED}, EXISTS (SELECT 1 FROM outage o WHERE o.to_at > s.reported_at), "
    "(SELECT sequence FROM chain_head WHERE id = 1) "
    "FROM node n LEFT JOIN node_state s ON s.node_id = n.id LEFT JOIN instance i ON i.id = s.instance_id "
    "LEFT JOIN profile f ON f.name = s.profile WHERE n.name = ?"
)


def find_summary(snapshot: Snapshot, name: str) -> NodeSummary | None:
    """Return what a decision about the node of this name starts from."""
    row = snapshot.one(_SUMMARY, (name,))
    if row is None:
        return None
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
