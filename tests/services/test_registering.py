# SPDX-License-Identifier: Apache-2.0
"""Are the units of a first list, which are made together, the same as if each had come alone?"""

from __future__ import annotations

from registry.services.devices import show_device
from registry.services.history import device_history
from tests.fleet import EVERYTHING, Fleet, efa, gpu, serial, uuid

EIGHT = [gpu(number) for number in range(8)]
BOTH = frozenset({"gpu", "efa"})


def held(fleet: Fleet, value: str) -> dict[str, str]:
    """A hold that waits for a GPU which nobody has seen."""
    type_ = "uuid" if value.startswith("GPU-") else "serial"
    (item,) = fleet.hold({"identifier": {"kind": "gpu", "type": type_, "value": value}})
    return {"id": item["quarantine"]["id"]}


def test_every_unit_of_a_first_list_has_its_own_identifiers_and_history(fleet: Fleet) -> None:
    fleet.report(devices=[*EIGHT, *[efa(number) for number in range(32)]], covers=BOTH)

    for number in range(8):
        shown = show_device(fleet.db, uuid(number), now=fleet.clock.now)
        told = device_history(fleet.db, uuid(number), {}, EVERYTHING).items
        assert (shown["serial"], shown["uuid"], shown["node"]) == (serial(number), uuid(number), "node-a")
        assert [one["type"] for one in told] == ["device.registered", "device.attached"]
        assert [one["value"] for one in told[0]["data"]["identifiers"]] == [serial(number), uuid(number)]


def test_a_hold_that_waits_for_one_of_many_meets_that_one_alone(fleet: Fleet) -> None:
    by_serial, by_uuid = held(fleet, serial(3)), held(fleet, uuid(5))

    fleet.report(devices=EIGHT)

    on = {
        number: [one["id"] for one in show_device(fleet.db, uuid(number), now=fleet.clock.now)["quarantines"]]
        for number in range(8)
    }
    assert on == {number: [] for number in range(8)} | {3: [by_serial["id"]], 5: [by_uuid["id"]]}


def test_two_units_that_come_together_share_the_serial_of_their_board(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1), gpu(2, serial=serial(1)), gpu(3)])

    first, second, third = (show_device(fleet.db, uuid(number), now=fleet.clock.now) for number in (1, 2, 3))
    assert (first["serial"], second["serial"], third["serial"]) == (serial(1), serial(1), serial(3))
    assert first["board"] == second["board"] != third["board"]


def test_a_unit_that_comes_to_a_known_board_has_the_serial_of_that_board(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1), gpu(2, serial=serial(1))])

    fleet.report(devices=[gpu(1), gpu(2, serial=serial(1)), gpu(3, serial=serial(1))])

    shown = [show_device(fleet.db, uuid(number), now=fleet.clock.now) for number in (1, 2, 3)]
    assert {one["serial"] for one in shown} == {serial(1)}
    assert len({one["board"] for one in shown}) == 1
