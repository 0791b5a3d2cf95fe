# SPDX-License-Identifier: Apache-2.0
"""Which life and boot of a node does a report come from, and what ends when a new one begins?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from registry.domain.actors import Actor, Subject, SubjectKind
from registry.domain.errors import InstanceSuperseded
from registry.domain.events import Draft, EventType
from registry.domain.identifiers import IdentifierType, why_unusable
from registry.domain.reports import Notice, Report
from registry.services import disputes, passes
from registry.services.condition_news import end_conditions
from registry.services.holding import release_with_instance
from registry.services.listing import close_all
from registry.store import nodes, placements
from registry.store.database import Transaction
from registry.store.lines import forget_lines
from registry.store.nodes import Boot, Instance, Node, NodeState

_HOST_RULES = (IdentifierType.SERIAL, IdentifierType.UUID)
"""What is no serial or no UUID names no host either: firmware fills both fields with the same junk."""


@dataclass(slots=True)
class Arrival:
    """Who sent a report. `is_past`: from a boot that is over. `state` is the node's row, which the caller saves."""

    node: Node
    instance: Instance
    boot: Boot
    state: NodeState
    is_past: bool

    def reload(self, tx: Transaction) -> None:
        """Read the row again, which others of this transaction may have written. It was saved before."""
        state = nodes.find_state(tx, self.node.id)
        assert state is not None  # noqa: S101 - see above
        self.state = state


def arrive(tx: Transaction, report: Report, node: Node | None, state: NodeState | None, actor: Actor) -> Arrival:
    """Find or begin the instance and the boot that a report names, and the node where there is none yet.

    `state` is the node's row, locked. Raises InstanceSuperseded.
    """
    instance = nodes.find_instance(tx, node.id, report.provider_id) if node else None
    if state is not None and instance is not None and instance.id != state.instance_id:
        current = nodes.get_instance(tx, state.instance_id)
        raise InstanceSuperseded(
            f"Node {report.node} is instance {current.provider_id} now: {report.provider_id} was replaced and is not "
            "taken back. A machine that returns begins a new life, with a new provider_id.",
        )
    if node is None:
        node = nodes.insert_node(tx, report.node)
        _node_event(tx, EventType.NODE_REGISTERED, node, actor, {"revived": False})
    elif node.retired_at is not None and not _is_over(tx, instance, state, report):
        nodes.set_node(tx, node.id, retired_at=None)
        _node_event(tx, EventType.NODE_REGISTERED, node, actor, {"revived": True})
    if instance is None:
        instance, state = _begin_instance(tx, node, state, report, actor)
    return _boot(tx, node, instance, state, report, actor)


def _is_over(tx: Transaction, instance: Instance | None, state: NodeState | None, report: Report) -> bool:
    """Does the report come from a boot that is over? Then it says nothing of now, and a retired node stays retired."""
    boot = nodes.find_boot(tx, instance.id, report.boot_id) if instance else None
    return boot is not None and state is not None and boot.id != state.boot_id


def _begin_instance(
    tx: Transaction, node: Node, state: NodeState | None, report: Report, actor: Actor
) -> tuple[Instance, NodeState | None]:
    instance = nodes.insert_instance(tx, node.id, report.provider_id)
    if state is None:
        return instance, None
    old = nodes.get_instance(tx, state.instance_id)
    _end_instance(tx, node, old, actor)
    passes.reset(tx, node.name, state, why="instance_replaced", detail=report.provider_id, actor=actor)
    _node_event(tx, EventType.NODE_REPLACED, node, actor, {"from": old.provider_id, "to": report.provider_id})
    state.instance_id = instance.id
    state.readings = {}
    forget_lines(tx, node.id)
    return instance, state


def _end_instance(tx: Transaction, node: Node, old: Instance, actor: Actor) -> None:
    """What belonged to the old life ends with it: placements, contests, and holds that rest on its places."""
    release_with_instance(tx, old.id)
    close_all(tx, node, old.id, ended_by="replaced", actor=actor)
    end_conditions(tx, node, old.id, why="instance_replaced", actor=actor)
    placements.settle_all_contested(tx, old.id)
    disputes.end_all_of(tx, node, reason="the instance was replaced")
    nodes.end_instance(tx, old.id)


def _boot(
    tx: Transaction, node: Node, instance: Instance, state: NodeState | None, report: Report, actor: Actor
) -> Arrival:
    for earlier in report.earlier_boots:
        if earlier != report.boot_id and nodes.find_boot(tx, instance.id, earlier) is None:
            _insert_boot(tx, node, instance, earlier, actor)
    boot = nodes.find_boot(tx, instance.id, report.boot_id)
    if boot is not None and state is not None:
        return Arrival(node, instance, boot, state, is_past=boot.id != state.boot_id)
    if boot is None:
        boot = _insert_boot(tx, node, instance, report.boot_id, actor)
    if state is None:
        state = NodeState(node.id, instance.id, boot.id, report.profile, report.zone, None, tx.now)
        return Arrival(node, instance, boot, state, is_past=False)
    passes.reset(tx, node.name, state, why="booted", detail=report.boot_id, actor=actor)
    begin_boot(state, boot)
    return Arrival(node, instance, boot, state, is_past=False)


def _insert_boot(tx: Transaction, node: Node, instance: Instance, boot_id: str, actor: Actor) -> Boot:
    _node_event(tx, EventType.NODE_BOOTED, node, actor, {"provider_id": instance.provider_id, "boot_id": boot_id})
    return nodes.insert_boot(tx, instance.id, boot_id)


def begin_boot(state: NodeState, boot: Boot) -> None:
    """Forget what was true of the boot before: checks, rounds, spacing, per-boot results, the newest fault."""
    state.boot_id = boot.id
    state.seq = None
    state.counted_start = state.counted_end = state.fault_at = None
    state.checks, state.listed, state.runs, state.digest = {}, {}, [], {}
    state.passes["clean_in_boot"] = []


def note_host(tx: Transaction, arrival: Arrival, report: Report, actor: Actor) -> list[Notice]:
    """Keep what each source says of the host; a change within one source is an event.

    Sources are never compared with one another: in band and out of band often print different serials for one machine.
    A value that another node gives too is told to the sender and joins nothing: whole batches share a UUID.
    """
    node = arrival.node
    on_record = nodes.host_of(tx, node.id) if report.host else {}
    notices: list[Notice] = []
    _note_chassis(tx, arrival, report)
    for source, values in report.host.items():
        changed = {}
        for name, printed in values.items():
            value, before = printed.strip(), on_record.get(source, {}).get(name)
            if value == before or any(why_unusable(type_, printed) for type_ in _HOST_RULES):
                continue
            nodes.save_host_value(tx, node.id, source, name, value)
            changed.update({name: {"from": before, "to": value}} if before else {})
            others = nodes.nodes_sharing(tx, name, value, besides=node.id)
            if others:
                told = f"{source} {name} {value} is given by {', '.join(others)} too: it tells no machines apart."
                notices.append(Notice("host_value_shared", told))
        if changed:
            _node_event(tx, EventType.NODE_HOST_CHANGED, node, actor, {"source": source, "changed": changed})
    return notices


def _note_chassis(tx: Transaction, arrival: Arrival, report: Report) -> None:
    """Each instance has its own chassis: a hold on the machine follows it into a new one under the old name, too."""
    printed = report.host.get("chassis", {}).get("serial", "")
    is_usable = not any(why_unusable(type_, printed) for type_ in _HOST_RULES)
    if is_usable and printed.strip() != arrival.instance.chassis:
        nodes.set_chassis(tx, arrival.instance.id, printed.strip())


def _node_event(tx: Transaction, type_: EventType, node: Node, actor: Actor, data: dict[str, Any]) -> None:
    tx.record(Draft(type_, actor, (Subject(SubjectKind.NODE, node.name),), {"node": node.name, **data}))
