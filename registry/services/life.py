# SPDX-License-Identifier: Apache-2.0
"""Was the service itself away? Its outages are noted, so that our own absence makes no node stale."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from registry.domain.events import JSON, Actor, ActorKind, Draft, EventType, Subject, SubjectKind
from registry.domain.policy import Policy
from registry.domain.staleness import Outage, silence_seconds
from registry.domain.times import rfc3339
from registry.store import life as store
from registry.store.database import Database, Overtaken, Snapshot, Transaction

SERVICE = "pratique"
"""The one service that events are about."""


def beat(db: Database, now: datetime, policy: Policy) -> Outage | None:
    """Write a sign of life. After a gap that is too long, note it as an outage and return it.

    Call it once before the first request is answered, and then every `policy.life_sign_seconds`: until it is called
    after an outage, nodes look as silent as they could not help being. A new database has no outage.
    """
    longest = timedelta(seconds=policy.outage_gap_seconds)
    with db.read() as snapshot:
        last = store.find_last_sign(snapshot)
    if last is not None and now - last > longest:
        return _resume(db, now, longest)
    # Losing a sign makes an outage look longer by a few seconds; that is no reason to wait for the disk.
    # Another worker that wrote one at the same moment spoke for all.
    with suppress(Overtaken), db.touch(now) as transaction:
        store.write_sign(transaction)
    return None


def outages(snapshot: Snapshot, since: datetime) -> tuple[Outage, ...]:
    """Return the outages that ended after `since`, the oldest first."""
    return store.list_outages(snapshot, since)


def silence(snapshot: Snapshot, reported_at: datetime, now: datetime) -> float:
    """Return for how many seconds a node that reported last at `reported_at` was silent while the service was up."""
    return silence_seconds(reported_at, now, store.list_outages(snapshot, reported_at))


def _resume(db: Database, now: datetime, longest: timedelta) -> Outage | None:
    with db.write(now) as transaction:
        last = store.find_last_sign(transaction)  # again: another process may have noted the outage meanwhile
        outage = Outage(last, now) if last is not None and now - last > longest else None
        if outage is not None:
            _note(transaction, outage)
        store.write_sign(transaction)
    return outage


def _note(transaction: Transaction, outage: Outage) -> None:
    store.insert_outage(transaction, outage)
    seconds = int((outage.end - outage.start).total_seconds())
    data: dict[str, JSON] = {"from": rfc3339(outage.start), "to": rfc3339(outage.end), "seconds": seconds}
    subject = Subject(SubjectKind.SERVICE, SERVICE)
    transaction.record(Draft(EventType.SERVICE_RESUMED, Actor(ActorKind.SYSTEM, SERVICE), (subject,), data))
