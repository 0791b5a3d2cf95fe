# SPDX-License-Identifier: Apache-2.0
"""Group H of the public reports: DCGM blames a setting on all GPUs, prints two shapes, or is not there at all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.conftest import GAP_SECONDS, World, codes, one_engine
from tests.collectors.dcgm import diag3, diag4, gpus4, health, warning
from tests.collectors.documents import xml_document
from tests.collectors.machines import h100_gpus

OFF = warning(29, 5, "persistence mode is off")
HOST_ENGINE_AWAY = b"Error: Unable to connect to host engine. Host engine connection invalid/disconnected.\n"


def document(node: int, *, minute: int = 0, gpus: int = 8) -> bytes:
    """Another look at the GPUs of a node."""
    return xml_document(h100_gpus(gpus, node=node), stamp=f"Wed Sep  2 08:{minute:02d}:30 2026")


def serials(node: int, gpus: int = 8) -> list[str | None]:
    return [gpu.serial for gpu in h100_gpus(gpus, node=node)]


def held(world: World) -> list[str]:
    """The serials of the devices in quarantine."""
    return [device["serial"] for device in world.devices(state="quarantined")]


def check(world: World, name: str, node: str = "node-a") -> dict[str, Any]:
    """Where a check stands, by the node's page."""
    return next(one for one in world.show(node)["checks"] if one["name"] == name)


@one_engine
def test_a_setting_that_fails_every_gpu_of_the_fleet_holds_no_device(world: World) -> None:
    """C71."""
    world.expect(8)
    for node in range(12):
        failing = {at: ("Fail", [OFF]) for at in range(8)}
        answer = world.report_raw(
            f"node-{node}",
            nvidia_smi_xml=document(node),
            dcgm_diag=gpus4(8, failing, serials=serials(node)),
        )
        assert answer["pass"]["because"] == "check_not_clean"
        assert "check_failing" not in codes(answer["admission"])

    assert held(world) == []
    assert world.events("quarantine.opened", "quarantine.withheld", "failure.recorded") == []
    assert "misconfigured" in str(check(world, "dcgm.diag", "node-3"))


def test_one_device_to_isolate_among_them_goes_alone(world: World) -> None:
    """C71."""
    world.expect(8)
    failing = {at: ("Fail", [OFF]) for at in range(8)} | {3: ("Fail", [OFF, warning(52, 2)])}

    answer = world.report_raw(nvidia_smi_xml=document(0), dcgm_diag=gpus4(8, failing, serials=serials(0)))

    assert held(world) == [serials(0)[3]]
    reasons = [one for one in answer["admission"]["reasons"] if one["code"] == "device_quarantined"]
    assert [one["device"]["serial"] for one in reasons] == [serials(0)[3]]


@one_engine
@pytest.mark.parametrize("word", ["FAIL", "Failed!"])
def test_the_gpu_that_failed_is_found_behind_any_text_and_in_any_word(world: World, word: str) -> None:
    """C73."""
    world.expect(8)
    results = [{"gpu_ids": "0,1,2,3,4,6,7", "status": "PASS"}, {"gpu_ids": "5", "status": word}]

    answer = world.report_raw(nvidia_smi_xml=document(0), dcgm_diag=diag3(results))

    reasons = [one for one in answer["admission"]["reasons"] if one["code"] == "check_failing"]
    assert [one["device"]["serial"] for one in reasons] == [serials(0)[5]]
    assert held(world) == [serials(0)[5]]


@one_engine
def test_both_versions_give_the_same_verdict(world: World) -> None:
    """C74."""
    world.expect(8)
    old = diag3([{"gpu_ids": "0,1,2,3", "status": "PASS"}, {"gpu_ids": "2", "status": "FAIL", "warnings": [warning()]}])
    results = [("GPU", at, "Fail" if at == 2 else "Pass", [warning()] if at == 2 else []) for at in range(4)]
    new = diag4([*results, ("CPU", 3, "Pass", [])], serials=serials(1)[:4])

    decisions = [
        world.report_raw(node, nvidia_smi_xml=document(at), dcgm_diag=diag)["admission"]
        for at, (node, diag) in enumerate((("node-a", old), ("node-b", new)))
    ]

    assert codes(decisions[0]) == codes(decisions[1])
    assert sorted(held(world)) == sorted([serials(0)[2], serials(1)[2]])


@one_engine
def test_a_cpu_is_not_the_gpu_of_the_same_number(world: World) -> None:
    """C74."""
    world.expect(8)
    diag = diag4([("GPU", 0, "Pass", []), ("CPU", 0, "Fail", [warning(95)])], serials=serials(0)[:1])

    answer = world.report_raw(nvidia_smi_xml=document(0), dcgm_diag=diag)

    assert held(world) == []
    (reason,) = [one for one in answer["admission"]["reasons"] if one["code"] == "check_failing"]
    assert "device" not in reason
    assert "CPU 0" in reason["message"]


def test_a_number_is_a_device_only_through_a_list_of_the_same_boot(world: World) -> None:
    """C74."""
    world.expect(8)
    world.report_raw(nvidia_smi_xml=document(0))
    watches = health("Failure", GPU={"2": {"Memory system": ("Failure", ["something broke"])}})

    booted = world.report_raw(fields={"boot_id": "boot-2"}, dcgm_health=watches)["admission"]
    assert held(world) == []
    assert "check_failing" in codes(booted)

    world.report_raw(fields={"boot_id": "boot-2"}, nvidia_smi_xml=document(0, minute=1))
    world.report_raw(fields={"boot_id": "boot-2"}, dcgm_health=watches)
    assert held(world) == [serials(0)[2]]


def test_a_host_engine_out_of_reach_condemns_nobody_and_good_runs_count_after_it(world: World) -> None:
    """C76."""
    world.expect(8)
    away = world.report_raw(nvidia_smi_xml=document(0), dcgm_health=HOST_ENGINE_AWAY)

    assert away["pass"]["because"] == "check_not_clean"
    assert world.events("failure.recorded", "quarantine.opened") == []
    assert check(world, "dcgm.health")["status"] == "unknown"

    for minute in (1, 2):
        world.clock.advance(GAP_SECONDS)
        answer = world.report_raw(nvidia_smi_xml=document(0, minute=minute), dcgm_health=health("Healthy"))
        assert answer["pass"]["counted"]
    assert answer["admission"]["admitted"]
    assert check(world, "dcgm.health")["status"] == "pass"


@one_engine
def test_a_heartbeat_without_the_watch_is_no_new_word_of_it(world: World) -> None:
    """C76."""
    world.expect(8, "dcgm.health")
    world.report_raw(nvidia_smi_xml=document(0), dcgm_health=HOST_ENGINE_AWAY)
    world.clock.advance(GAP_SECONDS)

    decision = world.report_raw(nvidia_smi_xml=document(0, minute=1))["admission"]

    assert not decision["admitted"]
    assert check(world, "dcgm.health")["status"] == "unknown"


@one_engine
def test_what_dcgm_loses_in_maintenance_is_kept_and_judges_nobody(world: World) -> None:
    """C77."""
    world.expect(8)
    nodes = [f"node-{at}" for at in range(5)]
    for at, node in enumerate(nodes):
        world.report_raw(node, nvidia_smi_xml=document(at))
        until = world.clock.now.replace(hour=23, minute=59).isoformat()
        set_ = world.operator.post(f"/v1/nodes/{node}/maintenance", json={"until": until, "reason": "driver upgrade"})
        assert set_.status_code == 200, set_.text
        world.report_raw(node, dcgm_health=HOST_ENGINE_AWAY)

    assert held(world) == []
    assert world.events("quarantine.opened", "quarantine.withheld") == []


@one_engine
def test_a_thermal_violation_of_no_seconds_is_below_a_failure(world: World) -> None:
    """C80."""
    world.expect(8)
    hot = warning(40, 1, "There were thermal violations totaling 0.0 seconds for GPU 1")

    answer = world.report_raw(nvidia_smi_xml=document(0), dcgm_diag=gpus4(8, {1: ("Fail", [hot])}, serials=serials(0)))

    assert answer["pass"]["counted"]
    assert held(world) == []
    assert world.events("failure.recorded") == []


@one_engine
def test_a_test_that_the_product_never_runs_does_not_keep_its_node_out_for_ever(world: World) -> None:
    body = {
        "gpu": {"count": 2},
        "required_checks": ["gpu.count", "gpu.identity"],
        "per_boot_checks": ["dcgm.diag"],
    }
    assert world.operator.put("/v1/profiles/cases", json=body).status_code in {200, 201}
    looked = [{"gpu_ids": "0,1", "status": "PASS"}]
    left_out = [{"gpu_ids": "0,1", "status": "SKIP", "warnings": [warning(48, 5, "skipped for this GPU")]}]

    for minute, (name, results) in enumerate((("memory", left_out), ("memory", [*looked, *left_out]))):
        world.clock.advance(GAP_SECONDS)
        answer = world.report_raw(
            nvidia_smi_xml=document(0, minute=minute, gpus=2), dcgm_diag=diag3(results, test=name)
        )
        assert answer["pass"]["counted"] is (len(results) == 2), answer["pass"]

    world.clock.advance(GAP_SECONDS)
    assert world.report_raw(nvidia_smi_xml=document(0, minute=9, gpus=2))["admission"]["admitted"]


def test_a_failed_watch_is_told_once_however_often_it_is_read(world: World) -> None:
    world.expect(8)
    watches = health("Failure", GPU={"4": {"NVLINK system": ("Failure", ["a link is down"])}})
    for minute in range(4):
        world.clock.advance(GAP_SECONDS)
        world.report_raw(nvidia_smi_xml=document(0, minute=minute), dcgm_health=watches)

    world.report_raw(dcgm_health=watches)

    (event,) = world.events("failure.recorded")
    assert (event["data"]["code"], event["data"]["serial"]) == ("dcgm_health_nvlink", serials(0)[4])
    (failure,) = world.operator.get("/v1/failures").json["items"]
    assert failure["count"] == 1
