# SPDX-License-Identifier: Apache-2.0
"""Group A of the public reports, the machines: which node is this, and what does a name or a host's serial say?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.conftest import World, card, codes, one_engine


@one_engine
@pytest.mark.parametrize(
    "placeholder",
    [
        *("To be filled by O.E.M.", "To Be Filled By O.E.M", " to be filled by o.e.m. ", "TO BE FILLED BY  O.E.M."),
        *("Default_String", "ToBeFilledByO.E.M.", "0123456789", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "INVALID"),
        *("Default string", "Not Specified", "System Serial Number", "None", "0", "Chassis Serial Number", "N/A"),
    ],
)
def test_a_gap_fillers_chassis_makes_no_two_nodes_one(world: World, placeholder: str) -> None:
    """C13."""
    world.expect(1)
    for number, name in enumerate(["node-a", "node-b", "node-c"]):
        host = {"chassis": {"serial": placeholder}, "dmi": {"serial": placeholder, "uuid": placeholder}}
        answer = world.report(name, [card(number)], host=host)
        world.clock.advance(31)
        world.report(name, [card(number)], host=host)
        assert answer["warnings"] == []

    assert world.hold({"node": "node-a"}).status_code == 201

    assert codes(world.decision("node-a")) == ["node_quarantined"]
    assert world.decision("node-b")["admitted"] is True
    assert world.decision("node-c")["admitted"] is True


def test_one_system_uuid_on_two_nodes_is_noted_and_joins_nothing(world: World) -> None:
    """C14."""
    world.expect(1)
    host = {"dmi": {"uuid": "03000200-0400-0500-0006-000700080009"}}
    alone = world.report("node-a", [card(1)], host=host)
    world.report("node-a", [card(1)], host=host)
    shared = world.report("node-b", [card(2)], host=host)
    world.clock.advance(31)
    world.report("node-b", [card(2)], host=host)

    assert alone["warnings"] == []
    assert [warning["code"] for warning in shared["warnings"]] == ["host_value_shared"]
    assert "node-a" in shared["warnings"][0]["message"]
    assert [node["name"] for node in world.operator.get("/v1/nodes?order=asc").json["items"]] == ["node-a", "node-b"]
    assert world.hold({"node": "node-a"}).status_code == 201
    assert world.decision("node-b")["admitted"] is True


def test_sources_that_differ_are_no_change_and_one_source_that_changes_is(world: World) -> None:
    """C15."""
    world.expect(1)
    world.report("node-a", [card(1)], host={"dmi": {"serial": "X1"}})
    world.clock.advance(31)
    decision = world.report("node-a", [card(1)], host={"redfish": {"serial": "Y1"}})["admission"]

    assert decision["admitted"] is True
    assert world.show()["host"] == {"dmi": {"serial": "X1"}, "redfish": {"serial": "Y1"}}
    assert world.events("node.host_changed") == []
    world.report("node-a", [card(1)], host={"dmi": {"serial": "N/A"}, "redfish": {"serial": "Y1"}})
    world.report("node-a", [card(1)], host={"redfish": {"serial": "Y2"}})
    (changed,) = world.events("node.host_changed")
    assert changed["data"]["source"] == "redfish"
    assert changed["data"]["changed"] == {"serial": {"from": "Y1", "to": "Y2"}}


@one_engine
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("model", ["Tesla M10", "NVIDIA H100 80GB HBM3"])
def test_parts_that_share_a_serial_do_not_overwrite_one_another(world: World, model: str, *, together: bool) -> None:
    """C16."""
    world.expect(2)
    one, two = (
        card(number, serial="1650000000001", model=model, firmware={"vbios": f"96.00.0{number}"}) for number in (1, 2)
    )
    world.report("node-a", [one, two])

    for _ in range(4):
        lists = [[one, two], [two, one]] if together else [[one], [two]]
        for devices in lists:
            world.report("node-a", devices)

    assert world.events("device.changed") == []
    shown = {device["uuid"]: device["firmware"]["vbios"] for device in world.devices()}
    assert shown == {one["uuid"]: "96.00.01", two["uuid"]: "96.00.02"}


@one_engine
@pytest.mark.parametrize("is_new_instance", [True, False])
@pytest.mark.parametrize("is_new_name_first", [True, False])
def test_devices_take_their_history_along_and_leave_no_passes(
    world: World, *, is_new_instance: bool, is_new_name_first: bool
) -> None:
    """C18."""
    world.expect(8)
    old = [card(number) for number in range(1, 9)]
    new = [card(number + 8, slot=card(number)["slot"]) for number in range(1, 9)]
    assert world.admit("node-a", old)["admitted"] is True
    world.hold({"device": old[2]["serial"]})
    life = {"provider_id": "i-new", "boot_id": "boot-new"} if is_new_instance else {}
    world.clock.advance(31)

    moves: list[tuple[str, list[dict[str, Any]], dict[str, str]]] = [("node-a", new, life), ("node-b", old, {})]
    answers = {}
    for name, devices, fields in reversed(moves) if is_new_name_first else moves:
        answers[name] = world.report(name, devices, **fields)

    assert codes(answers["node-a"]["admission"]) == ["passes_insufficient"]
    assert answers["node-a"]["admission"]["passes"]["have"] == 1
    assert codes(answers["node-b"]["admission"]) == ["device_quarantined", "passes_insufficient"]
    page = world.operator.get(f"/v1/devices/{old[0]['serial']}").json
    assert {place["node"] for place in page["placements"]} == {"node-a", "node-b"}
    assert page["node"] == "node-b"
    assert len(world.devices()) == 16
    assert world.show("node-a")["missing"] == []


def test_two_nodes_that_changed_names_take_their_devices_along(world: World) -> None:
    """C18."""
    world.expect(4)
    one, two = (
        [card(number) for number in range(4)],
        [card(number + 4, slot=card(number)["slot"]) for number in range(4)],
    )
    world.admit("node-a", one)
    world.admit("node-b", two)
    world.clock.advance(31)

    world.report("node-a", two)
    world.report("node-b", one)
    world.clock.advance(31)
    last = [world.report("node-a", two), world.report("node-b", one)]

    assert [answer["admission"]["admitted"] for answer in last] == [True, True]
    assert world.operator.get("/v1/conflicts").json["items"] == []
    assert {device["serial"] for device in world.devices(node="node-b")} == {device["serial"] for device in one}
    assert len(world.devices()) == 8


def test_what_comes_late_does_not_change_the_host(world: World) -> None:
    """C15."""
    world.expect(1)
    world.report("node-a", [card(1)], host={"dmi": {"serial": "X1"}}, boot_id="boot-1")
    world.report("node-a", [card(1)], host={"dmi": {"serial": "X2"}}, boot_id="boot-2")

    late = world.report("node-a", [card(1)], host={"dmi": {"serial": "X1"}}, boot_id="boot-1")

    assert late["pass"]["because"] == "not_current"
    assert world.show()["host"] == {"dmi": {"serial": "X2"}}
    assert len(world.events("node.host_changed")) == 1
