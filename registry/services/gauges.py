# SPDX-License-Identifier: Apache-2.0
"""How does the fleet stand right now? The numbers that a monitoring system asks for, in one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from registry.domain.checkpoints import Checkpoint
from registry.domain.policy import Policy
from registry.domain.times import parse_rfc3339
from registry.store import alarms, checkpoints, gauges, life, repairs, webhooks
from registry.store.database import Database, Snapshot
from registry.store.webhooks import Totals


@dataclass(frozen=True, slots=True)
class Gauges:
    """Counts by what tells them apart; `last_sign_at` is None before the service's first sign of life."""

    devices: Mapping[tuple[str, str], int]
    """By kind and state."""
    nodes: Mapping[str, int]
    """By what is known without a decision: reporting, stale, maintenance, retired."""
    open_holds: Mapping[tuple[str, str], int]
    """By kind of owner and of target."""
    withheld: int
    """Holds that the breaker withheld and that nobody has settled."""
    open_conflicts: int
    is_alarmed: bool
    """Part of the history is missed: nobody is admitted."""
    repairs: Mapping[tuple[str, str], int]
    """By state and action."""
    disturbed: int
    """Nodes that repairs keep out of work, or may at any moment."""
    repairs_stopped: bool
    suspected: int
    """Checks whose word on many nodes is doubted."""
    messages: Totals
    """What was told to subscriptions, and what waits."""
    oldest_message_age_seconds: float
    """Since the oldest event happened that waits to be delivered; 0 when nothing waits."""
    sequence: int
    last_sign_at: datetime | None
    checkpoint_age_seconds: float | None
    """Since the newest checkpoint was signed; None before the first."""
    uncovered: int
    """Entries that no checkpoint covers."""


def read_gauges(db: Database, *, policy: Policy, now: datetime) -> Gauges:
    """Read all of them. Raises StoreUnavailable."""
    with db.read() as snapshot:
        newest, messages = newest_checkpoint(snapshot), webhooks.read_totals(snapshot)
        return Gauges(
            devices=gauges.count_devices(snapshot, now),
            nodes=gauges.count_nodes(snapshot, now, heard_since(snapshot, policy, now)),
            open_holds=gauges.count_open_holds(snapshot, now),
            withheld=gauges.count_withheld(snapshot),
            open_conflicts=gauges.count_open_conflicts(snapshot),
            is_alarmed=alarms.is_alarmed(snapshot),
            repairs=repairs.count_by_state(snapshot),
            disturbed=len(repairs.list_disturbed(snapshot)),
            repairs_stopped=repairs.find_stop(snapshot) is not None or not policy.repair_enabled,
            suspected=len(repairs.list_suspicions(snapshot)),
            messages=messages,
            oldest_message_age_seconds=(now - messages.oldest_at).total_seconds() if messages.oldest_at else 0,
            sequence=snapshot.sequence(),
            last_sign_at=life.find_last_sign(snapshot),
            checkpoint_age_seconds=(now - parse_rfc3339(newest.signed_at)).total_seconds() if newest else None,
            uncovered=checkpoints.count_uncovered(snapshot, newest).count,
        )


def newest_checkpoint(snapshot: Snapshot) -> Checkpoint | None:
    """Return the newest checkpoint. One that somebody has edited covers nothing: that is what shows here."""
    try:
        return checkpoints.find_newest(snapshot)
    except ValueError:
        return None


def heard_since(snapshot: Snapshot, policy: Policy, now: datetime) -> datetime:
    """Return the time since which a node must have reported not to be stale: our own outages are left out."""
    left, since = timedelta(seconds=policy.report_stale_seconds), now
    for outage in reversed(life.list_outages(snapshot, now - timedelta(days=1))):
        if since - outage.end >= left:
            break
        left -= max(since - outage.end, timedelta())
        since = outage.start
    return since - left
