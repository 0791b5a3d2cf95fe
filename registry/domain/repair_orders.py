# SPDX-License-Identifier: Apache-2.0
"""What becomes of an order to repair something: who may take it up, when is it over, and when is it not carried out?

    planned   it waits for the budget          ready      whoever carries out repairs may claim it
    claimed   somebody carries it out          done, failed, cancelled   it is over

Every step is a value made of the one before: whoever stores it decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from registry.domain.errors import NotOpen
from registry.domain.policy import Policy
from registry.domain.repair import Action, Done
from registry.domain.times import brief


class OrderState(StrEnum):
    """Where an order stands."""

    PLANNED = "planned"
    """It waits: for the budget, for the switch, or for a person's word on the check behind it."""
    READY = "ready"
    """It may be claimed."""
    CLAIMED = "claimed"
    """Somebody carries it out, until the lease runs out."""
    DONE = "done"
    """It was carried out. Whether it helped shows in the condition."""
    FAILED = "failed"
    """It could not be carried out."""
    CANCELLED = "cancelled"
    """It is not to be carried out."""

    @property
    def is_open(self) -> bool:
        """True until it is over."""
        return self in _OPEN


_OPEN = frozenset({OrderState.PLANNED, OrderState.READY, OrderState.CLAIMED})


class Outcome(StrEnum):
    """How an order ended."""

    CARRIED_OUT = "carried_out"
    """Done, by the word of whoever claimed it."""
    NOT_POSSIBLE = "not_possible"
    """Failed: whoever claimed it could not do it."""
    GIVEN_UP = "given_up"
    """Failed: every claim of it ran out without a word."""
    RECOVERED = "recovered"
    """Cancelled: the condition was over before anybody did anything."""
    SUPERSEDED = "superseded"
    """Cancelled: another action is wanted by now."""
    GONE = "gone"
    """Cancelled: the machine was replaced or retired, or the device taken out."""
    BY_PERSON = "by_person"
    """Cancelled: a person said so."""


@dataclass(frozen=True, slots=True)
class Order:
    """One thing to do, to one device or node of one instance.

    `waits_for` says of a planned one what it waits for. `attempts` counts the claims. A `lease_until` that is over lets
    others claim it.
    """

    id: str
    action: Action
    condition: str
    node_id: str
    instance_id: str
    because: str
    planned_at: datetime
    device_id: str | None = None
    state: OrderState = OrderState.PLANNED
    waits_for: str | None = None
    ready_at: datetime | None = None
    claimed_by: str | None = None
    claimed_at: datetime | None = None
    lease_until: datetime | None = None
    attempts: int = 0
    ended_at: datetime | None = None
    outcome: Outcome | None = None
    detail: str | None = None


def let_wait(order: Order, reason: str) -> Order:
    """Keep a planned order waiting, or take a ready one back that nobody has claimed. Raises NotOpen."""
    _demand(order, OrderState.PLANNED, OrderState.READY)
    return replace(order, state=OrderState.PLANNED, waits_for=reason, ready_at=None)


def make_ready(order: Order, now: datetime) -> Order:
    """Let a planned order be claimed. Raises NotOpen."""
    _demand(order, OrderState.PLANNED)
    return replace(order, state=OrderState.READY, waits_for=None, ready_at=now)


def claim(order: Order, by: str, *, token: int | None = None, policy: Policy, now: datetime) -> Order:
    """Let somebody carry a ready order out, until a lease runs out. Raises NotOpen.

    `attempts` of the answer is the token of the claim. Whoever shows the token of the claim that is in force renews its
    lease; without one nobody gets what is claimed, not even under the same name: two programs may share it. One whose
    lease has run out is taken back first, as by `expire`.
    """
    _demand_newest(order, token)
    order = expire(order, policy=policy, now=now)
    _demand(order, OrderState.READY, OrderState.CLAIMED)
    is_renewal = order.state is OrderState.CLAIMED
    if is_renewal and (token is None or order.claimed_by != by):
        raise NotOpen(f"Order {order.id} is claimed by {order.claimed_by} until {_until(order)}.")
    return replace(
        order,
        state=OrderState.CLAIMED,
        claimed_by=by,
        claimed_at=order.claimed_at if is_renewal else now,
        lease_until=now + timedelta(seconds=policy.repair_lease_seconds),
        attempts=order.attempts if is_renewal else order.attempts + 1,
    )


def complete(
    order: Order, by: str, *, token: int | None = None, is_done: bool, detail: str | None, now: datetime
) -> Order:
    """End an order by the word of whoever has claimed it. Raises NotOpen, also when somebody else has it by now.

    Whoever shows the token of the newest claim is believed though its lease ran out, until somebody else claims.
    """
    _demand_newest(order, token)
    if token is not None and token > 0 and order.state is OrderState.READY:
        order = replace(order, state=OrderState.CLAIMED, claimed_by=by)
    _demand(order, OrderState.CLAIMED)
    if order.claimed_by != by:
        raise NotOpen(f"Order {order.id} is claimed by {order.claimed_by} until {_until(order)}, not by {by}.")
    state, outcome = (OrderState.DONE, Outcome.CARRIED_OUT) if is_done else (OrderState.FAILED, Outcome.NOT_POSSIBLE)
    return _end(order, state, outcome, detail, now)


def cancel(order: Order, outcome: Outcome, detail: str, *, now: datetime) -> Order:
    """End an order that is not to be carried out. Raises NotOpen for one that is over."""
    _demand(order, *_OPEN)
    return _end(order, OrderState.CANCELLED, outcome, detail, now)


def expire(order: Order, *, policy: Policy, now: datetime) -> Order:
    """Take an order back from somebody whose lease ran out: ready again, or failed when that happened too often.

    Until then it is as it was. A node stays disturbed meanwhile: whether anything was done is not known.
    """
    if order.state is not OrderState.CLAIMED or order.lease_until is None or now < order.lease_until:
        return order
    if order.attempts >= policy.repair_attempts:
        told = f"claimed {order.attempts} times, the last time by {order.claimed_by}, and never heard of again"
        return _end(order, OrderState.FAILED, Outcome.GIVEN_UP, told, now)
    return replace(order, state=OrderState.READY, claimed_by=None, claimed_at=None, lease_until=None)


def review(order: Order, *, stands: bool, is_here: bool, wanted: Action | None, now: datetime) -> Order:
    """Look again at an order nobody has claimed: it is cancelled when what it was for is not so any more.

    `stands` tells whether its condition is still a failure, `is_here` whether instance and device still are what they
    were, `wanted` what would be proposed now. To be asked before an order becomes ready, and again when it is claimed:
    so nothing old is carried out, however long everything was away.
    """
    if order.state not in {OrderState.PLANNED, OrderState.READY}:
        return order
    if not is_here:
        return cancel(order, Outcome.GONE, "the machine or the device is not there any more", now=now)
    if not stands:
        return cancel(order, Outcome.RECOVERED, f"{order.condition} is a failure no more", now=now)
    if wanted is not None and wanted is not order.action:
        return cancel(order, Outcome.SUPERSEDED, f"{wanted} is wanted by now", now=now)
    return order


def covers(order: Order, action: Action, device_id: str | None) -> bool:
    """Tell whether an open order makes another one needless: it does as much or more, to the device or to its node."""
    if not order.state.is_open or order.action.rank < action.rank:
        return False
    return order.device_id == device_id or not order.action.is_of_device


def is_disturbing(order: Order, *, is_back: bool, policy: Policy, now: datetime) -> bool:
    """Tell whether an order keeps its node out of work, or may at any moment: that is what the budget counts.

    One that somebody had begun counts until the node is back, and no longer than it has to show its effect.
    """
    if order.state in {OrderState.READY, OrderState.CLAIMED}:
        return True
    is_begun = order.attempts > 0 or order.state in {OrderState.DONE, OrderState.FAILED}
    if not is_begun or order.ended_at is None or is_back:
        return False
    return now < order.ended_at + timedelta(seconds=policy.repair_settle_seconds)


def as_done(order: Order) -> Done | None:
    """Give an order as the ladder looks back at it; None for one of which nothing is known to have been tried.

    One that was given up tells of whoever claimed it, and is no step on the way to giving hardware away.
    """
    if order.outcome not in {Outcome.CARRIED_OUT, Outcome.NOT_POSSIBLE} or order.ended_at is None:
        return None
    return Done(order.action, order.condition, order.ended_at)


def _end(order: Order, state: OrderState, outcome: Outcome, detail: str | None, now: datetime) -> Order:
    return replace(order, state=state, outcome=outcome, detail=detail, ended_at=now, lease_until=None, waits_for=None)


def _demand(order: Order, *states: OrderState) -> None:
    if order.state not in states:
        told = f", {order.outcome}" if order.outcome else ""
        raise NotOpen(f"Order {order.id} is {order.state}{told}: it would have to be {' or '.join(sorted(states))}.")


def _demand_newest(order: Order, token: int | None) -> None:
    if token is not None and token != order.attempts:
        raise NotOpen(f"Order {order.id} was claimed again since: token {token} is not that of its newest claim.")


def _until(order: Order) -> str:
    return brief(order.lease_until) if order.lease_until else "now"
