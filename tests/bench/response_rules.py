# SPDX-License-Identifier: Apache-2.0
"""What do the rules of this project answer? They are driven as the service drives them, with nothing of it between.

Conditions, holds, the breaker, passes and admission are in `Records`; here is what is done about a failure: the ladder,
the orders, the budget, the suspicion of a check, and two who carry orders out, of whom one now and then dies on it.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from functools import partial

from registry.domain.budget import Place, Sizes, Suspicion, Turn, Wish, grant, limit_of, suspect
from registry.domain.condition_shown import Condition, ConditionStatus
from registry.domain.conditions import News
from registry.domain.events import EventType
from registry.domain.policy import Policy
from registry.domain.repair import Done, Fault, fault_of, propose
from registry.domain.repair_orders import (
    Order,
    OrderState,
    as_done,
    claim,
    complete,
    covers,
    expire,
    is_disturbing,
    let_wait,
    make_ready,
    review,
)
from registry.domain.tolerances import FLAPPING
from tests.bench.response_faults import MINUTE, ZONES, Wave
from tests.bench.response_fleet import Key, Node, moment
from tests.bench.response_records import PROFILE, Records
from tests.bench.response_world import World

CLAIMED_AFTER, DIES = 30.0, 5
"""Who carries out repairs asks every half minute, and dies on five orders in a hundred, before anything is done."""


class Pratique:
    """The rules, as they stand in `registry.domain`."""

    name, tests = "Pratique", True

    def __init__(self, world: World, policy: Policy | None = None) -> None:
        self._world, self.policy = world, policy or Policy()
        self.records = Records(world, self.policy, self._hear)
        self.orders: dict[str, Order] = {}
        self._open: dict[str, tuple[Node, Key]] = {}
        self._ended: list[str] = []
        self._done: dict[str, list[Done]] = {}
        self._turns: list[Turn] = []
        self._suspected: dict[str, Suspicion] = {}
        self._trusted_at: dict[str, datetime] = {}
        self._place: dict[str, Node] = {}
        # Nodes count while they have reported within a day: the outage is shorter.
        self._zones: dict[str | None, int] = {f"zone-{at}": len(world.nodes[at::ZONES]) for at in range(ZONES)}
        self.excess = 0
        self._is_ticking = False

    # --- what the world tells -----------------------------------------------------------------------------------------

    def saw(self, node: Node, key: Key, code: str | None, *, is_bad: bool) -> None:
        """Take a check's word."""
        self.records.hear(node, key, code, is_bad=is_bad)

    def lost(self, node: Node) -> None:
        """A silent node is not admitted, and nothing else: who cannot look has seen no fault."""
        self.records.lose(node)

    def booted(self, node: Node) -> None:
        """Begin anew; a machine with a held board is sent away at the door."""
        self.records.boot(node)
        if self.records.holds.is_held(node) and self.records.is_new(node):
            self._world.hand_back(node)

    def interrupted(self, nodes: list[Node]) -> None:
        """Admission has the answer already."""

    def mended(self, wave: Wave) -> None:
        """A person says that the check may be believed again, and withdraws what it said."""
        now = moment(self._world.now)
        for name in (wave.check, f"{wave.check}{FLAPPING}"):
            self._trusted_at[name] = now
            self._suspected.pop(name, None)
        self.records.holds.withdraw(wave, self.records.proven)

    def may_work(self, node: Node) -> bool:
        """Ask admission."""
        return self.records.is_admitted(node)

    # --- from failure to order ----------------------------------------------------------------------------------------

    def _hear(self, node: Node, key: Key, news: News) -> None:
        is_bad = news.condition.status is not ConditionStatus.UNKNOWN  # who cannot look has not turned bad
        if news.type is EventType.CONDITION_OPENED and is_bad:
            self._turns = [one for one in self._turns if one.at > news.at - timedelta(hours=1)]
            self._turns.append(Turn(news.condition.name, node.name, news.at))
            found = suspect(self._turns, fleet=len(self._world.nodes), trusted_at=self._trusted_at, policy=self.policy)
            for one in found:
                self._suspected.setdefault(one.condition, one)
        if news.type is EventType.CONDITION_FAILED:
            self._plan(node, node.name, key)
        self._grant()

    def _standing(self, node: Node, key: Key) -> Condition | None:
        found = self.records.condition(node, key)
        return found if found is not None and self._fault(key, found) is not None else None

    def _fault(self, key: Key, condition: Condition) -> Fault | None:
        return fault_of(condition, is_proven=key[1] in self.records.proven, policy=self.policy)

    def _plan(self, node: Node, name: str, key: Key) -> None:
        """Plan the least action for a failure that stands."""
        condition = self._standing(node, key) if node.name == name else None
        fault = self._fault(key, condition) if condition is not None else None
        if fault is None or condition is None:
            return
        now = moment(self._world.now)
        proposal = propose(fault, self._done.get(name, ()), policy=self.policy, now=now)
        if proposal.not_before is not None:
            wait = (proposal.not_before - now).total_seconds()
            self._world.after(wait, lambda: self._plan(node, name, key))
        if proposal.action is None:
            return
        serial = key[1]
        mine = [self.orders[one] for one, (other, _) in self._open.items() if other is node]
        if any(covers(one, proposal.action, serial) for one in mine):
            self._world.after(self.policy.repair_settle_seconds, lambda: self._plan(node, name, key))
            return
        id_ = f"order-{len(self.orders)}"
        place = str(node.index)
        self.orders[id_] = Order(
            id_, proposal.action, condition.name, place, name, proposal.because, now, device_id=serial
        )
        self._open[id_], self._place[place] = (node, key), node
        self._grant()

    # --- the budget ---------------------------------------------------------------------------------------------------

    def _review(self, id_: str) -> None:
        """Cancel what is not wanted any more, and take back what somebody died on."""
        order, (node, key) = self.orders[id_], self._open[id_]
        now = moment(self._world.now)
        order = expire(order, policy=self.policy, now=now)
        stands = self._standing(node, key) is not None
        order = review(order, stands=stands, is_here=order.instance_id == node.name, wanted=None, now=now)
        self.orders[id_] = order
        if not order.state.is_open:
            self._end(order)

    def _disturbed(self) -> list[Place]:
        """The nodes that repairs keep out now."""
        now = moment(self._world.now)
        self._ended = [one for one in self._ended if self._is_disturbing(one, now)]
        ids = {*self._ended, *(one for one in self._open if self._is_disturbing(one, now))}
        nodes = {self.orders[one].node_id for one in ids}
        return [self._place_of(self._place[one]) for one in sorted(nodes)]

    def _is_disturbing(self, id_: str, now: datetime) -> bool:
        order = self.orders[id_]
        # What was back once and fails again is out by its own fault, and not by the repair.
        is_back = self.records.was_back(self._place[order.node_id], order.ended_at or now)
        return is_disturbing(order, is_back=is_back, policy=self.policy, now=now)

    @staticmethod
    def _place_of(node: Node) -> Place:
        return Place(str(node.index), PROFILE.name, node.zone)

    def _grant(self) -> None:
        """Let those become ready for which there is room, the oldest first."""
        now = moment(self._world.now)
        for id_ in list(self._open):
            self._review(id_)
        self._watch()
        planned = [one for one in self._open if self.orders[one].state is OrderState.PLANNED]
        if not planned:
            return
        hour = {one.node_id for one in self.orders.values() if one.ready_at and one.ready_at > now - timedelta(hours=1)}
        size = len(self._world.nodes)
        answer = grant(
            [Wish(one, self._place_of(self._open[one][0]), self.orders[one].condition) for one in planned],
            self._disturbed(),
            sizes=Sizes(size, {PROFILE.name: size}, self._zones),
            begun_within_hour=len(hour),
            suspected=[name + end for name in self._suspected for end in ("", FLAPPING)],
            policy=self.policy,
        )
        for id_, reason in answer.waiting.items():
            self.orders[id_] = let_wait(self.orders[id_], reason)
        for id_ in answer.granted:
            self.orders[id_] = make_ready(self.orders[id_], now)
            self._world.after(CLAIMED_AFTER, partial(self._claim, id_, "executor-a"))
        self._watch()
        if answer.waiting and not self._is_ticking:
            self._is_ticking = True
            self._world.after(MINUTE, self._tick)

    def _tick(self) -> None:
        self._is_ticking = False
        self._grant()

    def _watch(self) -> None:
        """Count the moments at which more are disturbed than the policy lets, added up anew from the orders alone."""
        policy, size = self.policy, len(self._world.nodes)
        places = self._disturbed()
        limits = [
            (len(places), limit_of(size, most=policy.repair_fleet_nodes, percent=policy.repair_fleet_percent)),
            (len(places), limit_of(size, most=policy.repair_profile_nodes, percent=policy.repair_profile_percent)),
        ]
        for zone, nodes in self._zones.items():
            many = sum(one.zone == zone for one in places)
            limits.append((many, limit_of(nodes, most=policy.repair_zone_nodes, percent=policy.repair_zone_percent)))
        self.excess += sum(many > limit for many, limit in limits)

    # --- carrying out -------------------------------------------------------------------------------------------------

    def _claim(self, id_: str, by: str) -> None:
        """Take an order up, unless it is not wanted any more; or die on it, and let another find it."""
        if id_ in self._open:
            self._review(id_)
        order = self.orders[id_]
        if order.state is not OrderState.READY:
            return
        node, _ = self._open[id_]
        if node.working is not None or not node.is_up:
            self._world.after(MINUTE, lambda: self._claim(id_, by))
            return
        self.orders[id_] = claimed = claim(order, by, policy=self.policy, now=moment(self._world.now))
        draw = random.Random(f"{self._world.setup.seed}:{id_}:{claimed.attempts}")
        if draw.random() * 100 < DIES:
            other = "executor-b" if by == "executor-a" else "executor-a"
            self._world.after(self.policy.repair_lease_seconds, lambda: self._claim(id_, other))
            return
        self._world.after(self.policy.repair_lease_seconds / 2, lambda: self._renew(id_, by, claimed.attempts))
        if order.action.opens_quarantine and order.device_id is not None:
            self.records.holds.hold_for_repair(order.device_id, order.condition)
        self._world.act(
            node, order.action, order.device_id, lambda: self._complete(id_, by, claimed.attempts, node), saves=True
        )

    def _renew(self, id_: str, by: str, token: int) -> None:
        """Whoever is at work on an order says so before the lease runs out."""
        if id_ in self._open:
            now = moment(self._world.now)
            self.orders[id_] = claim(self.orders[id_], by, token=token, policy=self.policy, now=now)
            self._world.after(self.policy.repair_lease_seconds / 2, lambda: self._renew(id_, by, token))

    def _complete(self, id_: str, by: str, token: int, node: Node) -> None:
        now = moment(self._world.now)
        self.orders[id_] = complete(self.orders[id_], by, token=token, is_done=True, detail=None, now=now)
        self.records.restarted(node, self.orders[id_].action)
        self._end(self.orders[id_])

    def _end(self, order: Order) -> None:
        """Let an order that is over disturb no longer than it does, and see later whether what was done has helped."""
        node, key = self._open.pop(order.id)
        self._ended.append(order.id)
        done, name = as_done(order), order.instance_id
        if done is not None:
            self._done.setdefault(name, []).append(done)
            self._world.after(self.policy.repair_settle_seconds + 1, lambda: self._plan(node, name, key))
