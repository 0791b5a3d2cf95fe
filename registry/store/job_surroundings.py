# SPDX-License-Identifier: Apache-2.0
"""What is on record of a job's nodes and their devices around the time at which it failed?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, TypeVar

from registry.domain.failures import Cause
from registry.domain.job_failures import (
    CheckFact,
    Earlier,
    Fault,
    HoldFact,
    JobFailure,
    NodeChange,
    NodeFact,
    Surroundings,
)
from registry.domain.rules import LEMON_DAYS
from registry.store.check_column import load_checks
from registry.store.column_json import dump, load
from registry.store.database import Snapshot, from_micros, to_micros
from registry.store.devices import in_chunks

FAULTS_MAX = 1000
"""How many faults are weighed: the gravest of the earliest. More of them say no more."""

EARLIER_DEVICES_MAX = 16
"""Programs that fail on more devices at once fail by themselves: nobody has to look back for each."""

_GRAVEST = ("fatal", "critical", "warning", "info")


def faults_on(snapshot: Snapshot, node_ids: Mapping[str, str], window: tuple[datetime, datetime]) -> tuple[Fault, ...]:
    """Return the active faults that were seen on these nodes within a window, each with its sights in it together.

    What was muted had no effect and has none here. Both ends belong to the window.
    """
    begin, end = map(to_micros, window)
    names = {id_: name for name, id_ in node_ids.items()}
    rows = in_chunks(
        snapshot,
        lambda marks: (
            "SELECT f.id, f.code, f.kind, f.cause, f.severity, f.node_id, f.device_id, d.serial, f.slot, "
            "min(s.first_at), max(s.at), sum(s.count) FROM failure f JOIN sight s ON s.failure = f.id "
            f"LEFT JOIN device d ON d.id = f.device_id WHERE f.node_id IN ({marks}) AND f.last_at >= {begin:d} "
            f"AND f.state = 'active' AND f.muted IS NULL AND s.at >= {begin:d} AND s.first_at <= {end:d} "
            "GROUP BY f.id, f.code, f.kind, f.cause, f.severity, f.node_id, f.device_id, d.serial, f.slot"
        ),
        node_ids.values(),
    )
    found = {row[0]: _fault(row, names[row[5]]) for row in rows}
    ordered = sorted(found.values(), key=lambda one: (_GRAVEST.index(one.severity), one.at, one.id))
    return tuple(ordered[:FAULTS_MAX])


def _fault(row: Sequence[Any], node: str) -> Fault:
    id_, code, kind, cause, severity, _, device, serial, slot, first, last, count = row
    named = " in ".join(str(one) for one in (serial or device, slot) if one)
    return Fault(
        id=id_,
        code=code,
        kind=kind,
        cause=Cause(cause),
        severity=severity,
        at=from_micros(first),
        last_at=from_micros(last),
        count=int(count),
        node=node,
        device=device,
        label=f"{named} on {node}" if named else None,
    )


def earlier_on(snapshot: Snapshot, job: JobFailure, faults: Iterable[Fault]) -> tuple[Earlier, ...]:
    """Return whose jobs failed before while programs failed on the devices that show such a fault now."""
    devices = sorted({one.device for one in faults if one.cause is Cause.USER and one.device})
    if not devices or len(devices) > EARLIER_DEVICES_MAX or job.user is None:
        return ()
    begin = to_micros(job.failed_at - timedelta(days=LEMON_DAYS))
    rows = in_chunks(
        snapshot,
        lambda marks: (
            "SELECT DISTINCT f.device_id, j.user_name, j.job_id FROM failure f JOIN sight s ON s.failure = f.id "
            "JOIN node n ON n.id = f.node_id JOIN job_failure_node w ON w.node = n.name AND w.until_at >= s.first_at "
            f"AND w.from_at <= s.at JOIN job_failure j ON j.id = w.job_failure WHERE f.device_id IN ({marks}) "
            f"AND f.last_at >= {begin:d} AND f.cause = 'user' AND f.state = 'active' AND f.muted IS NULL "
            f"AND j.user_name IS NOT NULL AND j.failed_at < {to_micros(job.failed_at):d}"
        ),
        devices,
    )
    return tuple(Earlier(*row) for row in sorted(rows))


def failing_on(
    snapshot: Snapshot, node_ids: Mapping[str, str], window: tuple[datetime, datetime]
) -> tuple[CheckFact, ...]:
    """Return the checks of these nodes that fail now and began to within a window."""
    names = {id_: name for name, id_ in node_ids.items()}
    rows = in_chunks(
        snapshot,
        lambda marks: (
            f"SELECT s.node_id, s.checks FROM node_state s WHERE s.node_id IN ({marks}) AND s.checks LIKE '%\"fail\"%'"
        ),
        node_ids.values(),
    )
    states = ((names[node_id], one) for node_id, checks in rows for one in load_checks(checks).values())
    found = {
        CheckFact(name, one.name, str(one.status), one.since)
        for name, one in states
        if one.status == "fail" and window[0] <= one.since <= window[1]
    }
    return tuple(sorted(found, key=lambda one: (one.node, one.name)))


def last_reports(snapshot: Snapshot, node_ids: Mapping[str, str]) -> dict[str, datetime]:
    """Return when each of these nodes reported last, by name; one that never did is not there."""
    names = {id_: name for name, id_ in node_ids.items()}
    rows = in_chunks(
        snapshot,
        lambda marks: f"SELECT s.node_id, s.reported_at FROM node_state s WHERE s.node_id IN ({marks})",
        node_ids.values(),
    )
    return {names[node_id]: from_micros(reported) for node_id, reported in rows}


def lives_of(
    snapshot: Snapshot, node_ids: Mapping[str, str], window: tuple[datetime, datetime]
) -> tuple[NodeFact, ...]:
    """Return which of these nodes came up under another boot, or as another instance, within a window."""
    begin, end = map(to_micros, window)
    names = {id_: name for name, id_ in node_ids.items()}
    boots = in_chunks(
        snapshot,
        lambda marks: (
            "SELECT i.node_id, b.started_at, b.ordinal FROM instance i JOIN boot b ON b.instance_id = i.id "
            f"WHERE i.node_id IN ({marks}) AND b.started_at BETWEEN {begin:d} AND {end:d} "
            "AND (b.ordinal > 1 OR i.ordinal > 1)"
        ),
        node_ids.values(),
    )
    found = {
        NodeFact(names[node_id], NodeChange.BOOTED if boot > 1 else NodeChange.REPLACED, from_micros(at))
        for node_id, at, boot in boots
    }
    return tuple(sorted(found, key=lambda one: (one.at, one.node)))


def machines_of(snapshot: Snapshot, node_ids: Mapping[str, str]) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield name, instance (ours and the provider's) and chassis of each of these nodes that has reported."""
    names = {id_: name for name, id_ in node_ids.items()}
    rows = in_chunks(
        snapshot,
        lambda marks: (
            "SELECT s.node_id, i.id, i.provider_id, i.chassis FROM node_state s "
            f"JOIN instance i ON i.id = s.instance_id WHERE s.node_id IN ({marks})"
        ),
        node_ids.values(),
    )
    for node_id, instance, provider_id, chassis in sorted(rows):
        yield names[node_id], instance, provider_id, chassis


# --- the column -------------------------------------------------------------------------------------------------------

T = TypeVar("T", CheckFact, NodeFact, HoldFact)


def dump_facts(facts: Surroundings) -> str:
    """Write what was known besides the faults, which are on record for themselves."""
    parts = {
        "checks": [_cells(one) for one in facts.checks],
        "nodes": [_cells(one) for one in facts.nodes],
        "holds": [_cells(one) for one in facts.holds],
    }
    return dump({**parts, "unknown": facts.unknown})


def load_facts(text: str) -> Surroundings:
    """Read them again."""
    stored = load(text)
    return Surroundings(
        checks=tuple(_of(CheckFact, row) for row in stored["checks"]),
        nodes=tuple(_of(NodeFact, row) for row in stored["nodes"]),
        holds=tuple(_of(HoldFact, row) for row in stored["holds"]),
        unknown=tuple(stored["unknown"]),
    )


def _cells(one: CheckFact | NodeFact | HoldFact) -> list[Any]:
    values = (getattr(one, field.name) for field in fields(one))
    return [to_micros(value) if isinstance(value, datetime) else value for value in values]


def _of(kind: type[T], row: Sequence[Any]) -> T:
    names = [field.name for field in fields(kind)]
    cells: dict[str, Any] = dict(zip(names, row, strict=True))
    for name in {"at", "since"} & cells.keys():
        cells[name] = from_micros(cells[name])
    if "change" in cells:
        cells["change"] = NodeChange(cells["change"])
    return kind(**cells)
