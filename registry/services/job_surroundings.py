# SPDX-License-Identifier: Apache-2.0
"""What did the registry know around a failed job? Gathered in one view, for the rule that says who is to blame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from registry.domain.findings import window
from registry.domain.job_failures import HoldFact, JobFailure, NodeChange, NodeFact, Surroundings
from registry.domain.policy import Policy
from registry.domain.quarantine import is_in_force
from registry.domain.staleness import is_stale, silence_seconds
from registry.services.admission import machine_binds
from registry.services.life import outages
from registry.store import devices, holds, nodes
from registry.store import job_surroundings as store
from registry.store.database import Snapshot


def gather(snapshot: Snapshot, job: JobFailure, policy: Policy, now: datetime) -> Surroundings:
    """Return all that is known around a failure as of `now`. Names that never reported are told as unknown."""
    ids = nodes.ids_of(snapshot, job.nodes)
    around = Surroundings(
        checks=store.failing_on(snapshot, ids, window(job, policy)),
        nodes=(*_silent(snapshot, ids, policy, now), *store.lives_of(snapshot, ids, window(job, policy))),
        holds=_held(snapshot, ids, now),
        unknown=tuple(sorted(set(job.nodes) - ids.keys())),
    )
    return with_faults(snapshot, around, job, policy)


def with_faults(snapshot: Snapshot, around: Surroundings, job: JobFailure, policy: Policy) -> Surroundings:
    """Return the same with the faults that are on record now: those that were withdrawn are gone, later ones there."""
    faults = store.faults_on(snapshot, nodes.ids_of(snapshot, job.nodes), window(job, policy))
    return replace(around, faults=faults, earlier=store.earlier_on(snapshot, job, faults))


def together(before: Surroundings, later: Surroundings) -> Surroundings:
    """Join what was known at two times: a check that is well again, or a node that is back, was not so then."""
    return replace(
        later,
        checks=tuple(dict.fromkeys((*before.checks, *later.checks))),
        nodes=tuple(dict.fromkeys((*before.nodes, *later.nodes))),
        holds=tuple({one.id: one for one in (*before.holds, *later.holds)}.values()),
    )


def _silent(snapshot: Snapshot, ids: Mapping[str, str], policy: Policy, now: datetime) -> Iterable[NodeFact]:
    """Give the nodes that are stale now. Our own outages make none of them silent."""
    reported = store.last_reports(snapshot, ids)
    away = outages(snapshot, min(reported.values(), default=now))
    for name, at in sorted(reported.items()):
        if is_stale(silence_seconds(at, now, away), policy):
            yield NodeFact(name, NodeChange.SILENT, at)


def _held(snapshot: Snapshot, ids: Mapping[str, str], now: datetime) -> tuple[HoldFact, ...]:
    """Give the holds that meet these nodes, or what is placed on them, now."""
    binds = [
        (name, bind)
        for name, instance, provider_id, chassis in store.machines_of(snapshot, ids)
        for bind in holds.open_on_node(snapshot, instance, machine_binds(name, provider_id, chassis))
    ]
    records = holds.get_holds(snapshot, [bind.quarantine_id for _, bind in binds])
    units = devices.get_devices(snapshot, [bind.device_id for _, bind in binds if bind.device_id])
    found: list[HoldFact] = []
    for name, bind in binds:
        record = records.get(bind.quarantine_id)
        if record is None or not is_in_force(record.hold, now):
            continue
        unit = units.get(bind.device_id) if bind.device_id else None
        label = f"{unit.serial or unit.id} on {name}" if unit else None
        cause, at = record.hold.cause, record.hold.opened_at
        found.append(HoldFact(record.hold.id, name, bind.device_id, cause, at, label))
    return tuple(sorted(found, key=lambda one: (one.id, one.node or "", one.device or "")))
