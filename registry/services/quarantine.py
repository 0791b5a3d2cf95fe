# SPDX-License-Identifier: Apache-2.0
"""How is a hold opened, and how does it end? Each in one transaction, with its event, target by target."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from registry.domain.actors import SYSTEM, Actor, ActorKind, Subject, SubjectKind
from registry.domain.errors import NotFound, PratiqueError
from registry.domain.events import Draft, EventType
from registry.domain.failures import FailureKind
from registry.domain.identifiers import Identifier
from registry.domain.policy import Policy
from registry.domain.quarantine import (
    Hold,
    HoldMatch,
    HoldState,
    ReleasePolicy,
    TargetKind,
    is_in_force,
    may_release,
    rule_hold_for,
    validate_opening,
)
from registry.domain.times import rfc3339_or_none
from registry.services import passes
from registry.services.pages import Page, PageRequest, page_of, slice_of
from registry.services.subjects import nodes_of, of_devices, told
from registry.services.targets import Target, find_units, identifier_ref, of_unit, refusal, resolve
from registry.store import devices, holds, nodes, search
from registry.store.database import Database, Snapshot, Transaction, new_id
from registry.store.devices import Device
from registry.store.holds import HoldRecord
from registry.store.placements import open_here

EXPIRED = "expired"
PLACE_WARNING = (
    "This device has no identifier of its own hardware: the hold rests on its place and ends with the instance."
)


@dataclass(frozen=True, slots=True)
class OpenQuarantines:
    """What a person asks for: one hold for each target, all alike."""

    targets: tuple[Mapping[str, Any], ...]
    reason: str
    cause: str | None = None
    ticket: str | None = None
    scope: str | None = None
    match: str | None = None
    drain: bool = False
    release_policy: str | None = None
    permanent: bool = False
    review_at: datetime | None = None
    expires_at: datetime | None = None
    evidence: Any = None


def open_quarantines(
    db: Database, command: OpenQuarantines, *, actor: Actor, policy: Policy, now: datetime, dry_run: bool = False
) -> list[dict[str, Any]]:
    """Open a hold on each target and tell target by target what came of it.

    A target that cannot be held is `refused` and hinders no other. Raises InvalidField when the hold contradicts itself.
    """
    release_policy = ReleasePolicy(command.release_policy or ReleasePolicy.MANUAL)
    validate_opening(
        reason=command.reason,
        now=now,
        release_policy=release_policy,
        permanent=command.permanent,
        review_at=command.review_at,
        expires_at=command.expires_at,
    )
    template = Hold(
        id="",
        owner=actor,
        target_kind=TargetKind.UNIT,
        target_key="",
        reason=command.reason.strip(),
        opened_at=now,
        cause=command.cause,
        ticket=command.ticket,
        release_policy=release_policy,
        permanent=command.permanent,
        drain=command.drain,
        review_at=command.review_at,
        expires_at=command.expires_at,
    )
    if dry_run:
        with db.read() as snapshot:
            return _try_out(snapshot, command, template)
    with db.write(now) as tx:
        release_expired(tx)
        return [_open(tx, asked, command, template, actor) for asked in command.targets]


def _open(
    tx: Transaction, asked: Mapping[str, Any], command: OpenQuarantines, template: Hold, actor: Actor
) -> dict[str, Any]:
    try:
        target = resolve(tx, asked, scope=command.scope, match=command.match)
    except PratiqueError as error:
        return refusal(asked, error)
    already = holds.find_open_by_owner(tx, target.binds, template.owner)
    if already is not None:
        return {"target": dict(asked), "outcome": "already_open", "quarantine": shown(tx, already, tx.now)}
    record = lay(tx, target, template, asked=asked, evidence=command.evidence, actor=actor, fault_at=tx.now)
    item = {"target": dict(asked), "outcome": "opened", "quarantine": shown(tx, record, tx.now)}
    return {**item, "message": PLACE_WARNING} if target.match is HoldMatch.PLACE else item


def _try_out(snapshot: Snapshot, command: OpenQuarantines, template: Hold) -> list[dict[str, Any]]:
    """Say what would be done, and do nothing."""
    items: list[dict[str, Any]] = []
    seen: set[str] = set()
    for asked in command.targets:
        try:
            target = resolve(snapshot, asked, scope=command.scope, match=command.match)
        except PratiqueError as error:
            items.append(refusal(asked, error))
            continue
        already = holds.find_open_by_owner(snapshot, target.binds, template.owner)
        outcome = "already_open" if already or target.key in seen else "opened"
        seen.add(target.key)
        item: dict[str, Any] = {"target": dict(asked), "outcome": outcome}
        items.append({**item, "quarantine": shown(snapshot, already, template.opened_at)} if already else item)
    return items


def lay(
    tx: Transaction,
    target: Target,
    template: Hold,
    *,
    asked: Mapping[str, Any],
    evidence: Any,
    actor: Actor,
    fault_at: datetime,
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
    record = HoldRecord(hold, dict(asked), evidence, fault_at, binds=target.binds)
    holds.insert_hold(tx, record)
    where = [target.node] if target.node else nodes_of(tx, target.units)
    _record(
        tx,
        EventType.QUARANTINE_OPENED,
        record,
        target.units,
        where,
        actor,
        {"target": dict(asked), "evidence": _text(evidence)},
    )
    return record


def open_by_rule(
    tx: Transaction, device: Device, kind: FailureKind, *, failure_id: str, detail: str, fault_at: datetime
) -> HoldRecord | None:
    """Open the hold that a fault asks for, owner `rule:<code>`; None when it asks for none.

    The same fault again finds its hold open and puts what that had earned back to zero. Evidence from before a person's
    release of the target opens nothing: that person knew.
    """
    wanted = rule_hold_for(kind, detail=detail)
    if wanted is None:
        return None
    target = of_unit(tx, device, None)
    freed_at = holds.newest_release_by_person(tx, {*target.binds, ("unit", device.id)})
    if freed_at is not None and fault_at <= freed_at:
        return None
    already = holds.find_open_by_owner(tx, target.binds, wanted.owner)
    if already is not None and already.restart_at is not None and fault_at <= already.restart_at:
        return already  # it is of the time before the restart that the hold goes on from
    if already is not None:
        again = replace(already, fault_at=max(fault_at, already.fault_at or fault_at), restart_at=None, clean_runs=0)
        holds.set_progress(tx, again)
        return again
    template = Hold(
        id="",
        owner=wanted.owner,
        target_kind=target.kind,
        target_key=target.key,
        reason=wanted.reason,
        opened_at=tx.now,
        cause=wanted.cause,
        release_policy=wanted.release_policy,
    )
    evidence = {"failure": failure_id}
    return lay(
        tx, target, template, asked={"device": device.id}, evidence=evidence, actor=wanted.owner, fault_at=fault_at
    )


def bind_identifier(tx: Transaction, found: Identifier, device: Device) -> list[str]:
    """Let holds that wait for an identifier meet the hardware that has just shown it; returns the ids of those holds."""
    refs = [identifier_ref(found.kind, found.type, found.value, vendor) for vendor in (found.vendor, None)]
    waiting = [hold_id for ref in refs for hold_id in holds.open_for_identifier(tx, ref)]
    for record in holds.get_holds(tx, waiting).values():
        is_unit = record.hold.scope == "unit" and found.type.names == "unit"
        holds.bind(tx, record.hold.id, *(("unit", device.id) if is_unit else ("board", device.board_id)))
    return waiting


def release_quarantine(
    db: Database,
    hold_id: str,
    *,
    reason: str,
    actor: Actor,
    role: str,
    policy: Policy,
    now: datetime,
    evidence: Any = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """End one hold. Raises NotFound, NotOpen, Forbidden (permanent, not admin), InvalidField (no reason)."""
    if dry_run:
        with db.read() as snapshot:
            record = _get(snapshot, hold_id)
            may_release(record.hold, role, reason, now=now)
            return {**shown(snapshot, record, now), "dry_run": True}
    with db.write(now) as tx:
        record = _get(tx, hold_id)
        may_release(record.hold, role, reason, now=now)
        return shown(tx, end(tx, record, reason=reason, actor=actor, evidence=evidence), now)


def end(tx: Transaction, record: HoldRecord, *, reason: str, actor: Actor, evidence: Any = None) -> HoldRecord:
    """End a hold with its event. A person's release puts the passes of the nodes it met to zero; a rule's keeps them."""
    units = units_of(tx, record)
    where = _machines(tx, record) or nodes_of(tx, units)
    holds.end_hold(tx, record.hold.id, released_by=actor, reason=reason.strip())
    _record(
        tx,
        EventType.QUARANTINE_RELEASED,
        record,
        units,
        where,
        actor,
        {"why": reason.strip(), "proof": _text(evidence)},
    )
    if actor.kind is ActorKind.OPERATOR:
        for name in where:
            passes.released_on(tx, name, detail=record.hold.id, actor=actor)
    ended = holds.find_hold(tx, record.hold.id)
    return ended or record


def release_targets(
    db: Database,
    targets: Sequence[Mapping[str, Any]],
    *,
    reason: str,
    actor: Actor,
    role: str,
    policy: Policy,
    now: datetime,
    dry_run: bool = False,
) -> list[dict[str, Any]]:
    """End every hold on each target. A node is refused while a device on it is held and not named among the targets."""
    if dry_run:
        with db.read() as snapshot:
            named = _named(snapshot, targets)
            return [_release(snapshot, None, asked, named, reason, actor, role, now) for asked in targets]
    with db.write(now) as tx:
        release_expired(tx)
        named = _named(tx, targets)
        return [_release(tx, tx, asked, named, reason, actor, role, now) for asked in targets]


def _named(snapshot: Snapshot, targets: Sequence[Mapping[str, Any]]) -> set[str]:
    """The boards of all devices that the call names."""
    named: set[str] = set()
    for asked in targets:
        try:
            target = resolve(snapshot, asked, scope=None, match=None)
        except PratiqueError:
            continue
        named |= {one.board_id for one in target.units}
    return named


def _release(
    snapshot: Snapshot,
    tx: Transaction | None,
    asked: Mapping[str, Any],
    named: set[str],
    reason: str,
    actor: Actor,
    role: str,
    now: datetime,
) -> dict[str, Any]:
    try:
        target = resolve(snapshot, asked, scope=None, match=None)
        records = _open_on(snapshot, target)
        for record in records:
            may_release(record.hold, role, reason, now=now)
    except PratiqueError as error:
        return refusal(asked, error)
    blocking = _unnamed_on(snapshot, target.node, named) if target.node else []
    if blocking:
        words = ", ".join(one.serial or one.uuid or one.id for one in blocking)
        message = (
            f"Devices on {target.node} are in quarantine and not named here: {words}. Name them, or release them first."
        )
        return {"target": dict(asked), "outcome": "refused", "code": "invalid_field", "message": message}
    if not records:
        return {"target": dict(asked), "outcome": "not_held", "quarantines": []}
    if tx is not None:
        records = [end(tx, record, reason=reason, actor=actor) for record in records]
    return {"target": dict(asked), "outcome": "released", "quarantines": [shown(snapshot, one, now) for one in records]}


def _open_on(snapshot: Snapshot, target: Target) -> list[HoldRecord]:
    """Every open hold on a target: for a device those on its board and on its units."""
    binds = [
        *target.binds,
        *(("unit", one.id) for one in target.units),
        *(("board", one.board_id) for one in target.units),
        *([("name", target.node)] if target.node else []),
    ]
    ids = {one for group in holds.open_on(snapshot, binds).values() for one in group}
    return sorted(holds.get_holds(snapshot, ids).values(), key=lambda one: one.hold.id)


def _unnamed_on(snapshot: Snapshot, name: str, named: set[str]) -> list[Device]:
    node = nodes.find_node(snapshot, name)
    state = nodes.find_state(snapshot, node.id) if node else None
    if state is None:
        return []
    held = {bind.device_id for bind in holds.open_on_node(snapshot, state.instance_id, []) if bind.device_id}
    return [one for one in devices.get_devices(snapshot, held).values() if one.board_id not in named]


def release_expired(tx: Transaction) -> None:
    """End the holds whose own date is over, with their events."""
    for record in holds.get_holds(tx, holds.expired(tx, tx.now)).values():
        end(tx, record, reason=EXPIRED, actor=SYSTEM)


def release_with_instance(tx: Transaction, device_ids: Sequence[str]) -> None:
    """End the holds that rest on places of an instance which is gone."""
    open_ = holds.open_on(tx, [("unit", one) for one in device_ids])
    for record in holds.get_holds(tx, [one for group in open_.values() for one in group]).values():
        if record.hold.match is HoldMatch.PLACE:
            end(tx, record, reason="the instance that this place belonged to has ended", actor=SYSTEM)


def show_quarantine(db: Database, hold_id: str, *, now: datetime) -> dict[str, Any]:
    """Return one hold, open or released. Raises NotFound."""
    with db.read() as snapshot:
        return shown(snapshot, _get(snapshot, hold_id), now)


def _get(snapshot: Snapshot, hold_id: str) -> HoldRecord:
    record = holds.find_hold(snapshot, hold_id)
    if record is None:
        raise NotFound(f"There is no quarantine {hold_id}.")
    return record


def units_of(snapshot: Snapshot, record: HoldRecord) -> list[Device]:
    """Return every unit that a hold binds now."""
    binds = holds.binds_of(snapshot, record.hold.id)
    units = devices.get_devices(snapshot, [ref for kind, ref in binds if kind == "unit"])
    boards = devices.devices_of_boards(snapshot, [ref for kind, ref in binds if kind == "board"])
    return sorted({one.id: one for one in (*units.values(), *boards)}.values(), key=lambda one: one.id)


def _machines(snapshot: Snapshot, record: HoldRecord) -> list[str]:
    """The name of the node that a hold on a machine was laid on."""
    return [str(record.target["node"])] if record.hold.target_kind is TargetKind.NODE else []


def shown(snapshot: Snapshot, record: HoldRecord, now: datetime) -> dict[str, Any]:
    """Give a hold as the API answers it. One whose own date is over is released, written down already or not."""
    hold = record.hold
    if hold.state is HoldState.OPEN and not is_in_force(hold, now):
        hold = replace(hold, state=HoldState.RELEASED, released_at=hold.expires_at, released_by=SYSTEM, release_reason=EXPIRED)
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


def _text(evidence: Any) -> str | None:
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
                "devices": [told(one, node=node) for one in units],
                **more,
            },
        )
    )


def list_quarantines(db: Database, filters: Mapping[str, str], page: PageRequest, *, now: datetime) -> Page:
    """Return holds, open and released, by any of their fields; `device` takes our id, a serial or a UUID, `node` a name."""
    wanted = {name: value for name, value in filters.items() if name not in {"device", "node"}}
    with db.read() as snapshot:
        bound: list[tuple[str, str]] | None = None
        if "device" in filters:
            units = find_units(snapshot, filters["device"])
            bound = [pair for one in units for pair in (("unit", one.id), ("board", one.board_id))]
        if "node" in filters:
            on_node = _bound_to_node(snapshot, filters["node"])
            bound = on_node if bound is None else [one for one in bound if one in on_node]
        rows = search.list_holds(snapshot, wanted, slice_of(page), bound=bound)
        return page_of(rows, page, lambda one: str(one.hold.id), lambda one: shown(snapshot, one, now))


def _bound_to_node(snapshot: Snapshot, name: str) -> list[tuple[str, str]]:
    """The machine under its name, and everything placed on it now."""
    node = nodes.find_node(snapshot, name)
    state = nodes.find_state(snapshot, node.id) if node else None
    if state is None:
        return [("name", name)]
    here = open_here(snapshot, state.instance_id)
    on_devices = [pair for one in here for pair in (("unit", one.device_id), ("board", one.board_id))]
    return [*resolve(snapshot, {"node": name}, scope=None, match=None).binds, ("name", name), *on_devices]
