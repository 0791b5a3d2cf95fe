# SPDX-License-Identifier: Apache-2.0
"""What is held or withheld now, page by page, and what is on record of it? Each question for all of a page at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from registry.domain.checks import CheckState
from registry.domain.log_lines import is_line
from registry.domain.quarantine import is_in_force
from registry.store import holds, nodes, repairs, search, withheld
from registry.store.check_column import load_checks
from registry.store.database import Row, Snapshot, from_micros
from registry.store.devices import in_chunks
from registry.store.filters import Condition, conditions, where
from registry.store.holds import HoldRecord
from registry.store.repairs import Repair
from registry.store.search import HOLD_FIELDS, Slice
from registry.store.withheld import WithheldRecord

NEWEST = 64
"""Faults and placements that are read of one device or node: a bad one has thousands, and more say nothing new."""

TOGETHER = 64
"""So many devices are asked for in one statement: SQLite joins at most 500 parts.
https://www.sqlite.org/limits.html#max_compound_select"""

_ANY = "EXISTS (SELECT 1 FROM {table} t WHERE t.{key} = {id} AND t.is_open = 1 AND ({what}))"
_OF_MODEL = (
    "(t.kind = 'unit' AND t.ref IN (SELECT d.id FROM device d WHERE d.id = t.ref AND d.model = ?)) "
    "OR (t.kind = 'board' AND EXISTS (SELECT 1 FROM device d WHERE d.board_id = t.ref AND d.model = ?))"
)
_SELECT_WITHHELD = f"SELECT {withheld.COLUMNS}, f.cause FROM withheld w LEFT JOIN failure f ON f.id = w.failure"
_ENTRIES = ("quarantine_id", "hold_target", "q.id"), ("withheld_id", "withheld_target", "w.id")


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Which part of the queue is asked for. `bound` are the (kind, ref) that a hold must bind, None for any."""

    cause: str | None = None
    owner: str | None = None
    ticket: str | None = None
    model: str | None = None
    is_overdue: bool = False
    bound: Sequence[tuple[str, str]] | None = None


def list_open(snapshot: Snapshot, asked: Narrowed, part: Slice, now: datetime) -> list[HoldRecord]:
    """Return holds in force; one more than a page has, to show whether more follow."""
    fields = {"cause": asked.cause, "owner": asked.owner, "ticket": asked.ticket}
    wanted = conditions(HOLD_FIELDS, {name: text for name, text in fields.items() if text is not None})
    wanted += [search.hold_state("open", now), *_met(asked, 0)]
    if asked.is_overdue:
        wanted.append((f"{search.review_due(now)} = 1", ()))
    rows = _page(snapshot, f"SELECT {holds.COLUMNS} FROM quarantine q", wanted, "q.id", part)
    return [holds.record_of(row) for row in rows]


def list_standing(snapshot: Snapshot, asked: Narrowed, part: Slice) -> list[tuple[WithheldRecord, str | None]]:
    """Return what the breaker withheld and nobody has settled, each with the cause of its fault."""
    if asked.is_overdue or asked.ticket is not None:
        return []  # it has neither date nor ticket
    wanted: list[Condition] = [("w.ended_at IS NULL", ()), *_met(asked, 1)]
    wanted += [("f.cause = ?", (asked.cause,))] if asked.cause is not None else []
    wanted += [("w.owner = ?", (asked.owner,))] if asked.owner is not None else []
    rows = _page(snapshot, _SELECT_WITHHELD, wanted, "w.id", part)
    return [(withheld.record_of(row[:-1]), row[-1]) for row in rows]


def _met(asked: Narrowed, which: int) -> Iterator[Condition]:
    key, table, id_ = _ENTRIES[which]
    if asked.bound is not None:
        pairs = " OR ".join("(t.kind = ? AND t.ref = ?)" for _ in asked.bound) or search.NEVER[0]
        sql = f"{id_} IN (SELECT t.{key} FROM {table} t WHERE t.is_open = 1 AND ({pairs}))"
        yield sql, [text for pair in asked.bound for text in pair]
    if asked.model is not None:
        yield _ANY.format(table=table, key=key, id=id_, what=_OF_MODEL), (asked.model, asked.model)


def _page(snapshot: Snapshot, select: str, wanted: list[Condition], key: str, part: Slice) -> list[Row]:
    comparison, order = ("<", "DESC") if part.newest_first else (">", "ASC")
    after: list[Condition] = [(f"{key} {comparison} ?", (part.after,))] if part.after is not None else []
    clause, values = where([*wanted, *after])
    return snapshot.all(f"{select}{clause} ORDER BY {key} {order} LIMIT {part.limit + 1:d}", values)


def count_open(snapshot: Snapshot, now: datetime) -> Counter[tuple[str | None, str, bool]]:
    """Return how many holds are in force by cause, owner, and whether a review is due."""
    state, values = search.hold_state("open", now)
    sql = (
        f"SELECT q.cause, q.owner, {search.review_due(now)}, COUNT(*) FROM quarantine q WHERE {state} GROUP BY 1, 2, 3"
    )
    found: Counter[tuple[str | None, str, bool]] = Counter()
    for cause, owner, is_due, count in snapshot.all(sql, values):
        found[cause, owner, bool(is_due)] += count
    return found


def binds_of(snapshot: Snapshot, ids: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """Return what each of these holds, or withheld ones, binds."""
    found: dict[str, list[tuple[str, str]]] = {}
    ids = list(ids)
    for key, table, _ in _ENTRIES:
        rows = in_chunks(
            snapshot,
            lambda marks, key=key, table=table: (
                f"SELECT {key}, kind, ref FROM {table} WHERE {key} IN ({marks})"  # type: ignore[misc]
            ),
            ids,
        )
        for id_, kind, ref in rows:
            found.setdefault(id_, []).append((kind, ref))
    return found


# --- what is on record of what is held --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault as evidence: its code, where it was seen, when first, and whether the kernel's log told of it."""

    code: str
    node_id: str | None
    slot: str | None
    at: datetime
    is_logged: bool


_FAULTS = (
    "SELECT f.{key}, f.code, f.node_id, f.slot, COALESCE(f.occurred_at, f.recorded_at), f.evidence FROM failure f "
    "WHERE f.{key} = ? AND f.state = 'active' AND f.muted IS NULL ORDER BY f.id DESC LIMIT {limit}"
)
_PLACES = (
    "SELECT p.device_id, p.node_id, p.slot, p.since_at FROM placement p "
    "WHERE p.device_id = ? ORDER BY p.since_at DESC LIMIT {limit}"
)


def newest_faults(snapshot: Snapshot, ids: Iterable[str], *, of_nodes: bool = False) -> dict[str, list[Fault]]:
    """Return the newest faults of these devices, or of these nodes, that count: neither withdrawn nor muted."""
    key = "node_id" if of_nodes else "device_id"
    found: dict[str, list[Fault]] = {}
    for id_, code, node_id, slot, at, evidence in _newest(snapshot, _FAULTS.format(key=key, limit=NEWEST), ids):
        fault = Fault(code, node_id, slot, from_micros(at), is_line(json.loads(evidence)))
        found.setdefault(id_, []).append(fault)
    return found


def newest_places(snapshot: Snapshot, device_ids: Iterable[str]) -> dict[str, list[tuple[str, str, datetime]]]:
    """Return the newest places of these devices: node, slot and since when."""
    found: dict[str, list[tuple[str, str, datetime]]] = {}
    for id_, node_id, slot, since in _newest(snapshot, _PLACES.format(limit=NEWEST), device_ids):
        found.setdefault(id_, []).append((node_id, slot or "", from_micros(since)))
    return found


def _newest(snapshot: Snapshot, sql: str, ids: Iterable[str]) -> Iterator[Row]:
    """Run a limited query for each id, many of them in one statement."""
    wanted = sorted(set(ids))
    for start in range(0, len(wanted), TOGETHER):
        part = wanted[start : start + TOGETHER]
        together = " UNION ALL ".join(f"SELECT * FROM ({sql}) AS a{at}" for at in range(len(part)))
        yield from snapshot.all(together, part)


def checks_of(snapshot: Snapshot, node_ids: Iterable[str], name: str) -> dict[str, CheckState]:
    """Return how one check stands on each of these nodes that has it."""
    rows = in_chunks(
        snapshot, lambda marks: f"SELECT node_id, checks FROM node_state WHERE node_id IN ({marks})", node_ids
    )
    states = {node_id: load_checks(text).get(name) for node_id, text in rows}
    return {node_id: state for node_id, state in states.items() if state is not None}


def orders_of(snapshot: Snapshot, device_ids: Iterable[str]) -> dict[str, Repair]:
    """Return the repair that waits or is under way of each of these devices that has one."""
    rows = in_chunks(
        snapshot,
        lambda marks: (
            f"SELECT {repairs.COLUMNS} FROM {repairs.FROM} WHERE r.device_id IN ({marks}) "
            "AND r.state IN ('planned', 'ready', 'claimed')"
        ),
        device_ids,
    )
    found = [repairs.repair_of(row) for row in rows]
    return {str(one.order.device_id): one for one in sorted(found, key=lambda one: one.order.id)}


def name_of_machine(snapshot: Snapshot, target_key: str) -> str | None:
    """Return the name under which the machine of a hold's target was last seen; `node:<what>:<reference>`."""
    _, what, ref = target_key.split(":", 2)
    if what == "name":
        return ref
    found = nodes.names_of_machines(snapshot, [(what, ref)])
    return found[0] if found else None


def get_waiting(
    snapshot: Snapshot, ids: Iterable[str], now: datetime
) -> tuple[list[HoldRecord], list[tuple[WithheldRecord, str | None]]]:
    """Return those of these that are in force, and those that the breaker withheld and that stand, with the cause."""
    ids = list(ids)
    found = [one for one in holds.get_holds(snapshot, ids).values() if is_in_force(one.hold, now)]
    rows = in_chunks(
        snapshot,
        lambda marks: f"{_SELECT_WITHHELD} WHERE w.ended_at IS NULL AND w.id IN ({marks})",
        ids,
    )
    return found, [(withheld.record_of(row[:-1]), row[-1]) for row in rows]
