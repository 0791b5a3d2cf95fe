# SPDX-License-Identifier: Apache-2.0
"""Where does a reported fault belong: which unit, which node, which boot?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from registry.domain.actors import SYSTEM, Subject, SubjectKind
from registry.domain.errors import (
    DeviceAmbiguous,
    FieldError,
    Forbidden,
    InvalidField,
    NotFound,
)
from registry.domain.events import Draft, EventType
from registry.domain.identifiers import normalise_slot, parse_slice
from registry.domain.naming import names_another
from registry.domain.reports import ReportedFailure
from registry.services.targets import candidates, find_units, get_unit
from registry.store import devices, nodes, placements
from registry.store.database import Snapshot, Transaction, from_micros
from registry.store.devices import Device
from registry.store.placements import Placement


@dataclass(frozen=True, slots=True)
class Located:
    """Where a fault belongs. `boot` is None when the node has none; `is_past`: it is of an earlier life or boot.

    `is_of_boot` is False when `boot` is merely the current one and the fault is older: which boot it was of is unknown.
    """

    device: Device | None
    node: nodes.Node | None
    boot: nodes.Boot | None
    slot: str | None
    is_past: bool = False
    is_of_boot: bool = True
    is_of_device: bool = True
    """False when it was reported of the node as a whole."""

    @property
    def is_unattached(self) -> bool:
        """True when it names a place, or a slice, of which no device is known."""
        return self.device is None and self.is_of_device


def locate(
    tx: Transaction, reported: ReportedFailure, node_scope: str | None, boot: nodes.Boot | None, *, is_past: bool
) -> Located:
    """Say which unit, node, boot and slot a fault is about. `boot` is that of the report which carried it, if one did.

    Raises Forbidden for what is not the node's own, NotFound, DeviceAmbiguous, InvalidField.
    """
    _check_scope(reported, node_scope)
    slot = _slot(reported.slot)
    if reported.device is not None:
        device = _device(tx, reported, slot, is_of_report=boot is not None)
        located = _with_device(tx, reported, device, node_scope, slot)
    else:
        located = _in_place(tx, reported, reported.node or node_scope, slot, boot, is_past=is_past)
    is_of_device = reported.device is not None or slot is not None
    if boot is not None:
        return replace(located, boot=boot, is_past=is_past, is_of_device=is_of_device)
    is_past = is_past or _is_past(tx, located.node, located.boot, reported.occurred_at)
    return replace(located, is_past=is_past, is_of_boot=not is_past, is_of_device=is_of_device)


def _check_scope(reported: ReportedFailure, node_scope: str | None) -> None:
    if node_scope is not None and reported.node not in (None, node_scope):
        raise Forbidden(f"This token is for node {node_scope} and may not report about {reported.node}.")
    if reported.device is None and reported.node is None and node_scope is None:
        errors = (FieldError("/device", "Name the device, or the node (with the slot)."),)
        raise InvalidField("A failure needs a device, or a node with or without a slot.", errors=errors)


def _slot(text: str | None) -> str | None:
    slot = normalise_slot(text)
    if text is not None and slot is None:
        raise InvalidField(
            f"{text!r} is not a PCI address: write it as 0000:3b:00.0.", errors=(FieldError("/slot", text),)
        )
    return slot


def _device(tx: Transaction, reported: ReportedFailure, slot: str | None, *, is_of_report: bool) -> Device | None:
    """The unit that a reference means. Of several on one board the one in the slot; an unknown slice is nobody's."""
    ref = reported.device or ""
    found = find_units(tx, ref)
    if len(found) == 1:
        return found[0]
    if not found and (parse_slice(ref) is not None or slot is not None):
        return None
    if len({one.board_id for one in found}) == 1 and (slot is not None or is_of_report):
        at = placements.open_of(tx, [one.id for one in found])
        here = [one for one in found if one.id in at and at[one.id].slot == slot]
        on_node = [one for one in found if one.id in at and at[one.id].node == reported.node]
        if len(here) == 1:
            return here[0]
        if is_of_report and on_node:  # what the code does is done to their board
            return on_node[0]
    if len(found) > 1:
        raise DeviceAmbiguous(
            f"{ref!r} fits {len(found)} devices: add the slot, or use a UUID.", candidates=candidates(found)
        )
    return get_unit(tx, ref)


def _with_device(
    tx: Transaction, reported: ReportedFailure, device: Device | None, node_scope: str | None, slot: str | None
) -> Located:
    if device is None:
        if (reported.node or node_scope) is None:
            return Located(None, None, None, None)
        there = _in_place(tx, reported, reported.node or node_scope, slot, None, is_past=False)
        return there if there.device is None or may_be(reported.device, there.device) else replace(there, device=None)
    wanted = reported.node or node_scope
    mine = [one for one in placements.of_device(tx, device.id) if wanted in (None, one.node)]
    at = reported.occurred_at or tx.now
    then = [one for one in mine if one.since_at <= at and (one.until_at is None or one.until_at > at)]
    if node_scope is not None and not then and all(one.until_at is not None for one in mine):
        raise Forbidden(f"The device {reported.device} is not on node {node_scope} and was not at that time.")
    then = then or mine[-1:]
    name = then[0].node if then else wanted
    node = nodes.find_node(tx, name) if name else None
    if node is None and wanted is not None:
        raise NotFound(f"No node named {wanted} has reported.")
    boot = _current_boot(tx, node)
    return Located(device, node, boot, then[0].slot if then else slot)


def may_be(ref: str | None, device: Device) -> bool:
    """Tell whether the unit in a slot may be the one that a fault names. A card that was named is not another one."""
    return not names_another(ref, serial=device.serial, uuid=device.uuid)


def _in_place(
    tx: Transaction,
    reported: ReportedFailure,
    name: str | None,
    slot: str | None,
    boot: nodes.Boot | None,
    *,
    is_past: bool,
) -> Located:
    """The unit that was in the slot at the time; before the first list of the current boot, the one that list shows."""
    assert name is not None  # noqa: S101 - checked before
    node = nodes.find_node(tx, name) or _register(tx, name)
    current = boot or _current_boot(tx, node)
    if slot is None:
        return Located(None, node, current, None)
    at = min(reported.occurred_at or tx.now, tx.now)
    is_past = is_past or (boot is None and _is_past(tx, node, current, reported.occurred_at))
    then = placements.in_slot_at(tx, node.id, slot, at) if is_past else _in_slot_since_listed(tx, node, slot, at)
    device = devices.get_devices(tx, [then[0].device_id])[then[0].device_id] if then else None
    return Located(device, node, current, slot)


def _in_slot_since_listed(snapshot: Snapshot, node: nodes.Node, slot: str, at: datetime) -> list[Placement]:
    """What was in a slot at a time of the current boot, or before: what was there before its first list may be gone.

    Each kind has its own first list, for GPUs and EFAs may come in separate reports. What no list has shown yet is not
    here: the fault waits for it.
    """
    state = nodes.find_state(snapshot, node.id)
    if state is None or node.retired_at is not None:
        return placements.in_slot_at(snapshot, node.id, slot, at)
    found: list[Placement] = []
    for kind, listed in state.listed.items():
        then = placements.in_slot_at(snapshot, node.id, slot, max(at, from_micros(listed["first"])))
        found += [one for one in then if one.kind == kind]
    return found


def _register(tx: Transaction, name: str) -> nodes.Node:
    """A fault can be the first word of a node: keep it, and the node with it."""
    node = nodes.insert_node(tx, name)
    tx.record(Draft(EventType.NODE_REGISTERED, SYSTEM, (Subject(SubjectKind.NODE, name),), {"node": name}))
    return node


def _current_boot(snapshot: Snapshot, node: nodes.Node | None) -> nodes.Boot | None:
    state = nodes.find_state(snapshot, node.id) if node else None
    return nodes.get_boot(snapshot, state.boot_id) if state else None


def _is_past(
    snapshot: Snapshot, node: nodes.Node | None, boot: nodes.Boot | None, occurred_at: datetime | None
) -> bool:
    """Tell whether a fault is of an earlier boot: it came before the current one was seen, and there was another."""
    if occurred_at is None or boot is None or node is None or occurred_at >= boot.started_at:
        return False
    return nodes.had_earlier_boot(snapshot, node.id, boot)
