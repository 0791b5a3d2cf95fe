# SPDX-License-Identifier: Apache-2.0
"""How does the history hear of repairs, how is one shown, and how is hardware held that one gives away?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from registry.domain.actors import Actor, ActorKind, Subject, SubjectKind
from registry.domain.events import Draft, EventType
from registry.domain.quarantine import Hold, TargetKind
from registry.domain.repair_orders import Order
from registry.domain.times import rfc3339, rfc3339_or_none
from registry.domain.tolerances import FLAPPING
from registry.services.holding import lay
from registry.services.repair_facts import COUNT
from registry.services.subjects import of_devices
from registry.services.subjects import told as told_of
from registry.services.targets import of_unit
from registry.store import devices, holds, placements
from registry.store.database import Snapshot, Transaction
from registry.store.devices import Device
from registry.store.repairs import Repair


def tell(tx: Transaction, type_: EventType, order: Order, node: str, actor: Actor, **more: Any) -> None:
    """Write an event about an order, which has the values that it has from now on."""
    unit = devices.get_devices(tx, [order.device_id]).get(order.device_id) if order.device_id else None
    place = placements.open_of(tx, [unit.id]).get(unit.id) if unit else None
    slot = place.slot if place and place.node == node else None
    about = of_devices([unit], nodes=[node]) if unit else (Subject(SubjectKind.NODE, node),)
    data: dict[str, Any] = {
        **(told_of(unit, node=node, slot=slot) if unit else {"node": node}),
        "repair": order.id,
        "action": order.action,
        "condition": order.condition,
        "state": order.state,
        **{name: value for name, value in more.items() if value is not None},
    }
    tx.record(Draft(type_, actor, (Subject(SubjectKind.REPAIR, order.id), *about), data))


def shown(snapshot: Snapshot, repairs: Sequence[Repair]) -> dict[str, dict[str, Any]]:
    """Give repairs as the API answers them, by their ids."""
    ids = {one.order.device_id for one in repairs if one.order.device_id}
    units, places = devices.get_devices(snapshot, ids), placements.open_of(snapshot, ids)
    return {
        one.order.id: {
            **_shown(one),
            "device": _device(units[one.order.device_id], places.get(one.order.device_id), one.node)
            if one.order.device_id
            else None,
        }
        for one in repairs
    }


def _shown(repair: Repair) -> dict[str, Any]:
    order = repair.order
    return {
        "id": order.id,
        "action": str(order.action),
        "state": str(order.state),
        "node": repair.node,
        "provider_id": repair.provider_id,
        "condition": order.condition,
        "because": order.because,
        "waits_for": order.waits_for,
        "token": order.attempts,
        "claimed_by": order.claimed_by,
        "outcome": order.outcome and str(order.outcome),
        "detail": order.detail,
        "planned_at": rfc3339(order.planned_at),
        "ready_at": rfc3339_or_none(order.ready_at),
        "claimed_at": rfc3339_or_none(order.claimed_at),
        "lease_until": rfc3339_or_none(order.lease_until),
        "ended_at": rfc3339_or_none(order.ended_at),
        "settled_at": rfc3339_or_none(repair.settled_at),
    }


def _device(unit: Device, place: placements.Placement | None, node: str) -> dict[str, Any]:
    slot = place.slot if place and place.node == node else None
    return {"id": unit.id, "kind": unit.kind, "serial": unit.serial, "uuid": unit.uuid, "slot": slot}


def hold_hardware(tx: Transaction, order: Order, node: str) -> list[str]:
    """Put what an order gives away into quarantine, before it can come back under another name; return the holds' ids.

    Held is the device of the order; of one about missing devices, those that the node misses. A node whose trouble
    names no device gives no hardware away that anybody could recognise, and nothing is held.
    """
    owner = Actor(ActorKind.RULE, f"repair.{order.action}")
    laid: list[str] = []
    for unit in _given_away(tx, order):
        target = of_unit(tx, unit, None)
        if holds.find_open_by_owner(tx, target.binds, owner) is not None:
            continue
        template = Hold(
            id="",
            owner=owner,
            target_kind=TargetKind.UNIT,
            target_key="",
            reason=f"{order.action} of {node} by order {order.id}: {order.because}",
            opened_at=tx.now,
            cause="hardware",
        )
        evidence = {"repair": order.id, "condition": order.condition}
        asked = {"device": unit.id}
        record = lay(tx, target, template, asked=asked, evidence=evidence, actor=owner, fault_at=tx.now)
        laid.append(record.hold.id)
    return laid


def _given_away(tx: Transaction, order: Order) -> list[Device]:
    if order.device_id is not None:
        return list(devices.get_devices(tx, [order.device_id]).values())
    base = order.condition.removesuffix(FLAPPING)
    if not base.endswith(COUNT):
        return []
    missing = placements.missing_here(tx, order.instance_id)
    kind = base.removesuffix(COUNT)
    return [one for one in devices.get_devices(tx, missing).values() if one.kind == kind]
