# SPDX-License-Identifier: Apache-2.0
"""What does a hold meet: units, boards, machines, and what was never seen?"""

from __future__ import annotations

from typing import Any

import pytest

from registry.services.conflicts import list_conflicts, resolve_conflict
from registry.services.history import device_history
from registry.services.quarantine import show_quarantine
from tests.fleet import ALICE, EVERYTHING, Fleet, efa, gpu, serial, uuid

TWINS = [gpu(n, serial=serial(50), model="NVIDIA GB200") for n in (1, 2)]


def outcomes(items: list[dict[str, Any]]) -> list[str]:
    return [one["outcome"] for one in items]


def ident(type_: str, value: str, **more: str) -> dict[str, Any]:
    """A target by an identifier of a GPU."""
    return {"identifier": {"kind": "gpu", "type": type_, "value": value, **more}}


def held(fleet: Fleet, node: str = "node-a") -> list[str | None]:
    """The serials or UUIDs of the devices that a decision calls quarantined."""
    reasons = [one for one in fleet.decide(node).reasons if one.code == "device_quarantined"]
    return [one.device.uuid for one in reasons if one.device]


# --- units and boards ------------------------------------------------------------------------------------------------


def test_a_held_device_is_not_admitted_under_any_name_of_any_node(fleet: Fleet) -> None:
    fleet.admit()
    assert outcomes(fleet.hold({"device": serial(1)})) == ["opened"]
    assert fleet.codes() == ["device_quarantined"]
    fleet.clock.advance(30)
    fleet.admit(instance="i-2", boot="boot-2", devices=[gpu(n) for n in range(4, 8)])
    assert fleet.decide().admitted
    moved = [gpu(8), gpu(9), gpu(10), gpu(1, at=7)]
    fleet.admit("elsewhere", instance="i-3", boot="boot-3", profile="g5.12xlarge", devices=moved)
    assert fleet.codes("elsewhere") == ["device_quarantined"]


def test_passes_stand_while_a_device_is_held(fleet: Fleet) -> None:
    fleet.admit()
    fleet.hold({"device": uuid(1)})
    fleet.clock.advance(30)
    fleet.report()
    assert fleet.decide().have == 2


def test_a_gpu_is_held_with_its_board_and_units_found_later_are_held_too(fleet: Fleet) -> None:
    fleet.report(devices=TWINS[:1])
    hold = fleet.hold({"device": uuid(1)})[0]["quarantine"]
    assert (hold["scope"], hold["target_kind"], hold["match"]) == ("board", "board", "hardware")
    fleet.report(devices=TWINS)
    assert held(fleet) == [uuid(1), uuid(2)]
    told = device_history(fleet.db, uuid(2), {}, EVERYTHING).items
    assert "device.registered" in [one["type"] for one in told]


def test_a_unit_may_be_held_alone(fleet: Fleet) -> None:
    fleet.report(devices=TWINS)
    fleet.hold({"device": uuid(1)}, scope="unit")
    assert held(fleet) == [uuid(1)]


def test_an_efa_is_held_as_a_unit_by_default(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1), efa(1, serial="EFA0001")])
    hold = fleet.hold({"device": "EFA0001"})[0]["quarantine"]
    assert (hold["scope"], hold["match"], hold["warnings"]) == ("unit", "hardware", [])


def test_a_serial_of_several_units_is_one_board_and_no_one_unit(fleet: Fleet) -> None:
    fleet.report(devices=TWINS)
    item = fleet.hold({"device": serial(50)}, scope="unit")[0]
    assert (item["outcome"], item["code"], len(item["candidates"])) == ("refused", "device_ambiguous", 2)
    assert outcomes(fleet.hold({"device": serial(50)})) == ["opened"]
    assert held(fleet) == [uuid(1), uuid(2)]


def test_a_gpu_and_its_boards_serial_are_one_target(fleet: Fleet) -> None:
    fleet.report()
    items = fleet.hold({"device": uuid(1)}, {"device": serial(1)}, ident("serial", serial(1)), ident("uuid", uuid(1)))
    assert outcomes(items) == ["opened", "already_open", "already_open", "already_open"]
    assert len({one["quarantine"]["id"] for one in items}) == 1


def test_one_makers_serial_is_not_anothers(fleet: Fleet) -> None:
    """C20."""
    fleet.report(devices=[gpu(1), gpu(2, vendor="amd", serial=serial(1))])
    item = fleet.hold({"device": serial(1)})[0]
    assert (item["outcome"], item["code"]) == ("refused", "device_ambiguous")
    assert outcomes(fleet.hold(ident("serial", serial(1), vendor="amd"))) == ["opened"]
    assert held(fleet) == [uuid(2)]


@pytest.mark.parametrize("ref", ["MIG-aaaa0001-0000-0000-0000-000000000001", f"MIG-{uuid(1)}/1/0", "1699999999999"])
def test_what_is_no_device_is_refused(fleet: Fleet, ref: str) -> None:
    fleet.report()
    assert outcomes(fleet.hold({"device": ref}, {"device": serial(2)})) == ["refused", "opened"]


# --- identifiers never seen ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"vendor": "nvidia"}])
@pytest.mark.parametrize(("type_", "value"), [("serial", serial(1)), ("uuid", uuid(1)), ("uuid", uuid(1).upper())])
def test_an_identifier_never_seen_is_held_when_it_turns_up(
    fleet: Fleet, type_: str, value: str, more: dict[str, str]
) -> None:
    hold = fleet.hold(ident(type_, value, **more))[0]["quarantine"]
    assert (hold["target_kind"], hold["devices"]) == ("identifier", [])
    fleet.admit()
    assert fleet.codes() == ["device_quarantined"]
    assert held(fleet) == [uuid(1)]
    assert len(show_quarantine(fleet.db, hold["id"], now=fleet.clock.now)["devices"]) == 1
    events = device_history(fleet.db, uuid(1), {}, EVERYTHING).items
    assert events[0]["data"]["quarantines"] == [hold["id"]]


def test_an_identifier_of_another_vendor_or_kind_is_not_meant(fleet: Fleet) -> None:
    fleet.hold(ident("serial", serial(1), vendor="amd"))
    fleet.hold({"identifier": {"kind": "efa", "type": "serial", "value": serial(2)}})
    fleet.admit()
    assert fleet.decide().admitted


def test_an_identifier_without_vendor_meets_every_vendor(fleet: Fleet) -> None:
    fleet.hold(ident("serial", serial(1)))
    fleet.report(devices=[gpu(1), gpu(2, vendor="amd", serial=serial(1))])
    assert held(fleet) == [uuid(1), uuid(2)]


def test_an_identifier_that_a_known_unit_shows_later_meets_it(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1, serial=None)])
    fleet.hold(ident("serial", serial(1)))
    fleet.report(devices=[gpu(1)])
    assert held(fleet) == [uuid(1)]


def test_an_identifier_that_an_operator_rules_to_be_a_known_unit_meets_it(fleet: Fleet) -> None:

    fleet.report(devices=[gpu(1)])
    fleet.hold(ident("serial", serial(77)))
    fleet.report(devices=[gpu(1, serial=serial(77))])
    assert "identity_conflict" in fleet.codes()
    conflict = list_conflicts(fleet.db, {}, EVERYTHING).items[0]["id"]
    resolve_conflict(fleet.db, conflict, reason="new label", as_="same_device", actor=ALICE, now=fleet.clock.now)
    fleet.report(devices=[gpu(1, serial=serial(77))])
    assert held(fleet) == [uuid(1)]


@pytest.mark.parametrize("value", ["N/A", "0000000000000", "", "[Unknown Error]", "To be filled by O.E.M."])
def test_a_placeholder_cannot_be_held(fleet: Fleet, value: str) -> None:
    assert outcomes(fleet.hold(ident("serial", value))) == ["refused"]


def test_an_imported_list_twice_opens_each_once(fleet: Fleet) -> None:
    asked = [ident("serial", serial(n)) for n in range(5)]
    assert outcomes(fleet.hold(*asked)) == ["opened"] * 5
    assert outcomes(fleet.hold(*asked)) == ["already_open"] * 5


# --- nodes -----------------------------------------------------------------------------------------------------------


def test_a_node_is_held_as_its_instance_and_not_its_name(fleet: Fleet) -> None:
    fleet.admit()
    assert fleet.hold({"node": "node-a"})[0]["quarantine"]["match"] == "instance"
    assert fleet.codes() == ["node_quarantined"]
    fleet.clock.advance(30)
    fleet.admit(instance="i-2", boot="boot-2", devices=[gpu(n) for n in range(4, 8)])
    assert fleet.decide().admitted


def test_a_node_is_held_as_its_chassis_under_any_name(fleet: Fleet) -> None:
    host = {"chassis": {"serial": "CH-0042"}}
    fleet.admit(host=host)
    assert fleet.hold({"node": "node-a"})[0]["quarantine"]["match"] == "chassis"
    fleet.clock.advance(30)
    fleet.admit("node-b", instance="i-2", boot="boot-2", devices=[gpu(n) for n in range(4, 8)], host=host)
    assert fleet.codes("node-b") == ["node_quarantined"]


def test_a_chassis_learnt_after_the_hold_does_not_lose_it(fleet: Fleet) -> None:
    fleet.admit()
    fleet.hold({"node": "node-a"})
    fleet.report(host={"chassis": {"serial": "CH-0042"}})
    assert "node_quarantined" in fleet.codes()


@pytest.mark.parametrize("is_known", [True, False])
def test_a_node_is_held_by_name_when_asked_or_unknown(fleet: Fleet, is_known: bool) -> None:
    if is_known:
        fleet.admit()
    how = {"match": "name"} if is_known else {}
    assert fleet.hold({"node": "node-a"}, **how)[0]["quarantine"]["match"] == "name"
    fleet.clock.advance(30)
    fleet.admit(instance="i-2", boot="boot-2", devices=[gpu(n) for n in range(4, 8)])
    assert fleet.codes() == ["node_quarantined"]


@pytest.mark.parametrize(("drain", "disposition"), [(True, "drain"), (False, "hold")])
def test_only_a_hold_with_drain_drains(fleet: Fleet, drain: bool, disposition: str) -> None:
    """C106."""
    fleet.admit()
    fleet.hold({"device": serial(1)}, drain=drain)
    assert fleet.decide().disposition == disposition
