# SPDX-License-Identifier: Apache-2.0
"""How is a list read by its fields, newest first or oldest first, from after a key on?

Every field that may be asked for stands in a table here with its SQL; nothing a caller sends becomes SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.store import conflicts, deliveries, devices, failures, holds, job_failures, jobs, repairs
from registry.store.database import Row, Snapshot, to_micros
from registry.store.filters import Column, Condition, Sort, columns, conditions, where

DISPUTED = "EXISTS (SELECT 1 FROM conflict_party x WHERE x.kind = 'device' AND x.ref = d.id AND x.is_open = 1)"

DEVICE_STATE = (
    f"CASE WHEN {holds.HELD} THEN 'quarantined' WHEN {DISPUTED} THEN 'conflict' WHEN p.id IS NULL THEN 'detached' "
    "WHEN p.missing_since IS NOT NULL THEN 'missing' ELSE 'in_service' END"
)
"""The state of a unit, the gravest first. Takes the time as parameter."""

_DEVICE_FROM = (
    "FROM device d LEFT JOIN placement p ON p.device_id = d.id AND p.until_at IS NULL "
    "LEFT JOIN node n ON n.id = p.node_id"
)


@dataclass(frozen=True, slots=True)
class Slice:
    """Which part of a list: at most `limit` rows after the key, in which direction."""

    limit: int
    after: str | None
    newest_first: bool


def _select(
    snapshot: Snapshot, select: str, wanted: Sequence[Condition], key: str, part: Slice, *, before: Sequence[Any] = ()
) -> list[Row]:
    """Read one page by its key; one row more than asked for shows whether more follow."""
    comparison, order = ("<", "DESC") if part.newest_first else (">", "ASC")
    after: list[Condition] = [(f"{key} {comparison} ?", (part.after,))] if part.after is not None else []
    clause, values = where([*wanted, *after])
    return snapshot.all(f"{select}{clause} ORDER BY {key} {order} LIMIT {part.limit + 1:d}", [*before, *values])


DEVICE_FIELDS = {
    **columns("d", "id", "kind", "vendor", "serial", "uuid", "model", "part_number", "module_id", "name", "asset_tag"),
    **columns("d", "registered_at", sort=Sort.TIME),
    "board": Column("d.board_id"),
    "slot": Column("p.slot"),
    "node": Column(
        "w.name",
        among="d.id IN (SELECT x.device_id FROM node w JOIN placement x ON x.node_id = w.id AND x.until_at IS NULL "
        "WHERE {})",
    ),
}

NEVER: Condition = ("1 = 0", ())

_LIKELY: Mapping[str, str] = {
    "quarantined": (
        "d.id IN (SELECT u.id FROM hold_target t JOIN device u ON u.board_id = t.ref WHERE t.kind = 'board' "
        "AND t.is_open = 1 UNION SELECT t.ref FROM hold_target t WHERE t.kind = 'unit' AND t.is_open = 1)"
    ),
    "conflict": "d.id IN (SELECT x.ref FROM conflict_party x WHERE x.kind = 'device' AND x.is_open = 1)",
    "missing": "d.id IN (SELECT m.device_id FROM placement m WHERE m.until_at IS NULL AND m.missing_since IS NOT NULL)",
    "detached": "d.is_detached = 1 AND p.id IS NULL",
    "in_service": "p.missing_since IS NULL AND p.id IS NOT NULL",
}
"""What a unit of a state has at least: it finds the few without working out the state of all the others."""

# From the holds of the cause to the units: each of the two reads one index and no other unit.
_HELD_FOR = (
    "d.id IN (SELECT t.ref FROM quarantine q JOIN hold_target t ON t.quarantine_id = q.id AND t.is_open = 1 "
    "AND t.kind = 'unit' WHERE q.cause = ? AND q.state = 'open' "
    "UNION SELECT u.id FROM quarantine q JOIN hold_target t ON t.quarantine_id = q.id AND t.is_open = 1 "
    "AND t.kind = 'board' JOIN device u ON u.board_id = t.ref WHERE q.cause = ? AND q.state = 'open')"
)


def list_devices(
    snapshot: Snapshot, filters: Mapping[str, str], part: Slice, now: datetime
) -> list[tuple[devices.Device, str, str | None, str | None]]:
    """Return units with their state, node and slot; `cause` is that of an open hold on them. Raises InvalidField."""
    wanted = conditions(DEVICE_FIELDS, {name: text for name, text in filters.items() if name in DEVICE_FIELDS})
    if cause := filters.get("cause"):
        wanted.append((_HELD_FOR, (cause, cause)))
    if state := filters.get("state"):
        likely = _LIKELY.get(state)
        exact: Condition = (f"{DEVICE_STATE} = ?", (to_micros(now), state))
        wanted += [(likely, ()), exact] if likely else [NEVER]
    select = f"SELECT {devices.DEVICE_COLUMNS}, {DEVICE_STATE} AS state, n.name, p.slot {_DEVICE_FROM}"
    rows = _select(snapshot, select, wanted, "d.id", part, before=[to_micros(now)])
    width = len(devices.DEVICE_COLUMNS.split(","))
    return [(devices.device_of(row[:width]), *row[width:]) for row in rows]


def states_of(snapshot: Snapshot, device_ids: Sequence[str], now: datetime) -> dict[str, str]:
    """Return the state of each of these units."""
    found: dict[str, str] = {}
    for device_id in set(device_ids):
        row = snapshot.one(f"SELECT {DEVICE_STATE} {_DEVICE_FROM} WHERE d.id = ?", (to_micros(now), device_id))
        if row is not None:
            found[device_id] = row[0]
    return found


FAILURE_FIELDS = {
    **columns(
        "f",
        "id",
        "failure_id",
        "slot",
        "code",
        "kind",
        "cause",
        "severity",
        "effect",
        "state",
        "reporter",
        "ref",
        "muted",
    ),
    **columns("f", "occurred_at", "recorded_at", "last_at", sort=Sort.TIME),
    **columns("f", "count", sort=Sort.NUMBER),
    **columns("f", "message", sort=Sort.PROSE),
    "attached": Column("(1 - f.is_unattached)", Sort.FLAG),
    "node": Column("n.name"),
    "device": Column("f.device_id"),
    "serial": Column("d.serial"),
    "uuid": Column("d.uuid"),
}


def list_failures(snapshot: Snapshot, filters: Mapping[str, str], part: Slice) -> list[failures.Failure]:
    """Return failures. Raises InvalidField."""
    select = (
        f"SELECT {failures.COLUMNS} FROM failure f LEFT JOIN node n ON n.id = f.node_id "
        "LEFT JOIN device d ON d.id = f.device_id"
    )
    wanted = conditions(FAILURE_FIELDS, filters)
    return [failures.failure_of(row) for row in _select(snapshot, select, wanted, "f.id", part)]


HOLD_FIELDS = {
    **columns("q", "id", "owner", "target_kind", "scope", "match", "cause", "ticket", "release_policy"),
    **columns("q", "opened_at", "review_at", "expires_at", sort=Sort.TIME),
    **columns("q", "reason", "release_reason", sort=Sort.PROSE),
    "permanent": Column("q.is_permanent", Sort.FLAG),
    "drain": Column("q.is_drain", Sort.FLAG),
    "released_at": Column("q.released_at", Sort.TIME),
    "released_by": Column("q.released_by"),
}


def list_holds(
    snapshot: Snapshot,
    filters: Mapping[str, str],
    part: Slice,
    now: datetime,
    *,
    bound: Sequence[tuple[str, str]] | None = None,
) -> list[holds.HoldRecord]:
    """Return holds; with `bound`, those that bind or bound any of these (kind, ref). An expired one is not open.

    Raises InvalidField.
    """
    fields = {**HOLD_FIELDS, "review_due": Column(review_due(now), Sort.FLAG)}
    wanted = conditions(fields, {name: text for name, text in filters.items() if name != "state"})
    if "state" in filters:
        wanted.append(hold_state(filters["state"], now))
    if bound is not None:
        pairs = " OR ".join("(t.kind = ? AND t.ref = ?)" for _ in bound) or NEVER[0]
        sql = f"q.id IN (SELECT t.quarantine_id FROM hold_target t WHERE {pairs})"
        wanted.append((sql, [text for pair in bound for text in pair]))
    select = f"SELECT {holds.COLUMNS} FROM quarantine q"
    return [holds.record_of(row) for row in _select(snapshot, select, wanted, "q.id", part)]


def review_due(now: datetime) -> str:
    """Give SQL that is 1 where a date of the hold `q` in force is over that does not end it."""
    at = f"{to_micros(now):d}"
    is_past = f"(q.review_at <= {at} OR (q.expires_at <= {at} AND q.release_policy <> 'at_expiry'))"
    is_over = f"(q.release_policy = 'at_expiry' AND q.expires_at <= {at})"
    # A comparison with a date that is not set is NULL, which CASE takes for no.
    return f"(CASE WHEN q.state = 'open' AND {is_past} AND NOT COALESCE({is_over}, FALSE) THEN 1 ELSE 0 END)"


def hold_state(state: str, now: datetime) -> Condition:
    """Ask for holds `q` of a state: one past its own date is released, whether it is written down or not."""
    is_over = f"(q.release_policy = 'at_expiry' AND q.expires_at <= {to_micros(now):d})"
    if state == "open":
        return f"q.state = 'open' AND NOT {is_over}", ()
    if state == "released":
        return f"(q.state = 'released' OR (q.state = 'open' AND {is_over}))", ()
    return NEVER


CONFLICT_FIELDS = {
    **columns("c", "id", "state", "rule", "kind", "resolved_by", "resolved_as"),
    **columns("c", "opened_at", "resolved_at", sort=Sort.TIME),
    **columns("c", "reason", "resolve_reason", sort=Sort.PROSE),
    "node": Column("n.name"),
    "device": Column("x.ref"),
}


def list_conflicts(
    snapshot: Snapshot, filters: Mapping[str, str], part: Slice, *, device: str | None = None
) -> list[conflicts.Conflict]:
    """Return conflicts; with `device`, those that the unit is part of. Raises InvalidField."""
    select = f"SELECT {conflicts.COLUMNS} FROM conflict c JOIN node n ON n.id = c.node_id"
    asked = dict(filters)
    if device is not None:
        select += " JOIN conflict_party x ON x.conflict_id = c.id AND x.kind = 'device'"
        asked["device"] = device
    wanted = conditions(CONFLICT_FIELDS, asked)
    return [conflicts.conflict_of(row) for row in _select(snapshot, select, wanted, "c.id", part)]


NODE_FIELDS = {
    "name": Column("n.name"),
    "profile": Column("s.profile"),
    "zone": Column("s.zone"),
    "provider_id": Column(
        "l.provider_id",
        among="n.id IN (SELECT a.node_id FROM instance l JOIN node_state a ON a.instance_id = l.id WHERE {})",
    ),
    "boot_id": Column(
        "o.boot_id", among="n.id IN (SELECT a.node_id FROM boot o JOIN node_state a ON a.boot_id = o.id WHERE {})"
    ),
    **columns("n", "registered_at", "retired_at", "maintenance_until", sort=Sort.TIME),
    **columns("n", "maintenance_reason", sort=Sort.PROSE),
    **columns("s", "reported_at", sort=Sort.TIME),
}


# The index of the times of report gives the few: the wide rows of all the others are not read.
_SILENT = (
    "n.retired_at IS NULL AND (n.id IN (SELECT x.node_id FROM node_state x WHERE x.reported_at < ?) "
    "OR NOT EXISTS (SELECT 1 FROM node_state x WHERE x.node_id = n.id))"
)


# Draining is asked for by a hold or by a condition that has lasted: the nodes without a condition are many.
_MAY_DRAIN = (
    "(n.id IN (SELECT c.node_id FROM node_condition c) "
    "OR EXISTS (SELECT 1 FROM quarantine q WHERE q.is_drain = 1 AND q.state = 'open'))"
)


def list_nodes(
    snapshot: Snapshot,
    filters: Mapping[str, str],
    part: Slice,
    *,
    silent_since: datetime | None = None,
    may_drain: bool = False,
) -> list[tuple[str, str]]:
    """Return (id, name) of nodes; with `silent_since`, of those, not retired, that were not heard since.

    With `may_drain` those are left out of which it is certain that nothing asks to drain them. Raises InvalidField.
    """
    wanted = conditions(NODE_FIELDS, filters)
    if silent_since is not None:
        wanted.append((_SILENT, (to_micros(silent_since),)))
    if may_drain:
        wanted.append((_MAY_DRAIN, ()))
    select = "SELECT n.id, n.name FROM node n LEFT JOIN node_state s ON s.node_id = n.id"
    return [(row[0], row[1]) for row in _select(snapshot, select, wanted, "n.id", part)]


JOB_FIELDS = {
    **columns("j", "job_id", "state", "unit", "outcome", "reporter"),
    **columns("j", "recorded_at", "started_at", "ended_at", "last_at", sort=Sort.TIME),
    **columns("j", "nodes", "devices", sort=Sort.NUMBER),
    "node": Column("w.node", among="j.id IN (SELECT w.job FROM job_node w WHERE {})"),
}


def list_jobs(snapshot: Snapshot, filters: Mapping[str, str], part: Slice) -> list[jobs.Job]:
    """Return jobs; `node` is any that a start of theirs named. Raises InvalidField."""
    select = f"SELECT {jobs.BRIEF} FROM job j"
    return [jobs.job_of(row) for row in _select(snapshot, select, conditions(JOB_FIELDS, filters), "j.id", part)]


JOB_FAILURE_FIELDS = {
    **columns("j", "id", "job_id", "reporter", "signal", "attribution", "cause", "retry"),
    **columns("j", "started_at", "failed_at", "recorded_at", "judged_at", sort=Sort.TIME),
    **columns("j", "confidence", "revision", sort=Sort.NUMBER),
    "exit_code": Column("j.exit_code", Sort.SIGNED),
    "user": Column("j.user_name"),
    "node": Column("w.node", among="j.id IN (SELECT w.job_failure FROM job_failure_node w WHERE {})"),
    "device": Column("w.device_id", among="j.id IN (SELECT w.job_failure FROM job_failure_device w WHERE {})"),
}


def list_job_failures(snapshot: Snapshot, filters: Mapping[str, str], part: Slice) -> list[job_failures.Record]:
    """Return failed jobs; `node` is any of theirs, `device` one that is left out of a retry. Raises InvalidField."""
    select = f"SELECT {job_failures.COLUMNS} FROM job_failure j"
    wanted = conditions(JOB_FAILURE_FIELDS, filters)
    return [job_failures.record_of(row) for row in _select(snapshot, select, wanted, "j.id", part)]


REPAIR_FIELDS = {
    **columns("r", "id", "action", "condition", "state", "claimed_by", "outcome"),
    **columns("r", "because", "waits_for", "detail", sort=Sort.PROSE),
    **columns("r", "planned_at", "ready_at", "claimed_at", "lease_until", "ended_at", "settled_at", sort=Sort.TIME),
    "token": Column("r.attempts", Sort.NUMBER),
    "node": Column("n.name"),
    "provider_id": Column("l.provider_id", among="r.instance_id IN (SELECT l.id FROM instance l WHERE {})"),
    "device": Column("r.device_id"),
}


def list_repairs(snapshot: Snapshot, filters: Mapping[str, str], part: Slice) -> list[repairs.Repair]:
    """Return repairs; `device` is our id of one. Raises InvalidField."""
    select = f"SELECT {repairs.COLUMNS} FROM {repairs.FROM}"
    wanted = conditions(REPAIR_FIELDS, filters)
    return [repairs.repair_of(row) for row in _select(snapshot, select, wanted, "r.id", part)]


DELIVERY_FIELDS = {
    **columns("y", "id", "state", "error"),
    **columns("y", "created_at", "tried_at", "retry_at", "ended_at", sort=Sort.TIME),
    **columns("y", "event", "attempts", "status", sort=Sort.NUMBER),
    "type": Column("e.type"),
}


def list_deliveries(
    snapshot: Snapshot, subscription_id: str, filters: Mapping[str, str], part: Slice
) -> list[tuple[deliveries.Delivery, str | None]]:
    """Return deliveries of a subscription with the types of their events. Raises InvalidField."""
    select = f"SELECT {deliveries.DELIVERY_COLUMNS}, e.type FROM delivery y LEFT JOIN event e ON e.sequence = y.event"
    of_one: Condition = ("y.subscription_id = ?", (subscription_id,))
    wanted = [of_one, *conditions(DELIVERY_FIELDS, filters)]
    return [(deliveries.delivery_of(row[:-1]), row[-1]) for row in _select(snapshot, select, wanted, "y.id", part)]
