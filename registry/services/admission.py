# SPDX-License-Identifier: Apache-2.0
"""May this node take work? The one place where the records are gathered and the rule is asked, for every door."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from registry.domain.admission import Decision, DeviceRef, HoldOn, NodeFacts, decide, decide_hardware
from registry.domain.checks import CheckState
from registry.domain.condition_shown import Condition
from registry.domain.failures import Effect
from registry.domain.known import ConflictRule
from registry.domain.node_facts import Conflict, Unattached, Withheld
from registry.domain.passes import effective_have
from registry.domain.policy import Policy
from registry.domain.profiles import Profile
from registry.domain.quarantine import is_in_force
from registry.domain.reports import CheckStatus, Kind
from registry.domain.staleness import is_stale, silence_seconds
from registry.services.conditions import standing_on
from registry.services.life import silence
from registry.services.profiles import parse_profile
from registry.services.targets import identifier_ref, usable_value
from registry.store import alarms, conflicts, devices, failures, holds, nodes, placements, withheld
from registry.store.database import Database, Snapshot
from registry.store.devices import Device
from registry.store.profiles import waivers_of
from registry.store.summaries import NodeSummary, find_summary
from registry.store.withheld import WithheldRecord


def decide_admission(
    db: Database, node: str, *, instance: str | None = None, policy: Policy, now: datetime
) -> Decision:
    """Decide about one node, from one snapshot. An unknown node is a decision too. Raises StoreUnavailable.

    `instance` is the provider id of the machine that asks, where that is certain: what another instance of the name
    reported admits nobody else, so before its own first report it is unknown.
    """
    decision = db.look(lambda snapshot: _decide_plainly(snapshot, node, instance, policy, now))
    if decision is not None:
        return decision
    with db.read() as snapshot:
        facts = load_facts(snapshot, node, instance=instance, policy=policy, now=now)
        return decide_on(snapshot, facts, policy=policy, now=now)


def _decide_plainly(
    snapshot: Snapshot, node: str, instance: str | None, policy: Policy, now: datetime
) -> Decision | None:
    """Decide on one statement, where that is enough, which it is for nearly every node; else None."""
    row = find_summary(snapshot, node)
    if row is None or not row.is_plain:
        return None
    facts = facts_on(snapshot, node, row, instance=instance, policy=policy, now=now)
    return None if facts.sequence is None else decide_on(snapshot, facts, policy=policy, now=now)


def decide_in(snapshot: Snapshot, node: str, *, policy: Policy, now: datetime) -> Decision:
    """Decide inside a snapshot or transaction that is open already."""
    return decide_on(snapshot, load_facts(snapshot, node, policy=policy, now=now), policy=policy, now=now)


def decide_on(snapshot: Snapshot, facts: NodeFacts, *, policy: Policy, now: datetime) -> Decision:
    """Decide on facts that were gathered in this snapshot."""
    sequence = snapshot.sequence() if facts.sequence is None else facts.sequence
    return decide(facts, policy=policy, policy_digest=policy.digest, sequence=sequence, now=now)


def load_facts(
    snapshot: Snapshot, name: str, *, instance: str | None = None, policy: Policy, now: datetime
) -> NodeFacts:
    """Gather what a decision about a node needs. Holds and conflicts are joined at each read, never copied.

    `instance` is as for `decide_admission`.
    """
    return facts_on(snapshot, name, find_summary(snapshot, name), instance=instance, policy=policy, now=now)


def facts_on(
    snapshot: Snapshot,
    name: str,
    row: NodeSummary | None,
    *,
    instance: str | None = None,
    policy: Policy,
    now: datetime,
) -> NodeFacts:
    """Gather what stands beside a node's row. Of a plain row that is nothing, and nothing is asked."""
    if row is None or row.retired_at is not None or row.instance_id is None or row.reported_at is None:
        return NodeFacts(name)
    if instance is not None and row.provider_id != instance:
        return NodeFacts(name, asking=instance)
    profile = parse_profile(row.profile or "", row.profile_body)
    silent = silence(snapshot, row.reported_at, now) if row.is_overlooked else silence_seconds(row.reported_at, now, ())
    # A node that lacks passes is told which checks it lacks too.
    checks = row.load_checks(is_brief=effective_have(row.have or 0, silent, policy) >= policy.pass_count)
    disputed = _conflicts(snapshot, row.node_id, policy, now) if row.is_disputed else []
    involved = [device for _, devices_in_it in disputed for device in devices_in_it]
    missing = placements.missing_here(snapshot, row.instance_id) if row.is_troubled else {}
    return NodeFacts(
        node=name,
        is_known=True,
        profile_name=row.profile,
        profile=profile,
        silence_seconds=silent,
        holds=_holds(snapshot, row, involved, now) if row.is_troubled or row.is_held or involved else (),
        withheld=_withheld(snapshot, row) if row.is_withheld else (),
        devices=_named(snapshot, row.instance_id, checks),
        missing=tuple(_refs(snapshot, missing).values()),
        listed_counts={kind: one["count"] for kind, one in row.listed.items()},
        expected=expected_counts(snapshot, row.node_id if row.is_waived else None, profile, now),
        unidentified=tuple(DeviceRef(**one) for listed in row.listed.values() for one in listed["unidentified"]),
        conflicts=tuple(conflict for conflict, _ in disputed),
        unattached=_unattached(snapshot, row.instance_id) if row.is_unattached else (),
        checks=checks,
        conditions=_conditions_on(snapshot, row, checks, policy, now) if row.is_conditioned else (),
        have=row.have or 0,
        last_counted_start=row.counted_start,
        maintenance_until=row.maintenance_until,
        maintenance_reason=row.maintenance_reason,
        safe_mode=row.is_alarmed,
        sequence=row.sequence,
    )


def _conditions_on(
    snapshot: Snapshot, row: NodeSummary, checks: Mapping[str, CheckState], policy: Policy, now: datetime
) -> tuple[Condition, ...]:
    assert row.instance_id is not None and row.reported_at is not None  # noqa: S101, PT018 - the caller looked
    return standing_on(
        snapshot, row.node_id, row.instance_id, reported_at=row.reported_at, checks=checks, policy=policy, now=now
    )


def expected_counts(
    snapshot: Snapshot, node_id: str | None, profile: Profile | None, now: datetime
) -> dict[str, int | None]:
    """Give how many devices of each kind there should be: the profile's counts, waivers in force put in their place.

    `node_id` is None for a node that is known to have no waiver.
    """
    counts: dict[str, int | None] = {kind.value: profile.expected(kind) if profile else None for kind in Kind}
    waivers = waivers_of(snapshot, node_id, now) if node_id else {}
    return {**counts, **{kind: waiver.count for kind, waiver in waivers.items()}}


def machine_binds(name: str, provider_id: str, chassis: str | None) -> list[tuple[str, str]]:
    """Give everything that a hold on a machine may rest on."""
    return [("instance", provider_id), ("name", name), *([("chassis", chassis)] if chassis else [])]


def _holds(snapshot: Snapshot, row: NodeSummary, disputed: Sequence[str], now: datetime) -> tuple[HoldOn, ...]:
    assert row.instance_id is not None  # noqa: S101 - the caller looked
    binds = holds.open_on_node(snapshot, row.instance_id, machine_binds(row.name, row.provider_id or "", row.chassis))
    binds += [
        holds.Bind(hold_id, device) for device, ids in held_devices(snapshot, disputed).items() for hold_id in ids
    ]
    if not binds:
        return ()
    records = holds.get_holds(snapshot, [bind.quarantine_id for bind in binds])
    slots = {one.device_id: one.slot for one in placements.open_here(snapshot, row.instance_id)}
    refs = _refs(snapshot, {bind.device_id: slots.get(bind.device_id) for bind in binds if bind.device_id})
    found = {}
    for bind in binds:
        hold = records[bind.quarantine_id].hold
        if is_in_force(hold, now):
            ref = refs.get(bind.device_id) if bind.device_id else None
            found[hold.id, ref] = HoldOn(hold.id, ref, hold.owner, hold.reason, hold.opened_at, hold.match, hold.drain)
    return tuple(found.values())


def _withheld(snapshot: Snapshot, row: NodeSummary) -> tuple[Withheld, ...]:
    assert row.instance_id is not None  # noqa: S101 - the caller looked
    machine = machine_binds(row.name, row.provider_id or "", row.chassis)
    found = withheld.standing_on_node(snapshot, row.instance_id, machine)
    slots = {one.device_id: one.slot for one in placements.open_here(snapshot, row.instance_id)}
    refs = _refs(snapshot, {device: slots.get(device) for _, device in found if device})
    return tuple(_told(one, refs.get(device or "")) for one, device in found)


def _told(one: WithheldRecord, device: DeviceRef | None) -> Withheld:
    return Withheld(one.owner.name, f"{one.reason}; {one.limited_by}", device, one.opened_at)


def held_devices(snapshot: Snapshot, device_ids: Iterable[str]) -> dict[str, list[str]]:
    """Return the ids of the open holds on each of these units, by themselves or by their boards."""
    units = devices.get_devices(snapshot, device_ids)
    if not units:
        return {}
    open_ = holds.open_on(
        snapshot, [*(("unit", one) for one in units), *(("board", one.board_id) for one in units.values())]
    )
    return {
        one.id: [*open_.get(("unit", one.id), []), *open_.get(("board", one.board_id), [])] for one in units.values()
    }


def _refs(snapshot: Snapshot, slots: Mapping[str, str | None]) -> dict[str, DeviceRef]:
    if not slots:
        return {}
    units = devices.get_devices(snapshot, slots)
    return {one.id: DeviceRef(one.id, one.kind, one.serial, one.uuid, slots[one.id]) for one in units.values()}


def _named(snapshot: Snapshot, instance_id: str, checks: Mapping[str, CheckState]) -> tuple[DeviceRef, ...]:
    """The units placed here, but only when a finding asks to be put to one of them."""
    troubled = (CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.SKIPPED)
    if not any(found.device for one in checks.values() if one.status in troubled for found in one.findings):
        return ()
    return tuple(
        _refs(snapshot, {one.device_id: one.slot for one in placements.open_here(snapshot, instance_id)}).values()
    )


def _conflicts(snapshot: Snapshot, node_id: str, policy: Policy, now: datetime) -> list[tuple[Conflict, list[str]]]:
    """The conflicts this node is part of, each with the units whose holds then apply."""
    found: list[tuple[Conflict, list[str]]] = []
    for one in conflicts.open_with(snapshot, "node", node_id):
        if one.rule == ConflictRule.TWO_NODES and not _is_contest_alive(snapshot, one.id, policy, now):
            continue
        entry = one.entry
        ref = DeviceRef(None, one.kind, entry.get("serial"), entry.get("uuid"), entry.get("slot"))
        found.append(((ref, one.reason), conflicts.parties(snapshot, one.id, "device")))
    return found


def _is_contest_alive(snapshot: Snapshot, conflict_id: str, policy: Policy, now: datetime) -> bool:
    """Two nodes contend for one unit only while both are there: one that is stale or retired no longer does."""
    return all(is_live(snapshot, node_id, policy, now) for node_id in conflicts.parties(snapshot, conflict_id, "node"))


def is_live(snapshot: Snapshot, node_id: str, policy: Policy, now: datetime) -> bool:
    """Tell whether a node is neither retired nor stale."""
    reported_at = nodes.find_last_report(snapshot, node_id)
    return reported_at is not None and not is_stale(silence(snapshot, reported_at, now), policy)


def _unattached(snapshot: Snapshot, instance_id: str) -> tuple[Unattached, ...]:
    found = failures.unattached(snapshot, instance_id)
    return tuple(
        (one.code, one.slot, one.occurred_at or one.recorded_at) for one in found if Effect(one.effect).is_blocking
    )


def preview(
    db: Database, candidates: Sequence[Mapping[str, Any]], *, policy: Policy, now: datetime
) -> list[dict[str, Any]]:
    """Say of each candidate what would be decided: a node, identifiers, devices by our ids, or several. Writes nothing.

    Hardware alone is judged by the holds that it meets: there are no passes to ask for. That of a node nobody knows is
    too, and where none is held the node is unknown. A `boot_id` beside a node asks about that boot: passes of another,
    or of another machine that had the name, are none.
    """
    with db.read() as snapshot:
        return [_preview(snapshot, one, policy, now) for one in candidates]


def _preview(snapshot: Snapshot, candidate: Mapping[str, Any], policy: Policy, now: datetime) -> dict[str, Any]:
    name = candidate.get("node")
    asked = candidate.get("identifiers") or ()
    units = [*devices.get_devices(snapshot, candidate.get("devices") or ()).values(), *_units_named(snapshot, asked)]
    met, withheld_here = _met(snapshot, asked, units, now), _withheld_on(snapshot, units)
    if name is not None:
        facts = _in_boot(snapshot, load_facts(snapshot, name, policy=policy, now=now), candidate.get("boot_id"))
        if facts.is_known or not (met or withheld_here):
            known = {(one.hold_id, one.device.id) for one in facts.holds if one.device}
            more = tuple(one for one in met if one.device and (one.hold_id, one.device.id) not in known)
            rules = {(one.rule, one.device.id) for one in facts.withheld if one.device}
            beside = tuple(one for one in withheld_here if one.device and (one.rule, one.device.id) not in rules)
            facts = replace(facts, holds=(*facts.holds, *more), withheld=(*facts.withheld, *beside))
            return decide_on(snapshot, facts, policy=policy, now=now).to_json()
    facts = NodeFacts(name or "", holds=met, withheld=withheld_here, safe_mode=alarms.is_alarmed(snapshot))
    sequence = snapshot.sequence()
    return decide_hardware(facts, policy=policy, policy_digest=policy.digest, sequence=sequence, now=now).to_json()


def _in_boot(snapshot: Snapshot, facts: NodeFacts, boot_id: str | None) -> NodeFacts:
    if boot_id is None or not facts.is_known or nodes.is_current_boot(snapshot, facts.node, boot_id):
        return facts
    # Nor is a boot of which nothing was heard yet a silent one: whoever doubts a silence must not doubt this.
    return replace(facts, have=0, last_counted_start=None, silence_seconds=0.0)


def _units_named(snapshot: Snapshot, asked: Iterable[Mapping[str, Any]]) -> list[Device]:
    return [unit for one in asked for unit in _units_of(snapshot, one)]


def _units_of(snapshot: Snapshot, asked: Mapping[str, Any]) -> list[Device]:
    found = devices.find_devices(snapshot, [usable_value(asked["type"], asked["value"])], type_=asked["type"])
    return [one for one in found if one.kind == asked["kind"] and asked.get("vendor") in (None, one.vendor)]


def _withheld_on(snapshot: Snapshot, units: Iterable[Device]) -> tuple[Withheld, ...]:
    found: dict[tuple[str, str], Withheld] = {}
    for unit in units:
        ref = DeviceRef(unit.id, unit.kind, unit.serial, unit.uuid, None)
        for one in withheld.standing_on(snapshot, unit.binds):
            found[one.id, unit.id] = _told(one, ref)
    return tuple(found.values())


def _met(
    snapshot: Snapshot, asked: Iterable[Mapping[str, Any]], units: Sequence[Device], now: datetime
) -> tuple[HoldOn, ...]:
    """The holds in force on these units, and those that wait for an identifier which is of none that is known."""
    refs = {unit.id: DeviceRef(unit.id, unit.kind, unit.serial, unit.uuid, None) for unit in units}
    met = {(hold_id, id_): refs[id_] for id_, ids in held_devices(snapshot, refs).items() for hold_id in ids}
    for one in asked:
        if _units_of(snapshot, one):
            continue
        kind, type_, vendor = one["kind"], one["type"], one.get("vendor")
        value = usable_value(type_, one["value"])
        waiting_for = [identifier_ref(kind, type_, value, v) for v in ((vendor, None) if vendor else (None,))]
        unseen = DeviceRef(None, kind, value if type_ == "serial" else None, value if type_ == "uuid" else None)
        for ids in holds.open_for_identifiers(snapshot, waiting_for).values():
            met |= {(hold_id, value): unseen for hold_id in ids}
    records = holds.get_holds(snapshot, [hold_id for hold_id, _ in met])
    found = [(records[hold_id].hold, ref) for (hold_id, _), ref in met.items()]
    return tuple(
        HoldOn(hold.id, ref, hold.owner, hold.reason, hold.opened_at, hold.match, hold.drain)
        for hold, ref in found
        if is_in_force(hold, now)
    )
