# SPDX-License-Identifier: Apache-2.0
"""What was last read from a device, and how does it stand beside the others of its node?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from registry.domain.heat import THERMAL, Beside, Gpu, beside, without_blanks
from registry.domain.policy import Policy
from registry.domain.reports import Kind
from registry.domain.times import rfc3339
from registry.store import nodes
from registry.store.database import Snapshot
from registry.store.lines import lines_of
from registry.store.nodes import NodeState


def readings_of(snapshot: Snapshot, device_id: str, node_id: str, policy: Policy) -> dict[str, Any] | None:
    """Return the newest readings of a device and of those of its kind beside it; None when its node's list lacks it."""
    state = nodes.find_state(snapshot, node_id)
    if state is None:
        return None
    for kind, lines in lines_of(snapshot, node_id).items():
        if any(line["id"] == device_id for line in lines):
            return _beside(state, kind, lines, device_id, policy)
    return None


def _beside(
    state: NodeState, kind: str, lines: Sequence[Mapping[str, Any]], device_id: str, policy: Policy
) -> dict[str, Any]:
    read = [*state.readings.get(kind, []), *({} for _ in lines)][: len(lines)]
    heat = beside([_gpu(at, *one) for at, one in enumerate(zip(lines, read, strict=True))], policy)
    rows = [
        _row(line, without_blanks(values), heat[str(at)], device_id, policy)
        for at, (line, values) in enumerate(zip(lines, read, strict=True))
    ]
    thermal = state.checks.get(THERMAL)
    return {
        "at": rfc3339(state.reported_at),
        "kind": kind,
        "own": next(row["readings"] for row in rows if row["is_own"]),
        "rows": rows,
        "is_outlier": any(row["is_own"] and row["is_outlier"] for row in rows),
        "margin_celsius": policy.heat_warn_celsius,
        "thermal": str(thermal.status) if kind == Kind.GPU and thermal else None,
    }


def _gpu(at: int, line: Mapping[str, Any], read: Mapping[str, Any]) -> Gpu:
    model = None if line["model"] is None else f"{line['vendor']} {line['model']}"
    return Gpu(str(at), line["slot"], model, read)


def _row(
    line: Mapping[str, Any], read: Mapping[str, Any], heat: Beside, device_id: str, policy: Policy
) -> dict[str, Any]:
    return {
        "id": line["id"],
        "slot": line["slot"],
        "serial": line["serial"],
        "is_own": line["id"] == device_id,
        "readings": read,
        "neighbours": heat.neighbours,
        "median_celsius": heat.median,
        "above_celsius": heat.above,
        "is_outlier": heat.above is not None and heat.above >= policy.heat_warn_celsius,
    }
