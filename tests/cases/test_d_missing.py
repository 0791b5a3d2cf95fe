# SPDX-License-Identifier: Apache-2.0
"""Group D of the public reports: devices that are not there, or only seem so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases.conftest import World, card, codes, one_engine
from tests.collectors.dcgm import health
from tests.collectors.documents import csv_document, h100_xml, list_document, q_document, xml_document
from tests.collectors.machines import change, geforce_gpus, h100_gpus

UNREACHABLE = "Unable to determine the device handle for GPU 0000:%s:00.0: Unknown Error\n"


@one_engine
@pytest.mark.parametrize("line", [UNREACHABLE, UNREACHABLE.replace("GPU", "gpu").replace("0000:", "00000000:")])
@pytest.mark.parametrize("lost", [0, 2, 3])
def test_a_place_that_cannot_be_reached_is_the_gpu_last_seen_there(world: World, line: str, lost: int) -> None:
    """C36."""
    world.expect(4)
    gpus = geforce_gpus(4)
    world.report_raw(nvidia_smi_xml=xml_document(gpus))
    before = {device["uuid"]: device["id"] for device in world.on()}
    rest = list_document(gpus).decode().splitlines(keepends=True)
    rest[lost] = line % f"{lost + 1:02x}"

    decision = world.report_raw(nvidia_smi_list="".join(rest).encode())["admission"]

    shown = world.on()
    assert {device["uuid"]: device["id"] for device in shown} == before
    (gone,) = [device for device in shown if device["slot"] == f"0000:{lost + 1:02x}:00.0"]
    assert gone["uuid"] == gpus[lost].uuid
    indexes = [device["readings"]["index"] for device in shown if device is not gone]
    assert sorted(indexes) == sorted({0, 1, 2, 3} - {lost})
    assert decision["admitted"] is False
    (failing,) = [one for one in decision["reasons"] if one["code"] == "check_failing"]
    assert failing["device"]["uuid"] == gpus[lost].uuid
    assert "check_unknown" in codes(decision)
    assert {device["slot"] for device in world.devices()} == {f"0000:0{at}:00.0" for at in (1, 2, 3, 4)}


def test_a_place_that_cannot_be_reached_and_was_never_seen_is_nobody(world: World) -> None:
    """C36."""
    world.expect(4)
    gpus = geforce_gpus(4)
    lines = list_document(gpus).decode().splitlines(keepends=True)

    decision = world.report_raw(nvidia_smi_list=(UNREACHABLE % "18" + "".join(lines[1:])).encode())["admission"]

    assert [device["state"] for device in world.on()].count("unidentified") == 1
    assert "device_unidentified" in codes(decision)
    assert len(world.devices()) == 3


@pytest.mark.parametrize("part", ["nvidia_smi_xml", "nvidia_smi_q", "nvidia_smi_csv", "nvidia_smi_list"])
def test_one_lost_gpu_that_keeps_the_tool_from_listing_the_rest_is_the_only_one_blamed(world: World, part: str) -> None:
    """C42. nvidia-smi may print the complaint, and no document at all."""
    world.expect(4)
    gpus = geforce_gpus(4)
    world.report_raw(nvidia_smi_xml=xml_document(gpus))

    decision = world.report_raw(**{part: (UNREACHABLE % "03").encode()})["admission"]

    assert codes(decision) == ["device_quarantined", "check_failing", "passes_insufficient"]
    assert {one["device"]["uuid"] for one in decision["reasons"][:2]} == {gpus[2].uuid}
    assert [device["state"] for device in world.on()].count("missing") == 0
    assert world.events("device.vanished") == []


@one_engine
def test_an_output_of_lspci_for_gpus_alone_calls_no_efa_missing(world: World) -> None:
    world.expect(2, efas=1)
    gpus = h100_gpus(2)
    efas = [{"kind": "efa", "vendor": "amazon", "slot": "0000:4f:00.0", "name": "rdmap79s0", "gid": "fe80::1:2"}]
    bus = "".join(
        f"{at} 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev {rev})\n"
        for at, rev in zip(("0000:53:00.0", "0000:64:00.0"), ("a1", "ff"), strict=True)
    ).encode()
    world.report_raw(nvidia_smi_xml=xml_document(gpus))
    world.report("node-a", efas, covers=["efa"])

    alone = world.report_raw(lspci=bus)["admission"]
    beside = world.report_raw(lspci=bus, fields={"devices": json.dumps(efas), "covers": '["efa"]'})["admission"]

    for decision in (alone, beside):
        assert "device_missing" not in codes(decision)
        assert [one["device"]["slot"] for one in decision["reasons"] if one["code"] == "check_failing"] == [
            "0000:64:00.0"
        ]


@one_engine
@pytest.mark.parametrize("part", ["nvidia_smi_xml", "nvidia_smi_csv"])
def test_a_slot_that_a_tool_prints_twice_is_refused_by_the_name_of_its_part(world: World, part: str) -> None:
    world.expect(2)
    twice = [h100_gpus(2)[0]] * 2
    output = xml_document(twice) if part == "nvidia_smi_xml" else csv_document(twice)

    response = world.post_raw(**{part: output})

    assert (response.status_code, response.json["code"]) == (422, "slot_repeated")
    assert [one["pointer"] for one in response.json["errors"]] == [f"/{part}"]


def test_a_gpu_on_the_bus_and_not_in_the_driver_is_missing_in_its_place(world: World) -> None:
    """C37."""
    world.expect(8)
    cards = [card(at, slot=f"000{domain}:00:00.0") for at, domain in enumerate("123459ab")]
    world.admit("node-a", cards)
    said = "This PCI device is not supported by the driver"

    decision = world.report("node-a", [one for one in cards if one["slot"] != "000a:00:00.0"])["admission"]
    failure = world.fault("gpu.missing", node="node-a", slot="000A:00:00.0", message=said)

    (missing,) = [one for one in decision["reasons"] if one["code"] == "device_missing"]
    assert missing["device"]["slot"] == "000a:00:00.0"
    assert missing["device"]["serial"] == failure["serial"] == cards[6]["serial"]
    assert failure["message"] == said
    assert world.operator.get(f"/v1/devices/{cards[6]['serial']}").json["state"] in {"missing", "quarantined"}


def test_what_the_driver_says_of_a_gpu_that_it_does_not_take_is_a_fault_of_the_gpu_last_seen_there(
    world: World,
) -> None:
    """C37."""
    world.expect(8)
    gpus = h100_gpus()
    world.report_raw(nvidia_smi_xml=xml_document(gpus))
    slot = gpus[3].slot.lower()[4:]
    bus = "".join(
        f"{one.slot.lower()[4:]} 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)\n"
        "\tKernel driver in use: nvidia\n\n"
        for one in gpus
    )
    log = (
        f"[   10.0] NVRM: The NVIDIA GPU {slot} (PCI ID: 10de:2330)\n"
        "[   10.0] NVRM: installed in this system is not supported by the\n"
        "[   10.0] NVRM: NVIDIA 580.105.08 driver release.\n"
        f"[   10.1] nvidia {slot}: probe with driver nvidia failed with error -1\n"
    )

    decision = world.report_raw(
        nvidia_smi_xml=xml_document([*gpus[:3], *gpus[4:]]), lspci=bus.encode(), kernel_log=log.encode()
    )["admission"]

    (failure,) = world.operator.get("/v1/failures?code=gpu.init_failed").json["items"]
    assert (failure["serial"], failure["slot"]) == (gpus[3].serial, slot)
    assert "is not supported" in failure["message"]
    (missing,) = [one for one in decision["reasons"] if one["code"] == "device_missing"]
    assert missing["device"]["serial"] == gpus[3].serial
    assert "kernel log" in missing["message"]
    assert "lspci" not in missing["message"]


@one_engine
def test_a_tool_that_counts_a_gpu_that_has_gone_does_not_blame_the_next_one(world: World) -> None:
    """The hostengine goes on counting as it did when it began, and nvidia-smi lists what is left."""
    world.expect(8)
    gpus = h100_gpus()
    world.report_raw(nvidia_smi_xml=xml_document(gpus))
    said = health("Failure", GPU={"5": {"Memory system": ("Failure", ["A multi-bit volatile memory error on GPU 5."])}})

    decision = world.report_raw(nvidia_smi_xml=xml_document([*gpus[:3], *gpus[4:]]), dcgm_health=said)["admission"]

    told = [one for one in decision["reasons"] if one["code"] == "check_failing" and one["check"] == "dcgm.health"]
    assert [(one.get("device"), "gpu:5" in one["message"]) for one in told] == [(None, True)]
    assert world.operator.get("/v1/quarantines?state=open").json["items"] == []


def test_every_gpu_that_drops_out_is_told_and_the_first_refuses_the_node(world: World) -> None:
    """C39."""
    world.expect(8)
    cards = [card(number) for number in range(8)]
    answers = [world.admit("node-a", cards)]
    for left in (8, 6, 4):
        world.clock.advance(31)
        answers.append(world.report("node-a", cards[:left])["admission"])

    vanished = [event["data"]["serial"] for event in world.events("device.vanished")]
    assert sorted(vanished) == [one["serial"] for one in cards[4:]]
    assert [answer["admitted"] for answer in answers] == [True, True, False, False]
    assert [codes(answer).count("device_missing") for answer in answers] == [0, 0, 2, 4]
    assert {device["serial"] for device in world.devices(state="missing")} == {one["serial"] for one in cards[4:]}


def test_gpus_that_come_back_are_the_same_and_earn_their_passes_anew(world: World) -> None:
    """C39."""
    world.expect(8)
    cards = [card(number) for number in range(8)]
    world.admit("node-a", cards)
    world.report("node-a", cards[:4])
    world.clock.advance(31)

    back = world.report("node-a", cards)["admission"]

    assert codes(back) == ["passes_insufficient"]
    assert back["passes"]["have"] == 1
    assert len(world.events("device.returned")) == 4
    assert len(world.devices()) == 8


@one_engine
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\n\n",
        b"bash: nvidia-smi: command not found\n",
        b"sh: 1: nvidia-smi: not found\n",
        b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        b"No devices were found\n",
        b"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.82\n",
    ],
)
def test_no_driver_is_no_dead_gpu(world: World, said: bytes) -> None:
    """C41."""
    world.expect(8)
    world.admit("node-a", [card(number) for number in range(8)])
    before, shown = world.events(), world.on()

    for part in ("nvidia_smi_xml", "nvidia_smi_q", "nvidia_smi_csv", "nvidia_smi_list"):
        response = world.post_raw(**{part: said})

        assert (response.status_code, response.json["code"]) == (422, "part_unreadable")
        assert response.json["errors"][0]["pointer"] == f"/{part}"
    assert world.events() == before
    assert world.on() == shown
    world.clock.advance(121)
    assert codes(world.decision()) == ["report_stale"]
    assert {device["state"] for device in world.devices()} == {"in_service"}


def test_a_node_that_could_not_look_is_not_ready_and_says_why(world: World) -> None:
    """C41."""
    world.expect(8, "gpu.ecc")
    cards = [card(number) for number in range(8)]
    clean = [{"name": "gpu.ecc", "status": "pass"}]
    world.report("node-a", cards, checks=clean)
    world.clock.advance(31)
    assert world.report("node-a", cards, checks=clean)["admission"]["admitted"] is True

    blind = [{"name": "gpu.ecc", "status": "unknown", "message": "the driver is absent (nvidia-smi: exit 127)"}]
    decision = world.report("node-a", checks=blind)["admission"]

    assert codes(decision) == ["check_unknown"]
    assert "the driver is absent" in decision["reasons"][0]["message"]
    assert world.operator.get("/v1/failures").json["items"] == []
    assert {device["state"] for device in world.devices()} == {"in_service"}


@one_engine
@pytest.mark.parametrize(
    "printed",
    [
        {},
        {"serial": "GPU is lost", "uuid": "GPU is lost"},
        {"serial": "[N/A]", "uuid": "ERR!"},
        {"serial": "Unknown Error", "uuid": "Unknown Error"},
        {"serial": "N/A", "uuid": "GPU is lost.  Reboot the system to recover this GPU"},
    ],
)
@pytest.mark.parametrize("part", ["nvidia_smi_xml", "nvidia_smi_q", "nvidia_smi_csv"])
def test_a_lost_gpu_hides_no_other_and_is_known_by_its_place(world: World, part: str, printed: dict[str, Any]) -> None:
    """C42."""
    world.expect(8)
    gpus = h100_gpus(8)
    lost = change(gpus, 3, is_lost=True, **printed)
    make = {"nvidia_smi_xml": xml_document, "nvidia_smi_q": q_document, "nvidia_smi_csv": csv_document}[part]
    world.report_raw(nvidia_smi_xml=xml_document(gpus))
    before = [device["id"] for device in world.on()]

    decision = world.report_raw(**{part: make(lost)})["admission"]

    shown = world.on()
    assert [device["id"] for device in shown] == before
    assert [device["serial"] for device in shown] == [gpu.serial for gpu in gpus]
    assert decision["admitted"] is False
    failing = [one for one in decision["reasons"] if one["code"] == "check_failing"]
    assert {one["device"]["serial"] for one in failing} == {gpus[3].serial}
    assert world.events("device.vanished", "device.swapped") == []


def test_a_list_that_is_known_to_be_short_calls_nobody_missing(world: World) -> None:
    """C42."""
    world.expect(8)
    world.report_raw(nvidia_smi_xml=h100_xml(8))

    decision = world.report_raw(nvidia_smi_xml=h100_xml(8, without=[3], stamp="Wed Sep  2 07:16:30 2026"))["admission"]

    assert world.events("device.vanished") == []
    assert {device["state"] for device in world.devices()} == {"in_service"}
    assert "check_failing" in codes(decision)
    assert len(world.on()) == 7
