# SPDX-License-Identifier: Apache-2.0
"""Who is told of events? Subscriptions are made, shown without their secrets, given new ones, and removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from registry.domain.actors import Actor, Subject, SubjectKind
from registry.domain.errors import FieldError, InvalidField, NotFound, NotOpen
from registry.domain.events import JSON, Draft, EventType
from registry.domain.times import rfc3339
from registry.domain.web_address import is_web_address, shorten_address
from registry.domain.webhooks import (
    PENDING_MAX,
    SUBSCRIPTIONS_MAX,
    Algorithm,
    DeliveryState,
    Filter,
    Format,
    unknown_types,
)
from registry.services.pages import Page, PageRequest, page_of, page_of_few, slice_of
from registry.services.webhook_keys import Made, Safe, make_secret
from registry.services.webhook_views import delivery_json, filter_json, secrets_in_force, subscriptions_json
from registry.store import deliveries, search
from registry.store import webhooks as store
from registry.store.database import Database, Snapshot, Transaction, new_id
from registry.store.deliveries import Delivery
from registry.store.filters import Sort
from registry.store.webhooks import Secret, Subscription

KEEP_OLD = timedelta(days=1)
"""How long the old secret signs beside the new one, where nothing else is asked for."""

SORTS = {
    "enabled": Sort.FLAG,
    **dict.fromkeys(("created_at", "delivered_at", "retry_at"), Sort.TIME),
    **dict.fromkeys(("position", "behind", "pending", "dead", "delivered", "failed", "abandoned"), Sort.NUMBER),
}
"""The fields whose filters are no plain text."""

SECRETS_MAX = 2
"""As many sign at once as the specification has in mind: the new one and the one before."""


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """What an administrator asks for. The address may hold a secret."""

    url: str = field(repr=False)
    description: str | None = None
    format: Format = Format.CLOUDEVENTS
    algorithm: Algorithm = Algorithm.HMAC
    filter: Filter = field(default_factory=Filter)


def create_subscription(
    db: Database, asked: NewSubscription, *, pepper: bytes, actor: Actor, now: datetime
) -> tuple[dict[str, Any], str | None]:
    """Let an address be told of what happens from now on; return it with its secret, which is shown once.

    What an Ed25519 subscription signs with is shown to nobody, only the public key. Raises InvalidField.
    """
    _check_url(asked.url)
    unknown = unknown_types(asked.filter.types)
    if unknown:
        raise _invalid("/types", f"there is no event type {unknown[0]!r}: give one of the history, or `<noun>.*`")
    made, safe = make_secret(asked.algorithm), Safe(pepper)
    with db.write(now) as tx:
        if len(store.list_subscriptions(tx)) >= SUBSCRIPTIONS_MAX:
            raise _invalid("/url", f"there are {SUBSCRIPTIONS_MAX} subscriptions already: remove one first")
        id_ = new_id(now)
        one = Subscription(
            id=id_,
            description=asked.description,
            url=safe.seal(asked.url, _place_of_url(id_)),
            address=shorten_address(asked.url),
            format=asked.format,
            algorithm=asked.algorithm,
            filter=asked.filter,
            created_at=now,
            created_by=str(actor),
            position=0,
        )
        _tell(tx, EventType.SUBSCRIPTION_CREATED, one, actor, **filter_json(asked.filter))
        # What is in the history by now happened before it was there.
        one = replace(one, position=tx.flush())
        store.insert_subscription(tx, one)
        store.insert_secret(tx, _secret(safe, id_, made, now))
        return subscriptions_json(tx, [one], now)[0], made.shown


def list_subscriptions(db: Database, filters: Mapping[str, str], page: PageRequest, *, now: datetime) -> Page:
    """Return subscriptions by their fields. Raises InvalidField."""
    with db.read() as snapshot:
        several = subscriptions_json(snapshot, store.list_subscriptions(snapshot), now)
    return page_of_few(several, filters, page, key="id", sorts=SORTS)


def show_subscription(db: Database, subscription_id: str, *, now: datetime) -> dict[str, Any]:
    """Return one. Raises NotFound."""
    with db.read() as snapshot:
        return subscriptions_json(snapshot, [_get(snapshot, subscription_id)], now)[0]


def change_subscription(
    db: Database,
    subscription_id: str,
    *,
    url: str | None = None,
    description: str | None = None,
    is_enabled: bool | None = None,
    skips: bool = False,
    pepper: bytes,
    actor: Actor,
    now: datetime,
) -> dict[str, Any]:
    """Send to another address, or switch a subscription off or on; what is None stays.

    One that is switched on goes on where it had stopped; with `skips` it is told only of what happens from now on, and
    what waited or was given up is forgotten. What it is told of cannot be changed: a new subscription can take its
    place. Raises NotFound, InvalidField.
    """
    if url is not None:
        _check_url(url)
    with db.write(now) as tx:
        one = _get(tx, subscription_id)
        changed = replace(one, failures=0, failing_since=None, retry_at=None, error=None)
        if url is not None:
            sealed = Safe(pepper).seal(url, _place_of_url(one.id))
            changed = replace(changed, url=sealed, address=shorten_address(url))
        if description is not None:
            changed = replace(changed, description=description)
        if is_enabled is not None:
            because = None if is_enabled else f"switched off by {actor}"
            changed = replace(changed, is_enabled=is_enabled, disabled_because=because)
        _tell(tx, EventType.SUBSCRIPTION_CHANGED, changed, actor, skipped=skips or None)
        position = tx.flush()
        if skips:
            changed = replace(changed, position=position)
            deliveries.forget_undelivered(tx, one.id)
        deliveries.wake(tx, one.id)
        store.save_subscription(tx, changed)
        return subscriptions_json(tx, [changed], now)[0]


def remove_subscription(db: Database, subscription_id: str, *, actor: Actor, now: datetime) -> None:
    """Tell an address of nothing any more, and forget it with its secrets and dead letters. Raises NotFound."""
    with db.write(now) as tx:
        one = _get(tx, subscription_id)
        _tell(tx, EventType.SUBSCRIPTION_REMOVED, one, actor)
        store.remove_subscription(tx, one.id)


def rotate_secret(
    db: Database,
    subscription_id: str,
    *,
    keep: timedelta = KEEP_OLD,
    pepper: bytes,
    actor: Actor,
    now: datetime,
) -> tuple[dict[str, Any], str | None]:
    """Sign with a new secret, and with the old one as well for a while; return the new one, which is shown once.

    A third is dropped at once. Raises NotFound.
    """
    with db.write(now) as tx:
        one = _get(tx, subscription_id)
        made = make_secret(one.algorithm)
        old = store.list_secrets(tx, one.id)
        for secret in old[SECRETS_MAX - 1 :]:
            store.delete_secret(tx, secret.id)
        for secret in old[: SECRETS_MAX - 1]:
            store.drop_secret_at(tx, secret.id, now + keep)
        store.insert_secret(tx, _secret(Safe(pepper), one.id, made, now))
        more: dict[str, JSON] = {"secret": "rotated", "old_until": rfc3339(now + keep), "public_key": made.public_key}
        _tell(tx, EventType.SUBSCRIPTION_CHANGED, one, actor, **more)
        return subscriptions_json(tx, [one], now)[0], made.shown


def send_ping(db: Database, subscription_id: str, *, now: datetime) -> dict[str, Any]:
    """Have a message sent that only tries the way; return its delivery, which tells before long how it went.

    It is tried once. It is no event, and writes none. Raises NotFound, NotOpen when the subscription is switched off.
    """
    with db.write(now) as tx:
        one = _get(tx, subscription_id)
        if not one.is_enabled:
            raise NotOpen(f"Subscription {one.id} is switched off: {one.disabled_because}. Switch it on first.")
        made = Delivery(new_id(now), one.id, None, now)
        deliveries.insert_deliveries(tx, [made])
        return delivery_json(made, None)


def list_deliveries(db: Database, subscription_id: str, filters: Mapping[str, str], page: PageRequest) -> Page:
    """Return by their fields the deliveries that did not arrive at the first try. Raises NotFound, InvalidField."""
    with db.read() as snapshot:
        one = _get(snapshot, subscription_id)
        rows = search.list_deliveries(snapshot, one.id, filters, slice_of(page))
        return page_of(rows, page, lambda row: str(row[0].id), lambda row: delivery_json(*row))


def replay(
    db: Database, subscription_id: str, ids: Sequence[str] | None, *, actor: Actor, now: datetime
) -> dict[str, Any]:
    """Send dead letters on their way again, all or these; return how many. Raises NotFound, NotOpen for none.

    No more than may wait beside the history, the oldest first: whoever has more asks again when those are settled.
    """
    with db.write(now) as tx:
        one = _get(tx, subscription_id)
        waiting = deliveries.count_deliveries(tx, [one.id]).get(one.id, {}).get(DeliveryState.PENDING, 0)
        if waiting >= PENDING_MAX:
            raise NotOpen(f"Subscription {one.id} has {waiting} deliveries that wait: replay when some are settled.")
        count = deliveries.revive(tx, one.id, ids, PENDING_MAX - waiting)
        if not count:
            raise NotOpen(f"Subscription {one.id} has no such dead letter.")
        _tell(tx, EventType.DELIVERY_REPLAYED, one, actor, count=count)
        return {"replayed": count}


def switch_off(tx: Transaction, one: Subscription, because: str, actor: Actor) -> Subscription:
    """Switch a subscription off by itself, with its event; the caller writes it."""
    changed = replace(one, is_enabled=False, disabled_because=because, retry_at=None)
    _tell(tx, EventType.SUBSCRIPTION_CHANGED, changed, actor, because=because)
    return changed


def tell_abandoned(tx: Transaction, one: Subscription, dead: Delivery, about: Mapping[str, JSON], actor: Actor) -> None:
    """Write that a delivery was given up. `about` names what its event was."""
    more: dict[str, JSON] = {"delivery": dead.id, "event": dead.event, "attempts": dead.attempts, "error": dead.error}
    _tell(tx, EventType.DELIVERY_ABANDONED, one, actor, **{**about, **more})


def open_url(one: Subscription, safe: Safe) -> str:
    """Return the address to send to. Raises Unreadable."""
    return safe.open(one.url, _place_of_url(one.id))


def open_secrets(snapshot: Snapshot, one: Subscription, safe: Safe, now: datetime) -> tuple[str, ...]:
    """Return what signs now, the newest first. Raises Unreadable."""
    return tuple(safe.open(secret.sealed, _place_of_secret(one.id)) for secret in secrets_in_force(snapshot, one, now))


def _get(snapshot: Snapshot, subscription_id: str) -> Subscription:
    found = store.find_subscription(snapshot, subscription_id)
    if found is None:
        raise NotFound(f"There is no subscription {subscription_id!r}.")
    return found


def _secret(safe: Safe, subscription_id: str, made: Made, now: datetime) -> Secret:
    sealed = safe.seal(made.kept, _place_of_secret(subscription_id))
    return Secret(new_id(now), subscription_id, sealed, made.public_key, now)


def _place_of_url(subscription_id: str) -> str:
    return f"url:{subscription_id}"


def _place_of_secret(subscription_id: str) -> str:
    return f"secret:{subscription_id}"


def _tell(tx: Transaction, type_: EventType, one: Subscription, actor: Actor, **more: JSON) -> None:
    data: dict[str, JSON] = {
        "subscription": one.id,
        "description": one.description,
        "address": one.address,
        "enabled": one.is_enabled,
        **{name: value for name, value in more.items() if value is not None},
    }
    tx.record(Draft(type_, actor, (Subject(SubjectKind.SUBSCRIPTION, one.id),), data))


def _check_url(url: str) -> None:
    if not is_web_address(url):
        raise _invalid("/url", "give http://HOST[:PORT]/PATH or https://…, without a user in it")


def _invalid(pointer: str, detail: str) -> InvalidField:
    return InvalidField(f"{pointer[1:]}: {detail}", errors=(FieldError(pointer, detail),))
