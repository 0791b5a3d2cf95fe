# SPDX-License-Identifier: Apache-2.0
"""What does a person see of a device at one look: its state and why, its whole life, its faults, what can be done?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.domain.actors import SubjectKind
from registry.domain.device_words import HoldTold, PlaceTold, sentence_of
from registry.domain.policy import Policy
from registry.domain.quarantine import HoldState, is_in_force
from registry.domain.swaps import SwapTest
from registry.domain.timeline import BARS_MAX, MARKS_MAX, STAYS_MAX, TICKS_MAX, Bar, Life, Mark, Stay, Tick, Timeline
from registry.domain.timeline import make_timeline as draw
from registry.domain.times import rfc3339, rfc3339_or_none
from registry.services import notes
from registry.services.device_faults import compare_places, kinds_of
from registry.services.device_readings import readings_of
from registry.services.devices import NOTES_MAX, known_of, list_devices, summary
from registry.services.holding import shown
from registry.services.pages import Page, PageRequest
from registry.services.targets import get_unit
from registry.store import device_past, devices, history, holds, search, withheld
from registry.store.database import Database, Snapshot
from registry.store.device_past import Group, Place
from registry.store.devices import Device
from registry.store.holds import HoldRecord
from registry.store.search import Slice

EVENTS_SHOWN = 20
HOLDS_SHOWN = 25
"""How many of the newest a page shows; the timeline has more of them."""

MODELS_MAX = 200
"""Models that a list can be narrowed to by choosing one."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """All that a page shows of one device, as of one moment.

    `device` is the unit in one line with its identifiers, `siblings` the other units of its board. `holds` are open
    ones first, then the newest that ended; `places` the newest, of `places_in_all`.
    """

    device: dict[str, Any]
    sentence: str
    siblings: list[dict[str, Any]]
    timeline: Timeline
    swap_test: SwapTest
    places: list[dict[str, Any]]
    places_in_all: int
    failures: list[dict[str, Any]]
    readings: dict[str, Any] | None
    holds: list[dict[str, Any]]
    withheld: list[dict[str, Any]]
    notes: list[dict[str, Any]]
    events: list[dict[str, Any]]
    events_in_all: int


@dataclass(frozen=True, slots=True)
class _Past:
    """What was read of a device once and is shown in several ways."""

    places: list[Place]
    places_in_all: int
    groups: list[Group]
    holds: list[HoldRecord]

    @property
    def here(self) -> Place | None:
        """Where it is now."""
        return self.places[0] if self.places and self.places[0].until is None else None


def view_device(db: Database, ref: str, *, policy: Policy, now: datetime) -> DeviceView:
    """Return all that a page shows of a device. Raises NotFound, DeviceAmbiguous."""
    with db.read() as snapshot:
        return view_in(snapshot, get_unit(snapshot, ref), policy, now)


def view_in(snapshot: Snapshot, device: Device, policy: Policy, now: datetime) -> DeviceView:
    """Return the same inside a view that somebody else began."""
    past = _past(snapshot, device, now)
    state = search.states_of(snapshot, [device.id], now)[device.id]
    here = past.here
    mine = [*_summaries(snapshot, device, now)]
    events = history.page_events(
        snapshot, subjects=[(SubjectKind.DEVICE, device.id)], limit=EVENTS_SHOWN, newest_first=True
    )
    return DeviceView(
        device={
            **summary(device, state, here.node if here else None, here.slot if here else None),
            **known_of(snapshot, device),
        },
        sentence=_sentence(snapshot, device, state, past, now),
        siblings=mine,
        timeline=_timeline(snapshot, device, past, now),
        swap_test=compare_places(snapshot, device, past.groups, past.places, policy),
        places=[_place(one) for one in past.places],
        places_in_all=past.places_in_all,
        failures=kinds_of(past.groups, policy),
        readings=readings_of(snapshot, device.id, here.node_id, policy) if here else None,
        holds=[shown(snapshot, one, now) for one in past.holds[:HOLDS_SHOWN]],
        withheld=_withheld(snapshot, device),
        notes=[notes.shown(one) for one in device_past.list_notes(snapshot, device.id, NOTES_MAX)],
        events=[one.to_json() for one in events],
        events_in_all=device_past.count_events(snapshot, device.id),
    )


def list_view(db: Database, filters: Mapping[str, str], page: PageRequest, *, now: datetime) -> tuple[Page, list[str]]:
    """Return devices as a list of people has them, each with why it is held, and the models there are.

    The filters are those of `list_devices`, and `cause`: that of an open hold on the device.
    """
    found = list_devices(db, filters, page, now=now)
    with db.read() as snapshot:
        binds = [pair for one in found.items for pair in (("unit", one["id"]), ("board", one["board"]))]
        open_ = holds.open_on(snapshot, binds)
        records = holds.get_holds(snapshot, (one for group in open_.values() for one in group))
        models = device_past.models_named(snapshot, MODELS_MAX)
    items = []
    for one in found.items:
        ids = [*open_.get(("unit", one["id"]), ()), *open_.get(("board", one["board"]), ())]
        in_force = [records[id_] for id_ in ids if is_in_force(records[id_].hold, now)]
        items.append({**one, "holds": [{"owner": str(r.hold.owner), "reason": r.hold.reason} for r in in_force]})
    return Page(items, found.next), models


def _past(snapshot: Snapshot, device: Device, now: datetime) -> _Past:
    places, in_all = device_past.list_places(snapshot, device.id, STAYS_MAX)
    newest = Slice(BARS_MAX, None, newest_first=True)
    found = search.list_holds(snapshot, {}, newest, now, bound=device.binds)
    ordered = sorted(found, key=lambda one: not is_in_force(one.hold, now))  # each group stays newest first
    return _Past(places, in_all, device_past.list_groups(snapshot, device.id), ordered)


def _summaries(snapshot: Snapshot, device: Device, now: datetime) -> list[dict[str, Any]]:
    """The other units of the board, each with its state."""
    units = [one for one in devices.devices_of_boards(snapshot, [device.board_id]) if one.id != device.id]
    states = search.states_of(snapshot, [one.id for one in units], now)
    return [summary(one, states[one.id], None, None) for one in sorted(units, key=lambda one: one.id)]


def _sentence(snapshot: Snapshot, device: Device, state: str, past: _Past, now: datetime) -> str:
    newest = past.places[0] if past.places else None
    disputes = search.list_conflicts(snapshot, {"state": "open"}, Slice(1, None, newest_first=False), device=device.id)
    return sentence_of(
        state,
        holds=[
            HoldTold(
                str(one.hold.owner),
                one.hold.reason,
                one.hold.opened_at,
                one.hold.release_policy,
                one.hold.permanent,
                one.hold.expires_at,
            )
            for one in past.holds
            if is_in_force(one.hold, now)
        ],
        place=PlaceTold(newest.node, newest.slot, newest.since, newest.until, newest.missing_since) if newest else None,
        conflict=disputes[0].reason if disputes else None,
        failures=sum(one.counted for one in past.groups),
    )


def _timeline(snapshot: Snapshot, device: Device, past: _Past, now: datetime) -> Timeline:
    sights = device_past.list_sights(snapshot, device.id, MARKS_MAX)
    passes, are_all = device_past.list_passes(snapshot, device.id, TICKS_MAX)
    life = Life(
        stays=[Stay(one.node, one.slot, one.since, one.until, one.ended_by) for one in past.places],
        marks=[
            Mark(
                min(one.at, now),
                one.code,
                one.node,
                one.slot,
                one.severity,
                one.count,
                is_quiet=one.state != "active" or one.muted is not None,
            )
            for one in sights
        ],
        ticks=[Tick(at, node) for at, node in passes],
        bars=[_bar(one, now) for one in sorted(past.holds, key=lambda one: one.hold.opened_at, reverse=True)],
        stays_in_all=past.places_in_all,
        times_in_all=sum(one.times for one in past.groups),
        ticks_are_all=are_all,
        bars_are_all=len(past.holds) <= BARS_MAX,
    )
    return draw(life, registered_at=device.registered_at, now=now)


def _bar(record: HoldRecord, now: datetime) -> Bar:
    hold = record.hold
    is_over = hold.state is HoldState.OPEN and not is_in_force(hold, now)
    until = hold.expires_at if is_over else hold.released_at
    return Bar(hold.id, hold.opened_at, until, str(hold.owner), hold.reason)


def _place(one: Place) -> dict[str, Any]:
    return {
        "node": one.node,
        "slot": one.slot,
        "since": rfc3339(one.since),
        "until": rfc3339_or_none(one.until),
        "ended_by": one.ended_by,
        "missing_since": rfc3339_or_none(one.missing_since),
        "provider_id": one.provider_id,
        "chassis": one.chassis,
    }


def _withheld(snapshot: Snapshot, device: Device) -> list[dict[str, Any]]:
    """What rules would hold it for, and the breaker did not let them."""
    return [
        {"owner": str(one.owner), "reason": one.reason, "limited_by": one.limited_by, "since": rfc3339(one.opened_at)}
        for one in withheld.standing_on(snapshot, device.binds)
    ]
