# SPDX-License-Identifier: Apache-2.0
"""Groups E, F and J of the public reports: raw parts that say more, less or something else than was expected."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from tests.cases.conftest import GAP_SECONDS, World, codes, one_engine
from tests.cases.kernel import FIRST, bring_up, look, xid
from tests.collectors.documents import csv_document, xml_document
from tests.collectors.machines import change, h100_gpus

pytestmark = one_engine
EXCEEDED = b"<sram_threshold_exceeded>Yes</sram_threshold_exceeded>"


def test_an_sram_beyond_its_threshold_holds_its_gpu_until_a_person_has_looked(world: World) -> None:
    world.expect(8, "gpu.ecc", "gpu.row_remap")
    gpus = h100_gpus(8)
    good = xml_document(gpus)
    bad = good.replace(b"</aggregate>", EXCEEDED + b"</aggregate>", 1)

    answer = world.report_raw(nvidia_smi_xml=bad)
    assert codes(answer["admission"])[:2] == ["device_quarantined", "check_failing"]
    held = answer["admission"]["reasons"][0]
    assert held["device"]["serial"] == gpus[0].serial
    assert world.on()[0]["readings"]["sram_threshold_exceeded"] == "Yes"
    for at in range(3):
        world.clock.advance(GAP_SECONDS)
        answer = world.report_raw(nvidia_smi_xml=xml_document(gpus, stamp=f"Wed Sep  2 08:{at:02d}:30 2026"))

    assert codes(answer["admission"]) == ["device_quarantined"]


def test_lists_of_two_machines_in_one_report_change_nothing(world: World) -> None:
    gpus = h100_gpus(8)
    turned = [change(gpus, at, serial=one.serial, uuid=one.uuid)[at] for at, one in enumerate(reversed(gpus))]

    refused = world.post_raw("node-a", nvidia_smi_xml=xml_document(gpus), nvidia_smi_csv=csv_document(turned))

    assert refused.status_code == 422
    detail = refused.get_json()["detail"]
    assert "nvidia_smi_csv" in detail
    assert "nvidia_smi_xml" in detail
    assert gpus[0].slot[-12:].lower() in detail.lower()
    assert world.devices() == []


@pytest.mark.parametrize("prefix", ["node-7: [   55.100000] ", "[   55.100000] (CPU0) ", "I1129 12:00:00.1 1 x.go:1] "])
def test_a_log_behind_an_unknown_prefix_admits_nobody(world: World, prefix: str) -> None:
    bring_up(world)

    for _ in range(2):
        answer = look(world, f"{prefix}{xid(79, 2)}")

    assert "xid_unread" in {one["code"] for one in answer["warnings"]}
    assert "check_unknown" in codes(answer["admission"])
    assert look(world, f"[    0.000000] {FIRST}")["pass"]["counted"] is True


def test_the_conditions_of_another_machine_are_told_apart(world: World) -> None:
    changed = (world.clock.now - timedelta(hours=2)).isoformat()
    good = {"type": "KernelDeadlock", "status": "False", "lastTransitionTime": changed}
    node = {"kind": "Node", "metadata": {"name": "node-b"}, "status": {"conditions": [good]}}

    answer = world.report_raw(node_conditions=json.dumps(node).encode())

    assert [one["code"] for one in answer["warnings"]] == ["other_node"]
