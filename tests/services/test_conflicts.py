# SPDX-License-Identifier: Apache-2.0
"""When lists contradict the records or one another, who is kept out, whose holds apply, and how does it end?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from registry.domain.errors import InvalidField, NotFound, NotOpen
from registry.services.conflicts import resolve_conflict
from registry.services.devices import list_devices, show_device
from registry.services.history import list_events
from tests.fleet import ALICE, EVERYTHING, Fleet, gpu, serial, uuid
from tests.services.disputes import a, b, conflicts, contest, is_disputed, rule

AMD = {"vendor": "amd", "serial": None}


def devices(fleet: Fleet) -> int:
    return len(list_devices(fleet.db, {}, EVERYTHING, now=fleet.clock.now).items)


# --- what contradicts what: each makes a conflict on node-a that involves GPU 1 ---------------------------------------


def repeated(fleet: Fleet) -> None:
    a(fleet, gpu(1), gpu(2))
    a(fleet, gpu(1), gpu(1, at=2))


def other_serial(fleet: Fleet) -> None:
    a(fleet, gpu(1), gpu(2))
    a(fleet, gpu(1, serial=serial(9)), gpu(2))


def taken_board(fleet: Fleet) -> None:
    a(fleet, gpu(1), gpu(2))
    a(fleet, gpu(9, at=1, serial=serial(1)), gpu(2))


def two_ids(fleet: Fleet) -> None:
    a(fleet, gpu(1, **AMD, unique_id="0x67c6000000000001"), gpu(2, **AMD, unique_id="0x67c6000000000002"))
    a(fleet, gpu(1, **AMD, unique_id="0x67c6000000000002"), gpu(2, at=2, vendor="amd"))


def crowd(fleet: Fleet) -> None:
    a(fleet, gpu(1))
    a(fleet, gpu(1), *(gpu(n, serial=serial(1)) for n in range(2, 10)))


def shared_serial(fleet: Fleet) -> None:
    b(fleet, gpu(1))
    a(fleet, gpu(9, at=1, serial=serial(1)))


RULES: dict[str, Callable[[Fleet], None]] = {
    "uuid_repeated": repeated,
    "serial_differs": other_serial,
    "board_taken": taken_board,
    "ids_disagree": two_ids,
    "too_many_units": crowd,
    "serial_on_two_nodes": shared_serial,
    "two_nodes": contest,
}


@pytest.mark.parametrize("name", RULES)
def test_each_contradiction_opens_a_conflict_that_keeps_its_node_out(fleet: Fleet, name: str) -> None:
    RULES[name](fleet)
    opened = conflicts(fleet, state="open")
    assert {one["rule"] for one in opened} == {name}
    assert is_disputed(fleet)
    assert show_device(fleet.db, uuid(1), now=fleet.clock.now)["state"] == "conflict"
    told = list_events(fleet.db, {"type": "conflict.opened"}, EVERYTHING).items
    assert {one["data"]["conflict"] for one in told} == {one["id"] for one in opened}


@pytest.mark.parametrize("name", RULES)
def test_the_same_contradiction_again_opens_nothing_more(fleet: Fleet, name: str) -> None:
    RULES[name](fleet)
    before = fleet.decide().sequence
    last = {
        "uuid_repeated": lambda: a(fleet, gpu(1), gpu(1, at=2)),
        "serial_differs": lambda: a(fleet, gpu(1, serial=serial(9)), gpu(2)),
        "board_taken": lambda: a(fleet, gpu(9, at=1, serial=serial(1)), gpu(2)),
        "ids_disagree": lambda: a(fleet, gpu(1, **AMD, unique_id="0x67c6000000000002"), gpu(2, at=2, vendor="amd")),
        "too_many_units": lambda: a(fleet, gpu(1), *(gpu(n, serial=serial(1)) for n in range(2, 10))),
        "serial_on_two_nodes": lambda: a(fleet, gpu(9, at=1, serial=serial(1))),
        "two_nodes": lambda: b(fleet, gpu(1)),
    }[name]
    fleet.clock.advance(30)
    last()
    assert fleet.decide().sequence == before


@pytest.mark.parametrize("name", RULES)
def test_the_holds_of_every_record_involved_apply(fleet: Fleet, name: str) -> None:
    fleet.hold({"identifier": {"kind": "gpu", "type": "uuid", "value": uuid(1)}})
    RULES[name](fleet)
    assert "device_quarantined" in fleet.codes()
    assert is_disputed(fleet)


@pytest.mark.parametrize("name", [one for one in RULES if one not in {"two_nodes", "serial_on_two_nodes"}])
def test_a_conflict_made_by_one_list_ends_when_a_covering_list_no_longer_shows_it(fleet: Fleet, name: str) -> None:
    RULES[name](fleet)
    fleet.report(entries=None)
    fleet.report(devices=[], covers=frozenset({"efa"}))
    assert is_disputed(fleet)
    a(fleet, gpu(20), gpu(21))
    assert not is_disputed(fleet)
    assert conflicts(fleet, state="open") == []
    told = list_events(fleet.db, {"type": "conflict.resolved"}, EVERYTHING).items
    assert {one["actor"]["kind"] for one in told} == {"system"}


def test_a_conflict_ends_with_the_instance_that_made_it(fleet: Fleet) -> None:
    other_serial(fleet)
    fleet.report(instance="i-2", boot="boot-2", devices=[gpu(30)])
    assert conflicts(fleet, state="open") == []


# --- rulings ---------------------------------------------------------------------------------------------------------


def test_ruled_the_same_the_entry_is_the_unit_from_then_on(fleet: Fleet) -> None:
    other_serial(fleet)
    count = devices(fleet)
    assert rule(fleet, "same_device")["resolved_as"] == "same_device"
    fleet.hold({"device": uuid(1)})
    a(fleet, gpu(1, serial=serial(9)), gpu(2))
    assert not is_disputed(fleet)
    assert "device_quarantined" in fleet.codes()
    assert devices(fleet) == count
    assert show_device(fleet.db, uuid(1), now=fleet.clock.now)["serial"] == serial(1)


def test_ruled_different_the_entry_is_a_unit_of_its_own(fleet: Fleet) -> None:
    taken_board(fleet)
    count = devices(fleet)
    rule(fleet, "different_devices")
    a(fleet, gpu(9, at=1, serial=serial(1)), gpu(2))
    assert not is_disputed(fleet)
    assert devices(fleet) == count + 1
    assert show_device(fleet.db, uuid(9), now=fleet.clock.now)["slot"] == gpu(1).slot


def test_ruled_different_on_one_board_the_boards_hold_meets_both(fleet: Fleet) -> None:
    taken_board(fleet)
    fleet.hold({"device": uuid(1)})
    rule(fleet, "different_devices")
    a(fleet, gpu(9, at=1, serial=serial(1)), gpu(2))
    assert "device_quarantined" in fleet.codes()


@pytest.mark.parametrize("name", ["uuid_repeated", "ids_disagree"])
def test_what_cannot_be_one_device_is_not_ruled_the_same(fleet: Fleet, name: str) -> None:
    RULES[name](fleet)
    conflict = conflicts(fleet, state="open")[0]["id"]
    with pytest.raises(InvalidField):
        resolve_conflict(fleet.db, conflict, reason="x", as_="same_device", actor=ALICE, now=fleet.clock.now)
    assert is_disputed(fleet)


def test_ruled_different_a_shared_serial_is_no_boards(fleet: Fleet) -> None:
    shared_serial(fleet)
    rule(fleet, "different_devices")
    a(fleet, gpu(9, at=1, serial=serial(1)))
    b(fleet, gpu(1))
    assert not is_disputed(fleet)
    assert not is_disputed(fleet, "node-b")


def test_a_ruling_needs_a_reason_and_an_open_conflict(fleet: Fleet) -> None:
    other_serial(fleet)
    with pytest.raises(InvalidField):
        rule(fleet, "same_device", reason=" ")
    ended = rule(fleet, "same_device")
    assert (ended["state"], ended["resolved_by"], ended["resolve_reason"]) == (
        "resolved",
        "operator:alice",
        "looked at it",
    )
    for conflict, error in ((ended["id"], NotOpen), ("nothing", NotFound)):
        with pytest.raises(error):
            resolve_conflict(fleet.db, conflict, reason="x", as_="same_device", actor=ALICE, now=fleet.clock.now)
