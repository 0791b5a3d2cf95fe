# SPDX-License-Identifier: Apache-2.0
"""Group J, counts: are late EFAs waited for, and those that never come refused without blaming a device?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.conftest import GAP_SECONDS, World, card, codes, one_engine, taken

BOTH = ["gpu", "efa"]


def adapters(count: int) -> list[dict[str, Any]]:
    return [
        {"kind": "efa", "vendor": "amazon", "slot": f"0000:{0x80 + at:02x}:00.0", "mac": f"02:ab:00:00:{at:02x}:01"}
        for at in range(count)
    ]


def look(world: World, efas: int, **fields: Any) -> dict[str, Any]:
    return world.report("node-a", [card(0), *adapters(efas)], covers=BOTH, **fields)


def efa_count(world: World) -> str:
    return next(str(one["status"]) for one in world.show()["checks"] if one["name"] == "efa.count")


def test_c89_late_efas_are_no_fault_within_the_grace_time_and_admission_waits(world: World) -> None:
    world.expect(1, "efa.count", efas=16)
    world.report("node-a", [card(0)], covers=["gpu"])
    world.clock.advance(20)
    early = look(world, 14)

    assert efa_count(world) == "unknown"
    assert (early["pass"]["counted"], early["pass"]["because"]) == (False, "check_not_clean")
    assert codes(early["admission"]) == ["device_missing", "check_unknown", "passes_insufficient"]
    missing, unknown, _ = early["admission"]["reasons"]
    assert (missing["have"], missing["need"], missing.get("device")) == (14, 16, None)
    assert "Next: wait" in missing["message"]
    assert "14 of 16 listed; late ones are waited for until 2026-11-29T12:02:00Z" in unknown["message"]

    world.clock.advance(40)
    assert look(world, 16)["pass"]["have"] == 1
    world.clock.advance(GAP_SECONDS)
    assert look(world, 16)["admission"]["admitted"] is True
    assert [one["data"]["to"] for one in world.events("check.changed")] == ["unknown", "pass"]
    assert world.events("passes.reset", "failure.recorded", "device.vanished") == []


def test_c89_efas_that_never_come_are_refused_and_no_device_is_named(world: World) -> None:
    world.expect(1, "efa.count", efas=4)
    look(world, 1)
    world.clock.advance(119)
    last = look(world, 1)
    still = efa_count(world)
    world.clock.advance(1)
    refused = look(world, 1)

    assert (still, efa_count(world)) == ("unknown", "fail")
    assert codes(last["admission"]) == ["device_missing", "check_unknown", "passes_insufficient"]
    assert codes(refused["admission"]) == ["device_missing", "check_failing", "passes_insufficient"]
    assert all("device" not in reason for reason in refused["admission"]["reasons"])
    assert refused["admission"]["reasons"][0]["need"] == 4
    assert taken(world.operator.get("/v1/failures"))["items"] == []


@one_engine
def test_c89_a_node_that_says_the_same_again_is_not_waited_for_longer(world: World) -> None:
    world.expect(1, "efa.count", efas=4)
    for _ in range(5):
        look(world, 1)
        world.clock.advance(GAP_SECONDS)

    assert efa_count(world) == "fail"


@one_engine
def test_c89_each_boot_waits_anew_and_one_that_is_known_does_not(world: World) -> None:
    world.expect(1, "efa.count", efas=4)
    look(world, 4)
    world.clock.advance(500)
    look(world, 3)
    assert efa_count(world) == "fail"

    look(world, 3, boot_id="boot-2")

    assert efa_count(world) == "unknown"


@one_engine
def test_c89_gpus_are_not_waited_for_and_neither_is_one_efa_too_many(world: World) -> None:
    world.expect(2, "efa.count", efas=2)

    answer = look(world, 3)

    failing = {one["check"] for one in answer["admission"]["reasons"] if one["code"] == "check_failing"}
    assert failing == {"gpu.count", "efa.count"}


@one_engine
def test_c90_where_no_efa_belongs_none_is_missed(world: World) -> None:
    clean = [{"name": name, "status": "pass"} for name in ("gpu.ecc", "gpu.row_remap", "gpu.xid")]
    for _ in range(2):
        answer = world.report("node-a", [card(0)], covers=BOTH, profile="g5.xlarge", checks=clean)
        world.clock.advance(GAP_SECONDS)

    assert answer["admission"]["admitted"] is True
    assert "efa.count" not in {one["name"] for one in world.show()["checks"]}


@one_engine
def test_c90_an_unknown_type_has_to_be_described_by_hand(world: World) -> None:
    answer = world.report("node-a", [card(0)], covers=BOTH, profile="x9.unheard")

    assert "profile_unknown" in codes(answer["admission"])
    assert "device_missing" not in codes(answer["admission"])


@one_engine
@pytest.mark.parametrize("count", [3, 5])
def test_c107_counts_that_agree_with_each_other_and_not_with_the_profile_fail(world: World, count: int) -> None:
    world.expect(4)
    head = "count, serial, uuid, pci.bus_id\n"
    rows = (
        f"{count}, 165{at:010d}, GPU-aaaa{at:04d}-0000-0000-0000-{at:012d}, 0000:{at:02x}:00.0" for at in range(count)
    )

    answer = world.report_raw(nvidia_smi_csv=(head + "\n".join(rows) + "\n").encode())

    failing = [one["check"] for one in answer["admission"]["reasons"] if one["code"] == "check_failing"]
    assert failing == ["gpu.count"]
