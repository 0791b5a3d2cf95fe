# SPDX-License-Identifier: Apache-2.0
"""Who is told of events as they happen? Subscriptions, their secrets, and what did not arrive at the first try."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from flask import Blueprint, Response

from api.answers import answer, change
from api.auth import READERS, require
from api.body import body
from api.context import actor, database, now, standing
from api.contract import says
from api.pagination import Words, listing, page_answer, query
from api.schemas.simple import page, ref
from api.schemas.webhooks import CHANGE, PING, REPLAY, ROTATE, SUBSCRIPTION
from registry.domain.roles import Role
from registry.domain.webhooks import Algorithm, DeliveryState, Filter, Format
from registry.services import webhooks
from registry.services.webhooks import KEEP_OLD, NewSubscription

bp = Blueprint("webhooks", __name__)

FILTERS = frozenset(
    {
        *("id", "url", "description", "format", "algorithm", "enabled", "disabled_because", "created_at", "created_by"),
        *("position", "behind", "pending", "dead", "delivered", "failed", "abandoned", "delivered_at", "failing_since"),
        *("retry_at", "error"),
    }
)
WORDS: Words = {"format": Format, "algorithm": Algorithm}
"""The values of the filters that have few."""

OF_DELIVERIES = frozenset(
    {
        *("id", "event", "type", "state", "attempts", "status", "error"),
        *("created_at", "tried_at", "retry_at", "ended_at"),
    }
)
STATES: Words = {"state": DeliveryState}

EXAMPLE = {
    "url": "https://hooks.example/pratique",
    "description": "on-call",
    "types": ["quarantine.*", "condition.failed"],
}


@bp.get("/webhooks")
@says({200: page("Subscription")}, filters=FILTERS, words=WORDS, pages=True)
@require(*READERS)
def index() -> Response:
    """List the subscriptions, newest first."""
    filters, part = listing(FILTERS, WORDS)
    return page_answer(webhooks.list_subscriptions(database(), filters, part, now=now()))


@bp.post("/webhooks")
@says({201: ref("NewSubscription")}, example=EXAMPLE, is_change=True)
@require(Role.ADMIN)
@body(SUBSCRIPTION)
def create(data: dict[str, Any]) -> Response:
    """Let an address be told of events from now on. Its secret is shown once."""
    query(())
    lists = {name: tuple(data.get(name) or ()) for name in ("types", "causes", "profiles")}
    asked = NewSubscription(
        data["url"],
        data.get("description"),
        Format(data.get("format") or Format.CLOUDEVENTS),
        Algorithm(data.get("algorithm") or Algorithm.HMAC),
        Filter(**lists),
    )
    made: list[str | None] = []

    def work() -> tuple[int, dict[str, Any]]:
        shown, secret = webhooks.create_subscription(
            database(), asked, pepper=standing().pepper, actor=actor(), now=now()
        )
        made.append(secret)
        return 201, {**shown, "secret": None}

    # The secret is not stored with the answer, so one that is replayed comes without it.
    return change(work, on_first=lambda shown: {**shown, "secret": made[0]})


@bp.get("/webhooks/<webhook>")
@says({200: ref("Subscription")})
@require(*READERS)
def show(webhook: str) -> Response:
    """Show one subscription."""
    query(())
    return answer(webhooks.show_subscription(database(), webhook, now=now()))


@bp.patch("/webhooks/<webhook>")
@says({200: ref("Subscription")}, example={"enabled": True, "skip": True}, is_change=True)
@require(Role.ADMIN)
@body(CHANGE)
def alter(data: dict[str, Any], webhook: str) -> Response:
    """Send to another address, or switch a subscription off or on; it goes on where it stopped."""
    query(())
    told: dict[str, Any] = {"url": data.get("url"), "description": data.get("description")}
    told |= {"is_enabled": data.get("enabled"), "skips": bool(data.get("skip"))}
    whose: dict[str, Any] = {"pepper": standing().pepper, "actor": actor(), "now": now()}
    return change(lambda: (200, webhooks.change_subscription(database(), webhook, **told, **whose)))


@bp.delete("/webhooks/<webhook>")
@says({204: None}, is_change=True)
@require(Role.ADMIN)
def remove(webhook: str) -> Response:
    """Tell an address of nothing any more, and forget its secrets and dead letters."""
    query(())

    def work() -> tuple[int, dict[str, Any]]:
        webhooks.remove_subscription(database(), webhook, actor=actor(), now=now())
        return 204, {}

    return change(work)


@bp.post("/webhooks/<webhook>/rotate")
@says({200: ref("NewSubscription")}, example={"keep_seconds": 3600}, is_change=True)
@require(Role.ADMIN)
@body(ROTATE)
def rotate(data: dict[str, Any], webhook: str) -> Response:
    """Sign with a new secret, which is shown once, and with the old one as well for a while."""
    query(())
    seconds = data.get("keep_seconds")
    keep = KEEP_OLD if seconds is None else timedelta(seconds=seconds)
    made: list[str | None] = []

    def work() -> tuple[int, dict[str, Any]]:
        shown, secret = webhooks.rotate_secret(
            database(), webhook, keep=keep, pepper=standing().pepper, actor=actor(), now=now()
        )
        made.append(secret)
        return 200, {**shown, "secret": None}

    return change(work, on_first=lambda shown: {**shown, "secret": made[0]})


@bp.post("/webhooks/<webhook>/test")
@says({202: ref("Delivery")}, problems=("not_open",), is_change=True)
@require(Role.ADMIN)
@body(PING)
def test(_data: dict[str, Any], webhook: str) -> Response:
    """Have a message sent that only tries the way. Its delivery tells within seconds how that went."""
    query(())
    return change(lambda: (202, webhooks.send_ping(database(), webhook, now=now())))


@bp.get("/webhooks/<webhook>/deliveries")
@says({200: page("Delivery")}, filters=OF_DELIVERIES, words=STATES, pages=True)
@require(*READERS)
def deliveries(webhook: str) -> Response:
    """List the deliveries that did not arrive at the first try, newest first: what waits, and the dead letters."""
    filters, part = listing(OF_DELIVERIES, STATES)
    return page_answer(webhooks.list_deliveries(database(), webhook, filters, part))


@bp.post("/webhooks/<webhook>/replay")
@says({200: ref("Replayed")}, problems=("not_open",), example={"deliveries": ["0198c0de"]}, is_change=True)
@require(Role.ADMIN)
@body(REPLAY)
def replay(data: dict[str, Any], webhook: str) -> Response:
    """Send dead letters on their way again, all or these, under the ids that they had."""
    query(())
    ids = data.get("deliveries")
    return change(lambda: (200, webhooks.replay(database(), webhook, ids, actor=actor(), now=now())))
