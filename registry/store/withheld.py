# SPDX-License-Identifier: Apache-2.0
"""Which holds did rules want that the breaker did not let through, and which of them stand?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from registry.domain.actors import Actor
from registry.domain.quarantine import HoldMatch, ReleasePolicy, TargetKind
from registry.store.database import Snapshot, Transaction, from_micros, to_micros
from registry.store.devices import in_chunks
from registry.store.holds import newest_by_person


@dataclass(frozen=True, slots=True)
class WithheldRecord:
    """A hold that was not opened. What would end the hold ends it, and until then no node with its target is admitted.

    `limited_by` says which limit was reached; `fault_at` to `clean_runs` are as for a hold.
    """

    id: str
    owner: Actor
    target_kind: TargetKind
    target_key: str
    match: HoldMatch
    failure: str
    reason: str
    limited_by: str
    release_policy: ReleasePolicy
    opened_at: datetime
    fault_at: datetime
    fault_boot: str | None = None
    restart_at: datetime | None = None
    clean_runs: int = 0
    binds: tuple[tuple[str, str], ...] = field(default=())


COLUMNS = (
    "w.id, w.owner, w.target_kind, w.target_key, w.match, w.failure, w.reason, w.limited_by, w.release_policy, "
    "w.opened_at, w.fault_at, w.fault_boot, w.restart_at, w.clean_runs"
)


def record_of(row: Sequence[Any]) -> WithheldRecord:
    """Make a record of a row of `COLUMNS`."""
    id_, owner, kind, key, match, failure, reason, limited_by, release_policy, opened, fault, boot, restart, runs = row
    return WithheldRecord(
        id_,
        Actor.parse(owner),
        TargetKind(kind),
        key,
        HoldMatch(match),
        failure,
        reason,
        limited_by,
        ReleasePolicy(release_policy),
        from_micros(opened),
        from_micros(fault),
        boot,
        from_micros(restart),
        runs,
    )


def insert_withheld(tx: Transaction, one: WithheldRecord) -> None:
    """Keep that a hold was withheld, and what it would have bound."""
    values = (
        *(one.id, str(one.owner), one.target_kind, one.target_key, one.match, one.failure, one.reason, one.limited_by),
        *(one.release_policy, to_micros(one.opened_at), to_micros(one.fault_at), one.fault_boot),
        *(to_micros(one.restart_at), one.clean_runs),
    )
    tx.execute(
        "INSERT INTO withheld (id, owner, target_kind, target_key, match, failure, reason, limited_by, release_policy, "
        f"opened_at, fault_at, fault_boot, restart_at, clean_runs) VALUES ({', '.join('?' * len(values))})",
        values,
    )
    tx.many(
        "INSERT INTO withheld_target (withheld_id, kind, ref, is_open) VALUES (?, ?, ?, 1) ON CONFLICT DO NOTHING",
        [(one.id, kind, ref) for kind, ref in one.binds],
    )


def set_progress(tx: Transaction, one: WithheldRecord) -> None:
    """Write the newest evidence and what has been earned since."""
    tx.execute(
        "UPDATE withheld SET failure = ?, fault_at = ?, fault_boot = ?, restart_at = ?, clean_runs = ? WHERE id = ?",
        (one.failure, to_micros(one.fault_at), one.fault_boot, to_micros(one.restart_at), one.clean_runs, one.id),
    )


def end_withheld(tx: Transaction, withheld_id: str, *, by: Actor, reason: str) -> None:
    """Let it stand no longer; it stays on record."""
    tx.execute(
        "UPDATE withheld SET ended_at = ?, ended_by = ?, end_reason = ? WHERE id = ?",
        (to_micros(tx.now), str(by), reason, withheld_id),
    )
    tx.execute("UPDATE withheld_target SET is_open = 0 WHERE withheld_id = ?", (withheld_id,))


def find_record(snapshot: Snapshot, withheld_id: str) -> WithheldRecord | None:
    """Return what stands under this id."""
    row = snapshot.one(f"SELECT {COLUMNS} FROM withheld w WHERE w.id = ? AND w.ended_at IS NULL", (withheld_id,))
    return record_of(row) if row else None


def standing_on(snapshot: Snapshot, binds: Iterable[tuple[str, str]]) -> list[WithheldRecord]:
    """Return what stands against any of these (kind, ref), the oldest first."""
    found: dict[str, WithheldRecord] = {}
    for kind, ref in binds:
        rows = snapshot.all(
            f"SELECT {COLUMNS} FROM withheld_target t JOIN withheld w ON w.id = t.withheld_id "
            "WHERE t.kind = ? AND t.ref = ? AND t.is_open = 1",
            (kind, ref),
        )
        found |= {row[0]: record_of(row) for row in rows}
    return sorted(found.values(), key=lambda one: one.id)


def standing_for(snapshot: Snapshot, failure: str) -> list[WithheldRecord]:
    """Return what stands for the evidence of a failure, by our id."""
    rows = snapshot.all(f"SELECT {COLUMNS} FROM withheld w WHERE w.failure = ? AND w.ended_at IS NULL", (failure,))
    return [record_of(row) for row in rows]


def find_standing(snapshot: Snapshot, target_key: str, owner: Actor) -> WithheldRecord | None:
    """Return what a rule was kept from opening on a target, if it stands."""
    row = snapshot.one(
        f"SELECT {COLUMNS} FROM withheld w WHERE w.target_key = ? AND w.owner = ? AND w.ended_at IS NULL",
        (target_key, str(owner)),
    )
    return record_of(row) if row else None


def binds_of(snapshot: Snapshot, withheld_id: str) -> list[tuple[str, str]]:
    """Return what it binds, or bound."""
    rows = snapshot.all(
        "SELECT kind, ref FROM withheld_target WHERE withheld_id = ? ORDER BY kind, ref", (withheld_id,)
    )
    return [(row[0], row[1]) for row in rows]


def standing_on_node(
    snapshot: Snapshot, instance_id: str, machine: Iterable[tuple[str, str]]
) -> list[tuple[WithheldRecord, str | None]]:
    """Return what stands against the units placed on an instance, each with its unit, and against the machine."""
    here = "p.instance_id = ? AND p.until_at IS NULL AND t.is_open = 1 AND t.kind ="
    rows = snapshot.all(
        "SELECT t.withheld_id, p.device_id FROM placement p CROSS JOIN withheld_target t "
        f"WHERE {here} 'unit' AND t.ref = p.device_id "
        "UNION ALL SELECT t.withheld_id, p.device_id FROM placement p CROSS JOIN withheld_target t "
        f"WHERE {here} 'board' AND t.ref = p.board_id",
        (instance_id, instance_id),
    )
    records = _get(snapshot, [withheld_id for withheld_id, _ in rows])
    on_devices = [(records[withheld_id], device_id) for withheld_id, device_id in rows]
    return [*on_devices, *((one, None) for one in standing_on(snapshot, machine))]


def standing_on_ever_placed(snapshot: Snapshot, instance_id: str) -> list[WithheldRecord]:
    """Return what stands against units that are or were placed on an instance."""
    rows = snapshot.all(
        "SELECT DISTINCT t.withheld_id FROM withheld_target t JOIN placement p ON p.device_id = t.ref "
        "WHERE t.is_open = 1 AND t.kind = 'unit' AND p.instance_id = ?",
        (instance_id,),
    )
    return list(_get(snapshot, [row[0] for row in rows]).values())


def _get(snapshot: Snapshot, ids: Iterable[str]) -> dict[str, WithheldRecord]:
    rows = in_chunks(snapshot, lambda marks: f"SELECT {COLUMNS} FROM withheld w WHERE w.id IN ({marks})", ids)
    return {row[0]: record_of(row) for row in rows}


def newest_dismissal(snapshot: Snapshot, binds: Iterable[tuple[str, str]]) -> datetime | None:
    """Return when a person last said that withheld evidence against any of these is settled."""
    return newest_by_person(
        snapshot,
        "SELECT MAX(w.ended_at) FROM withheld_target t JOIN withheld w ON w.id = t.withheld_id "
        "WHERE t.kind = ? AND t.ref = ? AND w.ended_by LIKE ?",
        binds,
    )
