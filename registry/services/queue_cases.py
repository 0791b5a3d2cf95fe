# SPDX-License-Identifier: Apache-2.0
"""What is on record of each of several holds, so that its case can be weighed? Asked for all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from registry.domain.checks import CheckState
from registry.domain.hold_review import Case, Known
from registry.domain.policy import Policy
from registry.domain.quarantine import Hold, TargetKind
from registry.domain.reports import CheckStatus
from registry.services.holding import evidence_text
from registry.store import devices, nodes, placements, queue
from registry.store.database import Snapshot
from registry.store.devices import Device
from registry.store.holds import HoldRecord
from registry.store.placements import Placement
from registry.store.queue import Fault
from registry.store.repairs import Repair
from registry.store.withheld import WithheldRecord

DIAGNOSTIC = "dcgm.diag"
"""The check whose result is a diagnostic."""

_LOOKED = frozenset({CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL})


@dataclass(frozen=True, slots=True)
class Waiting:
    """A hold, or a withheld one in the form of a hold. `node` is the name of the machine that it is on."""

    hold: Hold
    fault_at: datetime
    evidence: str = ""
    limited_by: str | None = None
    restart_at: datetime | None = None
    clean_runs: int = 0
    node: str | None = None


def of_hold(record: HoldRecord) -> Waiting:
    """Take a hold up."""
    return Waiting(
        hold=record.hold,
        fault_at=record.fault_at or record.hold.opened_at,
        evidence=evidence_text(record.evidence) or "",
        restart_at=record.restart_at,
        clean_runs=record.clean_runs,
        node=record.target.get("node"),
    )


def of_withheld(record: WithheldRecord, cause: str | None) -> Waiting:
    """Take up what the breaker withheld, in the form of the hold that it would have been."""
    hold = Hold(
        id=record.id,
        owner=record.owner,
        target_kind=record.target_kind,
        target_key=record.target_key,
        reason=record.reason,
        opened_at=record.opened_at,
        match=record.match,
        cause=cause,
        release_policy=record.release_policy,
    )
    return Waiting(hold, record.fault_at, "", record.limited_by, record.restart_at, record.clean_runs)


@dataclass(frozen=True, slots=True)
class _Records:
    """All that the store knows of what a page holds, asked for together."""

    units: Mapping[str, tuple[Device, ...]]
    """By hold."""
    here: Mapping[str, Placement]
    faults: Mapping[str, Sequence[Fault]]
    """By device, and by node for holds on nodes."""
    places: Mapping[str, Sequence[tuple[str, str, datetime]]]
    diagnosed: Mapping[str, CheckState]
    orders: Mapping[str, Repair]
    nodes: Mapping[str, str]
    """Our ids of the nodes that are held themselves, by name."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A hold with its case, its units, and where those are that are somewhere."""

    waiting: Waiting
    case: Case
    units: tuple[Device, ...]
    here: Mapping[str, Placement]


def open_cases(snapshot: Snapshot, waiting: Iterable[Waiting], policy: Policy) -> Iterator[Opened]:
    """Give each hold with all that is known of what it keeps out, in their order."""
    waiting = [_named(snapshot, one) for one in waiting]
    records = _load(snapshot, waiting)
    for one in waiting:
        units = records.units.get(one.hold.id, ())
        here = {unit.id: records.here[unit.id] for unit in units if unit.id in records.here}
        yield Opened(one, _case(one, records, policy), units, here)


def _named(snapshot: Snapshot, waiting: Waiting) -> Waiting:
    """Find the name of a machine that something was withheld on: only its references are kept."""
    if waiting.hold.target_kind is not TargetKind.NODE or waiting.node is not None:
        return waiting
    return replace(waiting, node=queue.name_of_machine(snapshot, waiting.hold.target_key))


def _load(snapshot: Snapshot, waiting: Sequence[Waiting]) -> _Records:
    binds = queue.binds_of(snapshot, [one.hold.id for one in waiting])
    pairs = [pair for those in binds.values() for pair in those]
    by_id = devices.get_devices(snapshot, [ref for kind, ref in pairs if kind == "unit"])
    by_board: dict[str, list[Device]] = {}
    for one in devices.devices_of_boards(snapshot, [ref for kind, ref in pairs if kind == "board"]):
        by_board.setdefault(one.board_id, []).append(one)
    units = {hold_id: _units(those, by_id, by_board) for hold_id, those in binds.items()}
    ids = {one.id for those in units.values() for one in those}
    here = placements.open_of(snapshot, ids)
    held_nodes = nodes.ids_of(snapshot, [one.node for one in waiting if one.node is not None])
    at_nodes = {*held_nodes.values(), *(one.node_id for one in here.values())}
    return _Records(
        units=units,
        here=here,
        faults={
            **queue.newest_faults(snapshot, ids),
            **queue.newest_faults(snapshot, held_nodes.values(), of_nodes=True),
        },
        places=queue.newest_places(snapshot, ids),
        diagnosed=queue.checks_of(snapshot, at_nodes, DIAGNOSTIC),
        orders=queue.orders_of(snapshot, ids),
        nodes=held_nodes,
    )


def _units(
    binds: Iterable[tuple[str, str]], by_id: Mapping[str, Device], by_board: Mapping[str, Sequence[Device]]
) -> tuple[Device, ...]:
    found: dict[str, Device] = {}
    for kind, ref in binds:
        those = by_board.get(ref, ()) if kind == "board" else [by_id[ref]] if kind == "unit" and ref in by_id else ()
        found |= {one.id: one for one in those}
    return tuple(found[id_] for id_ in sorted(found))


def _case(waiting: Waiting, records: _Records, policy: Policy) -> Case:
    units = records.units.get(waiting.hold.id, ())
    orders = [records.orders[one.id].order for one in units if one.id in records.orders]
    return Case(
        hold=waiting.hold,
        known=_known(waiting, units, records, policy),
        limited_by=waiting.limited_by,
        restart_at=waiting.restart_at,
        clean_runs=waiting.clean_runs,
        order=orders[0] if orders else None,
    )


def _known(waiting: Waiting, units: Sequence[Device], records: _Records, policy: Policy) -> Known:
    own_node = records.nodes.get(waiting.node or "")
    faults = [fault for id_ in (*(one.id for one in units), own_node) for fault in records.faults.get(id_ or "", ())]
    faults = [one for one in faults if policy.look_up(one.code).is_fault]
    first = min((one.at for one in faults), default=waiting.fault_at)
    later = {(node, slot) for one in units for node, slot, at in records.places.get(one.id, ()) if at > first}
    here = [records.here[one.id] for one in units if one.id in records.here]
    names = sorted({one.node for one in here} | ({waiting.node} if own_node and waiting.node else set()))
    looks = [records.diagnosed.get(id_) for id_ in {*(one.node_id for one in here), *([own_node] if own_node else [])}]
    is_node = waiting.hold.target_kind is TargetKind.NODE
    return Known(
        kind=None if is_node else units[0].kind if units else waiting.hold.target_key.partition(":")[2].split("|")[0],
        codes=frozenset(one.code for one in faults),
        fault_places=frozenset((one.node_id, one.slot or "") for one in faults if one.node_id is not None),
        later_places=frozenset(later),
        diagnosed=any(one is not None and one.status in _LOOKED and one.at >= waiting.fault_at for one in looks),
        logged=any(one.is_logged for one in faults),
        evidence=waiting.evidence,
        nodes=tuple(names),
    )
