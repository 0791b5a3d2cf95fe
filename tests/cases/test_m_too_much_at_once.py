# SPDX-License-Identifier: Apache-2.0
"""Group M of the public reports, and what else hits a whole fleet at once: outages, settings, updates, a bad check."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.cases.conftest import GAP_SECONDS, World, card, codes, one_engine, taken

NODES = 40


def name(number: int) -> str:
    return f"node-{number}"


def look(world: World, number: int, **fields: Any) -> dict[str, Any]:
    zone = "a" if number < 30 else "b"
    return world.report(name(number), [card(number)], **{"zone": zone, **fields})


def bring_up(world: World) -> None:
    world.expect(1)
    for _ in range(2):
        for number in range(NODES):
            look(world, number)
        world.clock.advance(GAP_SECONDS)


def decisions(world: World) -> list[dict[str, Any]]:
    body = {"candidates": [{"node": name(number)} for number in range(NODES)]}
    items: list[dict[str, Any]] = taken(world.operator.post("/v1/admissions", json=body))["items"]
    return items


def holds(world: World) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = taken(
        world.operator.get("/v1/quarantines", query_string={"state": "open", "limit": "1000"})
    )["items"]
    return items


@one_engine
def test_a_zone_that_goes_down_is_not_thirty_bad_nodes_and_clears_when_they_recover(world: World) -> None:
    """C110."""
    bring_up(world)
    for number in range(30):
        world.clock.advance(2)
        world.fault("xid_48", device=card(number)["uuid"])
    assert len(holds(world)) == 2  # one in twenty of forty
    out = [one for one in decisions(world) if not one["admitted"]]
    assert sum("quarantine_withheld" in codes(one) for one in out) == 28
    assert len(world.events("quarantine.withheld")) == 28
    for _ in range(2):
        world.clock.advance(GAP_SECONDS)
        for number in range(NODES):
            look(world, number, boot_id="after the outage")
    assert holds(world) == []
    assert all(one["admitted"] for one in decisions(world))


@one_engine
def test_a_bad_check_on_every_node_holds_a_few_and_people_release_them_all(world: World) -> None:
    bring_up(world)
    bad = {"name": "lab.stress", "status": "fail", "code": "gpu.diag_failed"}
    for number in range(NODES):
        look(world, number, checks=[{**bad, "device": card(number)["uuid"]}])
    assert len(holds(world)) == 2
    world.clock.advance(GAP_SECONDS)
    for number in range(NODES):  # it goes on failing: that is no new evidence
        look(world, number, checks=[{**bad, "device": card(number)["uuid"]}])
    assert len(holds(world)) == 2
    targets = [{"device": card(number)["uuid"]} for number in range(NODES)]
    body = {"targets": targets, "reason": "the check was wrong"}
    items = taken(world.operator.post("/v1/quarantines/release", json=body))["items"]
    assert {one["outcome"] for one in items} == {"released"}
    for _ in range(2):
        world.clock.advance(GAP_SECONDS)
        for number in range(NODES):
            look(world, number, checks=[{**bad, "status": "pass"}])
    assert holds(world) == []
    assert all(one["admitted"] for one in decisions(world))


@one_engine
def test_a_setting_that_fails_every_gpu_quarantines_none_and_one_isolated_gpu_goes(world: World) -> None:
    """C71."""
    bring_up(world)
    setting = {"name": "dcgm.diag", "status": "fail", "code": "dcgm_persistence_mode"}
    for number in range(NODES):
        look(world, number, checks=[{**setting, "device": card(number)["uuid"]}])
    assert holds(world) == []
    assert {tuple(codes(one)) for one in decisions(world)} == {("check_failing", "passes_insufficient")}
    ill = {"name": "dcgm.diag", "status": "fail", "code": "dcgm_faulty_memory", "device": card(7)["uuid"]}
    world.clock.advance(GAP_SECONDS)
    look(world, 7, checks=[{**setting, "device": card(7)["uuid"]}, ill])
    (hold,) = holds(world)
    assert [one["value"] for one in hold["identifiers"]] == [card(7)["serial"], card(7)["uuid"]]


@one_engine
def test_what_happens_during_a_driver_upgrade_is_stored_and_no_verdict_however_late_it_comes(world: World) -> None:
    """C77."""
    bring_up(world)
    began = world.clock.now
    until = (began + timedelta(hours=1)).isoformat()
    for number in range(20):
        taken(world.operator.post(f"/v1/nodes/{name(number)}/maintenance", json={"until": until, "reason": "driver"}))
    during = world.clock.advance(60)
    for number in range(10):
        muted = world.fault("xid_79", device=card(number)["uuid"])
        assert (muted["muted"], muted["effect"]) == ("maintenance", "record")
    world.clock.advance(60)
    over = world.clock.now.isoformat()
    for number in range(20):
        taken(world.operator.post(f"/v1/nodes/{name(number)}/maintenance", json={"until": over, "reason": "done"}))
    for number in range(10, 20):
        world.fault("xid_79", device=card(number)["uuid"], occurred_at=during.isoformat())
    assert holds(world) == []
    for number in range(NODES):
        look(world, number)
    assert all(one["admitted"] for one in decisions(world))
    world.clock.advance(1)
    world.fault("xid_79", device=card(3)["uuid"])
    assert len(holds(world)) == 1


def test_another_driver_alone_asks_for_two_new_passes(world: World) -> None:
    """C77."""
    world.expect(1)

    def report(driver: str) -> dict[str, Any]:
        world.clock.advance(GAP_SECONDS)
        return world.report("node-a", [{**card(1), "firmware": {"driver": driver, "vbios": "96.00"}}])

    report("580.65.06")
    assert report("580.65.06")["admission"]["admitted"]
    first = report("580.82.07")
    assert (first["pass"]["have"], codes(first["admission"])) == (1, ["passes_insufficient"])
    assert report("580.82.07")["admission"]["admitted"]
    assert [one["data"]["why"] for one in world.events("passes.reset")] == ["firmware_changed"]
