# SPDX-License-Identifier: Apache-2.0
"""What should be repaired, who does it, and who says that nothing is?

Nothing is carried out here: whoever can claims an order, does it, and says how it went.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from registry.domain import repair_orders
from registry.domain.actors import Actor, Subject, SubjectKind
from registry.domain.budget import limit_of
from registry.domain.errors import NotFound, NotOpen
from registry.domain.events import Draft, EventType
from registry.domain.policy import Policy
from registry.domain.repair_orders import Order, OrderState, Outcome
from registry.domain.times import rfc3339, rfc3339_or_none
from registry.services.pages import Page, PageRequest, page_of, slice_of
from registry.services.repair_news import hold_hardware, shown, tell
from registry.services.repair_review import UNDER_WAY, Brakes, looked_at_again
from registry.services.targets import get_unit
from registry.store import repairs, search
from registry.store.database import Database, Snapshot, Transaction
from registry.store.repairs import Repair, Stop


def list_repairs(db: Database, filters: Mapping[str, str], page: PageRequest) -> Page:
    """Return repairs by their fields; `device` takes our id, a serial or a UUID. Raises InvalidField, NotFound."""
    with db.read() as snapshot:
        wanted = dict(filters)
        if "device" in wanted:
            wanted["device"] = get_unit(snapshot, wanted["device"]).id
        rows = search.list_repairs(snapshot, wanted, slice_of(page))
        told = shown(snapshot, rows)
        return page_of(rows, page, lambda one: str(one.order.id), lambda one: told[one.order.id])


def show_repair(db: Database, order_id: str) -> dict[str, Any]:
    """Return one repair. Raises NotFound."""
    with db.read() as snapshot:
        return _shown(snapshot, order_id)


def claim_repair(
    db: Database,
    order_id: str,
    *,
    holder: str | None = None,
    token: int | None = None,
    actor: Actor,
    policy: Policy,
    now: datetime,
) -> dict[str, Any]:
    """Let whoever asks carry a ready repair out, until its lease runs out; its `token` goes with every later word.

    `holder` tells programs apart that share a credential. With the `token` of the claim in force the lease is renewed.
    A claim of what gives hardware away puts that into quarantine, in the same transaction. Raises NotFound, and NotOpen
    for a repair that is not ready, claimed by another, stopped, or not needed any more.
    """
    with db.write(now) as tx:
        repair = _get(tx, order_id)
        before = repair_orders.expire(repair.order, policy=policy, now=now)
        is_renewal = before.state is OrderState.CLAIMED
        after = repair_orders.claim(repair.order, _holder(actor, holder), token=token, policy=policy, now=now)
        if not is_renewal:
            _check_claim(tx, repair, before, policy, now)
        repairs.save_order(tx, after)
        held = hold_hardware(tx, after, repair.node) if after.action.opens_quarantine and not is_renewal else []
        tell(
            tx,
            EventType.REPAIR_CLAIMED,
            after,
            repair.node,
            actor,
            claimed_by=after.claimed_by,
            token=after.attempts,
            lease_until=rfc3339_or_none(after.lease_until),
            quarantines=held or None,
        )
        return _shown(tx, order_id)


def _check_claim(tx: Transaction, repair: Repair, order: Order, policy: Policy, now: datetime) -> None:
    """Look once more whether it is to be done at all. Raises NotOpen; the background writes down what has changed."""
    reason = Brakes.of(tx).why_not(repair, policy, now)
    after, recovers = looked_at_again(tx, replace(repair, order=order), policy, now)
    if reason is None and after.state is OrderState.CANCELLED:
        reason = after.detail
    reason = reason or recovers
    if reason is None:
        under_way = [one for one in repairs.list_claimed_on(tx, order.node_id) if one.id != order.id]
        if any(not (one.action.is_of_device and order.action.is_of_device) for one in under_way):
            reason = UNDER_WAY
    if reason is not None:
        raise NotOpen(f"Order {order.id} is not to be carried out now: {reason}.")


def complete_repair(
    db: Database,
    order_id: str,
    *,
    is_done: bool,
    reason: str | None = None,
    holder: str | None = None,
    token: int | None = None,
    actor: Actor,
    now: datetime,
) -> dict[str, Any]:
    """End a repair by the word of whoever has claimed it. Raises NotFound, NotOpen when somebody else has it by now."""
    with db.write(now) as tx:
        repair = _get(tx, order_id)
        by = _holder(actor, holder)
        after = repair_orders.complete(repair.order, by, token=token, is_done=is_done, detail=reason, now=now)
        type_ = EventType.REPAIR_COMPLETED if is_done else EventType.REPAIR_FAILED
        _end(tx, repair, after, type_, actor)
        return _shown(tx, order_id)


def cancel_repair(
    db: Database, order_id: str, *, reason: str, outcome: Outcome = Outcome.BY_PERSON, actor: Actor, now: datetime
) -> dict[str, Any]:
    """Say that a repair is not to be carried out. Raises NotFound, NotOpen for one that is over.

    One that is cancelled `by_person` is not planned again for the failure that stands. Whoever has claimed it is not
    called back: that one's later word is refused.
    """
    with db.write(now) as tx:
        repair = _get(tx, order_id)
        after = repair_orders.cancel(repair.order, outcome, reason, now=now)
        _end(tx, repair, after, EventType.REPAIR_CANCELLED, actor)
        return _shown(tx, order_id)


def _end(tx: Transaction, repair: Repair, after: Order, type_: EventType, actor: Actor) -> None:
    repairs.save_order(tx, after)
    tell(
        tx,
        type_,
        after,
        repair.node,
        actor,
        claimed_by=after.claimed_by,
        outcome=after.outcome,
        reason=after.detail,
        token=after.attempts or None,
    )


def _holder(actor: Actor, holder: str | None) -> str:
    return f"{actor}/{holder}" if holder else str(actor)


def _get(snapshot: Snapshot, order_id: str) -> Repair:
    repair = repairs.find_repair(snapshot, order_id)
    if repair is None:
        raise NotFound(f"There is no repair {order_id}.")
    return repair


def _shown(snapshot: Snapshot, order_id: str) -> dict[str, Any]:
    return shown(snapshot, [_get(snapshot, order_id)])[order_id]


# --- the brakes -------------------------------------------------------------------------------------------------------


def stop_repairs(db: Database, *, reason: str, actor: Actor, policy: Policy, now: datetime) -> dict[str, Any]:
    """Let no repair begin until somebody says so; what is claimed goes on. Raises NotOpen when they are stopped."""
    with db.write(now) as tx:
        stop = repairs.find_stop(tx)
        if stop is not None:
            raise NotOpen(f"Repairs are stopped since {rfc3339(stop.at)} by {stop.by}: {stop.reason}")
        repairs.insert_stop(tx, Stop(now, str(actor), reason))
        _record(tx, EventType.REPAIRS_STOPPED, actor, {"reason": reason})
        return _budget(tx, policy, now)


def resume_repairs(
    db: Database, *, reason: str, condition: str | None = None, actor: Actor, policy: Policy, now: datetime
) -> dict[str, Any]:
    """Let repairs go on; with `condition`, those of a check that was suspected. Raises NotOpen when nothing stops them.

    What waited begins one by one, as far as its failure still stands and the budget lets it.
    """
    with db.write(now) as tx:
        if condition is not None:
            if condition not in {one.condition for one in repairs.list_suspicions(tx)}:
                raise NotOpen(f"The check {condition} is not suspected.")
            repairs.trust(tx, condition)
            _record(tx, EventType.DETECTOR_TRUSTED, actor, {"condition": condition, "reason": reason})
        else:
            if repairs.find_stop(tx) is None:
                raise NotOpen("Repairs are not stopped.")
            repairs.delete_stop(tx)
            _record(tx, EventType.REPAIRS_RESUMED, actor, {"reason": reason})
        return _budget(tx, policy, now)


def show_budget(db: Database, *, policy: Policy, now: datetime) -> dict[str, Any]:
    """Tell how many nodes repairs disturb, how many they may, and what stops them."""
    with db.read() as snapshot:
        return _budget(snapshot, policy, now)


def _budget(snapshot: Snapshot, policy: Policy, now: datetime) -> dict[str, Any]:
    places = repairs.list_disturbed(snapshot)
    sizes = repairs.sizes_of(snapshot, places, now - timedelta(hours=policy.node_active_hours))
    stop = repairs.find_stop(snapshot)
    profiles = {name: sum(one.profile == name for one in places) for name in sizes.profiles}
    zones = {zone: sum(one.zone == zone for one in places) for zone in sizes.zones}
    fleet_of = {"most": policy.repair_fleet_nodes, "percent": policy.repair_fleet_percent}
    profile_of = {"most": policy.repair_profile_nodes, "percent": policy.repair_profile_percent}
    zone_of = {"most": policy.repair_zone_nodes, "percent": policy.repair_zone_percent}
    return {
        "enabled": policy.repair_enabled,
        "stopped": stop and {"at": rfc3339(stop.at), "by": stop.by, "reason": stop.reason},
        "suspected": [
            {
                "condition": one.condition,
                "since": rfc3339(one.since),
                "nodes": one.nodes,
                "limit": one.limit,
                "message": one.told(),
            }
            for one in repairs.list_suspicions(snapshot)
        ],
        "fleet": {"disturbed": len(places), "nodes": sizes.fleet, "limit": limit_of(sizes.fleet, **fleet_of)},
        "profiles": [
            {"name": name, "disturbed": now_, "nodes": count, "limit": limit_of(count, **profile_of)}
            for (name, now_), count in zip(profiles.items(), sizes.profiles.values(), strict=True)
        ],
        "zones": [
            {"name": zone, "disturbed": now_, "nodes": count, "limit": limit_of(count, **zone_of)}
            for (zone, now_), count in zip(zones.items(), sizes.zones.values(), strict=True)
        ],
        "hour": {
            "begun": repairs.count_begun(snapshot, now - timedelta(hours=1)),
            "limit": policy.repair_hour_nodes,
        },
    }


def _record(tx: Transaction, type_: EventType, actor: Actor, data: dict[str, Any]) -> None:
    tx.record(Draft(type_, actor, (Subject(SubjectKind.SERVICE, "pratique"),), data))
