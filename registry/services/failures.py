# SPDX-License-Identifier: Apache-2.0
"""What went wrong, on which device, and what follows at once: passes back to zero, a hold, a step towards release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from registry.domain.failures import Effect, FailureKind, is_valid_code
from registry.domain.policy import Policy
from registry.domain.reports import ReportedFailure
from registry.domain.times import rfc3339_or_none
from registry.services import withholding
from registry.services.effects import take_effect
from registry.services.failure_pages import get_failure, shown
from registry.services.locating import Located, locate
from registry.services.ruling import ask_rules
from registry.services.subjects import of_devices, told
from registry.store import devices, failures, nodes, placements, sights
from registry.store.database import Database, Snapshot, Transaction, new_id
from registry.store.devices import Device
from registry.store.failures import Failure
from registry.store.maintenance import was_in_maintenance
from registry.store.placements import Placement
from registry.store.sights import Told

MAINTENANCE, INJECTED = "maintenance", "injected"
"""Why a fault has no effect: its time falls into maintenance of its node, or somebody made it for a test."""


def record_failures(
    db: Database,
    reported: Sequence[ReportedFailure],
    *,
    actor: Actor,
    node_scope: str | None,
    policy: Policy,
    now: datetime,
) -> list[dict[str, Any]]:
    """Put faults on record, and say item by item what came of it; one that is refused hinders no other.

    With `node_scope` (a node's own token) only what concerns that node is taken. The same `failure_id` again is
    `already_recorded`, with other content it is refused. A fault that this boot has shown on the device before, under
    whatever id, is counted there.
    """
    with db.write(now) as tx:
        items = []
        for one in reported:
            try:
                failure, is_new = record_in(tx, one, actor=actor, node_scope=node_scope, policy=policy)
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
    policy: Policy,
    boot: nodes.Boot | None = None,
    is_past: bool = False,
) -> tuple[Failure, bool]:
    """Put one fault on record with all that follows, and tell whether that was news.

    `boot` is the boot of the report that carried it.
    """
    if not is_valid_code(reported.code):
        raise InvalidField(
            f"{reported.code!r} is no fault code: write it as xid_79, dcgm_row_remap_failure, gpu.missing …"
        )
    digest = _digest(reported)
    known = sights.find_told(tx, node_scope or "", reported.failure_id)
    if known is not None and known.digest != digest:
        raise InvalidField(f"The failure_id {reported.failure_id!r} was used for another failure: choose a new one.")
    if known is not None and _is_old(known, reported, tx.now):
        return known.failure, False
    located = locate(tx, reported, node_scope, boot, is_past=is_past)
    if known is not None:
        return _go_on(tx, known, reported, located, actor, policy), True
    told = Message(reported, located, actor, node_scope or "", digest, is_of_report=boot is not None)
    return put_on_record(tx, told, policy)


def is_told(snapshot: Snapshot, reported: ReportedFailure, node_scope: str, now: datetime) -> bool:
    """Tell whether a node's own message says nothing of a fault that was not said before, under its id."""
    known = sights.find_told(snapshot, node_scope, reported.failure_id)
    return known is not None and known.digest == _digest(reported) and _is_old(known, reported, now)


def _is_old(known: Told, reported: ReportedFailure, now: datetime) -> bool:
    return reported.last_at is None or min(reported.last_at, now) <= known.at


@dataclass(frozen=True, slots=True)
class Message:
    """A fault as it was told, and where it belongs. `is_of_report`: a report carried it, so its boot is certain."""

    reported: ReportedFailure
    located: Located
    actor: Actor
    id_scope: str
    digest: str
    is_of_report: bool

    @property
    def boot_id(self) -> str | None:
        """The boot that it is certainly of."""
        boot = self.located.boot
        is_certain = self.is_of_report or (self.located.is_of_boot and not self.located.is_past)
        return boot.id if boot and is_certain else None


def put_on_record(tx: Transaction, told: Message, policy: Policy) -> tuple[Failure, bool]:
    """Record a fault of which nothing was told under this id, or count it where it is on record already."""
    reported, located = told.reported, told.located
    at = _seen_at(tx, reported)
    muted = _why_muted(tx, reported, located, at)
    kind = policy.look_up(reported.code)
    if muted is not None:
        kind = replace(kind, effect=Effect.RECORD)
    seen = None
    if located.device is not None:
        seen = failures.find_same(
            tx,
            reported.code,
            located.device.id,
            boot_id=told.boot_id,
            occurred_at=reported.occurred_at,
            effect=kind.effect,
            muted=muted,
        )
    if seen is not None:
        return _again(tx, seen, told, kind, at, policy)
    failure = _failure(tx, told, kind, muted)
    failures.insert_failure(tx, failure)
    first_at = min(reported.occurred_at or at, at)
    sights.insert_told(tx, Told(failure, told.id_scope, reported.failure_id, told.digest, first_at, at, reported.count))
    record_event(tx, failure, located.device, located.node, told.actor)
    take_effect(tx, _seen(failure, reported, at), located, kind, told.actor, policy)
    return failure, True


def _again(
    tx: Transaction, seen: Failure, told: Message, kind: FailureKind, at: datetime, policy: Policy
) -> tuple[Failure, bool]:
    """A boot shows a fault that it has shown before: one fault, counted, whose newest sight has effect.

    The same time again is the same sight, and an older one only completes what rules count. What somebody has withdrawn
    stays withdrawn.
    """
    reported = told.reported
    is_known = seen.state != "active" or (reported.occurred_at is not None and sights.is_seen_at(tx, seen, at))
    times = 0 if is_known else reported.count
    first_at = min(reported.occurred_at or at, at)
    sights.insert_told(tx, Told(seen, told.id_scope, reported.failure_id, told.digest, first_at, at, times))
    if is_known:
        return seen, False
    counted = sights.count_again(tx, seen, at, times)
    newest = _seen(counted, reported, at)
    if told.located.is_past:
        return counted, True
    if at > seen.last_at:
        take_effect(tx, newest, told.located, kind, told.actor, policy)
    elif newest.muted is None:
        ask_rules(tx, newest, kind, told.located, policy)
    return counted, True


def _go_on(
    tx: Transaction, known: Told, reported: ReportedFailure, located: Located, actor: Actor, policy: Policy
) -> Failure:
    """A burst that was told before has gone on."""
    at = _seen_at(tx, reported)
    counted = sights.grow(tx, known, at, max(1, reported.count - known.count))
    if counted.state == "active" and not located.is_past:
        kind = replace(policy.look_up(reported.code), effect=Effect(counted.effect))
        take_effect(tx, _seen(counted, reported, at), located, kind, actor, policy)
    return counted


def _seen_at(tx: Transaction, reported: ReportedFailure) -> datetime:
    """When the fault was last seen: the reporter's claim, but never later than its receipt."""
    return min(reported.last_at or reported.occurred_at or tx.now, tx.now)


def _seen(failure: Failure, reported: ReportedFailure, at: datetime) -> Failure:
    """The failure as its newest sight shows it."""
    return replace(failure, occurred_at=at if reported.occurred_at else None, recorded_at=max(at, failure.recorded_at))


def _why_muted(tx: Transaction, reported: ReportedFailure, located: Located, at: datetime) -> str | None:
    """Say why a fault has no effect. A driver that is being changed looks like a fault, and late news of it too."""
    if (reported.evidence or {}).get("injected") is True:
        return INJECTED
    if located.node is not None and was_in_maintenance(tx, located.node, at):
        return MAINTENANCE
    return None


def _digest(reported: ReportedFailure) -> str:
    """Tell two messages under one id apart. Evidence and wording are not part of it: a retry may word things anew."""
    said = (reported.code, reported.device, reported.node, reported.slot, reported.occurred_at)
    return hashlib.sha256(json.dumps(said, default=str).encode()).hexdigest()


def _failure(tx: Transaction, told: Message, kind: FailureKind, muted: str | None) -> Failure:
    reported, located = told.reported, told.located
    device, boot = located.device, located.boot
    return Failure(
        id=new_id(tx.now),
        failure_id=reported.failure_id,
        id_scope=told.id_scope,
        reporter=str(told.actor),
        digest=told.digest,
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
        count=reported.count,
        last_at=_seen_at(tx, reported),
        is_unattached=located.is_unattached,
        muted=muted,
        message=reported.message,
        evidence=reported.evidence,
    )


def attach_waiting(
    tx: Transaction, node: nodes.Node, boot: nodes.Boot, kinds: frozenset[str], actor: Actor, policy: Policy
) -> None:
    """Give faults that came in this boot before its first list of these kinds to what it shows in their slots.

    What they do was decided when they were recorded.
    """
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
        kind = replace(policy.look_up(failure.code), effect=Effect(failure.effect))
        seen = replace(attached, occurred_at=failure.last_at if failure.occurred_at else None)
        take_effect(tx, seen, Located(device, node, boot, failure.slot), kind, actor, policy)


def withdraw_failure(db: Database, id_: str, *, reason: str, actor: Actor, now: datetime) -> dict[str, Any]:
    """Say that a recorded fault was none. It stays in the history; a hold it opened stays until somebody releases it.

    What the breaker withheld for it is settled.

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
        withholding.end_for_failure(tx, failure.id, reason=f"withdrawn: {reason.strip()}", actor=actor)
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
                **({"muted": failure.muted} if failure.muted else {}),
                "observed_at": rfc3339_or_none(failure.occurred_at),
                "message": failure.message,
                **(more or {}),
            },
        )
    )
