# SPDX-License-Identifier: Apache-2.0
"""How do the promises of the policy stand, where did the time of nodes and jobs go, and how long do jobs last?

Everything is read from sums over stretches of time: the cost does not grow with the history, the fleet or the jobs. Of
a job only what it has told counts: one that hangs in silence shows when it, or whoever restarts it, says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.domain.capacity import CapacityState, Place
from registry.domain.failures import Cause
from registry.domain.goodput import Account, Amount, Ledger, Slot, TimeKind, account_of
from registry.domain.policy import Policy
from registry.domain.reliability import checkpoint_interval_seconds, failures_per_1000_node_days, mttf_seconds
from registry.domain.slo import PLATFORM_CAUSES, Burn, Measured, ObjectiveName, Standing, burn_rate, judge, windows_of
from registry.domain.times import rfc3339
from registry.store import tallies
from registry.store.database import Database, Snapshot
from registry.store.tallies import Capacity

_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen in one window."""

    capacity: Mapping[Place, Capacity]
    jobs: Ledger
    seen_micros: int


@dataclass(frozen=True, slots=True)
class Objectives:
    """How every objective stands, and what was seen in the window of each."""

    standings: tuple[Standing, ...]
    windows: Mapping[int, Seen]

    def window(self, name: ObjectiveName) -> tuple[int, Seen]:
        """Return the length, in seconds, of an objective's window, and what was seen in it."""
        seconds = next(one.objective.window_seconds for one in self.standings if one.objective.name is name)
        return seconds, self.windows[seconds]


def read_objectives(db: Database, *, policy: Policy, now: datetime) -> Objectives:
    """Judge every objective of the policy in one snapshot. Raises StoreUnavailable."""
    with db.read() as snapshot:
        lengths = {seconds for one in policy.slo for seconds in windows_of(one)}
        windows = {seconds: _see(snapshot, now, seconds) for seconds in sorted(lengths)}
    standings = tuple(
        judge(one, {seconds: _measured(one.name, windows[seconds]) for seconds in windows_of(one)})
        for one in policy.slo
    )
    return Objectives(standings, windows)


def burn_rates(found: Objectives, standing: Standing) -> dict[int, float]:
    """Return the burn rate in each window, by its seconds, where there was something to judge."""
    objective = standing.objective
    rates = {
        seconds: burn_rate(objective, _measured(objective.name, found.windows[seconds]))
        for seconds in windows_of(objective)
    }
    return {seconds: rate for seconds, rate in rates.items() if rate is not None}


def capacity_shares(found: Objectives) -> dict[Place, float]:
    """Return which part of the device-time owned went where, in the window of the availability."""
    _, seen = found.window(ObjectiveName.AVAILABILITY)
    owned = sum(one.devices for one in seen.capacity.values())
    return {place: one.devices / owned for place, one in seen.capacity.items()} if owned else {}


def _see(snapshot: Snapshot, now: datetime, seconds: int) -> Seen:
    return Seen(
        tallies.sum_capacity(snapshot, now, seconds),
        tallies.sum_jobs(snapshot, now, seconds),
        tallies.sum_seen(snapshot, now, seconds),
    )


def _measured(name: ObjectiveName, seen: Seen) -> Measured:
    """Put what was seen into the terms of an objective."""
    if name is ObjectiveName.AVAILABILITY:
        total = sum(one.nodes for one in seen.capacity.values())
        return Measured(total, _by_cause((place.cause, one.nodes) for place, one in seen.capacity.items()))
    if name is ObjectiveName.INTERRUPTIONS:
        found = account_of(seen.jobs)
        return Measured(sum(one.node_micros for _, one in _allocated(seen.jobs)), found.interruptions)
    return Measured(
        sum(one.device_micros for _, one in _allocated(seen.jobs)),
        _by_cause((slot.cause, one.device_micros) for slot, one in _allocated(seen.jobs)),
    )


def _allocated(ledger: Ledger) -> list[tuple[Slot, Amount]]:
    """What is not time in the queue."""
    return [(slot, amount) for slot, amount in ledger.items() if slot.kind is not TimeKind.QUEUED]


def _by_cause(rows: Iterable[tuple[Cause | None, int]]) -> dict[Cause, int]:
    """Add up by cause; what is not bad has none and is left out."""
    found: dict[Cause, int] = {}
    for cause, amount in rows:
        if cause is not None:
            found[cause] = found.get(cause, 0) + amount
    return found


# --- as the API answers it ----------------------------------------------------------------------------------------


def show_objectives(db: Database, *, policy: Policy, now: datetime) -> dict[str, Any]:
    """Return how the objectives stand, with where all time went and how long jobs of each size last."""
    found = read_objectives(db, policy=policy, now=now)
    return {
        "decided_at": rfc3339(now),
        "policy": policy.digest,
        "objectives": [_standing_shown(one) for one in found.standings],
        "capacity": _capacity_shown(*found.window(ObjectiveName.AVAILABILITY)),
        "jobs": _jobs_shown(*found.window(ObjectiveName.GOODPUT)),
        "sizes": _sizes_shown(found.window(ObjectiveName.INTERRUPTIONS)[1].jobs),
    }


def _standing_shown(one: Standing) -> dict[str, Any]:
    return {
        "name": str(one.objective.name),
        "target": one.objective.target_text,
        "window_seconds": one.objective.window_seconds,
        "actual": one.actual,
        "is_met": one.is_met,
        "left": one.left,
        "alert": str(one.alert) if one.alert else None,
        "by_cause": None if one.by_cause is None else {str(cause): rate for cause, rate in one.by_cause.items()},
        "burn_rates": [_burn_shown(burn) for burn in one.burns],
    }


def _burn_shown(one: Burn) -> dict[str, Any]:
    return {
        "level": str(one.rule.level),
        "long_seconds": one.rule.long_seconds,
        "short_seconds": one.rule.short_seconds,
        "threshold": one.threshold,
        "long": one.long,
        "short": one.short,
        "is_firing": one.is_firing,
    }


def _capacity_shown(seconds: int, seen: Seen) -> dict[str, Any]:
    owned = sum(one.devices for one in seen.capacity.values())
    free = sum(one.devices for place, one in seen.capacity.items() if place.state is CapacityState.AVAILABLE)
    ordered = sorted(seen.capacity.items(), key=lambda item: (-item[1].devices, str(item[0])))
    return {
        "window_seconds": seconds,
        "seen_seconds": seen.seen_micros / _MICROS,
        "device_seconds": owned / _MICROS,
        "goodput": free / owned if owned else None,
        "spent": [
            {
                "state": str(place.state),
                "cause": str(place.cause) if place.cause else None,
                "device_seconds": one.devices / _MICROS,
                "share": one.devices / owned if owned else 0.0,
            }
            for place, one in ordered
        ],
    }


def _jobs_shown(seconds: int, seen: Seen) -> dict[str, Any]:
    found = account_of(seen.jobs, by_device=True)
    return {
        "window_seconds": seconds,
        "device_seconds": found.allocated / _MICROS,
        "productive_device_seconds": found.productive / _MICROS,
        "goodput": found.goodput,
        "ettr": found.ettr,
        "badput": [
            {
                "kind": str(kind),
                "cause": str(cause),
                "device_seconds": micros / _MICROS,
                "share": micros / found.allocated,
            }
            for (kind, cause), micros in found.badput.items()
        ],
    }


def _sizes_shown(ledger: Ledger) -> list[dict[str, Any]]:
    """Tell of jobs of each size how long they ran between interruptions, and how often they should save."""
    whole = _allocated(ledger)
    count = _of_platform(account_of(whole))
    rate = failures_per_1000_node_days(count, sum(one.node_micros for _, one in whole) / _MICROS)
    return [
        _size_shown(size, [(slot, one) for slot, one in whole if slot.size == size], rate)
        for size in sorted({slot.size for slot, _ in whole})
    ]


def _size_shown(size: int, rows: list[tuple[Slot, Amount]], rate: float | None) -> dict[str, Any]:
    found = account_of(rows)
    seconds = found.allocated / _MICROS
    nodes = sum(one.node_micros for _, one in rows) / found.allocated if found.allocated else 0.0
    count = _of_platform(found)
    expected = mttf_seconds(nodes, per_1000_node_days=rate) if rate and nodes else None
    saving = sum(micros for (kind, _), micros in found.spent.items() if kind is TimeKind.CHECKPOINTING) / _MICROS
    cost = saving / found.checkpoints if found.checkpoints else None
    return {
        "devices_from": 2**size,
        "devices_to": 2 ** (size + 1) - 1,
        "allocated_seconds": seconds,
        "nodes": nodes,
        "interruptions": count,
        "mttf_seconds": seconds / count if count else None,
        "expected_mttf_seconds": expected,
        "checkpoint_seconds": cost,
        "checkpoint_interval_seconds": (
            checkpoint_interval_seconds(checkpoint_seconds=cost, mttf=expected) if cost and expected else None
        ),
    }


def _of_platform(found: Account) -> int:
    return sum(count for cause, count in found.interruptions.items() if cause in PLATFORM_CAUSES)
