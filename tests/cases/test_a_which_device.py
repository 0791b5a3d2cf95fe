# SPDX-License-Identifier: Apache-2.0
"""Group A of the public reports: which device is this, when its names are missing, masked, shared or changed?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.conftest import World, card, codes, one_engine
from tests.collectors.documents import csv_document, xml_document
from tests.collectors.machines import geforce_gpus

ZEROS = "0000000000000"


@one_engine
@pytest.mark.parametrize("absent", ["N/A", "[N/A]", "n/a ", "", None, "Not Supported", "[Unknown Error]"])
def test_gpus_without_serial_are_told_by_their_uuids(world: World, absent: str | None) -> None:
    """C01."""
    world.expect(8)
    cards = [card(number, serial=absent, model="NVIDIA GeForce RTX 4090") for number in range(8)]

    world.report("node-a", cards)
    first = {device["id"] for device in world.devices()}
    world.report("node-a", list(reversed(cards)))

    assert len(first) == 8
    assert {device["id"] for device in world.devices()} == first
    assert {device["serial"] for device in world.on()} == {None}
    assert {device["state"] for device in world.on()} == {"in_service"}


def test_gpus_without_serial_stay_themselves_on_other_nodes_and_in_every_format(world: World) -> None:
    """C01."""
    world.expect(4)
    ours, theirs = geforce_gpus(4, node=1), geforce_gpus(4, node=2)

    world.report_raw("node-a", nvidia_smi_xml=xml_document(ours))
    world.report_raw("node-b", nvidia_smi_csv=csv_document(theirs))
    world.report_raw("node-c", nvidia_smi_csv=csv_document(ours))

    assert len(world.devices()) == 8
    assert len(world.devices(node="node-c")) == 4
    assert [device["uuid"] for device in world.on("node-c")] == [gpu.uuid for gpu in ours]
    assert world.operator.get("/v1/devices/N%2FA").status_code == 404


@one_engine
@pytest.mark.parametrize("zeros", [ZEROS, " 0000000000000 ", "0", "0x0", "0000-0000-00000"])
def test_a_serial_of_zeros_is_kept_as_seen_and_joins_nobody(world: World, zeros: str) -> None:
    """C02."""
    world.expect(1)
    one = card(1, serial=zeros, part_number="000-00000-0000-000", slot="00000000:00:1E.0")
    two = card(2, serial=zeros, part_number="000-00000-0000-000", slot="00000000:00:1E.0")
    world.admit("node-a", [one])

    assert world.hold({"device": one["uuid"]}).status_code == 201
    world.admit("node-b", [two])

    assert codes(world.decision("node-a")) == ["device_quarantined"]
    assert world.decision("node-b")["admitted"] is True
    (shown,) = world.on("node-b")
    assert shown["serial"] is None
    assert {"type": "serial", "value": zeros, "usable": False} in shown["identifiers"]
    assert len(world.devices()) == 2


def test_nobody_is_held_by_a_serial_of_zeros(world: World) -> None:
    """C02."""
    world.expect(1)
    world.report("node-a", [card(1, serial=ZEROS)])

    by_serial = world.hold({"identifier": {"kind": "gpu", "type": "serial", "value": ZEROS}})
    by_ref = world.hold({"device": ZEROS})

    assert (by_serial.status_code, by_ref.status_code) == (422, 422)
    assert "zeros" in by_serial.json["items"][0]["message"]
    assert world.operator.get(f"/v1/devices/{ZEROS}").status_code == 404


@one_engine
@pytest.mark.parametrize("real", ["0000000000001", "0322218049033", "0000000000010"])
def test_a_serial_that_begins_with_zeros_is_a_serial(world: World, real: str) -> None:
    """C02."""
    world.expect(1)
    world.report("node-a", [card(1, serial=real, uuid=None)])
    world.clock.advance(31)
    world.report("node-a", [])
    world.report("node-b", [card(1, serial=real, uuid=None)])

    assert world.operator.get(f"/v1/devices/{real}").json["node"] == "node-b"
    assert len(world.devices()) == 1


@one_engine
@pytest.mark.parametrize("model", ["Tesla M10", "NVIDIA GB300", "A board of two that nobody knows"])
def test_gpus_of_one_board_are_several_and_a_fault_is_one_of_them(world: World, model: str) -> None:
    """C03."""
    world.expect(4)
    board = [
        card(number, serial="0324017000007", model=model, firmware={"vbios": f"82.07.A{number}"}) for number in range(4)
    ]
    world.admit("node-a", board)

    failure = world.fault("xid_79", node="node-a", slot=f"0000{board[1]['slot']}")
    named = world.fault("xid_31", node="node-a", device="0324017000007", slot=board[2]["slot"])

    assert len(world.devices()) == 4
    assert len({device["board"] for device in world.devices()}) == 1
    assert failure["uuid"] == board[1]["uuid"]
    assert named["uuid"] == board[2]["uuid"]
    found = world.operator.get("/v1/failures", query_string={"code": "xid_79"}).json["items"]
    assert [one["device"] for one in found] == [failure["device"]]
    reasons = [one for one in world.decision()["reasons"] if one["code"] == "device_quarantined"]
    assert [one["device"]["slot"] for one in reasons] == [one["slot"] for one in board]
    assert all("board" in one["message"] for one in reasons)
    assert world.operator.get("/v1/devices/0324017000007").json["code"] == "device_ambiguous"


def test_gpus_of_one_board_are_found_again_by_place_when_their_uuids_cannot_be_read(world: World) -> None:
    """C03."""
    world.expect(4)
    board = [card(number, serial="0324017000007", model="Tesla M10") for number in range(4)]
    world.report("node-a", board)
    before = {device["slot"]: device["id"] for device in world.on()}

    world.report("node-a", [{**one, "uuid": "[Unknown Error]"} for one in board])

    assert {device["slot"]: device["id"] for device in world.on()} == before
    assert len(world.devices()) == 4


@one_engine
@pytest.mark.parametrize(
    ("serial", "spelling"),
    [
        ("N/A", str),
        ("REDACTED", str.upper),
        ("0123456789012", lambda text: f" {text} "),
        ("XXXXXXXXXXXXX", lambda text: text[4:]),
    ],
)
def test_one_uuid_in_two_slots_is_nobody_until_told_apart(world: World, serial: str, spelling: Any) -> None:
    """C06."""
    world.expect(2)
    one, two = card(1, serial=serial), card(2, serial=serial)

    decision = world.admit("node-a", [one, {**two, "uuid": spelling(one["uuid"])}])

    assert [device["state"] for device in world.on()] == ["conflict", "conflict"]
    assert decision["admitted"] is False
    assert codes(decision)[:2] == ["identity_conflict", "identity_conflict"]
    assert world.devices() == []
    assert world.admit("node-a", [one, two])["admitted"] is True
    assert len(world.devices()) == 2


def test_a_serial_that_somebody_masked_joins_no_two_boards(world: World) -> None:
    """C06."""
    world.expect(1)
    for number, mask in enumerate(["REDACTED", "[redacted]", "0123456789012", "*************", "1650xxxxxxxxx"]):
        decision = world.admit(f"node-{number}", [card(number, serial=mask)])
        again = world.admit(f"twin-{number}", [card(100 + number, serial=mask)])

        assert (decision["admitted"], again["admitted"]) == (True, True), mask


def test_a_slice_is_a_part_of_its_gpu_and_never_a_device(world: World) -> None:
    """C07."""
    world.expect(1)
    world.report("node-a", [card(1)])
    parent = card(1)["uuid"]

    old = world.fault("xid_94", device=f"MIG-{parent}/7/0", node="node-a")
    new = world.fault("xid_94", device="MIG-bbbb0001-0000-0000-0000-000000000001", node="node-a")
    listed = world.post("node-b", [card(2, uuid="MIG-bbbb0001-0000-0000-0000-000000000001")])

    assert (old["uuid"], old["attached"]) == (parent, True)
    assert new["device"] is None
    assert listed.status_code == 422
    assert "slice" in listed.json["detail"]
    assert [device["uuid"] for device in world.devices()] == [parent]


def test_a_slice_of_nobody_known_is_a_fault_that_blocks_its_node_until_it_is_withdrawn(world: World) -> None:
    """C07."""
    world.expect(1)
    world.admit("node-a", [card(1)])

    new = world.fault("xid_79", device="MIG-bbbb0001-0000-0000-0000-000000000001", node="node-a")
    old = world.fault("xid_79", device="MIG-GPU-cccc0001-0000-0000-0000-000000000001/1/0", node="node-a")

    assert [(one["device"], one["attached"]) for one in (new, old)] == [(None, False)] * 2
    assert codes(world.decision()).count("fault_unattached") == 2
    for one in (new, old):
        world.operator.post(f"/v1/failures/{one['id']}/withdraw", json={"reason": "of another machine"})
    assert "fault_unattached" not in codes(world.decision())
    assert len(world.devices()) == 1


def test_a_slice_that_a_list_named_means_its_gpu_and_repartitioning_frees_nobody(world: World) -> None:
    """C07."""
    world.expect(1)
    parent = card(1)["uuid"]
    listing = f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {parent})\n  MIG 1g.5gb Device  0: (UUID: MIG-%s)\n"
    first, second = "bbbb0001-0000-0000-0000-000000000001", "bbbb0002-0000-0000-0000-000000000002"
    world.report_raw(nvidia_smi_list=(listing % first).encode())

    failure = world.fault("xid_64", device=f"MIG-{first}")
    world.report_raw(nvidia_smi_list=(listing % second).encode())

    assert failure["uuid"] == parent
    assert "device_quarantined" in codes(world.decision())
    assert len(world.devices()) == 1
    assert world.fault("xid_94", device=f"MIG-{second}")["uuid"] == parent


@one_engine
@pytest.mark.parametrize("later_id", ["0x67c6000000000001", "0x67C6000000000001", "67c6000000000001"])
@pytest.mark.parametrize("no_uuid", ["N/A", None])
def test_a_uuid_that_comes_later_is_added_to_the_unique_id(world: World, later_id: str, no_uuid: str | None) -> None:
    """C10."""
    world.expect(1)
    amd = card(1, vendor="amd", serial=None, uuid=no_uuid, unique_id="0x67c6000000000001", model="AMD Instinct MI300X")
    world.report("node-a", [amd])
    (before,) = world.devices()

    world.report("node-a", [{**amd, "uuid": "GPU-67c6000000000001", "unique_id": later_id}])
    world.report("node-a", [amd])
    world.report("node-a", [{**amd, "uuid": "GPU-67c6000000000001", "unique_id": "N/A"}])

    (after,) = world.devices()
    assert after["id"] == before["id"]
    assert (before["uuid"], after["uuid"]) == (None, "GPU-67c6000000000001")
    history = world.operator.get(f"/v1/devices/{after['id']}/history").json["items"]
    added = [event["data"]["identifier"] for event in history if event["type"] == "identifier.added"]
    assert [(one["type"], one["value"]) for one in added if one["usable"]] == [("uuid", "GPU-67c6000000000001")]


@one_engine
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {}),
        ({}, {"slot": "00000000:11:00.0"}),
        ({"serial": "1650000000001"}, {"serial": "1650000000002"}),
        ({"uuid": "GPU-aaaa0001-0000-0000-0000-000000000001"}, {}),
        ({"uuid": "N/A"}, {"uuid": "[N/A]"}),
    ],
)
def test_one_slot_twice_is_refused_and_nothing_is_kept(
    world: World, first: dict[str, str], second: dict[str, str]
) -> None:
    """C12."""
    world.expect(2)
    bare = card(1, uuid=None, serial=None)
    before = world.events()

    response = world.post("node-a", [{**bare, **first}, {**bare, **second}])

    assert (response.status_code, response.json["code"]) == (422, "slot_repeated")
    assert [error["pointer"] for error in response.json["errors"]] == ["/devices/0/slot", "/devices/1/slot"]
    assert world.operator.get("/v1/nodes/node-a").status_code == 404
    assert world.devices() == []
    assert [event["type"] for event in world.events()[len(before) :]] == ["token.created"]
