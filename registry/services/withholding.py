# SPDX-License-Identifier: Apache-2.0
"""What becomes of a hold that the breaker did not let through? It stands against its target until it is settled.

Nothing is queued: when the breaker has cleared, no withheld hold opens by itself. It ends with what would have ended
the hold (clean runs after a restart, for an `after_passes` one), when the evidence is withdrawn, when a person releases
the target, or when new evidence opens the hold after all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from registry.domain.actors import SYSTEM, Actor, ActorKind, Subject, SubjectKind
from registry.domain.canonical import JSON
from registry.domain.events import Draft, EventType
from registry.domain.quarantine import HoldMatch, RuleHold
from registry.services import passes, restarts
from registry.services.subjects import nodes_of, of_devices, told_in_place
from registry.services.targets import Target
from registry.store import devices, nodes, sights, withheld
from registry.store.database import Snapshot, Transaction, new_id
from registry.store.devices import Device
from registry.store.placements import open_of
from registry.store.withheld import WithheldRecord


def withhold(
    tx: Transaction,
    target: Target,
    wanted: RuleHold,
    *,
    failure: str,
    fault_at: datetime,
    fault_boot: str | None,
    limited_by: str,
) -> None:
    """Keep that a rule wanted a hold, with its event; what stands already only gets the newer evidence."""
    standing = withheld.find_standing(tx, target.key, wanted.owner)
    if standing is not None:
        if not restarts.is_before(tx, fault_at, fault_boot, standing.restart_at):
            at, boot = restarts.newest(tx, (standing.fault_at, standing.fault_boot), (fault_at, fault_boot))
            again = replace(standing, failure=failure, fault_at=at, fault_boot=boot, restart_at=None, clean_runs=0)
            withheld.set_progress(tx, again)
        return
    record = WithheldRecord(
        id=new_id(tx.now),
        owner=wanted.owner,
        target_kind=target.kind,
        target_key=target.key,
        match=target.match,
        failure=failure,
        reason=wanted.reason,
        limited_by=limited_by,
        release_policy=wanted.release_policy,
        opened_at=tx.now,
        fault_at=fault_at,
        fault_boot=fault_boot,
        binds=target.binds,
    )
    withheld.insert_withheld(tx, record)
    _tell(tx, EventType.QUARANTINE_WITHHELD, record, wanted.owner, {"limited_by": limited_by})


def end(tx: Transaction, record: WithheldRecord, *, reason: str, actor: Actor) -> None:
    """Let a withheld hold stand no longer, with its event."""
    withheld.end_withheld(tx, record.id, by=actor, reason=reason)
    _tell(tx, EventType.WITHHOLDING_ENDED, record, actor, {"why": reason})


def dismiss(tx: Transaction, binds: Iterable[tuple[str, str]], *, reason: str, actor: Actor) -> list[WithheldRecord]:
    """Settle what stands against any of these, because a person releases them: that person knew of it."""
    standing = withheld.standing_on(tx, binds)
    for record in standing:
        end(tx, record, reason=reason, actor=actor)
    if actor.kind is ActorKind.OPERATOR:
        for name in {name for record in standing for name in _where(tx, record, _units(tx, record))}:
            passes.released_on(tx, name, detail=reason, actor=actor)
    return standing


def end_for_failure(tx: Transaction, failure: str, *, reason: str) -> None:
    """Settle what stands for a fault that was none."""
    for record in withheld.standing_for(tx, failure):
        settled_at = withheld.newest_dismissal(tx, withheld.binds_of(tx, record.id))
        other = sights.newest_of_code(tx, record.owner.name, [one.id for one in _units(tx, record)], after=settled_at)
        if other is not None:  # the same was seen before, and nobody says that this was nothing
            withheld.set_progress(tx, replace(record, failure=other.id))
        else:
            end(tx, record, reason=reason, actor=SYSTEM)


def end_with_place(tx: Transaction, instance_id: str, *, reason: str, actor: Actor) -> None:
    """Settle what rests on places of an instance that is gone."""
    for record in withheld.standing_on_ever_placed(tx, instance_id):
        if record.match is HoldMatch.PLACE:
            end(tx, record, reason=reason, actor=actor)


def _units(snapshot: Snapshot, record: WithheldRecord) -> list[Device]:
    binds = withheld.binds_of(snapshot, record.id)
    units = devices.get_devices(snapshot, [ref for kind, ref in binds if kind == "unit"])
    boards = devices.devices_of_boards(snapshot, [ref for kind, ref in binds if kind == "board"])
    return sorted({one.id: one for one in (*units.values(), *boards)}.values(), key=lambda one: one.id)


def _where(snapshot: Snapshot, record: WithheldRecord, units: list[Device]) -> list[str]:
    """The nodes that it keeps out now."""
    on_machine = [bind for bind in withheld.binds_of(snapshot, record.id) if bind[0] in {"instance", "chassis", "name"}]
    return sorted({*nodes_of(snapshot, units), *nodes.names_of_machines(snapshot, on_machine)})


def _tell(tx: Transaction, type_: EventType, record: WithheldRecord, actor: Actor, more: dict[str, JSON]) -> None:
    units = _units(tx, record)
    where = _where(tx, record, units)
    at = open_of(tx, [one.id for one in units])
    data: dict[str, JSON] = {
        "withheld": record.id,
        "owner": str(record.owner),
        "reason": record.reason,
        "failure": record.failure,
        "release_policy": str(record.release_policy),
        "match": str(record.match),
        "serial": units[0].serial if units else None,
        "node": where[0] if where else None,
        "devices": [told_in_place(one, at.get(one.id)) for one in units],
        **more,
    }
    tx.record(Draft(type_, actor, (Subject(SubjectKind.QUARANTINE, record.id), *of_devices(units, nodes=where)), data))
