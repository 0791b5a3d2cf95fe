# SPDX-License-Identifier: Apache-2.0
"""Which holds are there, and which of them meet a unit, a board, a machine or something never seen?

"Is it quarantined?" is answered here and nowhere else: `open_on` for records, `open_on_node` for what stands on a node,
`HELD` for lists that are read by their state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from registry.domain.actors import Actor
from registry.domain.quarantine import Hold, HoldMatch, HoldState, ReleasePolicy, Scope, TargetKind
from registry.store.database import Snapshot, Transaction, from_micros, to_micros
from registry.store.devices import in_chunks


@dataclass(frozen=True, slots=True)
class HoldRecord:
    """A hold with what it was asked for and what it has earned.

    `fault_at` is the time of the fault it waits to be cured of, `fault_boot` our id of the boot that showed it where
    that is known, `restart_at` the newest restart after that, `clean_runs` the clean runs since that restart.
    """

    hold: Hold
    target: Mapping[str, Any]
    evidence: Any = None
    fault_at: datetime | None = None
    fault_boot: str | None = None
    restart_at: datetime | None = None
    clean_runs: int = 0
    binds: tuple[tuple[str, str], ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Bind:
    """A hold that meets a node, and what it meets there: a unit in a slot, or None for the machine itself."""

    quarantine_id: str
    device_id: str | None


_NAMES = (
    *("id", "state", "owner", "target_kind", "target_key", "target", "scope", "match", "reason", "cause", "ticket"),
    *("release_policy", "is_permanent", "is_drain", "opened_at", "review_at", "expires_at", "fault_at", "fault_boot"),
    *("restart_at", "clean_runs", "released_at", "released_by", "release_reason", "evidence"),
)
COLUMNS = ", ".join(f"q.{name}" for name in _NAMES)


HELD = (
    "EXISTS (SELECT 1 FROM hold_target t JOIN quarantine q ON q.id = t.quarantine_id WHERE t.is_open = 1 "
    "AND ((t.kind = 'unit' AND t.ref = d.id) OR (t.kind = 'board' AND t.ref = d.board_id)) "
    "AND (q.release_policy <> 'at_expiry' OR q.expires_at > ?))"
)
"""Whether the unit `d` of a query has a hold in force, on itself or on its board. Takes the time as parameter."""


def record_of(row: Sequence[Any]) -> HoldRecord:
    """Make a record of a row of `COLUMNS`."""
    cells = dict(zip(_NAMES, row, strict=True))
    return HoldRecord(
        hold=_hold_of(cells),
        target=json.loads(cells["target"]),
        evidence=json.loads(cells["evidence"]),
        fault_at=from_micros(cells["fault_at"]),
        fault_boot=cells["fault_boot"],
        restart_at=from_micros(cells["restart_at"]),
        clean_runs=cells["clean_runs"],
    )


def _hold_of(cells: Mapping[str, Any]) -> Hold:
    scope, released_by = cells["scope"], cells["released_by"]
    return Hold(
        id=cells["id"],
        owner=Actor.parse(cells["owner"]),
        target_kind=TargetKind(cells["target_kind"]),
        target_key=cells["target_key"],
        reason=cells["reason"],
        opened_at=from_micros(cells["opened_at"]),
        state=HoldState(cells["state"]),
        scope=Scope(scope) if scope else None,
        match=HoldMatch(cells["match"]),
        cause=cells["cause"],
        ticket=cells["ticket"],
        release_policy=ReleasePolicy(cells["release_policy"]),
        permanent=bool(cells["is_permanent"]),
        drain=bool(cells["is_drain"]),
        review_at=from_micros(cells["review_at"]),
        expires_at=from_micros(cells["expires_at"]),
        released_at=from_micros(cells["released_at"]),
        released_by=Actor.parse(released_by) if released_by else None,
        release_reason=cells["release_reason"],
    )


def find_hold(snapshot: Snapshot, hold_id: str) -> HoldRecord | None:
    """Return the hold with this id."""
    row = snapshot.one(f"SELECT {COLUMNS} FROM quarantine q WHERE q.id = ?", (hold_id,))
    return record_of(row) if row else None


def get_holds(snapshot: Snapshot, hold_ids: Iterable[str]) -> dict[str, HoldRecord]:
    """Return the holds with these ids."""
    rows = in_chunks(snapshot, lambda marks: f"SELECT {COLUMNS} FROM quarantine q WHERE q.id IN ({marks})", hold_ids)
    return {row[0]: record_of(row) for row in rows}


def insert_hold(tx: Transaction, record: HoldRecord) -> None:
    """Write a new hold and what it binds. Raises Duplicate when its owner has one open on this target."""
    hold = record.hold
    values = (
        hold.id,
        hold.state,
        str(hold.owner),
        hold.target_kind,
        hold.target_key,
        json.dumps(record.target),
        hold.scope,
        hold.match,
        hold.reason,
        hold.cause,
        hold.ticket,
        hold.release_policy,
        int(hold.permanent),
        int(hold.drain),
        to_micros(hold.opened_at),
        to_micros(hold.review_at),
        to_micros(hold.expires_at),
        to_micros(record.fault_at),
        record.fault_boot,
        to_micros(record.restart_at),
        record.clean_runs,
        json.dumps(record.evidence),
    )
    tx.execute(
        "INSERT INTO quarantine (id, state, owner, target_kind, target_key, target, scope, match, reason, cause, "
        "ticket, release_policy, is_permanent, is_drain, opened_at, review_at, expires_at, fault_at, fault_boot, "
        "restart_at, clean_runs, "
        f"evidence) VALUES ({', '.join('?' * len(values))})",
        values,
    )
    for kind, ref in record.binds:
        bind(tx, hold.id, kind, ref)


def bind(tx: Transaction, hold_id: str, kind: str, ref: str) -> None:
    """Let an open hold meet one more thing: unit, board, instance, chassis, name or identifier."""
    tx.execute(
        "INSERT INTO hold_target (quarantine_id, kind, ref, is_open) VALUES (?, ?, ?, 1) ON CONFLICT DO NOTHING",
        (hold_id, kind, ref),
    )


def end_hold(tx: Transaction, hold_id: str, *, released_by: Actor, reason: str) -> None:
    """End a hold; it stays as history."""
    tx.execute(
        "UPDATE quarantine SET state = 'released', released_at = ?, released_by = ?, release_reason = ? WHERE id = ?",
        (to_micros(tx.now), str(released_by), reason, hold_id),
    )
    tx.execute("UPDATE hold_target SET is_open = 0 WHERE quarantine_id = ?", (hold_id,))


def set_progress(tx: Transaction, record: HoldRecord) -> None:
    """Write what a hold has earned so far."""
    tx.execute(
        "UPDATE quarantine SET fault_at = ?, fault_boot = ?, restart_at = ?, clean_runs = ? WHERE id = ?",
        (
            to_micros(record.fault_at),
            record.fault_boot,
            to_micros(record.restart_at),
            record.clean_runs,
            record.hold.id,
        ),
    )


def set_review(tx: Transaction, hold: Hold) -> None:
    """Write the dates and the ticket that a review gave a hold."""
    tx.execute(
        "UPDATE quarantine SET review_at = ?, expires_at = ?, ticket = ? WHERE id = ?",
        (to_micros(hold.review_at), to_micros(hold.expires_at), hold.ticket, hold.id),
    )


def open_on(snapshot: Snapshot, targets: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
    """Return the ids of the open holds that bind each of these (kind, ref)."""
    by_kind: dict[str, list[str]] = {}
    for kind, ref in targets:
        by_kind.setdefault(kind, []).append(ref)
    found: dict[tuple[str, str], list[str]] = {}
    for kind, refs in by_kind.items():
        rows = in_chunks(
            snapshot,
            lambda marks, kind=kind: (
                "SELECT ref, quarantine_id FROM hold_target "  # type: ignore[misc]
                f"WHERE kind = '{kind}' AND is_open = 1 AND ref IN ({marks})"
            ),
            refs,
        )
        for ref, hold_id in rows:
            found.setdefault((kind, ref), []).append(hold_id)
    return found


def open_on_node(snapshot: Snapshot, instance_id: str, machine: Sequence[tuple[str, str]]) -> list[Bind]:
    """Return every open hold that meets what is placed on an instance, or the machine under any of its references."""
    rows = snapshot.all(
        "SELECT t.quarantine_id, p.device_id FROM placement p CROSS JOIN hold_target t "
        "WHERE p.instance_id = ? AND p.until_at IS NULL AND t.is_open = 1 AND t.kind = 'unit' AND t.ref = p.device_id "
        "UNION ALL SELECT t.quarantine_id, p.device_id FROM placement p CROSS JOIN hold_target t "
        "WHERE p.instance_id = ? AND p.until_at IS NULL AND t.is_open = 1 AND t.kind = 'board' AND t.ref = p.board_id",
        (instance_id, instance_id),
    )
    binds = [Bind(hold_id, device_id) for hold_id, device_id in rows]
    on_machine = open_on(snapshot, machine)
    ids = dict.fromkeys(hold_id for group in on_machine.values() for hold_id in group)
    return [*binds, *(Bind(hold_id, None) for hold_id in ids)]


def open_on_ever_placed(snapshot: Snapshot, instance_id: str) -> set[str]:
    """Return the ids of the open holds on units that are or were placed on an instance, or on their boards."""
    rows = snapshot.all(
        "SELECT t.quarantine_id FROM placement p JOIN hold_target t ON t.is_open = 1 "
        "AND ((t.kind = 'unit' AND t.ref = p.device_id) OR (t.kind = 'board' AND t.ref = p.board_id)) "
        "WHERE p.instance_id = ?",
        (instance_id,),
    )
    return {row[0] for row in rows}


def open_for_identifiers(snapshot: Snapshot, refs: Iterable[str]) -> dict[str, list[str]]:
    """Return the open holds that wait for each of these identifiers."""
    rows = in_chunks(
        snapshot,
        lambda marks: (
            f"SELECT ref, quarantine_id FROM hold_target WHERE kind = 'identifier' AND is_open = 1 AND ref IN ({marks})"
        ),
        refs,
    )
    found: dict[str, list[str]] = {}
    for ref, hold_id in rows:
        found.setdefault(ref, []).append(hold_id)
    return found


def find_open_by_owner(snapshot: Snapshot, binds: Iterable[tuple[str, str]], owner: Actor) -> HoldRecord | None:
    """Return the open hold of this owner that binds any of these, if there is one."""
    ids = [one for group in open_on(snapshot, binds).values() for one in group]
    return next((one for one in get_holds(snapshot, ids).values() if one.hold.owner == owner), None)


def newest_release_by_person(snapshot: Snapshot, binds: Iterable[tuple[str, str]]) -> datetime | None:
    """Return when a person last released a hold on any of these."""
    return newest_by_person(
        snapshot,
        "SELECT MAX(q.released_at) FROM hold_target t JOIN quarantine q ON q.id = t.quarantine_id "
        "WHERE t.kind = ? AND t.ref = ? AND q.released_by LIKE ?",
        binds,
    )


def newest_by_person(snapshot: Snapshot, sql: str, binds: Iterable[tuple[str, str]]) -> datetime | None:
    """Return the newest time that a statement finds for any of these: it takes kind, reference and a person's actor."""
    found = (snapshot.one(sql, (*bind, "operator:%")) for bind in binds)
    return from_micros(max((row[0] for row in found if row and row[0] is not None), default=None))


def rule_releases(snapshot: Snapshot, binds: Iterable[tuple[str, str]], *, besides: str) -> list[datetime]:
    """Return when holds of rules on any of these were released, for whatever reason `besides` one."""
    found: list[datetime] = []
    for kind, ref in binds:
        rows = snapshot.all(
            "SELECT q.released_at FROM hold_target t JOIN quarantine q ON q.id = t.quarantine_id "
            "WHERE t.kind = ? AND t.ref = ? AND q.released_at IS NOT NULL AND q.owner LIKE ? AND q.release_reason <> ?",
            (kind, ref, "rule:%", besides),
        )
        found += [from_micros(row[0]) for row in rows]
    return found


def binds_of(snapshot: Snapshot, hold_id: str) -> list[tuple[str, str]]:
    """Return what a hold binds, or bound."""
    return [
        (row[0], row[1])
        for row in snapshot.all(
            "SELECT kind, ref FROM hold_target WHERE quarantine_id = ? ORDER BY kind, ref", (hold_id,)
        )
    ]


def expired(snapshot: Snapshot, now: datetime) -> list[str]:
    """Return the open holds whose own date is over."""
    rows = snapshot.all(
        "SELECT id FROM quarantine WHERE state = 'open' AND release_policy = 'at_expiry' AND expires_at <= ? "
        "ORDER BY id",
        (to_micros(now),),
    )
    return [row[0] for row in rows]
