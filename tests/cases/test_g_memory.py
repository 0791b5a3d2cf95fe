# SPDX-License-Identifier: Apache-2.0
"""Group G of the public reports: memory errors, retired pages and remapped rows, healed and not healed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from tests.cases.conftest import GAP_SECONDS, World, codes, one_engine
from tests.collectors.documents import csv_document, q_document, xml_document
from tests.collectors.machines import Gpu, change, h100_gpus, v100_gpus

MAKERS = {"nvidia_smi_xml": xml_document, "nvidia_smi_q": q_document}
MEMORY = ("gpu.ecc", "gpu.row_remap")
_looks = count(1)


def look(world: World, gpus: Sequence[Gpu], part: str = "nvidia_smi_xml", **fields: Any) -> dict[str, Any]:
    """A fresh look at node-a, a gap after the one before."""
    at = next(_looks)
    stamp = f"Wed Sep  2 {at // 60 % 24:02d}:{at % 60:02d}:30 2026"
    world.clock.advance(GAP_SECONDS)
    return world.report_raw(**{part: MAKERS[part](gpus, stamp=stamp)}, fields=fields)


def row_remap(world: World) -> str:
    """Where the check stands on node-a."""
    return next(str(one["status"]) for one in world.show()["checks"] if one["name"] == "gpu.row_remap")


@pytest.mark.parametrize("part", MAKERS)
def test_a_pending_remap_is_no_pass_until_a_reset_and_the_rows_stay_known(world: World, part: str) -> None:
    """C64."""
    world.expect(8, *MEMORY)
    gpus = h100_gpus(8)
    for _ in range(2):
        look(world, gpus, part)
    assert world.decision()["admitted"] is True

    pending = h100_gpus(8, pending=[3])
    answer = look(world, pending, part)
    assert (answer["pass"]["counted"], answer["pass"]["because"]) == (False, "check_not_clean")
    assert codes(answer["admission"]) == ["device_quarantined", "check_failing", "passes_insufficient"]
    assert {one["device"]["serial"] for one in answer["admission"]["reasons"][:2]} == {gpus[3].serial}

    reset = change(gpus, 3, remapped=("0", "4", "No", "No"))
    assert look(world, reset, part)["pass"]["have"] == 1
    assert look(world, reset, part)["admission"]["admitted"] is True
    assert world.on()[3]["readings"]["remap_uncorrected"] == 4
    told = [one["data"]["to"] for one in world.events("check.changed") if one["data"]["check"] == "gpu.row_remap"]
    assert told == ["fail", "pass"]


@one_engine
@pytest.mark.parametrize("wrong", [{"pending": [3]}, {"failed": [3]}])
def test_a_table_shows_what_waits_to_be_remapped_too(world: World, wrong: dict[str, list[int]]) -> None:
    """C64, C67."""
    world.expect(8, *MEMORY)
    world.clock.advance(GAP_SECONDS)
    answer = world.report_raw(nvidia_smi_csv=csv_document(h100_gpus(8, **wrong)))
    assert "check_failing" in codes(answer["admission"])


@one_engine
@pytest.mark.parametrize("part", MAKERS)
@pytest.mark.parametrize("errors", [1, 2, 40])
def test_an_error_that_the_driver_mended_is_history_and_no_hindrance(world: World, part: str, errors: int) -> None:
    """C66."""
    world.expect(8, *MEMORY)
    mended = change(h100_gpus(8), 5, ecc=("0", "0", "3", str(errors)), remapped=("0", str(errors), "No", "No"))
    for _ in range(2):
        answer = look(world, mended, part)
    assert answer["admission"]["admitted"] is True
    assert world.on()[5]["readings"]["ecc_aggregate_uncorrected"] == errors
    assert {one["name"]: one["status"] for one in world.show()["checks"]}["gpu.ecc"] == "warn"
    (told,) = [one["data"] for one in world.events("check.changed") if one["data"]["check"] == "gpu.ecc"]
    assert (told["from"], told["to"], [one["status"] for one in told["findings"]]) == (None, "warn", ["warn"])
    assert world.events("failure.recorded", "quarantine.opened") == []


@one_engine
@pytest.mark.parametrize("part", MAKERS)
def test_an_uncorrectable_error_of_this_boot_blocks(world: World, part: str) -> None:
    """C66, the other side."""
    world.expect(8, *MEMORY)
    answer = look(world, h100_gpus(8, uncorrected=[2]), part)
    assert codes(answer["admission"]) == ["device_quarantined", "check_failing", "passes_insufficient"]


@pytest.mark.parametrize("part", MAKERS)
def test_a_remap_that_failed_keeps_the_node_out_whatever_is_reset(world: World, part: str) -> None:
    """C67."""
    world.expect(8, *MEMORY)
    gpus = h100_gpus(8, failed=[6])
    for boot in ("b1", "b2", "b3"):
        for _ in range(2):
            answer = look(world, gpus, part, boot_id=boot)
        held, failing, _ = answer["admission"]["reasons"]
        assert (held["code"], held["device"]["serial"]) == ("device_quarantined", gpus[6].serial)
        assert (failing["check"], failing["device"]["serial"]) == ("gpu.row_remap", gpus[6].serial)
        assert answer["pass"]["have"] == 0
    for _ in range(2):
        answer = look(world, h100_gpus(8), part, boot_id="b4")
    assert codes(answer["admission"]) == ["device_quarantined"]
    (hold,) = world.operator.get("/v1/quarantines").json["items"]
    assert (hold["owner"], hold["release_policy"]) == ("rule:gpu.row_remap.failed", "manual")


@one_engine
@pytest.mark.parametrize("part", MAKERS)
@pytest.mark.parametrize("retired", [("0", "0", "No"), ("3", "1", "No"), ("N/A", "N/A", "N/A")])
def test_a_part_without_remapped_rows_is_not_hindered(world: World, part: str, retired: tuple[str, str, str]) -> None:
    """C67: before Ampere the rows read N/A, and pages are retired instead."""
    world.expect(4, *MEMORY)
    gpus = v100_gpus(4)
    for at in range(4):
        gpus = change(gpus, at, remapped=None, retired=retired)
    for _ in range(2):
        answer = look(world, gpus, part)
    assert answer["admission"]["admitted"] is True, answer
    assert row_remap(world) in {"pass", "not_applicable"}


@one_engine
@pytest.mark.parametrize("part", MAKERS)
def test_a_page_that_waits_to_be_retired_blocks_on_such_a_part(world: World, part: str) -> None:
    """C67."""
    world.expect(4, *MEMORY)
    answer = look(world, change(v100_gpus(4), 1, retired=("3", "1", "Yes")), part)
    assert "check_failing" in codes(answer["admission"])


@one_engine
@pytest.mark.parametrize(
    ("value", "status"),
    [("9223372036854775794", "not_applicable"), ("9223372036854775792", "unknown"), ("ERR!", "unknown")],
)
def test_a_blank_of_the_monitor_is_no_flag(world: World, value: str, status: str) -> None:
    """C67: only the blank that says "not supported" proves that there is nothing to look at."""
    world.expect(4, *MEMORY)
    gpus = v100_gpus(4)
    for at in range(4):
        gpus = change(gpus, at, remapped=(value,) * 4, retired=("N/A", "N/A", "N/A"))
    answer = look(world, gpus)
    assert row_remap(world) == status
    assert answer["pass"]["counted"] is (status == "not_applicable")


@pytest.mark.parametrize("code", ["xid_48", "gpu.ecc.dbe", "xid_64"])
def test_a_restarted_agent_that_calls_all_healthy_heals_nothing(world: World, code: str) -> None:
    """C68."""
    world.expect(8, *MEMORY)
    gpus = h100_gpus(8)
    for _ in range(2):
        look(world, gpus)
    world.fault(code, device=gpus[4].serial)
    for _ in range(3):
        answer = look(world, gpus, seq=None)
    assert codes(answer["admission"]) == ["device_quarantined"]
    fields = {"checks": '[{"name": "gpu.thermal", "status": "pass"}]'}
    assert codes(look(world, gpus, **fields)["admission"]) == ["device_quarantined"]


def test_volatile_counters_that_a_reboot_zeroes_clear_no_hold(world: World) -> None:
    """C68."""
    world.expect(8, *MEMORY)
    ill = h100_gpus(8, uncorrected=[2])
    look(world, ill)
    world.fault("xid_64", device=ill[2].serial)
    for _ in range(3):
        answer = look(world, h100_gpus(8), boot_id="b2")
    assert codes(answer["admission"]) == ["device_quarantined"]
