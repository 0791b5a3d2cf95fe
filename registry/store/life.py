# SPDX-License-Identifier: Apache-2.0
"""When was the service up? Its last sign of life, and the gaps between earlier ones."""

from __future__ import annotations

from datetime import datetime

from registry.domain.staleness import Outage
from registry.store.database import Snapshot, Transaction, from_micros, to_micros


def find_last_sign(snapshot: Snapshot) -> datetime | None:
    """Return when the service last said that it is up; None before the first time."""
    row = snapshot.one("SELECT last_at FROM service_life WHERE id = 1")
    return from_micros(row[0]) if row else None


def write_sign(transaction: Transaction) -> None:
    """Say that the service is up now. A clock that was set back does not unsay a later sign."""
    transaction.execute(
        "INSERT INTO service_life (id, last_at) VALUES (1, ?) ON CONFLICT (id) DO UPDATE "
        "SET last_at = excluded.last_at WHERE service_life.last_at < excluded.last_at",
        (to_micros(transaction.now),),
    )


def insert_outage(transaction: Transaction, outage: Outage) -> None:
    """Keep a time in which the service did not run."""
    transaction.execute(
        "INSERT INTO outage (from_at, to_at) VALUES (?, ?) ON CONFLICT (to_at) DO NOTHING",
        (to_micros(outage.start), to_micros(outage.end)),
    )


def list_outages(snapshot: Snapshot, since: datetime) -> tuple[Outage, ...]:
    """Return the outages that ended after `since`, the oldest first."""
    rows = snapshot.all("SELECT from_at, to_at FROM outage WHERE to_at > ? ORDER BY to_at", (to_micros(since),))
    return tuple(Outage(from_micros(start), from_micros(end)) for start, end in rows)
