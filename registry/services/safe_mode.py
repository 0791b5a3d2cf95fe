# SPDX-License-Identifier: Apache-2.0
"""Is the service sure of its records? While it is not it admits nobody, until somebody takes note of the loss."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from registry.domain.actors import SYSTEM, Actor, Subject, SubjectKind
from registry.domain.errors import NotOpen
from registry.domain.events import JSON, Draft, EventType
from registry.domain.safe_mode import Head, Loss, find_loss
from registry.domain.times import rfc3339
from registry.services.life import SERVICE
from registry.store import alarms, history
from registry.store.alarms import Alarm
from registry.store.database import Database, Snapshot, Transaction


def assess(db: Database, seen: Sequence[Head], *, now: datetime) -> Alarm | None:
    """Compare the records with the heads that were seen outside, the newest first; return the alarm this raised.

    None when they agree, when nothing was seen, and when this very head raised its alarm before: what an administrator
    took note of is not asked about again. Read what was seen before you call: the records only grow.
    """
    if not seen:
        return None
    with db.read() as snapshot:
        if find_new_loss(snapshot, seen) is None:
            return None
    with db.write(now) as tx:
        loss = find_new_loss(tx, seen)  # again: another process may have raised it meanwhile
        if loss is None:
            return None
        alarm = Alarm(seen[0].hash, loss.cause, loss.first, loss.last, now)
        alarms.insert_alarm(tx, alarm)
        _record(tx, EventType.SERVICE_SUSPENDED, SYSTEM, {**_told(alarm), "checkpoint": seen[0].hash})
    return alarm


def acknowledge(db: Database, *, reason: str, actor: Actor, now: datetime) -> dict[str, Any]:
    """Take note of what is lost, and admit nodes again. Raises NotOpen when the service is not in safe mode."""
    with db.write(now) as tx:
        standing = alarms.list_open(tx)
        if not standing:
            raise NotOpen("the service is not in safe mode")
        alarms.end_all(tx, by=str(actor), reason=reason)
        lost: list[JSON] = [dict(_told(one)) for one in standing]
        _record(tx, EventType.SERVICE_ACKNOWLEDGED, actor, {"reason": reason, "lost": lost})
    return {"safe_mode": False, "acknowledged_at": rfc3339(now), "reason": reason, "lost": shown(standing)}


def list_standing(snapshot: Snapshot) -> tuple[Alarm, ...]:
    """Return the alarms that stand; there are none outside safe mode."""
    return alarms.list_open(snapshot)


def tell_standing(db: Database) -> tuple[str, ...]:
    """Say in a sentence each what is lost; nothing outside safe mode."""
    with db.read() as snapshot:
        return tuple(describe(one) for one in list_standing(snapshot))


def shown(standing: Sequence[Alarm]) -> list[dict[str, Any]]:
    """Give alarms as answers show them."""
    return [{**_told(one), "since": rfc3339(one.since)} for one in standing]


def describe(alarm: Alarm) -> str:
    """Say in one sentence what is lost."""
    lost = f"entries {alarm.lost_from} to {alarm.lost_to}"
    return f"Safe mode: {lost} of the history were seen outside the database and are not in it ({alarm.cause})."


def find_new_loss(snapshot: Snapshot, seen: Sequence[Head]) -> Loss | None:
    """Compare as `assess` does, and change nothing; None when there is nothing that was not noted yet."""
    if not seen or alarms.find_alarm(snapshot, seen[0].hash) is not None:
        return None
    return find_loss(seen, snapshot.sequence(), lambda sequence: history.find_hash(snapshot, sequence))


def _told(alarm: Alarm) -> dict[str, JSON]:
    return {"cause": str(alarm.cause), "from": alarm.lost_from, "to": alarm.lost_to}


def _record(tx: Transaction, type_: EventType, actor: Actor, data: dict[str, JSON]) -> None:
    tx.record(Draft(type_, actor, (Subject(SubjectKind.SERVICE, SERVICE),), data))
