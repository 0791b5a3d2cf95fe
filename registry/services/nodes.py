# SPDX-License-Identifier: Apache-2.0
"""What do we know of a node, and what can an operator do about it: retire it, keep it out, excuse it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from registry.domain.actors import SYSTEM, Actor, Subject, SubjectKind
from registry.domain.errors import FieldError, InvalidField, NotFound
from registry.domain.events import Draft, EventType
from registry.domain.heat import without_blanks
from registry.domain.known import Outcome
from registry.domain.node_status import NodeStatus, node_status
from registry.domain.policy import Policy
from registry.domain.times import rfc3339, rfc3339_or_none
from registry.services import disputes, passes
from registry.services.admission import decide_on, load_facts
from registry.services.condition_news import end_conditions
from registry.services.gauges import heard_since
from registry.services.listing import close_all
from registry.services.pages import Page, PageRequest, slice_of
from registry.services.subjects import of_devices, told
from registry.store import conditions, devices, nodes, placements, profiles, search
from registry.store.database import Database, Snapshot, Transaction
from registry.store.lines import forget_lines, lines_of
from registry.store.maintenance import insert_maintenance
from registry.store.nodes import Node, NodeState
from registry.store.profiles import Waiver

LOOKED_AT_MAX = 1000
"""Nodes whose state is judged for one page by state, a tenth of a second's work: a request ends soon in any fleet."""

OVERDUE = "its time is over"
"""Why maintenance ended that nobody ended."""


def list_nodes(db: Database, filters: Mapping[str, str], page: PageRequest, *, policy: Policy, now: datetime) -> Page:
    """Return nodes by any of their fields. The state is judged for each at `now`, and for LOOKED_AT_MAX at most.

    So a page by state may have fewer nodes than asked for, even none, and more may follow.
    """
    state = filters.get("state")
    wanted = {**_narrow(state, now), **{name: value for name, value in filters.items() if name != "state"}}
    part = replace(slice_of(page), limit=LOOKED_AT_MAX if state else page.limit)
    found: list[dict[str, Any]] = []
    with db.read() as snapshot:
        silent_since = heard_since(snapshot, policy, now) if state == NodeStatus.STALE else None
        may_drain = state == NodeStatus.DRAINING
        rows = search.list_nodes(snapshot, wanted, part, silent_since=silent_since, may_drain=may_drain)
        for at, (id_, name) in enumerate(rows[: part.limit], start=1):
            if state is None or _state_of(snapshot, name, policy, now) == state:
                found.append(_shown(snapshot, name, policy, now))
            if at < len(rows) and (at == part.limit or len(found) == page.limit):
                return Page(found, id_)
    return Page(found, None)


def _narrow(state: str | None, now: datetime) -> dict[str, str]:
    """What a node of a state has at least, as filters: it finds the few without a look at the others."""
    if state == NodeStatus.RETIRED:
        return {"retired_at": "1970-01-01T00:00:00Z.."}
    return {"maintenance_until": f"{rfc3339(now)}.."} if state == NodeStatus.MAINTENANCE else {}


def _state_of(snapshot: Snapshot, name: str, policy: Policy, now: datetime) -> str:
    """Judge where a node stands, and read no more of it than that takes: most are looked at in vain."""
    facts = load_facts(snapshot, name, policy=policy, now=now)
    if not facts.is_known:
        return str(_shown(snapshot, name, policy, now)["state"])
    decision = decide_on(snapshot, facts, policy=policy, now=now)
    return node_status(decision, is_retired=False, maintenance_until=facts.maintenance_until, now=now)


def show_node(db: Database, name: str, *, policy: Policy, now: datetime) -> dict[str, Any]:
    """Return a node with its decision, its passes, and what its last lists said. Raises NotFound."""
    with db.read() as snapshot:
        node = _get(snapshot, name)
        state = nodes.find_state(snapshot, node.id)
        return {**_shown(snapshot, name, policy, now), **_details(snapshot, node, state, now)}


def _get(snapshot: Snapshot, name: str) -> Node:
    node = nodes.find_node(snapshot, name)
    if node is None:
        raise NotFound(f"No node named {name} has reported.")
    return node


def _shown(snapshot: Snapshot, name: str, policy: Policy, now: datetime) -> dict[str, Any]:
    node = _get(snapshot, name)
    facts = load_facts(snapshot, name, policy=policy, now=now)
    decision = decide_on(snapshot, facts, policy=policy, now=now)
    is_retired, until = node.retired_at is not None, node.maintenance_until
    word = node_status(decision, is_retired=is_retired, maintenance_until=until, now=now)
    state = nodes.find_state(snapshot, node.id)
    instance = nodes.get_instance(snapshot, state.instance_id) if state else None
    boot = nodes.get_boot(snapshot, state.boot_id) if state else None
    return {
        "name": name,
        "state": str(word),
        "provider_id": instance.provider_id if instance else None,
        "boot_id": boot.boot_id if boot else None,
        "profile": state.profile if state else None,
        "zone": state.zone if state else None,
        "registered_at": rfc3339(node.registered_at),
        "reported_at": rfc3339_or_none(state.reported_at if state else None),
        "retired_at": rfc3339_or_none(node.retired_at),
        "maintenance_until": rfc3339_or_none(node.maintenance_until),
        "maintenance_reason": node.maintenance_reason,
        "passes": {"have": decision.have, "need": decision.need},
        "conditions": [one.to_json() for one in facts.conditions],
        "admission": decision.to_json(),
    }


def _details(snapshot: Snapshot, node: Node, state: NodeState | None, now: datetime) -> dict[str, Any]:
    if state is None:
        return {"devices": [], "missing": [], "checks": [], "waivers": [], "host": {}}
    lines = [
        {**line, "readings": without_blanks(readings)}
        for kind, listed in sorted(lines_of(snapshot, node.id).items(), reverse=True)
        for line, readings in zip(listed, state.readings.get(kind, []), strict=True)
    ]
    states = search.states_of(snapshot, [line["id"] for line in lines if line["id"]], now)
    gone = placements.missing_here(snapshot, state.instance_id)
    units = devices.get_devices(snapshot, gone)
    return {
        "devices": [
            _device(line, states) for line in sorted(lines, key=lambda one: (one["kind"] != "gpu", one["slot"] or ""))
        ],
        "missing": [told(one, node=node.name, slot=gone[one.id]) for one in units.values()],
        "checks": [
            {
                "name": one.name,
                "status": str(one.status),
                "since": rfc3339(one.since),
                "at": rfc3339(one.at),
                "run_id": one.run_id,
                "findings": [
                    {"device": f.device, "status": str(f.status), "code": f.code, "message": f.message}
                    for f in one.findings
                ],
            }
            for one in state.checks.values()
        ],
        "waivers": [waiver_shown(one) for one in profiles.waivers_of(snapshot, node.id, now).values()],
        "host": nodes.host_of(snapshot, node.id),
    }


def _device(line: Mapping[str, Any], states: Mapping[str, str]) -> dict[str, Any]:
    """One line of a list, with the state of the unit it is."""
    fixed = {Outcome.CONFLICT: "conflict", Outcome.UNIDENTIFIED: "unidentified"}.get(Outcome(line["outcome"]))
    shown = {name: value for name, value in line.items() if name != "outcome"}
    return {**shown, "state": fixed or states.get(line["id"], "unidentified")}


def retire_node(
    db: Database, name: str, *, reason: str | None, actor: Actor, policy: Policy, now: datetime
) -> dict[str, Any]:
    """Say that a node will not come back; a later report revives it. Again: nothing changes. Raises NotFound."""
    with db.write(now) as tx:
        node = _get(tx, name)
        if node.retired_at is None:
            _retire(tx, node, reason, actor)
        return _shown(tx, name, policy, now)


def _retire(tx: Transaction, node: Node, reason: str | None, actor: Actor) -> None:
    state = nodes.find_state(tx, node.id, lock=True)
    if state is not None:
        close_all(tx, node, state.instance_id, ended_by="retired", actor=actor)
        end_conditions(tx, node, state.instance_id, why="retired", actor=actor)
        placements.settle_all_contested(tx, state.instance_id)
        disputes.end_all_of(tx, node, reason="the node was retired")
        state = nodes.find_state(tx, node.id) or state
        passes.reset(tx, node.name, state, why="retired", detail=reason, actor=actor)
        state.digest, state.listed, state.checks, state.runs = {}, {}, {}, []
        state.readings = {}
        forget_lines(tx, node.id)
        state.counted_start = state.counted_end = None
        nodes.save_state(tx, state)
    nodes.set_node(tx, node.id, retired_at=tx.now)
    _record(tx, EventType.NODE_RETIRED, node, actor, {"reason": reason})


def set_maintenance(
    db: Database, name: str, *, until: datetime, reason: str, actor: Actor, policy: Policy, now: datetime
) -> dict[str, Any]:
    """Keep a node out of work until a time; a time that is over ends it. Raises NotFound."""
    with db.write(now) as tx:
        node = _get(tx, name)
        if node.maintenance_until is not None and node.maintenance_until <= now:
            end_maintenance(tx, node, SYSTEM, OVERDUE)
            node = _get(tx, name)
        if until <= now:
            if node.maintenance_until is not None:
                end_maintenance(tx, node, actor, reason)
        else:
            since = node.maintenance_from or now
            nodes.set_node(tx, node.id, maintenance_from=since, maintenance_until=until, maintenance_reason=reason)
            _record(tx, EventType.MAINTENANCE_STARTED, node, actor, {"until": rfc3339(until), "reason": reason})
        return _shown(tx, name, policy, now)


def end_maintenance(tx: Transaction, node: Node, actor: Actor, reason: str | None) -> None:
    """Let a node out of maintenance, with its event. When it was in it stays known: late evidence is of that time."""
    if node.maintenance_until is not None:
        insert_maintenance(tx, node, min(node.maintenance_until, tx.now))
    nodes.forget_digest(tx, node_id=node.id)  # a check that fails still is evidence from now on
    conditions.look_again(tx, node.id)  # their timers run again
    nodes.set_node(tx, node.id, maintenance_from=None, maintenance_until=None, maintenance_reason=None)
    _record(tx, EventType.MAINTENANCE_ENDED, node, actor, {"reason": reason})


def grant_waiver(
    db: Database,
    name: str,
    *,
    kind: str,
    count: int,
    until: datetime,
    reason: str,
    actor: Actor,
    now: datetime,
) -> dict[str, Any]:
    """Accept `count` devices of a kind on a node until a time; a time that is over ends the waiver in force.

    Granting takes the missing devices of the kind off the node's list. Raises NotFound, InvalidField.
    """
    with db.write(now) as tx:
        node = _get(tx, name)
        before = profiles.open_waiver(tx, node.id, kind)
        if until <= now and before is None:
            errors = (FieldError("/until", "is over, and there is no waiver to end"),)
            raise InvalidField(f"Node {name} has no waiver for {kind} devices to end.", errors=errors)
        if before is not None:
            end_waiver(tx, node, before, actor)
        if until <= now:
            assert before is not None  # noqa: S101 - looked at above
            return {**waiver_shown(before), "ended_at": rfc3339(now)}
        waiver = profiles.insert_waiver(
            tx, node_id=node.id, kind=kind, count=count, until_at=until, reason=reason, by=str(actor)
        )
        _record(tx, EventType.WAIVER_GRANTED, node, actor, {**waiver_shown(waiver)})
        _let_missing_go(tx, node, kind, actor)
        nodes.forget_digest(tx, node_id=node.id)
        return waiver_shown(waiver)


def end_waiver(tx: Transaction, node: Node, waiver: Waiver, actor: Actor) -> None:
    """End a waiver, with its event."""
    profiles.end_waiver(tx, waiver)
    nodes.forget_digest(tx, node_id=node.id)
    _record(tx, EventType.WAIVER_ENDED, node, actor, {"waiver": waiver.id, "kind": waiver.kind, "count": waiver.count})


def _let_missing_go(tx: Transaction, node: Node, kind: str, actor: Actor) -> None:
    state = nodes.find_state(tx, node.id)
    for place in placements.open_here(tx, state.instance_id) if state else []:
        if place.kind == kind and place.missing_since is not None:
            placements.close(tx, place, ended_by="waived")
            device = devices.get_devices(tx, [place.device_id])[place.device_id]
            data = {**told(device, node=node.name, slot=place.slot), "why": "waived"}
            tx.record(Draft(EventType.DEVICE_DETACHED, actor, of_devices([device], nodes=[node.name]), data))


def waiver_shown(waiver: Waiver) -> dict[str, Any]:
    """Give a waiver as the API answers it."""
    return {
        "id": waiver.id,
        "kind": waiver.kind,
        "count": waiver.count,
        "until": rfc3339(waiver.until_at),
        "reason": waiver.reason,
        "granted_by": waiver.granted_by,
        "granted_at": rfc3339(waiver.granted_at),
        "ended_at": rfc3339_or_none(waiver.ended_at),
    }


def _record(tx: Transaction, type_: EventType, node: Node, actor: Actor, data: Mapping[str, Any]) -> None:
    tx.record(Draft(type_, actor, (Subject(SubjectKind.NODE, node.name),), {"node": node.name, **data}))
