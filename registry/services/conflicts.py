# SPDX-License-Identifier: Apache-2.0
"""Which contradictions about identity wait for a person, and what does the person's ruling do?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from registry.domain.actors import Actor
from registry.domain.canonical import JSON
from registry.domain.conflict_sides import IN_PLACE, OWN_BOARD, SAME
from registry.domain.errors import FieldError, InvalidField, NotFound, NotOpen
from registry.domain.events import Draft, EventType
from registry.domain.identifiers import Identifier, identifiers_of, usable_module_id
from registry.domain.known import ConflictRule
from registry.domain.reports import DeviceEntry
from registry.domain.times import rfc3339, rfc3339_or_none
from registry.services import disputes
from registry.services.holding import bind_identifiers
from registry.services.pages import Page, PageRequest, page_of, slice_of
from registry.services.subjects import of_devices, told
from registry.services.targets import candidates, get_unit
from registry.store import conflicts, devices, nodes, placements, search
from registry.store.conflicts import Conflict
from registry.store.database import Database, Snapshot, Transaction
from registry.store.devices import Device
from registry.store.identities import insert_ruling


def list_conflicts(db: Database, filters: Mapping[str, str], page: PageRequest) -> Page:
    """Return conflicts, open and resolved, by any of their fields; `device` takes our id, a serial or a UUID."""
    wanted = {name: value for name, value in filters.items() if name != "device"}
    with db.read() as snapshot:
        device = get_unit(snapshot, filters["device"]).id if "device" in filters else None
        rows = search.list_conflicts(snapshot, wanted, slice_of(page), device=device)
        return page_of(rows, page, lambda one: str(one.id), lambda one: shown(snapshot, one))


def show_conflict(db: Database, conflict_id: str) -> dict[str, Any]:
    """Return one conflict, open or resolved. Raises NotFound."""
    with db.read() as snapshot:
        return shown(snapshot, _get(snapshot, conflict_id))


def _get(snapshot: Snapshot, conflict_id: str) -> Conflict:
    conflict = conflicts.find_conflict(snapshot, conflict_id)
    if conflict is None:
        raise NotFound(f"There is no conflict {conflict_id}.")
    return conflict


def resolve_conflict(
    db: Database, conflict_id: str, *, reason: str, as_: str, actor: Actor, now: datetime
) -> dict[str, Any]:
    """Rule on a conflict: from now on an entry printed like this one is that recorded unit, or a unit of its own.

    Nothing is merged and no identifier changes hands. Raises NotFound, NotOpen, InvalidField.
    """
    if not reason.strip():
        errors = (FieldError("/reason", "Say why, for the next one who looks at this device."),)
        raise InvalidField("A ruling needs a reason.", errors=errors)
    with db.write(now) as tx:
        conflict = _get(tx, conflict_id)
        if conflict.state != "open":
            raise NotOpen(f"Conflict {conflict_id} is resolved already.")
        involved = conflicts.parties(tx, conflict_id, "device")
        units = list(devices.get_devices(tx, involved).values())
        unit = _same(conflict, units) if as_ == SAME else _different(tx, conflict, units, actor)
        is_in_place = conflict.rule in IN_PLACE
        insert_ruling(tx, _print(conflict, in_place=is_in_place), unit.id, conflict.id)
        for one in units:
            placements.settle_contested(tx, conflict.instance_id, [one.id])
        disputes.end(tx, conflict, by=actor, as_=as_, reason=reason.strip())
        return shown(tx, _get(tx, conflict_id))


def _print(conflict: Conflict, *, in_place: bool) -> Any:
    return conflict.fingerprint if in_place else conflict.fingerprint.anywhere


def _same(conflict: Conflict, units: list[Device]) -> Device:
    """The one recorded unit that the entry is ruled to be. Raises InvalidField where there is not exactly one."""
    if conflict.rule == ConflictRule.UUID_REPEATED:
        raise InvalidField(
            "One list shows this UUID in two slots, and one device cannot be in both: rule different_devices, or mend "
            "the list, and the conflict ends by itself.",
            errors=(FieldError("/as", "cannot be same_device here"),),
        )
    if len(units) == 1:
        return units[0]
    raise InvalidField(
        f"The conflict involves {len(units)} recorded devices, so which one it is cannot be told: rule "
        "different_devices, or quarantine and replace the part.",
        errors=(FieldError("/as", "same_device needs exactly one device involved"),),
        candidates=candidates(units),
    )


def _different(tx: Transaction, conflict: Conflict, units: list[Device], actor: Actor) -> Device:
    """The unit that the entry is by itself: the one that bears its UUID already, or a new one."""
    own = [one for one in units if conflict.fingerprint.uuid and one.uuid == conflict.fingerprint.uuid]
    if conflict.rule in {ConflictRule.SERIAL_ON_TWO_NODES, ConflictRule.TOO_MANY_UNITS} and own:
        return own[0]
    entry = _entry(conflict)
    is_on_board = conflict.rule == ConflictRule.BOARD_TAKEN and units
    board_id = units[0].board_id if is_on_board else devices.insert_boards(tx, [(entry.kind, entry.vendor)])[0]
    device = devices.insert_devices(tx, [(board_id, entry, usable_module_id(entry.module_id))])[0]
    devices.mark_detached(tx, device.id)  # until the next list places it
    known = devices.identifiers_known(tx, [device])[device.id]
    new: list[tuple[Identifier, Device]] = []
    taught: list[JSON] = []
    for found in identifiers_of(entry):
        is_taken = found.is_usable and bool(found.type.names) and devices.is_taken(tx, found)
        if is_taken or (found.type, found.value) in known or (conflict.rule in OWN_BOARD and found.type == "serial"):
            continue
        new.append((found, device))
        taught.append({"type": found.type, "value": found.value, "scope": found.scope, "usable": found.is_usable})
    devices.insert_identifiers(tx, new, source=str(actor))
    bind_identifiers(tx, new)
    device = devices.get_devices(tx, [device.id])[device.id]
    node = nodes.get_node_by_id(tx, conflict.node_id)
    name = node.name if node else None
    data = {
        **told(device, node=name, slot=entry.slot),
        "board": board_id,
        "identifiers": taught,
        "conflict": conflict.id,
    }
    tx.record(Draft(EventType.DEVICE_REGISTERED, actor, of_devices([device], nodes=[name]), data))
    return device


def _entry(conflict: Conflict) -> DeviceEntry:
    seen, entry = conflict.entry["as_seen"], conflict.entry
    return DeviceEntry(
        kind=entry["kind"],
        vendor=entry["vendor"],
        slot=entry["slot"],
        serial=seen["serial"],
        uuid=seen["uuid"],
        unique_id=seen["unique_id"],
        model=entry["model"],
        module_id=entry["module_id"],
    )


def shown(snapshot: Snapshot, conflict: Conflict) -> dict[str, Any]:
    """Give a conflict as the API answers it: what was printed, and the recorded units it contradicts."""
    node_ids = conflicts.parties(snapshot, conflict.id, "node")
    found = [one.name for node_id in node_ids if (one := nodes.get_node_by_id(snapshot, node_id))]
    units = devices.get_devices(snapshot, conflicts.parties(snapshot, conflict.id, "device"))
    own = nodes.get_node_by_id(snapshot, conflict.node_id)
    return {
        "id": conflict.id,
        "state": conflict.state,
        "rule": conflict.rule,
        "kind": conflict.kind,
        "node": own.name if own else None,
        "nodes": found,
        "reason": conflict.reason,
        "entry": conflict.entry,
        "devices": candidates(list(units.values())),
        "opened_at": rfc3339(conflict.opened_at),
        "resolved_at": rfc3339_or_none(conflict.resolved_at),
        "resolved_by": conflict.resolved_by,
        "resolved_as": conflict.resolved_as,
        "resolve_reason": conflict.resolve_reason,
    }
