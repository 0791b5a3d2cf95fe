# SPDX-License-Identifier: Apache-2.0
"""What does a person mean by a reference: which unit, board, machine, or something never seen?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from registry.domain.errors import DeviceAmbiguous, InvalidField, NotFound, PratiqueError, StoreUnavailable
from registry.domain.identifiers import (
    IdentifierType,
    is_mig_name,
    parse_slice,
    usable_serial,
    usable_unique_id,
    usable_uuid,
    why_unusable,
)
from registry.domain.quarantine import HoldMatch, Scope, TargetKind
from registry.domain.reports import Kind
from registry.store import devices, nodes
from registry.store.database import Snapshot
from registry.store.devices import Device

NAMING = tuple(one for one in IdentifierType if one.names)
"""The identifier types that point at hardware by themselves."""

VENDORS = ((Kind.GPU, "nvidia"), (Kind.GPU, "amd"), (Kind.EFA, "amazon"))
"""Whose hardware an unseen serial may be of; a hold that names no vendor is met by each."""

DASHES = 4
"""In a UUID without its prefix: https://www.rfc-editor.org/rfc/rfc9562#section-4"""


@dataclass(frozen=True, slots=True)
class Target:
    """What a hold is laid on. `binds` are the (kind, ref) pairs it meets; `key` is the same for the same target."""

    kind: TargetKind
    key: str
    match: HoldMatch
    binds: tuple[tuple[str, str], ...]
    units: tuple[Device, ...] = ()
    node: str | None = None
    scope: Scope | None = None


def forms_of(ref: str) -> set[str]:
    """Give every usable form in which a reference may be on record: our id, a serial, a UUID, a unique id."""
    forms = {ref.strip(), usable_serial(ref), usable_uuid(ref), usable_unique_id(ref)}
    return {form for form in forms if form}


def find_units(snapshot: Snapshot, ref: str) -> list[Device]:
    """Return all units that a reference fits; a MIG name means the GPU that it is a slice of."""
    part = parse_slice(ref)
    if part is None:
        return devices.find_devices(snapshot, forms_of(ref))
    if part.parent_uuid is not None:
        return devices.find_devices(snapshot, [part.parent_uuid], type_=IdentifierType.UUID)
    return devices.find_devices_by_slice(snapshot, part.slice)


def candidates(units: list[Device]) -> list[dict[str, Any]]:
    """Tell several units apart for a person who has to choose."""
    return [
        {
            "id": one.id,
            "kind": one.kind,
            "vendor": one.vendor,
            "serial": one.serial,
            "uuid": one.uuid,
            "model": one.model,
        }
        for one in units
    ]


def get_unit(snapshot: Snapshot, ref: str) -> Device:
    """Return the one unit that a reference means. Raises NotFound, DeviceAmbiguous."""
    return _only(find_units(snapshot, ref), ref)


def _only(found: list[Device], ref: str) -> Device:
    if not found:
        raise NotFound(f"No device is known by {ref!r}: give our id, a serial or a UUID as it is on record.")
    if len(found) > 1:
        raise DeviceAmbiguous(
            f"{ref!r} fits {len(found)} devices: name one by its id or UUID.", candidates=candidates(found)
        )
    return found[0]


def resolve(snapshot: Snapshot, asked: Mapping[str, Any], *, scope: str | None, match: str | None) -> Target:
    """Return what a target means. Raises InvalidField, NotFound, DeviceAmbiguous."""
    # A message may write what it does not name as null.
    if asked.get("device") is not None:
        return _device(snapshot, asked["device"], scope)
    if "identifier" in asked:
        return _identifier(snapshot, asked["identifier"], scope)
    return _node(snapshot, asked["node"], match)


def _device(snapshot: Snapshot, ref: str, scope: str | None) -> Target:
    if is_mig_name(ref):
        raise InvalidField(f"{ref} is a MIG slice, not a device: name the GPU that it is a part of.")
    found = find_units(snapshot, ref)
    if len(found) > 1 and scope != Scope.UNIT and len({one.board_id for one in found}) == 1:
        return of_unit(snapshot, found[0], Scope.BOARD)
    return of_unit(snapshot, _only(found, ref), scope)


def of_unit(snapshot: Snapshot, device: Device, scope: str | None) -> Target:
    """Give the target for a unit: its board by default for a GPU, so that all that shares the board is held."""
    reach = Scope(scope) if scope else Scope.BOARD if device.kind == Kind.GPU else Scope.UNIT
    units = devices.devices_of_boards(snapshot, [device.board_id]) if reach is Scope.BOARD else [device]
    match = (
        HoldMatch.HARDWARE if any(one.serial or one.uuid or _names(snapshot, one) for one in units) else HoldMatch.PLACE
    )
    ref = device.board_id if reach is Scope.BOARD else device.id
    kind = TargetKind.BOARD if reach is Scope.BOARD else TargetKind.UNIT
    return Target(kind, f"{kind}:{ref}", match, ((kind, ref),), tuple(units), scope=reach)


def _names(snapshot: Snapshot, device: Device) -> bool:
    """Has the unit anything of hardware scope that points at it? An EFA mostly has not."""
    return any(one["usable"] and one["type"] in NAMING for one in devices.list_identifiers(snapshot, device))


def identifier_ref(kind: str, type_: str, value: str, vendor: str | None) -> str:
    """Write an identifier as what a hold waits for; without vendor it means any."""
    return "|".join((kind, vendor or "*", type_, value))


def awaited_refs(type_: str, value: str) -> Iterator[str]:
    """By which an open hold may wait for hardware that nobody has shown, whoever made it."""
    for kind, vendor in VENDORS:
        for maker in (vendor, None):
            yield identifier_ref(kind, type_, value, maker)


def type_of(word: str) -> IdentifierType:
    """What an unseen word is: a UUID by the look of it, else a serial."""
    is_uuid = word.upper().startswith(("GPU-", "MIG-")) or word.count("-") == DASHES
    return IdentifierType.UUID if is_uuid else IdentifierType.SERIAL


def _identifier(snapshot: Snapshot, asked: Mapping[str, Any], scope: str | None) -> Target:
    kind, type_, vendor = asked["kind"], asked["type"], asked.get("vendor")
    value = usable_value(type_, asked["value"])
    found = [
        one
        for one in devices.find_devices(snapshot, [value], type_=type_)
        if one.kind == kind and vendor in (None, one.vendor)
    ]
    boards = {one.board_id for one in found}
    if len(boards) == 1 and (len(found) == 1 or scope != Scope.UNIT):
        return of_unit(snapshot, found[0], Scope.BOARD if len(found) > 1 else scope)
    if len(boards) == 1:
        raise DeviceAmbiguous(f"{value} fits {len(found)} units of one board.", candidates=candidates(found))
    ref = identifier_ref(kind, type_, value, vendor)
    binds = (("identifier", ref), *(("board", board) for board in sorted(boards)))
    units = tuple(devices.devices_of_boards(snapshot, boards))
    reach = Scope(scope) if scope else Scope.BOARD if kind == Kind.GPU else Scope.UNIT
    return Target(TargetKind.IDENTIFIER, f"identifier:{ref}", HoldMatch.HARDWARE, binds, units, scope=reach)


def usable_value(type_: str, text: str) -> str:
    """Return an identifier in its one form. Raises InvalidField when it points at nothing."""
    if type_ not in NAMING:
        known = ", ".join(NAMING)
        raise InvalidField(f"An identifier of type {type_} points at no hardware by itself: use one of {known}.")
    reason = why_unusable(type_, text)
    if reason is not None:
        raise InvalidField(f"The {type_} {text!r} identifies nothing: it {reason}.")
    by_type = {IdentifierType.UUID: usable_uuid, IdentifierType.UNIQUE_ID: usable_unique_id}
    value = by_type.get(IdentifierType(type_), usable_serial)(text)
    if value is None:
        raise InvalidField(f"The {type_} {text!r} identifies nothing.")
    return value


def _node(snapshot: Snapshot, name: str, match: str | None) -> Target:
    node = nodes.find_node(snapshot, name)
    state = nodes.find_state(snapshot, node.id) if node else None
    if state is None or match == HoldMatch.NAME:
        return Target(TargetKind.NODE, f"node:name:{name}", HoldMatch.NAME, (("name", name),), node=name)
    instance = nodes.get_instance(snapshot, state.instance_id)
    binds = [("instance", instance.provider_id), *([("chassis", instance.chassis)] if instance.chassis else [])]
    how = HoldMatch.CHASSIS if instance.chassis else HoldMatch.INSTANCE
    return Target(TargetKind.NODE, f"node:instance:{instance.provider_id}", how, tuple(binds), node=name)


def refusal(asked: Mapping[str, Any], error: PratiqueError) -> dict[str, Any]:
    """Tell why nothing was done about one target of several. Raises StoreUnavailable again: that is no answer to it."""
    if isinstance(error, StoreUnavailable):
        raise error
    return {"target": dict(asked), "outcome": "refused", "code": error.code, "message": error.detail, **error.extra}
