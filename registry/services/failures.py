# SPDX-License-Identifier: Apache-2.0
"""What went wrong, on which device, and what follows at once: passes back to zero, a hold, a step towards release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from registry.domain.actors import Actor
from registry.domain.errors import (
    FieldError,
    Forbidden,
    InvalidField,
    NotOpen,
    PratiqueError,
    StoreUnavailable,
)
from registry.domain.events import EventType
from registry.domain.failures import Effect, is_valid_code
from registry.domain.log_lines import is_line
from registry.domain.policy import Policy
from registry.domain.reports import ReportedFailure
from registry.services import withholding
from registry.services.effects import take_effect
from registry.services.failure_pages import get_failure, shown
from registry.services.job_revisions import ATTACHED, WITHDRAWN, note_fault
from registry.services.locating import Located, locate, may_be
from registry.services.recording import Message, go_on, put_on_record, record_event
from registry.store import devices, failures, nodes, placements, sights
from registry.store.database import Database, Snapshot, Transaction
from registry.store.failures import Failure
from registry.store.placements import Placement
from registry.store.sights import Told

BUILT_IN = Policy()
"""The policy where a server has no other."""


def record_failures(
    db: Database,
    reported: Sequence[ReportedFailure],
    *,
    actor: Actor,
    node_scope: str | None,
    provider_id: str | None = None,
    policy: Policy,
    now: datetime,
) -> list[dict[str, Any]]:
    """Put faults on record, and say item by item what came of it; one that is refused hinders no other.

    With `node_scope` (a node's own token) only what concerns that node is taken, and with `provider_id` only while that
    is the instance which has the name: raises Forbidden. The same `failure_id` again is
    `already_recorded`, with other content it is refused. A fault that this boot has shown on the device before, under
    whatever id, is counted there.
    """
    with db.write(now) as tx:
        _check_instance(tx, node_scope, provider_id)
        items = []
        for one in reported:
            try:
                failure, is_new = record_in(tx, one, actor=actor, node_scope=node_scope, policy=policy)
            except StoreUnavailable:
                raise  # no fault of this item
            except PratiqueError as error:
                said = {"code": error.code, "message": error.detail, **error.extra}
                items.append({"failure_id": one.failure_id, "outcome": "refused", **said})
                continue
            outcome = "recorded" if is_new else "already_recorded"
            items.append({"failure_id": one.failure_id, "outcome": outcome, "failure": shown(tx, failure)})
        return items


def _check_instance(tx: Transaction, name: str | None, provider_id: str | None) -> None:
    """Let nobody tell of a machine that has, or still has, the name: its slots hold other devices."""
    state = nodes.find_state_by_name(tx, name) if name is not None and provider_id is not None else None
    if state is None:
        return
    current = nodes.get_instance(tx, state.instance_id).provider_id
    if current != provider_id:
        told = f"This token is for instance {provider_id}, and {name} reports as {current}"
        raise Forbidden(f"{told}: if {provider_id} is the newer one, let it send a report first.")


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
    """Put one fault on record with all that follows, and tell whether this message was new.

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
        return go_on(tx, known, reported, located, actor, policy), True
    told = Message(reported, located, actor, node_scope or "", digest, is_of_report=boot is not None)
    return put_on_record(tx, told, policy), True


def is_told(snapshot: Snapshot, reported: ReportedFailure, node_scope: str, now: datetime) -> bool:
    """Tell whether a node's own message says nothing of a fault that was not said before, under its id."""
    known = sights.find_told(snapshot, node_scope, reported.failure_id)
    return known is not None and known.digest == _digest(reported) and _is_old(known, reported, now)


def _is_old(known: Told, reported: ReportedFailure, now: datetime) -> bool:
    """Tell whether a message has nothing to add to the one before it.

    A log counts its lines from the one that the id is made of. Its times may lie ahead of ours, and then each reading
    would be later than the one before.
    """
    if reported.last_at is None or is_line(reported.evidence):
        return reported.count <= known.said
    return min(reported.last_at, now) <= known.at


def _digest(reported: ReportedFailure) -> str:
    """Tell two messages under one id apart. Evidence and wording are not part of it: a retry may word things anew."""
    said = (reported.code, reported.device, reported.node, reported.slot, reported.occurred_at)
    return hashlib.sha256(json.dumps(said, default=str).encode()).hexdigest()


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
        if failure.instance_id is None:
            failures.adopt(tx, failure, instance_id=boot.instance_id, boot_id=boot.id)
            failure = replace(failure, instance_id=boot.instance_id, boot_id=boot.id)  # noqa: PLW2901 - the same one
        if place is None or failure.boot_id != boot.id:
            continue
        device = devices.get_devices(tx, [place.device_id])[place.device_id]
        if not may_be(failure.ref, device):
            continue
        failures.attach(tx, failure, device_id=device.id, board_id=device.board_id)
        attached = replace(failure, device_id=device.id, board_id=device.board_id, is_unattached=False)
        record_event(tx, attached, device, node, actor, {"attached": True})
        kind = replace(policy.look_up(failure.code), effect=Effect(failure.effect))
        seen = replace(attached, occurred_at=failure.last_at if failure.occurred_at else None)
        take_effect(tx, seen, Located(device, node, boot, failure.slot), kind, actor, policy)
        note_fault(tx, attached, failure.seen_at, failure.last_at, policy, because=ATTACHED)


def withdraw_failure(
    db: Database, id_: str, *, reason: str, actor: Actor, now: datetime, policy: Policy = BUILT_IN
) -> dict[str, Any]:
    """Say that a recorded fault was none. It stays in the history; a hold it opened stays until somebody releases it.

    What the breaker withheld for it is settled; verdicts on failed jobs that rest on it are given anew.

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
        withholding.end_for_failure(tx, failure.id, reason=f"withdrawn: {reason.strip()}")
        withdrawn = replace(failure, state="withdrawn", is_unattached=False)
        device = devices.get_devices(tx, [failure.device_id]).get(failure.device_id) if failure.device_id else None
        node = nodes.get_node_by_id(tx, failure.node_id) if failure.node_id else None
        record_event(tx, withdrawn, device, node, actor, {"why": reason.strip()}, type_=EventType.FAILURE_WITHDRAWN)
        note_fault(tx, failure, failure.seen_at, failure.last_at, policy, because=WITHDRAWN)
        return shown(tx, withdrawn)
