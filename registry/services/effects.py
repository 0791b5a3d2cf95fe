# SPDX-License-Identifier: Apache-2.0
"""What follows from a recorded fault at once: passes back to zero, holds, or a step towards a release?"""

from __future__ import annotations

from dataclasses import replace

from registry.domain.actors import Actor
from registry.domain.failures import INJECTED, Effect, FailureKind
from registry.domain.log_lines import latest_at
from registry.domain.policy import Policy
from registry.services import passes
from registry.services.locating import Located
from registry.services.ruling import ask_rules, is_known_to_a_person, open_for_code
from registry.store import devices, holds, placements, withheld
from registry.store.database import Snapshot, Transaction
from registry.store.failures import Failure


def take_effect(
    tx: Transaction, failure: Failure, located: Located, kind: FailureKind, actor: Actor, policy: Policy
) -> None:
    """Let a recorded fault do what the policy says: reset passes, open holds, or let holds go on.

    A muted fault does nothing. `failure` tells of the newest sight: `seen_at` is when that was.
    """
    if kind.proves_restart:
        _note_restart(tx, located, failure)
        return
    is_over = located.is_past and kind.effect is not Effect.PERMANENT
    if failure.muted is not None:
        return
    if located.device is not None and is_known_to_a_person(
        tx, located.device, latest_at(failure.seen_at, failure.evidence)
    ):
        return
    hit = _nodes_hit(tx, located)
    if kind.effect.is_blocking and not is_over:
        for name in hit:
            passes.fault_on(tx, name, detail=failure.code, actor=actor)
    if is_over and located.node and located.node.name in hit:
        return  # a boot later than the fault, on the same node: what it had to prove since then it proves by passes
    if located.device is not None:
        open_for_code(tx, located.device, kind, failure, policy)
    ask_rules(tx, failure, kind, located, policy)


def _nodes_hit(snapshot: Snapshot, located: Located) -> list[str]:
    """The node that carries the device now; for a fault without device the node that it was seen on."""
    if located.device is None:
        return [located.node.name] if located.node else []
    at = placements.open_of(snapshot, [located.device.id])
    return [one.node for one in at.values()]


def _note_restart(tx: Transaction, located: Located, failure: Failure) -> None:
    """A reset of the device, or a driver load on its node, is what an `after_passes` hold waits for."""
    if failure.muted == INJECTED:
        return
    if located.device is not None:
        units = [located.device]
    elif located.boot is not None:
        here = placements.open_here(tx, located.boot.instance_id)
        units = list(devices.get_devices(tx, [one.device_id for one in here]).values())
    else:
        return
    at = failure.seen_at
    binds = [bind for one in units for bind in one.binds]
    ids = {one for group in holds.open_on(tx, binds).values() for one in group}
    for record in holds.get_holds(tx, ids).values():
        if record.restart_at is None and at > (record.fault_at or record.hold.opened_at):
            holds.set_progress(tx, replace(record, restart_at=at))
    for standing in withheld.standing_on(tx, binds):
        if standing.restart_at is None and at > standing.fault_at:
            withheld.set_progress(tx, replace(standing, restart_at=at))
