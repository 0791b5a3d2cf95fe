# SPDX-License-Identifier: Apache-2.0
"""Does the page of a device tell its whole life, over every node, and why it is where it is?"""

from __future__ import annotations

import pytest

from registry.domain.errors import DeviceAmbiguous, InvalidField, NotFound
from registry.domain.swaps import SwapVerdict
from registry.services.conflicts import list_conflicts, resolve_conflict
from registry.services.device_view import DeviceView, view_device
from registry.services.devices import list_devices, show_device
from registry.services.failures import withdraw_failure
from registry.services.history import device_history
from registry.services.nodes import retire_node
from registry.services.notes import note_device
from tests.fleet import ALICE, EVERYTHING, Fleet, gpu, serial, uuid


def view(fleet: Fleet, ref: str = "") -> DeviceView:
    return view_device(fleet.db, ref or serial(0), policy=fleet.policy, now=fleet.clock.now)


def move(fleet: Fleet) -> None:
    """GPU 0 fails on node-a, and is found again in another slot of node-b, where it fails once more."""
    fleet.admit()
    fleet.clock.advance(3600)
    fleet.fail("xid_79", device=serial(0), node="node-a", slot="0000:10:00.0", occurred_at=fleet.clock.now)
    fleet.clock.advance(3600)
    fleet.report("node-b", [gpu(0, at=5), gpu(9)], instance="i-9", profile="g5.xlarge")
    fleet.clock.advance(3600)
    fleet.fail("xid_79", device=serial(0), node="node-b", slot="0000:15:00.0", occurred_at=fleet.clock.now)


def test_a_bad_cards_whole_life_is_one_look(fleet: Fleet) -> None:
    move(fleet)

    shown = view(fleet)

    assert shown.device["state"] == "quarantined"
    assert shown.sentence.startswith("Held by rule:xid_79 since ")
    assert [lane.name for lane in shown.timeline.lanes] == ["node-a", "node-b"]
    assert [dot.codes for lane in shown.timeline.lanes for dot in lane.dots] == [("xid_79",), ("xid_79",)]
    assert [len(lane.ticks) for lane in shown.timeline.lanes] == [2, 0]
    assert [bar.until for row in shown.timeline.bars for bar in row] == [None]
    assert [(one["node"], one["slot"]) for one in shown.places] == [
        ("node-b", "0000:15:00.0"),
        ("node-a", "0000:10:00.0"),
    ]
    (failure,) = shown.failures
    assert (failure["failures"], failure["times"], failure["nodes"]) == (2, 2, ["node-a", "node-b"])
    assert shown.swap_test.verdict is SwapVerdict.FOLLOWED_CARD
    assert shown.events[0]["type"] == "failure.recorded"
    assert shown.events_in_all == len(device_history(fleet.db, serial(0), {}, EVERYTHING).items)


@pytest.mark.parametrize("ref", [serial(0), uuid(0), uuid(0).removeprefix("GPU-").upper(), "id"])
def test_every_name_of_a_device_leads_to_it(fleet: Fleet, ref: str) -> None:
    fleet.admit()
    known = show_device(fleet.db, serial(0), now=fleet.clock.now)

    assert view(fleet, known["id"] if ref == "id" else ref).device["id"] == known["id"]


def test_what_nobody_knows_and_what_fits_two_is_said(fleet: Fleet) -> None:
    fleet.admit(devices=[gpu(0), gpu(1, serial=serial(0)), gpu(2), gpu(3)])

    with pytest.raises(NotFound):
        view(fleet, "1999")
    with pytest.raises(DeviceAmbiguous) as refused:
        view(fleet)
    assert {one["uuid"] for one in refused.value.extra["candidates"]} == {uuid(0), uuid(1)}
    assert [one["uuid"] for one in view(fleet, uuid(0)).siblings] == [uuid(1)]


def test_a_fault_that_stays_behind_is_the_slots(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail("xid_79", device=serial(0), node="node-a", slot="0000:10:00.0", occurred_at=fleet.clock.now)
    fleet.clock.advance(60)
    fleet.report("node-b", [gpu(0, at=5)], instance="i-9", profile="g5.xlarge")
    fleet.report(devices=[gpu(8, at=0), gpu(1), gpu(2), gpu(3)], boot="boot-2")
    fleet.clock.advance(60)
    fleet.fail("xid_79", device=serial(8), node="node-a", slot="0000:10:00.0", occurred_at=fleet.clock.now)

    judged = view(fleet).swap_test

    assert judged.verdict is SwapVerdict.STAYED_WITH_SLOT
    assert serial(8) in judged.sentence


def test_what_was_withdrawn_says_nothing_of_the_card_and_is_drawn_as_such(fleet: Fleet) -> None:
    fleet.admit()
    item = fleet.fail("xid_48", device=serial(0), node="node-a", occurred_at=fleet.clock.now)
    withdraw_failure(fleet.db, item["failure"]["id"], reason="a test", actor=ALICE, now=fleet.clock.now)

    shown = view(fleet)

    assert shown.swap_test.verdict is SwapVerdict.NO_FAULT
    assert [dot.is_quiet for lane in shown.timeline.lanes for dot in lane.dots] == [True]
    assert shown.failures[0]["counted"] == 0


def test_the_hot_one_among_its_neighbours_stands_out(fleet: Fleet) -> None:
    cards = [gpu(at, readings={"temperature_celsius": 84 if at == 0 else 60, "power_watts": 300}) for at in range(4)]
    fleet.report(devices=cards)

    hot, cool = view(fleet).readings, view(fleet, serial(1)).readings

    assert hot is not None
    assert cool is not None
    assert (hot["is_outlier"], cool["is_outlier"]) == (True, False)
    (own,) = [row for row in hot["rows"] if row["is_own"]]
    assert (own["above_celsius"], own["neighbours"], hot["own"]["temperature_celsius"]) == (24, 3, 84)


def test_a_device_that_is_nowhere_has_no_readings_and_says_where_it_was(fleet: Fleet) -> None:
    fleet.admit()
    fleet.report(devices=[gpu(8, at=0), gpu(1), gpu(2), gpu(3)])

    shown = view(fleet)

    assert shown.device["state"] == "detached"
    assert shown.sentence.startswith("In no node now: last in slot 0000:10:00.0 of node-a until ")
    assert shown.readings is None


def test_holds_that_ended_come_after_those_that_stand(fleet: Fleet) -> None:
    fleet.admit()
    first = fleet.hold({"device": serial(0)}, reason="old")[0]["quarantine"]["id"]
    fleet.clock.advance(60)
    fleet.release(first)
    fleet.hold({"device": serial(0)}, reason="second")

    shown = view(fleet)

    assert [(one["state"], one["reason"]) for one in shown.holds] == [("open", "second"), ("released", "old")]
    assert [[bar.until is None for bar in row] for row in shown.timeline.bars] == [[False, True]]


def test_a_note_is_an_event_and_stands_with_the_device(fleet: Fleet) -> None:
    fleet.admit()

    noted = note_device(fleet.db, serial(0), text=" reseated \n twice ", actor=ALICE, now=fleet.clock.now)

    assert noted["text"] == "reseated \n twice"
    assert view(fleet).notes == [noted]
    assert show_device(fleet.db, serial(0), now=fleet.clock.now)["notes"] == [noted]
    (event,) = device_history(fleet.db, serial(0), {"type": "device.noted"}, EVERYTHING).items
    assert event["actor"] == {"kind": "operator", "name": "alice"}
    assert (event["data"]["text"], event["data"]["node"], event["data"]["serial"]) == (
        noted["text"],
        "node-a",
        serial(0),
    )
    with pytest.raises(InvalidField):
        note_device(fleet.db, serial(0), text=" ", actor=ALICE, now=fleet.clock.now)


def listed(fleet: Fleet, **filters: str) -> list[str]:
    return sorted(one["serial"] for one in list_devices(fleet.db, filters, EVERYTHING, now=fleet.clock.now).items)


def test_what_is_in_no_node_is_listed_until_it_is_in_one_again(fleet: Fleet) -> None:
    fleet.admit()
    assert listed(fleet, state="detached") == []

    fleet.report(devices=[gpu(8, at=0), gpu(1), gpu(2), gpu(3)])
    assert listed(fleet, state="detached") == [serial(0)]

    fleet.report("node-b", [gpu(0, at=5)], instance="i-9", profile="g5.xlarge")
    assert listed(fleet, state="detached") == []
    assert listed(fleet, node="node-b") == [serial(0)]
    assert listed(fleet, node="node-a", state="in_service") == [serial(number) for number in (1, 2, 3, 8)]


def test_what_a_node_took_along_when_it_was_retired_is_in_no_node(fleet: Fleet) -> None:
    fleet.admit()

    retire_node(fleet.db, "node-a", reason="x", actor=ALICE, policy=fleet.policy, now=fleet.clock.now)

    assert listed(fleet, state="detached") == [serial(number) for number in range(4)]
    assert listed(fleet, node="node-a") == []


def test_a_unit_that_a_person_told_apart_is_in_no_node_until_it_is_listed(fleet: Fleet) -> None:
    fleet.admit()
    taken = [gpu(0), gpu(1), gpu(2), gpu(3, serial=serial(77))]
    fleet.report(devices=taken)
    (conflict,) = list_conflicts(fleet.db, {"state": "open"}, EVERYTHING).items

    resolve_conflict(fleet.db, conflict["id"], as_="different_devices", reason="x", actor=ALICE, now=fleet.clock.now)
    assert serial(77) in listed(fleet, state="detached")

    fleet.report(devices=taken)
    assert serial(77) not in listed(fleet, state="detached")
