# SPDX-License-Identifier: Apache-2.0
"""Which contradictions does a list open, and which does it end by no longer showing them?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from registry.domain.actors import SYSTEM, Actor, Subject, SubjectKind
from registry.domain.events import Draft, EventType
from registry.domain.identifiers import usable_serial, usable_uuid
from registry.domain.known import ConflictRule, Known, Match, Outcome, conflict_key
from registry.domain.reports import DeviceEntry
from registry.services.subjects import of_devices
from registry.store import conflicts, devices, nodes
from registry.store.conflicts import Conflict
from registry.store.database import Transaction, new_id


def settle(
    tx: Transaction,
    node: nodes.Node,
    instance: nodes.Instance,
    matches: Sequence[Match],
    covers: frozenset[str],
    known: Known,
    *,
    actor: Actor,
) -> None:
    """Open the conflicts that a list shows and the records do not have yet; end those that it shows no more."""
    shown = {conflict_key(one): one for one in matches if one.outcome is Outcome.CONFLICT}
    open_ = {one.key: one for one in conflicts.open_of_node(tx, node.id)}
    for key, match in shown.items():
        if key not in open_:
            _open(tx, node, instance, key, match, known, actor)
    for key, conflict in open_.items():
        if key not in shown and (conflict.kind in covers or conflict.instance_id != instance.id):
            end(tx, conflict, by=SYSTEM, as_=None, reason="a covering list of the node no longer shows it")
    _end_contests(tx, node, matches, covers)


def _open(
    tx: Transaction, node: nodes.Node, instance: nodes.Instance, key: str, match: Match, known: Known, actor: Actor
) -> None:
    involved = [known.units[one] for one in match.involved if one in known.units]
    others = {one.place.node for one in involved if one.place and one.place.is_live and one.place.node != node.name}
    other_nodes = [found for name in sorted(others) if (found := nodes.find_node(tx, name))]
    conflict = Conflict(
        id=new_id(tx.now),
        rule=str(match.rule),
        key=key,
        state="open",
        node_id=node.id,
        instance_id=instance.id,
        kind=match.entry.kind,
        reason=match.reason,
        entry=printed(match.entry),
        fingerprint=match.fingerprint,
        opened_at=tx.now,
    )
    conflicts.insert_conflict(
        tx, conflict, nodes=[node.id, *(one.id for one in other_nodes)], devices=[one.id for one in involved]
    )
    for one in other_nodes:
        nodes.forget_digest(tx, node_id=one.id)
    units = devices.get_devices(tx, [one.id for one in involved]).values()
    names = [node.name, *(one.name for one in other_nodes)]
    _record(tx, EventType.CONFLICT_OPENED, conflict, units, names, actor, {})


def printed(entry: DeviceEntry) -> dict[str, Any]:
    """Keep what an entry showed: usable values by name, all as seen beside them."""
    return {
        "kind": entry.kind,
        "vendor": entry.vendor,
        "slot": entry.slot,
        "serial": usable_serial(entry.serial),
        "uuid": usable_uuid(entry.uuid),
        "model": entry.model,
        "module_id": entry.module_id,
        "as_seen": {"serial": entry.serial, "uuid": entry.uuid, "unique_id": entry.unique_id},
    }


def _end_contests(tx: Transaction, node: nodes.Node, matches: Sequence[Match], covers: frozenset[str]) -> None:
    """Two nodes contend for a unit until one of them sends a covering list without it."""
    listed = {unit for one in matches for unit in (one.unit_id, *one.involved) if unit}
    for conflict in conflicts.open_with(tx, "node", node.id):
        if conflict.rule != ConflictRule.TWO_NODES or conflict.node_id == node.id or conflict.kind not in covers:
            continue
        if not listed & set(conflicts.parties(tx, conflict.id, "device")):
            end(tx, conflict, by=SYSTEM, as_=None, reason=f"node {node.name} sent a covering list without the device")


def end_all_of(tx: Transaction, node: nodes.Node, *, reason: str) -> None:
    """End the conflicts that a node's own lists made, and the contests that it is part of: it is gone."""
    for conflict in conflicts.open_with(tx, "node", node.id):
        if conflict.node_id == node.id or conflict.rule == ConflictRule.TWO_NODES:
            end(tx, conflict, by=SYSTEM, as_=None, reason=reason)


def end(tx: Transaction, conflict: Conflict, *, by: Actor, as_: str | None, reason: str) -> None:
    """End a conflict with its event. The nodes in it are looked at in full again."""
    node_ids = conflicts.parties(tx, conflict.id, "node")
    found = [one for node_id in node_ids if (one := nodes.get_node_by_id(tx, node_id))]
    units = devices.get_devices(tx, conflicts.parties(tx, conflict.id, "device")).values()
    conflicts.end_conflict(tx, conflict.id, by=str(by), as_=as_, reason=reason)
    for one in found:
        nodes.forget_digest(tx, node_id=one.id)
    more = {"why": reason, "as": as_}
    _record(tx, EventType.CONFLICT_RESOLVED, conflict, units, [one.name for one in found], by, more)


def _record(
    tx: Transaction,
    type_: EventType,
    conflict: Conflict,
    units: Any,
    names: Sequence[str],
    actor: Actor,
    more: dict[str, Any],
) -> None:
    tx.record(
        Draft(
            type_,
            actor,
            (Subject(SubjectKind.CONFLICT, conflict.id), *of_devices(list(units), nodes=names)),
            {
                "conflict": conflict.id,
                "rule": conflict.rule,
                "node": names[0] if names else None,
                "nodes": list(names),
                "serial": conflict.entry["serial"],
                "entry": conflict.entry,
                "reason": conflict.reason,
                **more,
            },
        )
    )
