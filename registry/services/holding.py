# SPDX-License-Identifier: Apache-2.0
"""How is a hold laid, bound, shown and ended, inside a transaction that somebody else began?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from registry.domain.actors import SYSTEM, Actor, ActorKind, Subject, SubjectKind
from registry.domain.errors import NotFound
from registry.domain.events import Draft, EventType
from registry.domain.identifiers import Identifier
from registry.domain.quarantine import (
    Hold,
    HoldMatch,
    HoldState,
    TargetKind,
    asks_for_review,
    is_in_force,
)
from registry.domain.times import rfc3339_or_none
from registry.services import passes, withholding
from registry.services.subjects import nodes_of, of_devices, told_in_place
from registry.services.targets import Target, identifier_ref
from registry.store import devices, holds
from registry.store.database import Snapshot, Transaction, new_id
from registry.store.devices import Device
from registry.store.holds import HoldRecord
from registry.store.placements import open_of

EXPIRED = "expired"
SUPERSEDED = "a stronger hold of the same owner takes its place"
"""Why a hold ended that was not released."""


PLACE_WARNING = (
    "This device has no identifier of its own hardware: the hold rests on its place and ends with the instance."
)


def get_record(snapshot: Snapshot, hold_id: str) -> HoldRecord:
    """Return one hold, open or released. Raises NotFound."""
    record = holds.find_hold(snapshot, hold_id)
    if record is None:
        raise NotFound(f"There is no quarantine {hold_id}.")
    return record


def lay(
    tx: Transaction,
    target: Target,
    template: Hold,
    *,
    asked: Mapping[str, Any],
    evidence: Any,
    actor: Actor,
    fault_at: datetime,
    fault_boot: str | None = None,
) -> HoldRecord:
    """Write a hold on a target that has none of this owner, with its event."""
    hold = replace(
        template,
        id=new_id(tx.now),
        target_kind=target.kind,
        target_key=target.key,
        scope=target.scope,
        match=target.match,
    )
    # Under the name that was asked for a hold on a machine is found, also when another instance bears it by now.
    found_by = (("asked", target.node),) if target.node else ()
    record = HoldRecord(hold, dict(asked), evidence, fault_at, fault_boot, binds=(*target.binds, *found_by))
    holds.insert_hold(tx, record)
    where = [target.node] if target.node else nodes_of(tx, target.units)
    _record(
        tx,
        EventType.QUARANTINE_OPENED,
        record,
        target.units,
        where,
        actor,
        {"target": dict(asked), "evidence": evidence_text(evidence)},
    )
    return record


def bind_identifiers(tx: Transaction, shown: Iterable[tuple[Identifier, Device]]) -> dict[str, list[str]]:
    """Let holds that wait for identifiers meet the hardware that has just shown them; returns their ids by unit.

    An identifier that is not usable points at nothing, so nothing waits for it.
    """
    usable = [(found, device) for found, device in shown if found.is_usable]
    waiting = holds.open_for_identifiers(tx, [ref for found, _ in usable for ref in _refs(found)])
    met: dict[str, list[str]] = {}
    for found, device in usable:
        for hold_id in [one for ref in _refs(found) for one in waiting.get(ref, ())]:
            record = holds.get_holds(tx, [hold_id])[hold_id]
            is_unit = record.hold.scope == "unit" and found.type.names == "unit"
            holds.bind(tx, hold_id, *(("unit", device.id) if is_unit else ("board", device.board_id)))
            met.setdefault(device.id, []).append(hold_id)
    return met


def _refs(found: Identifier) -> list[str]:
    return [identifier_ref(found.kind, found.type, found.value, vendor) for vendor in (found.vendor, None)]


def end(tx: Transaction, record: HoldRecord, *, reason: str, actor: Actor, evidence: Any = None) -> HoldRecord:
    """End a hold with its event. A person's release puts the passes of the nodes it met back, a rule's keeps them.

    A person's release also settles what the breaker withheld on the same target.
    """
    units = units_of(tx, record)
    where = _machines(record) or nodes_of(tx, units)
    holds.end_hold(tx, record.hold.id, released_by=actor, reason=reason.strip())
    _record(
        tx,
        EventType.QUARANTINE_RELEASED,
        record,
        units,
        where,
        actor,
        {"why": reason.strip(), "proof": evidence_text(evidence)},
    )
    if actor.kind is ActorKind.OPERATOR:
        for name in where:
            passes.released_on(tx, name, detail=record.hold.id, actor=actor)
        withholding.dismiss(tx, holds.binds_of(tx, record.hold.id), reason=reason.strip(), actor=actor)
    ended = holds.find_hold(tx, record.hold.id)
    return ended or record


def release_expired(tx: Transaction) -> None:
    """End the holds whose own date is over, with their events."""
    for record in holds.get_holds(tx, holds.expired(tx, tx.now)).values():
        end(tx, record, reason=EXPIRED, actor=SYSTEM)


def release_with_instance(tx: Transaction, instance_id: str) -> None:
    """End the holds that rest on places of an instance which is gone, on what was swapped out of them too."""
    reason = "the instance that this place belonged to has ended"
    for record in holds.get_holds(tx, holds.open_on_ever_placed(tx, instance_id)).values():
        if record.hold.match is HoldMatch.PLACE:
            end(tx, record, reason=reason, actor=SYSTEM)
    withholding.end_with_place(tx, instance_id, reason=reason, actor=SYSTEM)


def units_of(snapshot: Snapshot, record: HoldRecord) -> list[Device]:
    """Return every unit that a hold binds now."""
    binds = holds.binds_of(snapshot, record.hold.id)
    units = devices.get_devices(snapshot, [ref for kind, ref in binds if kind == "unit"])
    boards = devices.devices_of_boards(snapshot, [ref for kind, ref in binds if kind == "board"])
    return sorted({one.id: one for one in (*units.values(), *boards)}.values(), key=lambda one: one.id)


def _machines(record: HoldRecord) -> list[str]:
    """The name of the node that a hold on a machine was laid on."""
    return [str(record.target["node"])] if record.hold.target_kind is TargetKind.NODE else []


def shown(snapshot: Snapshot, record: HoldRecord, now: datetime) -> dict[str, Any]:
    """Give a hold as the API answers it. One whose own date is over is released, written down already or not."""
    hold = record.hold
    if hold.state is HoldState.OPEN and not is_in_force(hold, now):
        hold = replace(
            hold, state=HoldState.RELEASED, released_at=hold.expires_at, released_by=SYSTEM, release_reason=EXPIRED
        )
    units = units_of(snapshot, record)
    return {
        "id": hold.id,
        "state": str(hold.state),
        "target": dict(record.target),
        "target_kind": str(hold.target_kind),
        "identifiers": _identifiers(record, units),
        "devices": [one.id for one in units],
        "scope": hold.scope and str(hold.scope),
        "match": str(hold.match),
        "owner": str(hold.owner),
        "reason": hold.reason,
        "cause": hold.cause,
        "ticket": hold.ticket,
        "drain": hold.drain,
        "release_policy": str(hold.release_policy),
        "permanent": hold.permanent,
        "evidence": record.evidence,
        "opened_at": rfc3339_or_none(hold.opened_at),
        "review_at": rfc3339_or_none(hold.review_at),
        "expires_at": rfc3339_or_none(hold.expires_at),
        "review_due": asks_for_review(hold, now),
        "released_at": rfc3339_or_none(hold.released_at),
        "released_by": str(hold.released_by) if hold.released_by else None,
        "release_reason": hold.release_reason,
        "warnings": [{"code": "place_only", "message": PLACE_WARNING}] if hold.match is HoldMatch.PLACE else [],
    }


def _identifiers(record: HoldRecord, units: Sequence[Device]) -> list[dict[str, Any]]:
    asked = record.target.get("identifier")
    found = [dict(asked)] if asked else []
    for one in units:
        found += [
            {"kind": one.kind, "vendor": one.vendor, "type": type_, "value": value}
            for type_, value in (("serial", one.serial), ("uuid", one.uuid))
            if value
        ]
    return [one for at, one in enumerate(found) if one not in found[:at]]


def evidence_text(evidence: Any) -> str | None:
    """Write evidence as JSON text: history holds no floats, and what somebody sent may."""
    return None if evidence is None else json.dumps(evidence, sort_keys=True)


def _record(
    tx: Transaction,
    type_: EventType,
    record: HoldRecord,
    units: Sequence[Device],
    where: Sequence[str],
    actor: Actor,
    more: Mapping[str, Any],
) -> None:
    hold = record.hold
    node = where[0] if where else None
    at = open_of(tx, [one.id for one in units])
    tx.record(
        Draft(
            type_,
            actor,
            (Subject(SubjectKind.QUARANTINE, hold.id), *of_devices(units, nodes=where)),
            {
                "quarantine": hold.id,
                "owner": str(hold.owner),
                "reason": hold.reason,
                "cause": hold.cause,
                "ticket": hold.ticket,
                "scope": hold.scope,
                "match": hold.match,
                "release_policy": hold.release_policy,
                "permanent": hold.permanent,
                "serial": units[0].serial if units else None,
                "node": node,
                "devices": [told_in_place(one, at.get(one.id)) for one in units],
                **more,
            },
        )
    )
