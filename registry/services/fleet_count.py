# SPDX-License-Identifier: Apache-2.0
"""What of the fleet takes too long to count for a page? It is counted now and then, and the page says when.

A small fleet is counted at each look: then nothing on the page is older than the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from registry.domain.times import parse_rfc3339, rfc3339
from registry.services.leasing import Lease, under
from registry.store import fleet, gauges
from registry.store.database import Database, Snapshot

COUNT_SECONDS = 300
"""How often a large fleet is counted: half a second's work for half a million devices."""

AT_ONCE_MAX = 20_000
"""Most devices that are counted while a person waits: that takes some 30 ms."""

WINDOW_DAYS = 30
"""How far back failures are counted: rates of fewer days swing, and older ones tell of parts that are gone."""

TOP = 10
"""How many of the devices that fail most are named."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How often GPUs of one model under one driver fail. None where no list names it."""

    model: str | None
    driver: str | None
    devices: int
    failures: int
    per_1000_device_days: float


@dataclass(frozen=True, slots=True)
class Failing:
    """One of the devices that failed most."""

    device: Mapping[str, str | None]
    """`id`, `kind`, `serial`, `uuid`, `model`."""
    failures: int
    nodes: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class FleetCount:
    """The whole fleet, counted at `at`; rates and failures are those of the `window_days` before."""

    at: datetime
    window_days: float
    devices: Mapping[tuple[str, str], int]
    """By kind and state."""
    rates: tuple[Rate, ...]
    """The highest first."""
    failing: tuple[Failing, ...]


def read_count(snapshot: Snapshot, now: datetime) -> FleetCount:
    """Return the newest count of a large fleet, and count a small one now."""
    kept = fleet.find_count(snapshot)
    if kept is not None and sum(count for _, _, count in kept[1]["devices"]) > AT_ONCE_MAX:
        return _read(*kept)
    return _read(now, count(snapshot, now))


def keep_count(db: Database, lease: Lease, *, now: datetime) -> bool:
    """Count the fleet if it is time, and keep the count; tell whether it was. Raises LeaseLost, StoreUnavailable.

    It is counted before the transaction begins: nobody who writes has to wait for it.
    """
    with db.read() as snapshot:
        kept = fleet.find_count(snapshot)
        if kept is not None and timedelta() <= now - kept[0] < timedelta(seconds=COUNT_SECONDS):
            return False
        body = count(snapshot, now)
    under(db, lease, partial(_keep, db, body, now), now=now)
    return True


def count(snapshot: Snapshot, now: datetime) -> dict[str, Any]:
    """Count the fleet now, in the form that is kept."""
    first = fleet.first_registered(snapshot) or now
    window = min(timedelta(days=WINDOW_DAYS), max(now - first, timedelta(days=1)))
    since = now - window
    failures = fleet.count_gpu_failures(snapshot, since)
    return {
        "window_days": window / timedelta(days=1),
        "devices": [[*key, number] for key, number in sorted(gauges.count_devices(snapshot, now).items()) if number],
        "gpus": [[*key, number, failures[key]] for key, number in fleet.count_gpus(snapshot).items()],
        "failing": [
            {
                "device": {name: getattr(one, name) for name in ("id", "kind", "serial", "uuid", "model")},
                "failures": one.failures,
                "nodes": one.nodes,
                "last_at": rfc3339(one.last_at),
            }
            for one in fleet.list_failing(snapshot, since, TOP)
        ],
    }


def _keep(db: Database, body: Mapping[str, Any], now: datetime) -> None:
    with db.write(now) as tx:
        fleet.save_count(tx, body)


def _read(at: datetime, body: Mapping[str, Any]) -> FleetCount:
    days = body["window_days"]
    rates = [
        Rate(model, driver, devices, failures, failures * 1000 / (devices * days))
        for model, driver, devices, failures in body["gpus"]
    ]
    return FleetCount(
        at=at,
        window_days=days,
        devices={(kind, state): number for kind, state, number in body["devices"]},
        rates=tuple(sorted(rates, key=lambda one: (-one.per_1000_device_days, str(one.model), str(one.driver)))),
        failing=tuple(
            Failing(one["device"], one["failures"], one["nodes"], parse_rfc3339(one["last_at"]))
            for one in body["failing"]
        ),
    )
