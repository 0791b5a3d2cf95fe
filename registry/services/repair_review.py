# SPDX-License-Identifier: Apache-2.0
"""May a repair begin now, whatever the budget says, and is it still what is wanted? Asked before both steps to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from registry.domain.budget import Suspicion
from registry.domain.policy import Policy
from registry.domain.repair_orders import Order, review
from registry.domain.tolerances import FLAPPING
from registry.services.repair_facts import Place, find_standing, propose_for
from registry.store import alarms, placements, repairs
from registry.store.database import Snapshot
from registry.store.repairs import Repair, Stop

SAFE_MODE = "the service is in safe mode: its records may be old"
STOPPED = "repairs are switched off"
MAINTENANCE = "the node is in maintenance"
UNDER_WAY = "another repair of this node is under way"


@dataclass(frozen=True, slots=True)
class Brakes:
    """What keeps repairs from beginning, whatever the budget says."""

    is_alarmed: bool
    stop: Stop | None
    suspicions: tuple[Suspicion, ...]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Brakes:
        """Read them."""
        suspicions = tuple(repairs.list_suspicions(snapshot))
        return cls(alarms.is_alarmed(snapshot), repairs.find_stop(snapshot), suspicions)

    def why_not(self, repair: Repair, policy: Policy, now: datetime) -> str | None:
        """Say what keeps a repair from beginning; None where nothing does."""
        if self.is_alarmed:
            return SAFE_MODE
        if self.stop is not None:
            return f"{STOPPED} by {self.stop.by}: {self.stop.reason}"
        if not policy.repair_enabled:
            return f"{STOPPED} by the policy"
        if repair.maintenance_until is not None and repair.maintenance_until > now:
            return MAINTENANCE
        base = repair.order.condition.removesuffix(FLAPPING)
        return next((one.told() for one in self.suspicions if one.condition == base), None)


def place_of(repair: Repair) -> Place:
    """Give where the condition of a repair stands."""
    order = repair.order
    return Place(repair.node, order.instance_id, order.condition, order.device_id)


def is_here(snapshot: Snapshot, repair: Repair) -> bool:
    """Tell whether the machine and the device of a repair still are what they were when it was planned."""
    order = repair.order
    if repair.retired_at is not None or repair.instance_id != order.instance_id:
        return False
    here = placements.open_of(snapshot, [order.device_id]).get(order.device_id) if order.device_id else None
    return order.device_id is None or (here is not None and here.instance_id == order.instance_id)


def looked_at_again(snapshot: Snapshot, repair: Repair, policy: Policy, now: datetime) -> tuple[Order, str | None]:
    """Ask whether a repair is still what is wanted, and what it should wait for.

    What is milder by now does not take the place of what is graver.
    """
    place = place_of(repair)
    standing = find_standing(snapshot, place, policy=policy, now=now)
    wanted = propose_for(snapshot, place, standing, policy=policy, now=now) if standing else None
    action = wanted.action if wanted else None
    is_graver = action is not None and action.rank > repair.order.action.rank
    after = review(
        repair.order,
        stands=wanted is not None,
        is_here=is_here(snapshot, repair),
        wanted=action if is_graver else None,
        now=now,
    )
    return after, standing.recovers if standing else None
