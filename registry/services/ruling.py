# SPDX-License-Identifier: Apache-2.0
"""Which holds do rules open on new evidence, and which of them does the breaker let through?

Asked in the transaction that stores the evidence. Evidence from before a person's release of the target opens nothing:
that person knew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from registry.domain import breaker
from registry.domain.actors import SYSTEM, ActorKind
from registry.domain.breaker import Share, exceeded
from registry.domain.failures import Effect, FailureKind
from registry.domain.log_lines import latest_at
from registry.domain.policy import Policy
from registry.domain.quarantine import Hold, RuleHold, TargetKind, is_stricter, rule_hold_for
from registry.domain.rules import Distinct, Over, Rule, Sight, fires
from registry.services import restarts
from registry.services.holding import SUPERSEDED, end, lay
from registry.services.locating import Located
from registry.services.targets import Target, of_unit, resolve
from registry.services.withholding import end as end_withheld
from registry.services.withholding import withhold
from registry.store import breaker as counts
from registry.store import holds, sights, withheld
from registry.store.breaker import Held
from registry.store.database import Snapshot, Transaction
from registry.store.devices import Device
from registry.store.failures import Failure
from registry.store.holds import HoldRecord

EVIDENCE_MAX = 32
"""Faults that a counting rule's hold names: the newest tell the story."""


def is_known_to_a_person(snapshot: Snapshot, device: Device, seen_at: datetime) -> bool:
    """Tell whether a person has released the device since something was seen on it: that person knew of it."""
    freed_at = _freed_at(snapshot, {*of_unit(snapshot, device, None).binds, ("unit", device.id)})
    return freed_at is not None and seen_at <= freed_at


def _freed_at(snapshot: Snapshot, binds: Iterable[tuple[str, str]]) -> datetime | None:
    """Return when a person last released any of these, held or only wanted by a rule."""
    binds = tuple(binds)
    found = (holds.newest_release_by_person(snapshot, binds), withheld.newest_dismissal(snapshot, binds))
    return max((one for one in found if one is not None), default=None)


def open_for_code(tx: Transaction, device: Device, kind: FailureKind, failure: Failure, policy: Policy) -> None:
    """Open the hold that a fault asks for by itself, owner `rule:<code>`, if it asks for one."""
    wanted = rule_hold_for(kind, detail=failure.message or f"reported by {failure.reporter}")
    if wanted is None:
        return
    target = of_unit(tx, device, None)
    evidence = {"failure": failure.id}
    _hold(tx, target, wanted, {"device": device.id}, evidence, failure, policy)


def ask_rules(tx: Transaction, failure: Failure, kind: FailureKind, located: Located, policy: Policy) -> None:
    """Open the holds of the counting rules that a new sight completes."""
    for rule in policy.rules:
        if not rule.concerns(kind.code, kind.kind, kind.effect):
            continue
        if rule.distinct is Distinct.DEVICES and failure.board_id is None:
            continue  # of no known device, and so not one device more
        target = _target(tx, rule, located)
        freed_at = _freed_at(tx, target.binds) if target else None
        if target is None or (freed_at is not None and latest_at(failure.seen_at, failure.evidence) <= freed_at):
            continue
        found = _sights(tx, rule, target, located, failure.seen_at, freed_at, policy)
        releases = holds.rule_releases(tx, target.binds, besides=SUPERSEDED) if rule.distinct is Distinct.SPELLS else []
        newest = Sight(failure.board_id, failure.node_id, failure.seen_at, failure.seen_at)
        if not fires(rule, [one for _, one in found], newest, releases=releases):
            continue
        wanted = rule_hold_for(kind, rule=rule)
        assert wanted is not None  # noqa: S101 - a rule always asks for a hold
        if _is_held_as_strictly(tx, target, wanted):
            continue
        asked = {"node": target.node} if target.node else {"device": located.device and located.device.id}
        named = list(dict.fromkeys(one.id for one, _ in sorted(found, key=lambda pair: pair[1].at, reverse=True)))
        evidence = {"failure": failure.id, "failures": named[:EVIDENCE_MAX]}
        _hold(tx, target, wanted, asked, evidence, failure, policy)


def _is_held_as_strictly(tx: Transaction, target: Target, wanted: RuleHold) -> bool:
    """Tell whether another rule holds the target with no easier end: counting then says nothing new."""
    return any(
        one.hold.owner != wanted.owner and not is_stricter(wanted.release_policy, one.hold.release_policy)
        for one in _held_by_rules(tx, target)
    )


def _target(tx: Transaction, rule: Rule, located: Located) -> Target | None:
    if rule.over is Over.DEVICE:
        return of_unit(tx, located.device, rule.scope) if located.device else None
    return resolve(tx, {"node": located.node.name}, scope=None, match=None) if located.node and located.boot else None


def _sights(
    tx: Transaction,
    rule: Rule,
    target: Target,
    located: Located,
    at: datetime,
    freed_at: datetime | None,
    policy: Policy,
) -> list[tuple[Failure, Sight]]:
    """What the rule counts, in every window that holds the new sight. What a person released speaks no more."""
    length = timedelta(seconds=rule.within_seconds)
    after = at - length
    if freed_at is not None and rule.distinct is not Distinct.SPELLS:
        after = max(after, freed_at)
    if target.node is not None and located.node is not None:
        found = sights.on_node(tx, located.node.id, rule, after, at + length)
    else:
        found = sights.on_devices(tx, [one.id for one in target.units], rule, after, at + length)
    return [
        pair
        for pair in found
        if policy.look_up(pair[0].code).is_fault and rule.concerns(pair[0].code, pair[0].kind, Effect(pair[0].effect))
    ]


# --- one hold -------------------------------------------------------------------------------------------------------


def _hold(
    tx: Transaction,
    target: Target,
    wanted: RuleHold,
    asked: Mapping[str, Any],
    evidence: Mapping[str, Any],
    failure: Failure,
    policy: Policy,
) -> None:
    """Open a rule's hold, raise it, or put what it had earned back to zero; or withhold it.

    What a rule holds already costs no more capacity when it is held for one more reason: the breaker is not asked.
    """
    fault_at = failure.seen_at
    already = holds.find_open_by_owner(tx, target.binds, wanted.owner)
    if already is not None and not is_stricter(wanted.release_policy, already.hold.release_policy):
        _set_back(tx, already, fault_at, failure.boot_id)
        return
    carriers = [] if _held_by_rules(tx, target) else _carriers(tx, target)
    limited_by = _limited_by(tx, carriers, wanted, policy)
    if limited_by is not None:
        withhold(
            tx,
            target,
            wanted,
            failure=failure.id,
            fault_at=fault_at,
            fault_boot=failure.boot_id,
            limited_by=limited_by,
        )
        return
    if already is not None:
        end(tx, already, reason=SUPERSEDED, actor=SYSTEM)
    record = lay(
        tx,
        target,
        _template(target, wanted, tx.now),
        asked=asked,
        evidence=evidence,
        actor=wanted.owner,
        fault_at=fault_at,
        fault_boot=failure.boot_id,
    )
    for carrier in carriers:
        counts.insert_newly_held(tx, record.hold.id, carrier)
    standing = withheld.find_standing(tx, target.key, wanted.owner)
    if standing is not None:
        end_withheld(tx, standing, reason=f"opened as {record.hold.id}", actor=SYSTEM)


def _template(target: Target, wanted: RuleHold, now: datetime) -> Hold:
    return Hold(
        id="",
        owner=wanted.owner,
        target_kind=target.kind,
        target_key=target.key,
        reason=wanted.reason,
        opened_at=now,
        cause=wanted.cause,
        release_policy=wanted.release_policy,
    )


def _set_back(tx: Transaction, already: HoldRecord, fault_at: datetime, fault_boot: str | None) -> None:
    """The same fault again: only what was earned after it counts. What is older than the restart was cured by it."""
    if restarts.is_before(tx, fault_at, fault_boot, already.restart_at):
        return
    known = (already.fault_at or fault_at, already.fault_boot)
    at, boot = restarts.newest(tx, known, (fault_at, fault_boot))
    holds.set_progress(tx, replace(already, fault_at=at, fault_boot=boot, restart_at=None, clean_runs=0))


def _held_by_rules(tx: Transaction, target: Target) -> list[HoldRecord]:
    ids = {one for group in holds.open_on(tx, target.binds).values() for one in group}
    return [one for one in holds.get_holds(tx, ids).values() if one.hold.owner.kind is ActorKind.RULE]


def _carriers(tx: Transaction, target: Target) -> list[Held]:
    """The nodes that the hold would put out of work; hardware that stands nowhere costs none."""
    if target.kind is TargetKind.NODE:
        return counts.as_node(tx, target.node or "")
    return counts.carrying(tx, [one.id for one in target.units])


def _limited_by(tx: Transaction, carriers: Iterable[Held], wanted: RuleHold, policy: Policy) -> str | None:
    """Say which limit of the breaker the hold would exceed; None when it may be opened."""
    held = counts.held_since(tx, tx.now - timedelta(seconds=policy.breaker_window_seconds))
    counted = {one.node_id for one in held}
    for carrier in carriers:
        if carrier.node_id in counted:
            continue
        shares = _shares(tx, carrier, held, wanted, policy)
        share = exceeded(shares, is_permanent=wanted.is_permanent, policy=policy)
        if share is not None:
            return breaker.told(share, is_permanent=wanted.is_permanent, policy=policy)
        held.append(carrier)
        counted.add(carrier.node_id)
    return None


def _shares(tx: Transaction, carrier: Held, held: Iterable[Held], wanted: RuleHold, policy: Policy) -> Iterator[Share]:
    """Give the groups of a node; how many nodes one has is only counted where it matters, and after the one before."""
    since = tx.now - timedelta(hours=policy.node_active_hours)
    least = breaker.least_of(is_permanent=wanted.is_permanent, policy=policy)
    fleet = {one.node_id for one in held}
    if len(fleet) >= least:
        yield Share("the fleet", policy.breaker_fleet_percent, counts.count_fleet(tx, since), len(fleet))
    alike = {one.node_id for one in held if one.profile == carrier.profile}
    if len(alike) >= least:
        nodes = counts.count_profile(tx, carrier.profile, since)
        yield Share(f"profile {carrier.profile}", policy.breaker_profile_percent, nodes, len(alike))
    near = {one.node_id for one in held if one.zone == carrier.zone}
    if len(near) >= least:
        nodes = counts.count_zone(tx, carrier.zone, since)
        name = f"zone {carrier.zone}" if carrier.zone else "no zone"
        yield Share(name, policy.breaker_zone_percent, nodes, len(near))
