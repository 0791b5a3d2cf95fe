# SPDX-License-Identifier: Apache-2.0
"""Which repairs are wanted now, which of them may begin, and which are not needed any more?

Asked every few seconds by one process, and answered from what stands then: nothing is kept to be fired later, so that
no restart and no restore carries out what is old. All of it is one transaction that no other overlaps: what it makes
ready never exceeds the budget, however many ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from registry.domain.actors import SYSTEM, Subject, SubjectKind
from registry.domain.budget import Answer, Wish, grant, suspect
from registry.domain.budget import Place as NodePlace
from registry.domain.canonical import JSON
from registry.domain.events import Draft, EventType
from registry.domain.policy import Policy
from registry.domain.repair import Action, Proposal
from registry.domain.repair_orders import (
    Order,
    OrderState,
    Outcome,
    cancel,
    covers,
    expire,
    is_disturbing,
    let_wait,
    make_ready,
    review,
)
from registry.domain.times import rfc3339
from registry.services.admission import decide_in
from registry.services.repair_facts import Place, find_standing, propose_for
from registry.services.repair_news import tell
from registry.services.repair_review import UNDER_WAY, Brakes, is_here, looked_at_again
from registry.store import breaker, conditions, repairs
from registry.store.conditions import Failed
from registry.store.database import Database, Snapshot, Transaction, new_id
from registry.store.repairs import Repair

PLANNED_AT_ONCE = 200
"""Failures that one round asks the ladder about, a tenth of a second's work; the rest has its turn in the next ones."""

LOOK_BACK = timedelta(hours=1)
"""How much longer than its window the detector looks back: as long as the service may have been away."""


def tend(db: Database, *, policy: Policy, now: datetime) -> None:
    """Plan, let begin, take back and cancel repairs. Any number of processes may call it; one at a time changes."""
    with db.read() as snapshot:
        is_due = (
            repairs.list_turns(snapshot, _since(policy, now))
            or conditions.list_failed(snapshot)
            or repairs.list_open(snapshot)
            or repairs.list_unsettled(snapshot)
        )
    if is_due:
        with db.write(now) as tx:
            _suspect(tx, policy)
            _Round(tx, policy).run()


def _since(policy: Policy, now: datetime) -> datetime:
    return now - timedelta(seconds=policy.detector_window_seconds) - LOOK_BACK


def _fleet(snapshot: Snapshot, policy: Policy, now: datetime) -> int:
    return breaker.count_fleet(snapshot, now - timedelta(hours=policy.node_active_hours))


def _suspect(tx: Transaction, policy: Policy) -> None:
    """Doubt the checks that turned too many nodes bad at once. What is doubted stays so until a person says go on."""
    turns = repairs.list_turns(tx, _since(policy, tx.now))
    if not turns:
        return
    known = {one.condition for one in repairs.list_suspicions(tx)}
    trusted = repairs.list_trusted(tx)
    for one in suspect(turns, fleet=_fleet(tx, policy, tx.now), trusted_at=trusted, policy=policy):
        if one.condition in known:
            continue
        repairs.save_suspicion(tx, one)
        data: dict[str, JSON] = {
            "condition": one.condition,
            "since": rfc3339(one.since),
            "nodes": one.nodes,
            "limit": one.limit,
            "reason": one.told(),
        }
        tx.record(Draft(EventType.DETECTOR_SUSPECTED, SYSTEM, (Subject(SubjectKind.SERVICE, "pratique"),), data))


class _Round:
    """One look at all repairs."""

    def __init__(self, tx: Transaction, policy: Policy) -> None:
        self._tx, self._policy, self._now = tx, policy, tx.now
        self._brakes = Brakes.of(tx)
        self._failed = conditions.list_failed(tx)
        self._standing = {_key(one) for one in self._failed}
        self._open = {one.order.id: one for one in repairs.list_open(tx)}

    def run(self) -> None:
        """Bring all of them up to now: first what lets go of the budget, at last what takes from it."""
        busy = self._settle()
        for one in list(self._open.values()):
            self._bring_up(one)
        self._take_back()
        self._plan(busy)
        self._grant()

    def _settle(self) -> set[str]:
        """Let go of nodes that are back, or had their time; return those that are not, by our ids."""
        busy: set[str] = set()
        for one in repairs.list_unsettled(self._tx):
            is_back = (
                one.retired_at is not None or decide_in(self._tx, one.node, policy=self._policy, now=self._now).admitted
            )
            if is_disturbing(one.order, is_back=is_back, policy=self._policy, now=self._now):
                busy.add(one.order.node_id)
            else:
                repairs.settle(self._tx, one.order.id)
        return busy

    def _bring_up(self, repair: Repair) -> None:
        """Take back what was claimed in vain, and cancel what is over; whoever has claimed one decides about it."""
        order = repair.order
        expired = expire(order, policy=self._policy, now=self._now)
        if expired is not order:
            type_ = EventType.REPAIR_LAPSED if expired.state is OrderState.READY else EventType.REPAIR_FAILED
            self._save(repair, expired, type_, claimed_by=order.claimed_by, reason=expired.detail)
            return
        if order.state is OrderState.CLAIMED:
            return
        if order.state is OrderState.READY:
            after, _ = looked_at_again(self._tx, repair, self._policy, self._now)
        else:
            stands = (order.instance_id, order.condition, order.device_id) in self._standing
            here = stands or is_here(self._tx, repair)
            after = review(order, stands=stands, is_here=here, wanted=None, now=self._now)
        if after is not order:
            self._cancelled(repair, after)
            return
        reason = self._brakes.why_not(repair, self._policy, self._now) if order.state is OrderState.READY else None
        if reason is not None and order.attempts == 0:  # of one that lapsed nobody knows what was begun
            self._save(repair, let_wait(order, reason), EventType.REPAIR_DEFERRED, reason=reason)

    def _take_back(self) -> None:
        """Let wait again what nobody has claimed beyond the limits: nodes were retired, or the policy is another."""
        ready = [one for one in self._open.values() if one.order.state is OrderState.READY]
        free = [one for one in ready if one.order.attempts == 0]
        if not free:
            return
        claimed = [one for one in self._open.values() if one.order.state is OrderState.CLAIMED]
        begun = (*claimed, *(one for one in ready if one.order.attempts > 0), *repairs.list_unsettled(self._tx))
        answer = self._ask(free, [one.place for one in begun], begun=-len(free))
        for order_id, reason in answer.waiting.items():
            repair = self._open[order_id]
            self._save(repair, let_wait(repair.order, reason), EventType.REPAIR_DEFERRED, reason=reason)

    def _ask(self, asking: Sequence[Repair], disturbed: Iterable[NodePlace], *, begun: int) -> Answer:
        """Ask the budget for these, the oldest first. `begun` is how many nodes have used up of this hour's limit."""
        since = self._now - timedelta(hours=self._policy.node_active_hours)
        return grant(
            [Wish(one.order.id, one.place, one.order.condition) for one in asking],
            disturbed,
            sizes=repairs.sizes_of(self._tx, [one.place for one in asking], since),
            begun_within_hour=begun,
            suspected=(),
            policy=self._policy,
        )

    def _plan(self, busy: set[str]) -> None:
        """Order what failures ask for that no order is for."""
        known = {(one.order.instance_id, one.order.condition, one.order.device_id) for one in self._open.values()}
        asked = [one for one in self._failed if _key(one) not in known and one.node_id not in busy]
        turn = int(self._now.timestamp()) % max(len(asked), 1)  # nobody is always among the last
        proposals: list[tuple[Failed, Proposal, Action]] = []
        for one in (*asked[turn:], *asked[:turn])[:PLANNED_AT_ONCE]:
            place = Place(one.node, one.instance_id, one.name, one.device_id)
            standing = find_standing(self._tx, place, policy=self._policy, now=self._now)
            if standing is None:
                continue
            proposal = propose_for(self._tx, place, standing, policy=self._policy, now=self._now)
            if proposal is not None and proposal.action is not None:
                proposals.append((one, proposal, proposal.action))
        # The gravest first: it does what milder ones would do, and then they are not ordered.
        for one, proposal, action in sorted(proposals, key=lambda found: -found[2].rank):
            self._order(one, action, proposal.because)

    def _order(self, failed: Failed, action: Action, because: str) -> None:
        here = [one for one in self._open.values() if one.order.node_id == failed.node_id]
        if any(covers(one.order, action, failed.device_id) for one in here):
            return
        order = Order(
            id=new_id(self._now),
            action=action,
            condition=failed.name,
            node_id=failed.node_id,
            instance_id=failed.instance_id,
            because=because,
            planned_at=self._now,
            device_id=failed.device_id,
        )
        repairs.insert_order(self._tx, order)
        made = repairs.find_repair(self._tx, order.id)
        assert made is not None  # noqa: S101 - just written
        tell(self._tx, EventType.REPAIR_PLANNED, order, made.node, SYSTEM, because=order.because)
        for one in here:
            mine = one.order
            if mine.state is not OrderState.CLAIMED and covers(order, mine.action, mine.device_id):
                told = f"{order.action} by order {order.id} does as much or more"
                self._cancelled(one, cancel(mine, Outcome.SUPERSEDED, told, now=self._now))
        self._open[order.id] = made

    def _grant(self) -> None:
        """Let as many begin as the budget allows; of the rest say what each waits for."""
        planned = [one for one in self._open.values() if one.order.state is OrderState.PLANNED]
        claimed = {one.order.node_id for one in self._open.values() if one.order.state is OrderState.CLAIMED}
        waiting: dict[str, str] = {}
        free: list[Repair] = []
        for one in planned:
            reason = self._brakes.why_not(one, self._policy, self._now)
            reason = reason or (UNDER_WAY if one.order.node_id in claimed else None)
            if reason is None:
                free.append(one)
            else:
                waiting[one.order.id] = reason
        if free:
            begun = repairs.count_begun(self._tx, self._now - timedelta(hours=1))
            answer = self._ask(free, repairs.list_disturbed(self._tx), begun=begun)
            waiting |= answer.waiting
            for order_id in answer.granted:
                self._begin(self._open[order_id])
        for order_id, reason in waiting.items():
            order = self._open[order_id].order
            if order.waits_for != reason:  # what it waits for is no history: it changes with every node that moves
                repairs.save_order(self._tx, let_wait(order, reason))

    def _begin(self, repair: Repair) -> None:
        after, reason = looked_at_again(self._tx, repair, self._policy, self._now)
        if after is not repair.order:
            self._cancelled(repair, after)
            return
        if reason is None:
            self._save(repair, make_ready(after, self._now), EventType.REPAIR_READIED)
        elif after.waits_for != reason:
            repairs.save_order(self._tx, let_wait(after, reason))

    def _cancelled(self, repair: Repair, after: Order) -> None:
        self._save(repair, after, EventType.REPAIR_CANCELLED, outcome=after.outcome, reason=after.detail)

    def _save(self, repair: Repair, after: Order, type_: EventType, **more: str | None) -> None:
        repairs.save_order(self._tx, after)
        tell(self._tx, type_, after, repair.node, SYSTEM, **more)
        if after.state.is_open:
            self._open[after.id] = replace(repair, order=after)
        else:
            self._open.pop(after.id, None)


def _key(failed: Failed) -> tuple[str, str, str | None]:
    return failed.instance_id, failed.name, failed.device_id
