# SPDX-License-Identifier: Apache-2.0
"""How is the fleet? What a person on duty wants to see first, in one look that does not grow with the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from registry.domain.breaker import Share, limit_of
from registry.domain.capacity import CapacityState, Place
from registry.domain.policy import Policy
from registry.domain.times import parse_rfc3339
from registry.services import capacity, slo
from registry.services.fleet_count import FleetCount, read_count
from registry.services.gauges import heard_since, newest_checkpoint
from registry.services.repairs import show_budget
from registry.store import breaker, checkpoints, fleet, gauges, life, tallies
from registry.store.database import Database, Snapshot
from registry.store.tallies import Capacity

WEEK = timedelta(days=7)
"""How far back the trend and the repeat offenders go."""

SHOWN_MAX = 10
"""Most lines that any list of the page has; each leads to the page that has them all."""

NODES_AT_ONCE_MAX = 100
"""Most nodes that are judged while a person waits, some 50 ms; where more are, the last minutes' looks are told."""

RECENT = timedelta(minutes=10)
"""How far back those looks go."""


@dataclass(frozen=True, slots=True)
class Offender:
    """A held device that turned up this week under another node than it failed on: the reason we keep records."""

    device: Mapping[str, str | None]
    """`id`, `kind`, `serial`, `uuid`, `model`."""
    failed_on: tuple[str, ...]
    node: str
    since: datetime
    until: datetime | None
    """None while it is still there."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where nodes and GPUs are now: one line for each state and cause. `is_mean` says that it is one over minutes."""

    places: tuple[tuple[Place, float, float], ...]
    """State and cause, nodes, GPUs; those with the most GPUs first."""
    is_mean: bool

    @property
    def nodes(self) -> float:
        """All nodes."""
        return sum(nodes for _, nodes, _ in self.places)

    @property
    def gpus(self) -> float:
        """All GPUs."""
        return sum(gpus for _, _, gpus in self.places)

    @property
    def available(self) -> float:
        """The GPUs that may take work."""
        return sum(gpus for place, _, gpus in self.places if place.state is CapacityState.AVAILABLE)


@dataclass(frozen=True, slots=True)
class Guards:
    """What keeps too much from happening at once, and how old the last proof of the history is."""

    breaker: Share
    breaker_limit: int
    withheld: int
    budget: Mapping[str, Any]
    """As the API answers it."""
    checkpoint_at: datetime | None
    uncovered: int
    """Entries that no checkpoint covers."""
    last_sign_at: datetime | None


@dataclass(frozen=True, slots=True)
class FleetView:
    """All that the page shows."""

    count: FleetCount
    nodes: Mapping[str, int]
    """By what is known without a decision: reporting, stale, maintenance, retired."""
    standing: Standing
    hours: Mapping[datetime, Mapping[str, float]]
    """GPUs by state of capacity in each hour of the week that anybody looked."""
    holds: Mapping[str | None, int]
    """Holds in force by cause; None is that of those that name none."""
    conflicts: int
    offenders: Sequence[Offender]
    silent: Sequence[tuple[str, datetime]]
    """Nodes that should report and do not, those that fell silent last first, and when they were heard last."""
    guards: Guards
    objectives: Mapping[str, Any]
    """As `GET /v1/slo` answers them."""


def read_fleet(db: Database, *, policy: Policy, now: datetime) -> FleetView:
    """Look at the fleet. Raises StoreUnavailable."""
    with db.read() as snapshot:
        heard = heard_since(snapshot, policy, now)
        nodes = gauges.count_nodes(snapshot, now, heard)
        return FleetView(
            count=read_count(snapshot, now),
            nodes=nodes,
            standing=_standing(db, nodes.total() - nodes["retired"], policy, now),
            hours=fleet.capacity_by_hour(snapshot, now - WEEK),
            holds=fleet.count_holds_by_cause(snapshot, now),
            conflicts=gauges.count_open_conflicts(snapshot),
            offenders=_offenders(snapshot, now),
            silent=fleet.list_silent(snapshot, heard, now, SHOWN_MAX),
            guards=_guards(snapshot, db, policy, now),
            objectives=slo.show_objectives(db, policy=policy, now=now),
        )


def _standing(db: Database, nodes: int, policy: Policy, now: datetime) -> Standing:
    with db.read() as snapshot:
        if nodes > NODES_AT_ONCE_MAX:
            return _mean(snapshot, now)
        owned = tallies.list_owned(snapshot)
    found: dict[Place, Capacity] = {}
    for (_, place), one in capacity.survey(db, owned, policy=policy, now=now).items():
        found[place] = found.get(place, Capacity()).plus(one)
    return _ordered([(place, one.nodes, one.devices) for place, one in found.items()], is_mean=False)


def _mean(snapshot: Snapshot, now: datetime) -> Standing:
    """Tell from the looks of the last minutes; nothing where nobody has looked."""
    seconds = int(RECENT.total_seconds())
    seen = tallies.sum_seen(snapshot, now, seconds)
    spent = tallies.sum_capacity(snapshot, now, seconds) if seen else {}
    return _ordered([(place, one.nodes / seen, one.devices / seen) for place, one in spent.items()], is_mean=True)


def _ordered(places: list[tuple[Place, float, float]], *, is_mean: bool) -> Standing:
    return Standing(tuple(sorted(places, key=lambda one: (-one[2], str(one[0])))), is_mean)


def _offenders(snapshot: Snapshot, now: datetime) -> list[Offender]:
    met = fleet.list_met_again(snapshot, now - WEEK, SHOWN_MAX)
    failed = fleet.failed_on(snapshot, [one.device_id for one in met])
    return [
        Offender(
            {"id": one.device_id, **{name: getattr(one, name) for name in ("kind", "serial", "uuid", "model")}},
            tuple(name for name in failed[one.device_id] if name != one.node),
            one.node,
            one.since,
            one.until,
        )
        for one in met
    ]


def _guards(snapshot: Snapshot, db: Database, policy: Policy, now: datetime) -> Guards:
    held = breaker.held_since(snapshot, now - timedelta(seconds=policy.breaker_window_seconds))
    nodes = breaker.count_fleet(snapshot, now - timedelta(hours=policy.node_active_hours))
    share = Share("the fleet", policy.breaker_fleet_percent, nodes, len({one.node_id for one in held}))
    newest = newest_checkpoint(snapshot)
    return Guards(
        breaker=share,
        breaker_limit=limit_of(share, is_permanent=False, policy=policy),
        withheld=gauges.count_withheld(snapshot),
        budget=show_budget(db, policy=policy, now=now),
        checkpoint_at=parse_rfc3339(newest.signed_at) if newest else None,
        uncovered=checkpoints.count_uncovered(snapshot, newest).count,
        last_sign_at=life.find_last_sign(snapshot),
    )
