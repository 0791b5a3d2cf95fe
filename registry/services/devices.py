# SPDX-License-Identifier: Apache-2.0
"""Which device is this, where has it been, and what is it held for?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from registry.domain.errors import NotFound
from registry.domain.identifiers import normalise_slot
from registry.domain.times import rfc3339, rfc3339_or_none
from registry.services import notes
from registry.services.holding import PLACE_WARNING, shown
from registry.services.pages import Page, PageRequest, page_of, slice_of
from registry.services.targets import find_units, forms_of, get_unit, of_unit
from registry.store import device_past, devices, holds, placements, search
from registry.store.database import Database, Snapshot
from registry.store.devices import Device

NOTES_MAX = 50
"""How many notes are shown with a device, the newest ones; the history has them all."""


def list_devices(db: Database, filters: Mapping[str, str], page: PageRequest, *, now: datetime) -> Page:
    """Return units by any of their fields, `state` and `node` too. Serials and UUIDs are found in any usual form."""
    wanted = {**filters}
    for name in ("serial", "uuid"):
        if name in wanted:
            wanted[name] = _form(wanted[name], name)
    if "slot" in wanted:
        wanted["slot"] = normalise_slot(wanted["slot"]) or wanted["slot"]
    with db.read() as snapshot:
        rows = search.list_devices(snapshot, wanted, slice_of(page), now)
    return page_of(rows, page, lambda row: str(row[0].id), lambda row: summary(*row))


def _form(text: str, name: str) -> str:
    """A UUID in its one form; a serial as it stands."""
    forms = sorted(forms_of(text))
    return next((form for form in forms if name == "uuid" and form.startswith("GPU-")), text.strip())


def summary(device: Device, state: str, node: str | None, slot: str | None) -> dict[str, Any]:
    """Give a unit in one line."""
    return {
        "id": device.id,
        "kind": device.kind,
        "vendor": device.vendor,
        "serial": device.serial,
        "uuid": device.uuid,
        "board": device.board_id,
        "state": state,
        "node": node,
        "slot": slot,
        "model": device.model,
        "part_number": device.part_number,
        "module_id": device.module_id,
        "name": device.name,
        "asset_tag": device.asset_tag,
        "firmware": dict(device.firmware),
        "registered_at": rfc3339(device.registered_at),
    }


def show_device(db: Database, ref: str, *, now: datetime) -> dict[str, Any]:
    """Return one unit with its identifiers, its places, its holds. Raises NotFound, DeviceAmbiguous."""
    with db.read() as snapshot:
        device = get_unit(snapshot, ref)
        return _page(snapshot, device, now)


def _page(snapshot: Snapshot, device: Device, now: datetime) -> dict[str, Any]:
    history = placements.of_device(snapshot, device.id)
    here = next((one for one in history if one.until_at is None), None)
    state = search.states_of(snapshot, [device.id], now)[device.id]
    ids = [one for group in holds.open_on(snapshot, device.binds).values() for one in group]
    return {
        **summary(device, state, here.node if here else None, here.slot if here else None),
        **known_of(snapshot, device),
        "placements": [
            {
                "node": one.node,
                "slot": one.slot,
                "since": rfc3339(one.since_at),
                "until": rfc3339_or_none(one.until_at),
                "ended_by": one.ended_by,
                "missing_since": rfc3339_or_none(one.missing_since),
            }
            for one in history
        ],
        "quarantines": [shown(snapshot, one, now) for one in holds.get_holds(snapshot, ids).values()],
        "notes": [notes.shown(one) for one in device_past.list_notes(snapshot, device.id, NOTES_MAX)],
    }


def known_of(snapshot: Snapshot, device: Device) -> dict[str, Any]:
    """Tell by what a unit is known: its identifiers, the units of its board, and whether it is known by place alone."""
    siblings = [one.id for one in devices.devices_of_boards(snapshot, [device.board_id]) if one.id != device.id]
    is_placed_only = of_unit(snapshot, device, None).match == "place"
    return {
        "match": "place" if is_placed_only else "hardware",
        "warnings": [{"code": "place_only", "message": PLACE_WARNING}] if is_placed_only else [],
        "siblings": siblings,
        "identifiers": [
            {**one, "first_seen_at": rfc3339(one["first_seen_at"])}
            for one in devices.list_identifiers(snapshot, device)
        ],
    }


def get_all(snapshot: Snapshot, ref: str) -> list[Device]:
    """Return every unit that a reference fits. Raises NotFound."""
    found = find_units(snapshot, ref)
    if not found:
        raise NotFound(f"No device is known by {ref!r}: give our id, a serial or a UUID as it is on record.")
    return found
