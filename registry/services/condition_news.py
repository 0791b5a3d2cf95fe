# SPDX-License-Identifier: Apache-2.0
"""What does the history hear of conditions, and what of them when their instance ends?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from registry.domain.actors import SYSTEM, Actor, Subject, SubjectKind
from registry.domain.conditions import News, Record, ended
from registry.domain.events import Draft, EventType
from registry.domain.times import rfc3339, rfc3339_or_none
from registry.services.subjects import of_devices
from registry.services.subjects import told as told_of
from registry.store import conditions as store
from registry.store import devices, placements
from registry.store.database import Transaction
from registry.store.nodes import Node


def end_conditions(tx: Transaction, node: Node, instance_id: str, *, why: str, actor: Actor) -> None:
    """Let the conditions of an instance end with it: another machine, or none, bears the name."""
    for record in store.records_of(tx, instance_id):
        tell(tx, node, record, ended(record, tx.now), actor, why=why)
        store.forget_record(tx, instance_id, record)


def tell(
    tx: Transaction, node: Node, record: Record, news: Iterable[News], actor: Actor, *, why: str | None = None
) -> None:
    """Write the events. What comes about by itself is nobody's act."""
    for one in news:
        units = devices.get_devices(tx, [record.device_id]) if record.device_id else {}
        unit = units.get(record.device_id or "")
        slot = None
        if unit is not None:
            place = placements.open_of(tx, [unit.id]).get(unit.id)
            slot = place.slot if place and place.node == node.name else None
        found = one.condition
        data: dict[str, Any] = {
            **(told_of(unit, node=node.name, slot=slot) if unit else {"node": node.name, "device": record.named}),
            "condition": found.name,
            "status": str(found.status),
            "since": rfc3339(found.since),
            "at": rfc3339(one.at),
            "failure_at": rfc3339_or_none(found.failure_at),
            "reason": found.reason,
            "message": found.message,
            "tolerance_seconds": found.tolerance_seconds,
            **({"why": why} if why else {}),
        }
        by = actor if one.type is EventType.CONDITION_OPENED or why else SYSTEM
        subjects = of_devices([unit], nodes=[node.name]) if unit else (Subject(SubjectKind.NODE, node.name),)
        tx.record(Draft(one.type, by, subjects, data))
