# SPDX-License-Identifier: Apache-2.0
"""Does every public capture of nvidia-smi, posted as it was printed to a fresh registry, end up as it was read by eye?

The captures are not part of this project; the test runs where they are kept beside it, or where PRATIQUE_CORPUS says.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cases.conftest import World, codes, one_engine
from tests.project import ROOT

CORPUS = Path(os.environ.get("PRATIQUE_CORPUS", ROOT.parent / "shared" / "corpus"))
pytestmark = pytest.mark.skipif(not (CORPUS / "EXPECTED.json").is_file(), reason="the captures are not here")

EXPECTED: dict[str, Any] = (
    json.loads((CORPUS / "EXPECTED.json").read_text()) if (CORPUS / "EXPECTED.json").is_file() else {}
)
BASE = "k8s-test-infra/qx-h100.xml"
TWICE = "derived/h100-duplicate-element.xml"
REFUSED = sorted(name for name, answer in EXPECTED.items() if "reject" in answer or name == TWICE)
READ = sorted(EXPECTED.keys() - set(REFUSED))
ON_BOTH = {BASE, "telegraf/a10g.xml", "azhpc-diagnostics/nvidia-smi-q.0689b69.out", "k8s-test-infra/qx-gb200.xml"}
CASES = [
    (engine, name) for name in READ for engine in ("sqlite", "postgresql") if engine == "sqlite" or name in ON_BOTH
]

READINGS = {
    "temp_gpu_c": "temperature_celsius",
    "temp_memory_c": "memory_temperature_celsius",
    **{
        name: name
        for name in (
            *("ecc_volatile_corrected", "ecc_volatile_uncorrected", "ecc_aggregate_corrected", "ecc_mode"),
            *("ecc_aggregate_uncorrected", "retired_sbe", "retired_dbe", "retired_pending", "remap_corrected"),
            *("remap_uncorrected", "remap_pending", "remap_failure", "recovery_action"),
        )
    },
}
BLIND = {"telegraf/gtx-1660-ti.xml", "telegraf/quadro-p400.xml"}
"""Drivers of 2019 on cards without page retirement: no block says how their memory is."""

BOARD_NUMBER = re.compile(r"\d{3}-\w{5}-\d{4}-\d{3}")


def answer_for(name: str) -> dict[str, Any]:
    answer: dict[str, Any] = EXPECTED[name].get("document", EXPECTED[name])
    return answer


def part_of(name: str) -> str:
    if name.endswith(".xml"):
        return "nvidia_smi_xml"
    return "nvidia_smi_csv" if name.endswith(".csv") else "nvidia_smi_q"


def expect(world: World, name: str) -> None:
    """Describe a profile that the machine of the capture fits."""
    answer = answer_for(name)
    models = sorted({device["name"] for device in answer["devices"] if device["name"]})
    gpu = {"count": answer.get("attached_gpus") or len(answer["devices"])} | ({"models": models} if models else {})
    body = {"gpu": gpu, "required_checks": ["gpu.count", "gpu.identity"]}
    assert world.operator.put("/v1/profiles/cases", json=body).status_code in {200, 201}


def part_number(expected: dict[str, Any]) -> str | None:
    """Older drivers print the board's number where newer ones print the chip's."""
    board, gpu = expected.get("board_part_number"), expected.get("gpu_part_number")
    return board or (gpu if gpu and BOARD_NUMBER.fullmatch(gpu) else None)


def wanted(expected: dict[str, Any]) -> dict[str, Any]:
    module = expected["module_id"]
    return {
        "slot": expected["pci_bus_id"],
        "serial": expected["serial"] if expected["serial_usable"] else None,
        "uuid": expected["uuid"] if expected["uuid_usable"] else None,
        "model": expected["name"],
        "part_number": part_number(expected),
        "module_id": None if module is None else str(module),
        "vbios": expected["vbios"],
        **{ours: expected[theirs] for theirs, ours in READINGS.items() if theirs in expected},
    }


def can_be_told(expected: dict[str, Any], serials: list[str | None]) -> bool:
    """A serial alone tells a GPU while it stands once in the list."""
    return expected["uuid_usable"] or (expected["serial_usable"] and serials.count(expected["serial"]) == 1)


def seen(shown: dict[str, Any], names: set[str]) -> dict[str, Any]:
    flat = {**shown["readings"], **shown, "vbios": shown["firmware"].get("vbios")}
    return {name: flat.get(name) for name in names}


@pytest.mark.parametrize(("engine", "name"), CASES, indirect=["engine"])
def test_a_capture_is_shown_field_by_field(world: World, name: str) -> None:
    expect(world, name)

    world.report_raw(**{part_of(name): (CORPUS / name).read_bytes()})

    answers = sorted(answer_for(name)["devices"], key=lambda one: one["pci_bus_id"])
    shown = world.on()
    assert len(shown) == len(answers)
    for device, expected in zip(shown, answers, strict=True):
        want = wanted(expected)
        assert seen(device, set(want)) == want
        raw = {(one["type"], one["value"]) for one in device["identifiers"] if not one["usable"]}
        for kind in ("serial", "uuid"):
            if not expected[f"{kind}_usable"] and expected[kind] is not None:
                assert (kind, expected[kind]) in raw


@one_engine
@pytest.mark.parametrize("name", READ)
def test_a_capture_of_a_machine_that_can_be_told_is_counted_right(world: World, name: str) -> None:
    expect(world, name)
    answer = answer_for(name)

    told = world.report_raw(**{part_of(name): (CORPUS / name).read_bytes()})

    devices, found = answer["devices"], codes(told["admission"])
    named = [one for one in devices if can_be_told(one, [other["serial"] for other in devices])]
    is_named = len(named) == len(devices)
    is_ill = len(devices) < answer.get("attached_gpus", 0) or "lost" in name or "remap" in name
    assert len(world.devices()) == len(named)
    assert ("device_unidentified" in found) is (not is_named)
    assert ("check_failing" in found) is is_ill
    assert told["pass"]["counted"] is (is_named and not is_ill and name not in BLIND and "inforom" not in name)


def refused(world: World, name: str, content: bytes) -> str:
    """Post what cannot be taken to a node that reported before; nothing may change. Returns the code."""
    before, shown = world.events(), world.on()

    known = world.post_raw(**{part_of(name): content})
    fresh = world.post_raw("node-new", **{part_of(name): content})

    assert (known.status_code, fresh.status_code) == (422, 422), name
    assert known.json["code"] == fresh.json["code"]
    assert len(known.json["detail"]) > 20
    assert [event for event in world.events() if event["type"] != "token.created"] == [
        event for event in before if event["type"] != "token.created"
    ]
    assert world.on() == shown
    assert world.operator.get("/v1/nodes/node-new").status_code == 404
    return str(known.json["code"])


@pytest.mark.parametrize("name", REFUSED)
def test_a_capture_that_cannot_be_true_is_refused_and_changes_nothing(world: World, name: str) -> None:
    expect(world, BASE)
    world.report_raw(nvidia_smi_xml=(CORPUS / BASE).read_bytes())

    code = refused(world, name, (CORPUS / name).read_bytes())

    assert code == ("slot_repeated" if name == TWICE else "part_unreadable")


@one_engine
def test_captures_cut_off_or_doubled_are_refused_and_change_nothing(world: World) -> None:
    expect(world, BASE)
    world.report_raw(nvidia_smi_xml=(CORPUS / BASE).read_bytes())

    for name in READ:
        whole = (CORPUS / name).read_bytes()
        for spoiled in (whole + whole, whole[: len(whole) // 2], whole[: len(whole) // 10], whole[:40], b""):
            assert refused(world, name, spoiled) == "part_unreadable"


def test_a_swapped_module_is_another_device_in_the_same_place(world: World) -> None:
    expect(world, BASE)
    world.report_raw(nvidia_smi_xml=(CORPUS / BASE).read_bytes())
    before = {device["slot"]: device for device in world.on()}
    swapped = "derived/h100-swapped-slot2-new-serial.xml"

    world.report_raw(nvidia_smi_xml=(CORPUS / swapped).read_bytes())

    after = {device["slot"]: device for device in world.on()}
    (slot,) = [slot for slot in before if before[slot]["id"] != after[slot]["id"]]
    (event,) = world.events("device.swapped")
    assert (event["data"]["serial"], event["data"]["slot"]) == (before[slot]["serial"], slot)
    assert len(world.devices()) == 9


def test_a_lost_gpu_is_known_by_its_place_and_the_seven_others_stay(world: World) -> None:
    """C42."""
    expect(world, BASE)
    world.report_raw(nvidia_smi_xml=(CORPUS / BASE).read_bytes())

    told = world.report_raw(nvidia_smi_xml=(CORPUS / "derived/h100-gpu4-lost-identity-kept.xml").read_bytes())

    failing = [one for one in told["admission"]["reasons"] if one["code"] == "check_failing"]
    assert {one["device"]["serial"] for one in failing} == {"1650000000004"}
    assert len(world.devices()) == len(world.on()) == 8


def test_the_first_gpu_of_a_list_that_cannot_be_reached_is_an_entry_of_its_own(world: World) -> None:
    """C36."""
    world.expect(4)

    told = world.report_raw(nvidia_smi_list=(CORPUS / "derived/smi-L-first-gpu-unreachable.txt").read_bytes())

    shown = world.on()
    assert [device["slot"] for device in shown if device["slot"]] == ["0000:18:00.0"]
    assert sorted(device["readings"]["index"] for device in shown if device["uuid"]) == [1, 2, 3]
    assert len(world.devices()) == 3
    assert {"device_unidentified", "check_failing"} <= set(codes(told["admission"]))
