# SPDX-License-Identifier: Apache-2.0
"""Which holds does a clean run bring nearer to their end?"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from registry.domain.actors import SYSTEM
from registry.domain.passes import Run
from registry.domain.policy import Policy
from registry.domain.quarantine import ReleasePolicy, after_passes_done, is_after_restart
from registry.services import restarts, withholding
from registry.services.holding import end
from registry.store import holds, withheld
from registry.store.database import Transaction
from registry.store.holds import HoldRecord
from registry.store.nodes import Boot
from registry.store.withheld import WithheldRecord

EARNED = "{} clean runs after a restart newer than the fault"


def count_towards_release(
    tx: Transaction, instance_id: str, covered: frozenset[str], run: Run, boot: Boot, policy: Policy
) -> None:
    """Count a clean run for every `after_passes` hold on the units it covers, and end those that have earned it.

    What the breaker withheld is earned back as the hold would have been. Only runs that start after a restart newer
    than the fault are counted. Such a release keeps the node's passes.
    """
    binds = holds.open_on_node(tx, instance_id, ())
    ids = {one.quarantine_id for one in binds if one.device_id in covered}
    for record in holds.get_holds(tx, ids).values():
        if record.hold.release_policy is ReleasePolicy.AFTER_PASSES:
            _count(tx, record, run, boot, policy)
    for standing, device_id in withheld.standing_on_node(tx, instance_id, ()):
        if standing.release_policy is ReleasePolicy.AFTER_PASSES and device_id in covered:
            _count_withheld(tx, standing, run, boot, policy)


def _count(tx: Transaction, record: HoldRecord, run: Run, boot: Boot, policy: Policy) -> None:
    fault_at = record.fault_at or record.hold.opened_at
    restart_at = record.restart_at or _began_after(tx, boot, fault_at, record.fault_boot)
    if restart_at is None or not is_after_restart(run.times.end, restart_at, policy):
        return
    counted = replace(record, restart_at=restart_at, clean_runs=record.clean_runs + 1)
    holds.set_progress(tx, counted)
    is_done = after_passes_done(
        record.hold, clean_runs_since=counted.clean_runs, restart_at=restart_at, fault_at=fault_at, policy=policy
    )
    if is_done:
        end(tx, counted, reason=EARNED.format(counted.clean_runs), actor=SYSTEM)


def _count_withheld(tx: Transaction, standing: WithheldRecord, run: Run, boot: Boot, policy: Policy) -> None:
    restart_at = standing.restart_at or _began_after(tx, boot, standing.fault_at, standing.fault_boot)
    if restart_at is None or not is_after_restart(run.times.end, restart_at, policy):
        return
    counted = replace(standing, restart_at=restart_at, clean_runs=standing.clean_runs + 1)
    withheld.set_progress(tx, counted)
    if counted.clean_runs >= policy.after_passes_count:
        withholding.end(tx, counted, reason=EARNED.format(counted.clean_runs), actor=SYSTEM)


def _began_after(tx: Transaction, boot: Boot, fault_at: datetime, fault_boot: str | None) -> datetime | None:
    """When the boot was first seen, if it is a restart that is newer than the fault."""
    return boot.started_at if restarts.is_boot_after(tx, boot, fault_at, fault_boot) else None
