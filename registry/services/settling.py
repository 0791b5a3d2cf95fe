# SPDX-License-Identifier: Apache-2.0
"""What became of the messages of a turn? Written down in one transaction: position, rows, counts, dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from registry.domain.actors import SYSTEM
from registry.domain.events import JSON, Event, EventType
from registry.domain.webhooks import (
    AWAY_FAILURES,
    AWAY_MAX,
    AWAY_TRIES,
    GONE,
    DeliveryState,
    is_waiting,
    pause_after,
    retry_after,
    wait_after,
)
from registry.services.leasing import Lease
from registry.services.rounds import Batch, Item, Stop
from registry.services.webhooks import switch_off, tell_abandoned
from registry.store import deliveries
from registry.store import webhooks as store
from registry.store.database import Database, Transaction, new_id
from registry.store.deliveries import Delivery
from registry.store.webhooks import Subscription

_TOLD = ("device", "kind", "serial", "uuid", "node", "slot")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn went: `sent` messages arrived, the first ones; `stop` says why the next did not, if it was tried."""

    lease: Lease
    sent: int
    stop: Stop | None
    at: datetime


def settle(db: Database, batch: Batch, outcome: Outcome, chance: Callable[[], float]) -> None:
    """Write down how a turn went. Somebody may have changed or removed the subscription meanwhile."""
    with db.write(outcome.at) as tx:
        one = store.find_subscription(tx, batch.subscription.id)
        if one is None:
            return
        for item in batch.items[: outcome.sent]:
            if item.delivery is not None:
                _end(tx, item.delivery, DeliveryState.DELIVERED, outcome.at)
        changed = _after_success(tx, one, outcome) if outcome.sent else one
        unhandled = batch.items[outcome.sent :]
        if outcome.stop is not None and unhandled:
            changed, is_kept = _after_failure(tx, changed, unhandled[0], outcome.stop, outcome.at, chance)
            unhandled = unhandled[1:] if is_kept else unhandled
        store.save_subscription(tx, _advance(tx, changed, batch, unhandled))


def _advance(tx: Transaction, one: Subscription, batch: Batch, unhandled: tuple[Item, ...]) -> Subscription:
    """Move the position up to the first new event that was not taken care of; what waits before it gets its row."""
    new = [item.event.sequence for item in unhandled if item.event is not None and item.delivery is None]
    up_to = new[0] - 1 if new else batch.up_to
    # Somebody may have had it skip what waited: then that counts.
    if one.position != batch.subscription.position or up_to <= one.position:
        return one
    waiting = [Delivery(new_id(tx.now), one.id, event, tx.now) for event in batch.blocked if event <= up_to]
    deliveries.insert_deliveries(tx, waiting)
    return replace(one, position=up_to)


def _after_success(tx: Transaction, one: Subscription, outcome: Outcome) -> Subscription:
    if one.failures >= AWAY_FAILURES:
        deliveries.wake(tx, one.id)  # the receiver is back: what failed for its sake need not wait for its turn
    delivered = one.delivered + outcome.sent
    changed = replace(one, delivered=delivered, delivered_at=outcome.at)
    return replace(changed, failures=0, failing_since=None, retry_at=None, error=None)


def _after_failure(
    tx: Transaction, one: Subscription, item: Item, stop: Stop, at: datetime, chance: Callable[[], float]
) -> tuple[Subscription, bool]:
    """Let the subscription rest and the message wait; also say whether a new event has a row by now."""
    asked = retry_after(stop.status, stop.retry_after, at) if stop.status is not None else None
    changed = replace(one, failures=one.failures + 1, failed=one.failed + 1, error=stop.error)
    changed = replace(changed, failing_since=one.failing_since or at)
    if stop.status == GONE:
        if item.delivery is not None and item.event is None:
            _end(tx, _failed(item.delivery, stop, at, None, 0), DeliveryState.DEAD, at)
        return switch_off(tx, changed, "it answered 410: it wants no messages any more", SYSTEM), False
    if at - (changed.failing_since or at) >= AWAY_MAX and changed.failures >= AWAY_TRIES:
        changed = switch_off(tx, changed, f"nothing arrived for {AWAY_MAX.days} days: {stop.error}", SYSTEM)
    rest = at + pause_after(changed.failures, chance())
    changed = replace(changed, retry_at=max(rest, asked) if asked else rest)
    if item.delivery is None:
        is_kept = item.event is not None and one.position < item.event.sequence
        if is_kept and item.event is not None:
            fresh = Delivery(new_id(tx.now), one.id, item.event.sequence, at)
            deliveries.insert_deliveries(tx, [_failed(fresh, stop, at, asked, chance())])
        return changed, is_kept
    return _try_again(tx, changed, item.delivery, item, stop, at, asked, chance()), False


def _try_again(
    tx: Transaction,
    one: Subscription,
    row: Delivery,
    item: Item,
    stop: Stop,
    at: datetime,
    asked: datetime | None,
    chance: float,
) -> Subscription:
    """Count a failure of a delivery that waits; at its last one it is a dead letter.

    A try ahead of its time, to see whether a receiver is back, does not count.
    """
    if item.event is None:
        _end(tx, _failed(row, stop, at, None, 0), DeliveryState.DEAD, at)
        return one
    if is_waiting(row.retry_at, at):
        deliveries.save_delivery(tx, replace(row, tried_at=at, status=stop.status, error=stop.error))
        return one
    failed = _failed(row, stop, at, asked, chance)
    if failed.retry_at is not None:
        deliveries.save_delivery(tx, failed)
        return one
    _end(tx, failed, DeliveryState.DEAD, at)
    # What says that something was given up is not said again when it is given up itself: it would never end.
    if item.event.type != EventType.DELIVERY_ABANDONED:
        tell_abandoned(tx, one, failed, _about(item.event), SYSTEM)
    return replace(one, abandoned=one.abandoned + 1)


def _failed(row: Delivery, stop: Stop, at: datetime, asked: datetime | None, chance: float) -> Delivery:
    """Return a delivery after one more try that failed; without `retry_at` it was the last."""
    wait = wait_after(row.attempts + 1, chance)
    again = None if wait is None else max(at + wait, asked or at)
    tried = replace(row, attempts=row.attempts + 1, tried_at=at, status=stop.status, error=stop.error)
    return replace(tried, retry_at=again)


def _end(tx: Transaction, row: Delivery, state: DeliveryState, at: datetime) -> None:
    ended = replace(row, state=state, ended_at=at, retry_at=None)
    if state is DeliveryState.DELIVERED:
        ended = replace(ended, attempts=row.attempts + 1, tried_at=at, status=None, error=None)
    deliveries.save_delivery(tx, ended)


def _about(event: Event) -> Mapping[str, JSON]:
    told: dict[str, JSON] = {name: event.data[name] for name in _TOLD if event.data.get(name) is not None}
    return {**told, "type": str(event.type)}
