# SPDX-License-Identifier: Apache-2.0
"""How are a subscription and its deliveries shown? Without what signs for it, and without the whole address."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from registry.domain.times import rfc3339, rfc3339_or_none
from registry.domain.webhooks import LATE_EVENTS, DeliveryState, Filter
from registry.store import deliveries
from registry.store import webhooks as store
from registry.store.database import Snapshot
from registry.store.deliveries import Delivery
from registry.store.webhooks import Secret, Subscription


def subscriptions_json(snapshot: Snapshot, several: Sequence[Subscription], now: datetime) -> list[dict[str, Any]]:
    """Give subscriptions in the shape the API answers."""
    counts, head = deliveries.count_deliveries(snapshot, [one.id for one in several]), snapshot.sequence()
    return [
        {
            "id": one.id,
            "url": one.address,
            "description": one.description,
            "format": str(one.format),
            "algorithm": str(one.algorithm),
            **filter_json(one.filter),
            "enabled": one.is_enabled,
            "disabled_because": one.disabled_because,
            "created_at": rfc3339(one.created_at),
            "created_by": one.created_by,
            "keys": [_key_json(secret) for secret in secrets_in_force(snapshot, one, now)],
            "position": one.position,
            "behind": _behind(one, head),
            "pending": counts.get(one.id, {}).get(DeliveryState.PENDING, 0),
            "dead": counts.get(one.id, {}).get(DeliveryState.DEAD, 0),
            "delivered": one.delivered,
            "failed": one.failed,
            "abandoned": one.abandoned,
            "delivered_at": rfc3339_or_none(one.delivered_at),
            "failing_since": rfc3339_or_none(one.failing_since),
            "retry_at": rfc3339_or_none(one.retry_at),
            "error": one.error,
        }
        for one in several
    ]


def secrets_in_force(snapshot: Snapshot, one: Subscription, now: datetime) -> list[Secret]:
    """Return what signs for a subscription now, the newest first."""
    found = store.list_secrets(snapshot, one.id)
    return [secret for secret in found if secret.drop_at is None or secret.drop_at > now]


def _behind(one: Subscription, head: int) -> int:
    """Count the events that one has not come to: one that keeps up writes its position now and then only."""
    behind = max(head - one.position, 0)
    return behind if one.failures or not one.is_enabled or behind > LATE_EVENTS else 0


def _key_json(secret: Secret) -> dict[str, Any]:
    return {
        "public_key": secret.public_key,
        "created_at": rfc3339(secret.created_at),
        "drop_at": rfc3339_or_none(secret.drop_at),
    }


def filter_json(one: Filter) -> dict[str, Any]:
    """Give what a subscription is told of."""
    return {"types": list(one.types), "causes": list(one.causes), "profiles": list(one.profiles)}


def delivery_json(one: Delivery, type_: str | None) -> dict[str, Any]:
    """Give a delivery in the shape the API answers; `type_` is that of its event."""
    return {
        "id": one.id,
        "event": one.event,
        "type": type_,
        "state": str(one.state),
        "attempts": one.attempts,
        "status": one.status,
        "error": one.error,
        "created_at": rfc3339(one.created_at),
        "tried_at": rfc3339_or_none(one.tried_at),
        "retry_at": rfc3339_or_none(one.retry_at),
        "ended_at": rfc3339_or_none(one.ended_at),
    }
