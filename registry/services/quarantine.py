# SPDX-License-Identifier: Apache-2.0
"""How is a hold opened, and how does it end? Each in one transaction, with its event, target by target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.domain.actors import SYSTEM, Actor
from registry.domain.errors import PratiqueError
from registry.domain.quarantine import (
    Hold,
    HoldMatch,
    ReleasePolicy,
    TargetKind,
    is_stronger,
    may_release,
    stronger_of,
    validate_opening,
)
from registry.services.holding import PLACE_WARNING, SUPERSEDED, end, get_record, lay, release_expired, shown
from registry.services.pages import Page, PageRequest, page_of, slice_of
from registry.services.targets import Target, find_units, refusal, resolve
from registry.services.withholding import dismiss
from registry.store import devices, holds, nodes, search, withheld
from registry.store.database import Database, Snapshot, Transaction
from registry.store.devices import Device
from registry.store.holds import HoldRecord
from registry.store.placements import open_here

WITHHELD_SETTLED = "What the breaker withheld here stands no more."


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
    db: Database, command: OpenQuarantines, *, actor: Actor, now: datetime, dry_run: bool = False
) -> list[dict[str, Any]]:
    """Open a hold on each target and tell target by target what came of it.

    A target that cannot be held is `refused` and hinders no other. Raises InvalidField for a hold that contradicts
    itself.
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
    if already is not None and not is_stronger(template, already.hold):
        return {"target": dict(asked), "outcome": "already_open", "quarantine": shown(tx, already, tx.now)}
    if already is not None:
        template = stronger_of(template, already.hold)
        end(tx, already, reason=SUPERSEDED, actor=SYSTEM)
    record = lay(tx, target, template, asked=asked, evidence=command.evidence, actor=actor, fault_at=tx.now)
    item = {"target": dict(asked), "outcome": "opened", "quarantine": shown(tx, record, tx.now)}
    remark = _remark(tx, target, already)
    return {**item, "message": remark} if remark else item


def _remark(snapshot: Snapshot, target: Target, replaced: HoldRecord | None) -> str | None:
    """Say what the one who opens a hold may not expect."""
    said = [PLACE_WARNING] if target.match is HoldMatch.PLACE else []
    if replaced is not None:
        said.append(f"It is stronger than {replaced.hold.id} of the same owner and takes its place.")
    if target.node is not None and nodes.find_node(snapshot, target.node) is None:
        said.append(f"No node named {target.node} has reported yet: the hold waits for one of that name.")
    return " ".join(said) or None


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
        is_same = already is not None and not is_stronger(template, already.hold)
        item: dict[str, Any] = {"target": dict(asked), "outcome": "opened"}
        if is_same or target.key in seen:
            item["outcome"] = "already_open"
        elif remark := _remark(snapshot, target, already):
            item["message"] = remark
        if already is not None:
            item["quarantine"] = shown(snapshot, already, template.opened_at)
        seen.add(target.key)
        items.append(item)
    return items


def release_quarantine(
    db: Database,
    hold_id: str,
    *,
    reason: str,
    actor: Actor,
    role: str,
    now: datetime,
    evidence: Any = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """End one hold. Raises NotFound, NotOpen, Forbidden (permanent, not admin), InvalidField (no reason)."""
    if dry_run:
        with db.read() as snapshot:
            record = get_record(snapshot, hold_id)
            may_release(record.hold, role, reason, now=now)
            return {**shown(snapshot, record, now), "dry_run": True}
    with db.write(now) as tx:
        record = get_record(tx, hold_id)
        may_release(record.hold, role, reason, now=now)
        return shown(tx, end(tx, record, reason=reason, actor=actor, evidence=evidence), now)


def release_targets(
    db: Database,
    targets: Sequence[Mapping[str, Any]],
    *,
    reason: str,
    actor: Actor,
    role: str,
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
    standing = withheld.standing_on(snapshot, _reach(target))
    if not records and not standing:
        return {"target": dict(asked), "outcome": "not_held", "quarantines": []}
    if tx is not None:
        records = [end(tx, record, reason=reason, actor=actor) for record in records]
        dismiss(tx, _reach(target), reason=reason.strip(), actor=actor)
    item = {"target": dict(asked), "outcome": "released", "quarantines": [shown(snapshot, one, now) for one in records]}
    return {**item, "message": WITHHELD_SETTLED} if standing else item


def _open_on(snapshot: Snapshot, target: Target) -> list[HoldRecord]:
    """Every open hold on a target: for a device those on its board and on its units."""
    ids = {one for group in holds.open_on(snapshot, _reach(target)).values() for one in group}
    return sorted(holds.get_holds(snapshot, ids).values(), key=lambda one: one.hold.id)


def _reach(target: Target) -> list[tuple[str, str]]:
    """All that a hold on a target, or on a part of it, may bind."""
    return [
        *target.binds,
        *(("unit", one.id) for one in target.units),
        *(("board", one.board_id) for one in target.units),
        *([("name", target.node), ("asked", target.node)] if target.node else []),
    ]


def _unnamed_on(snapshot: Snapshot, name: str, named: set[str]) -> list[Device]:
    node = nodes.find_node(snapshot, name)
    state = nodes.find_state(snapshot, node.id) if node else None
    if state is None:
        return []
    held = {bind.device_id for bind in holds.open_on_node(snapshot, state.instance_id, []) if bind.device_id}
    return [one for one in devices.get_devices(snapshot, held).values() if one.board_id not in named]


def show_quarantine(db: Database, hold_id: str, *, now: datetime) -> dict[str, Any]:
    """Return one hold, open or released. Raises NotFound."""
    with db.read() as snapshot:
        return shown(snapshot, get_record(snapshot, hold_id), now)


def list_quarantines(db: Database, filters: Mapping[str, str], page: PageRequest, *, now: datetime) -> Page:
    """Return holds, open and released, by their fields; `device` takes our id, a serial or a UUID, `node` a name."""
    wanted = {name: value for name, value in filters.items() if name not in {"device", "node"}}
    with db.read() as snapshot:
        bound: list[tuple[str, str]] | None = None
        if "device" in filters:
            units = find_units(snapshot, filters["device"])
            bound = [pair for one in units for pair in one.binds]
        if "node" in filters:
            on_node = bound_to_node(snapshot, filters["node"])
            bound = on_node if bound is None else [one for one in bound if one in on_node]
        rows = search.list_holds(snapshot, wanted, slice_of(page), now, bound=bound)
        return page_of(rows, page, lambda one: str(one.hold.id), lambda one: shown(snapshot, one, now))


def bound_to_node(snapshot: Snapshot, name: str) -> list[tuple[str, str]]:
    """Return what a hold may bind to meet a node: the machine under its name, and everything placed on it now."""
    node = nodes.find_node(snapshot, name)
    state = nodes.find_state(snapshot, node.id) if node else None
    if state is None:
        return [("name", name), ("asked", name)]
    here = open_here(snapshot, state.instance_id)
    on_devices = [pair for one in here for pair in (("unit", one.device_id), ("board", one.board_id))]
    return [
        *resolve(snapshot, {"node": name}, scope=None, match=None).binds,
        ("name", name),
        ("asked", name),
        *on_devices,
    ]
