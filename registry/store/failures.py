# SPDX-License-Identifier: Apache-2.0
"""Which faults are on record, and which of them found no device to belong to?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from registry.store.database import Snapshot, Transaction, from_micros, to_micros


@dataclass(frozen=True, slots=True)
class Failure:
    """One fault as recorded. `ref` is the device as the reporter named it, `occurred_at` the reporter's claim.

    `failure_id` is unique within `id_scope`: the node whose own message it was in, or nobody's. Nodes need not agree.
    `muted` says why the fault has no effect whatever its code: it is None for nearly all.
    """

    id: str
    failure_id: str
    id_scope: str
    reporter: str
    digest: str
    code: str
    kind: str | None
    cause: str
    severity: str
    effect: str
    state: str
    device_id: str | None
    board_id: str | None
    node_id: str | None
    instance_id: str | None
    boot_id: str | None
    slot: str | None
    ref: str | None
    occurred_at: datetime | None
    recorded_at: datetime
    count: int
    last_at: datetime
    is_unattached: bool
    muted: str | None
    message: str | None
    evidence: Any

    @property
    def seen_at(self) -> datetime:
        """When it was seen: the reporter's claim, but never later than its receipt."""
        return min(self.occurred_at or self.recorded_at, self.recorded_at)


_FIELDS = tuple(one.name for one in fields(Failure))
COLUMNS = ", ".join(f"f.{name}" for name in _FIELDS)
_TIMES = ("occurred_at", "recorded_at", "last_at")


def failure_of(row: Sequence[Any]) -> Failure:
    """Make a failure of a row of `COLUMNS`."""
    values = dict(zip(_FIELDS, row, strict=False))
    for name in _TIMES:
        values[name] = from_micros(values[name])
    return Failure(
        **{**values, "is_unattached": bool(values["is_unattached"]), "evidence": json.loads(values["evidence"])}
    )


def find_failure(snapshot: Snapshot, id_: str) -> Failure | None:
    """Return the failure with our id."""
    row = snapshot.one(f"SELECT {COLUMNS} FROM failure f WHERE f.id = ?", (id_,))
    return failure_of(row) if row else None


def find_same(
    snapshot: Snapshot,
    code: str,
    device_id: str,
    *,
    boot_id: str | None,
    occurred_at: datetime | None,
    effect: str,
    muted: str | None,
) -> Failure | None:
    """Return the failure of this code on this device that another sight belongs to.

    It is the one that was seen at this very time, which is the same event even where somebody has withdrawn it; or the
    one that this boot has shown already, if it had the effect that the code has now.
    """
    moment = to_micros(occurred_at)
    row = snapshot.one(
        f"SELECT {COLUMNS} FROM failure f WHERE f.device_id = ? AND f.code = ? AND ((f.occurred_at = ? "
        "AND COALESCE(f.muted, '') = ?) OR (f.boot_id = ? AND f.effect = ? AND COALESCE(f.muted, '') = ? "
        "AND f.state = 'active')) "
        "ORDER BY CASE WHEN f.occurred_at = ? THEN 0 ELSE 1 END, f.id LIMIT 1",
        (device_id, code, moment, muted or "", boot_id, effect, muted or "", moment),
    )
    return failure_of(row) if row else None


def is_shown_in_boot(snapshot: Snapshot, code: str, device_id: str, boot_id: str) -> bool:
    """Tell whether this boot has shown a fault of this code on this device that was not muted, withdrawn ones too."""
    row = snapshot.one(
        "SELECT 1 FROM failure WHERE device_id = ? AND code = ? AND boot_id = ? AND muted IS NULL LIMIT 1",
        (device_id, code, boot_id),
    )
    return row is not None


def of_boot(snapshot: Snapshot, boot_id: str, *, node_id: str, device_id: str) -> list[Failure]:
    """Return what a boot of a node has shown on a device, and on the node as a whole, withdrawn faults too."""
    rows = snapshot.all(
        f"SELECT {COLUMNS} FROM failure f WHERE f.boot_id = ? "
        "AND (f.device_id = ? OR (f.node_id = ? AND f.device_id IS NULL)) ORDER BY f.id",
        (boot_id, device_id, node_id),
    )
    return [failure_of(row) for row in rows]


def insert_failure(tx: Transaction, failure: Failure) -> None:
    """Write a new failure."""
    values = [getattr(failure, name) for name in _FIELDS]
    stored = [to_micros(v) if isinstance(v, datetime) else int(v) if isinstance(v, bool) else v for v in values[:-1]]
    tx.execute(
        f"INSERT INTO failure ({', '.join(_FIELDS)}) VALUES ({', '.join('?' * len(_FIELDS))})",
        (*stored, json.dumps(failure.evidence)),
    )


def attach(tx: Transaction, failure: Failure, *, device_id: str, board_id: str) -> None:
    """Give a fault the device that the first list of its boot showed in its slot."""
    tx.execute(
        "UPDATE failure SET device_id = ?, board_id = ?, is_unattached = 0 WHERE id = ?",
        (device_id, board_id, failure.id),
    )


def adopt(tx: Transaction, failure: Failure, *, instance_id: str, boot_id: str) -> None:
    """Give a fault that came before its node had a life to the first one: it ends with that."""
    tx.execute("UPDATE failure SET instance_id = ?, boot_id = ? WHERE id = ?", (instance_id, boot_id, failure.id))


def set_withdrawn(tx: Transaction, failure: Failure) -> None:
    """Note that a person said it was none."""
    tx.execute("UPDATE failure SET state = 'withdrawn', is_unattached = 0 WHERE id = ?", (failure.id,))


def unattached(snapshot: Snapshot, instance_id: str, node_id: str | None = None) -> list[Failure]:
    """Return the active faults of an instance that found no device; with `node_id`, those before any life too."""
    before = "OR (f.instance_id IS NULL AND f.node_id = ?)" if node_id else ""
    rows = snapshot.all(
        f"SELECT {COLUMNS} FROM failure f WHERE (f.instance_id = ? {before}) AND f.is_unattached = 1 "
        "AND f.state = 'active' ORDER BY f.id",
        (instance_id, *([node_id] if node_id else [])),
    )
    return [failure_of(row) for row in rows]
