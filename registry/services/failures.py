# SPDX-License-Identifier: Apache-2.0
"""What went wrong, on which device, and what follows at once: passes back to zero, a hold, a step towards release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from registry.domain.actors import Actor, Subject, SubjectKind
from registry.domain.errors import (
    FieldError,
    InvalidField,
    NotOpen,
    PratiqueError,
)
from registry.domain.events import Draft, EventType
from registry.domain.failures import Effect, FailureKind, is_valid_code, look_up
from registry.domain.reports import ReportedFailure
from registry.domain.times import rfc3339_or_none
from registry.services import passes
from registry.services.failure_pages import get_failure, shown
from registry.services.holding import is_known_to_a_person, open_by_rule
from registry.services.locating import Located, locate
from registry.services.subjects import of_devices, told
from registry.store import devices, failures, holds, nodes, placements
from registry.store.database import Database, Snapshot, Transaction, new_id
from registry.store.devices import Device
from registry.store.failures import Failure
from registry.store.placements import Placement


def record_failures(
    db: Database,
    reported: Sequence[ReportedFailure],
    *,
    actor: Actor,
    node_scope: str | None,
    now: datetime,
) -> list[dict[str, Any]]:
    """Put faults on record, and say item by item what came of it; one that is refused hinders no other.

    With `node_scope` (a node's own token) only what concerns that node is taken. The same `failure_id` again is
    `already_recorded`, with other content it is refused.
    """
    with db.write(now) as tx:
        items = []
        for one in reported:
            try:
                failure, is_new = record_in(tx, one, actor=actor, node_scope=node_scope)
            except PratiqueError as error:
                said = {"code": error.code, "message": error.detail, **error.extra}
                items.append({"failure_id": one.failure_id, "outcome": "refused", **said})
                continue
            outcome = "recorded" if is_new else "already_recorded"
            items.append({"failure_id": one.failure_id, "outcome": outcome, "failure": shown(tx, failure)})
        return items


def record_in(
    tx: Transaction,
    reported: ReportedFailure,
    *,
    actor: Actor,
    node_scope: str | None,
    boot: nodes.Boot | None = None,
    is_past: bool = False,
) -> tuple[Failure, bool]:
    """Put one fault on record with all that follows. `boot` is the boot of the report that carried it."""
    if not is_valid_code(reported.code):
        raise InvalidField(
            f"{reported.code!r} is no fault code: write it as xid_79, dcgm_row_remap_failure, gpu.missing …"
        )
    digest = _digest(reported)
    known = failures.find_by_failure_id(tx, node_scope or "", reported.failure_id)
    if known is not None:
        if known.digest != digest:
            raise InvalidField(
                f"The failure_id {reported.failure_id!r} was used for another failure: choose a new one."
            )
        return known, False
    located = locate(tx, reported, node_scope, boot, is_past=is_past)
    kind = look_up(reported.code)
    seen = failures.find_same(tx, reported.code, located.device.id, boot.id) if located.device and boot else None
    if seen is not None:
        return _again(tx, seen, reported, located, kind, actor), False
    failure = _failure(tx, reported, located, kind, digest, actor, node_scope or "")
    failures.insert_failure(tx, failure)
    record_event(tx, failure, located.device, located.node, actor)
    take_effect(tx, failure, located, kind, actor)
    return failure, True


def _again(
    tx: Transaction, seen: Failure, reported: ReportedFailure, located: Located, kind: FailureKind, actor: Actor
) -> Failure:
    """A report shows a fault that this boot has shown before: one fault, counted, whose newest sight has effect.

    A log is read from its beginning again and again: a sight not later than the last one is no new one.
    """
    at = min(reported.occurred_at or tx.now, tx.now)
    if reported.occurred_at is not None and at <= seen.last_at:
        return seen
    counted = failures.count_again(tx, seen, at)
    if not located.is_past:
        sight = replace(counted, occurred_at=reported.occurred_at, recorded_at=tx.now)
        take_effect(tx, sight, located, kind, actor)
    return counted


def _digest(reported: ReportedFailure) -> str:
    """Tell two messages under one id apart. Evidence and wording are not part of it: a retry may word things anew."""
    said = (reported.code, reported.device, reported.node, reported.slot, reported.occurred_at)
    return hashlib.sha256(json.dumps(said, default=str).encode()).hexdigest()


def _failure(
    tx: Transaction,
    reported: ReportedFailure,
    located: Located,
    kind: FailureKind,
    digest: str,
    actor: Actor,
    id_scope: str,
) -> Failure:
    device, boot = located.device, located.boot
    return Failure(
        id=new_id(tx.now),
        failure_id=reported.failure_id,
        id_scope=id_scope,
        reporter=str(actor),
        digest=digest,
        code=reported.code,
        kind=kind.kind,
        cause=kind.cause,
        severity=kind.severity,
        effect=kind.effect,
        state="active",
        device_id=device.id if device else None,
        board_id=device.board_id if device else None,
        node_id=located.node.id if located.node else None,
        instance_id=boot.instance_id if boot else None,
        boot_id=boot.id if boot and located.is_of_boot else None,
        slot=located.slot,
        ref=reported.device,
        occurred_at=reported.occurred_at,
        recorded_at=tx.now,
        count=1,
        last_at=min(reported.occurred_at or tx.now, tx.now),
        is_unattached=located.is_unattached,
        message=reported.message,
        evidence=reported.evidence,
    )


# --- what follows ---------------------------------------------------------------------------------------------------


def take_effect(tx: Transaction, failure: Failure, located: Located, kind: FailureKind, actor: Actor) -> None:
    """Let a recorded fault do what the catalogue says: reset passes, open a hold, or let holds go on."""
    if kind.proves_restart:
        _note_restart(tx, located, failure)
        return
    is_over = located.is_past and kind.effect is not Effect.PERMANENT
    if located.device is not None and is_known_to_a_person(tx, located.device, failure.seen_at):
        return
    if kind.effect.is_blocking and not is_over:
        for name in _nodes_hit(tx, located):
            passes.fault_on(tx, name, detail=failure.code, actor=actor)
    if located.device is None or (is_over and located.node and located.node.name in _nodes_hit(tx, located)):
        return  # a boot later than the fault, on the same node: what it had to prove since then it proves by passes
    detail = failure.message or f"reported by {failure.reporter}"
    open_by_rule(tx, located.device, kind, failure_id=failure.id, detail=detail, fault_at=failure.seen_at)


def _nodes_hit(snapshot: Snapshot, located: Located) -> list[str]:
    """The node that carries the device now; for a fault without device the node that it was seen on."""
    if located.device is None:
        return [located.node.name] if located.node else []
    at = placements.open_of(snapshot, [located.device.id])
    return [one.node for one in at.values()]


def _note_restart(tx: Transaction, located: Located, failure: Failure) -> None:
    """A reset of the device, or a driver load on its node, is what an `after_passes` hold waits for."""
    if located.device is not None:
        units = [located.device]
    elif located.boot is not None:
        here = placements.open_here(tx, located.boot.instance_id)
        units = list(devices.get_devices(tx, [one.device_id for one in here]).values())
    else:
        return
    at = failure.seen_at
    binds = [bind for one in units for bind in (("unit", one.id), ("board", one.board_id))]
    ids = {one for group in holds.open_on(tx, binds).values() for one in group}
    for record in holds.get_holds(tx, ids).values():
        if record.restart_at is None and at > (record.fault_at or record.hold.opened_at):
            holds.set_progress(tx, replace(record, restart_at=at))


def attach_waiting(tx: Transaction, node: nodes.Node, boot: nodes.Boot, kinds: frozenset[str], actor: Actor) -> None:
    """Give faults that came in this boot before its first list of these kinds to what it shows in their slots."""
    by_slot: dict[str | None, Placement] = {
        one.slot: one
        for one in placements.open_here(tx, boot.instance_id)
        if one.slot is not None and one.kind in kinds
    }
    for failure in failures.unattached(tx, boot.instance_id, node.id):
        place = by_slot.get(failure.slot)
        if place is None and failure.instance_id is None:
            failures.adopt(tx, failure, instance_id=boot.instance_id, boot_id=boot.id)
        is_of_boot = failure.boot_id == boot.id or failure.instance_id is None
        if place is None or not is_of_boot:
            continue
        device = devices.get_devices(tx, [place.device_id])[place.device_id]
        failures.attach(tx, failure, device_id=device.id, board_id=device.board_id)
        attached = replace(failure, device_id=device.id, board_id=device.board_id, is_unattached=False)
        record_event(tx, attached, device, node, actor, {"attached": True})
        take_effect(tx, attached, Located(device, node, None, failure.slot), look_up(failure.code), actor)


def withdraw_failure(db: Database, id_: str, *, reason: str, actor: Actor, now: datetime) -> dict[str, Any]:
    """Say that a recorded fault was none. It stays in the history; a hold it opened stays until somebody releases it.

    Raises NotFound, NotOpen (withdrawn already), InvalidField (no reason).
    """
    if not reason.strip():
        errors = (FieldError("/reason", "Say why this was no failure."),)
        raise InvalidField("A withdrawal needs a reason.", errors=errors)
    with db.write(now) as tx:
        failure = get_failure(tx, id_)
        if failure.state != "active":
            raise NotOpen(f"Failure {id_} was withdrawn already.")
        failures.set_withdrawn(tx, failure)
        withdrawn = replace(failure, state="withdrawn", is_unattached=False)
        device = devices.get_devices(tx, [failure.device_id]).get(failure.device_id) if failure.device_id else None
        node = nodes.get_node_by_id(tx, failure.node_id) if failure.node_id else None
        record_event(tx, withdrawn, device, node, actor, {"why": reason.strip()}, type_=EventType.FAILURE_WITHDRAWN)
        return shown(tx, withdrawn)


def record_event(
    tx: Transaction,
    failure: Failure,
    device: Device | None,
    node: nodes.Node | None,
    actor: Actor,
    more: dict[str, Any] | None = None,
    *,
    type_: EventType = EventType.FAILURE_RECORDED,
) -> None:
    """Put a fault's event into the history."""
    name = node.name if node else None
    where = (
        told(device, node=name, slot=failure.slot) if device else {"node": name, "slot": failure.slot, "serial": None}
    )
    tx.record(
        Draft(
            type_,
            actor,
            (Subject(SubjectKind.FAILURE, failure.id), *of_devices([device] if device else [], nodes=[name])),
            {
                **where,
                "failure": failure.id,
                "failure_id": failure.failure_id,
                "code": failure.code,
                "cause": failure.cause,
                "severity": failure.severity,
                "effect": failure.effect,
                "observed_at": rfc3339_or_none(failure.occurred_at),
                "message": failure.message,
                **(more or {}),
            },
        )
    )
