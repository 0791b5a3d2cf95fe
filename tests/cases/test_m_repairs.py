# SPDX-License-Identifier: Apache-2.0
"""Groups L and M for those who carry repairs out: nothing old, nothing twice, never too much at once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from flask import Flask

from api.background import Background
from api.context import standing
from registry.config import Settings
from tests.cases.conftest import GAP_SECONDS, World, card, codes, one_engine, restarted, taken
from tests.cases.test_m_too_much_at_once import NODES, bring_up, decisions, look, name

ZONE_A = range(30)
BAD = {"name": "gpu.ecc", "status": "fail"}


@pytest.fixture
def worker(app: Flask) -> Background:
    """What the server does between requests."""
    return Background(standing(app))


def repairs(world: World, **filters: str) -> list[dict[str, Any]]:
    query = {"limit": "1000", "order": "asc", **filters}
    items: list[dict[str, Any]] = taken(world.operator.get("/v1/repairs", query_string=query))["items"]
    return items


def carry_out(world: World, order: dict[str, Any]) -> None:
    path = f"/v1/repairs/{order['id']}"
    token = taken(world.operator.post(f"{path}/claim", json={}))["token"]
    taken(world.operator.post(f"{path}/complete", json={"outcome": "done", "token": token}))


@one_engine
def test_a_zone_that_fails_at_once_is_not_repaired_until_a_person_says_so_and_then_little_by_little(
    world: World, worker: Background
) -> None:
    """C110."""
    bring_up(world)
    for _ in range(8):
        for number in ZONE_A:
            look(world, number, checks=[{**BAD, "device": card(number)["uuid"]}])
        world.clock.advance(90)
    worker.beat()
    assert Counter(one["state"] for one in repairs(world)) == {"planned": 30}
    assert "turned bad on" not in repairs(world)[0]["because"]
    (suspected,) = world.events("detector.suspected")
    assert (suspected["data"]["condition"], suspected["data"]["nodes"]) == (
        "gpu.ecc",
        5,
    )  # as soon as there were more than four

    body = {"reason": "the power was away, the check is right", "condition": "gpu.ecc"}
    assert taken(world.operator.post("/v1/repairs/resume", json=body))["suspected"] == []
    worker.beat()
    assert Counter(one["state"] for one in repairs(world)) == {"planned": 28, "ready": 2}  # one in twenty of forty

    for _ in range(12):
        world.clock.advance(30)  # longer, and the worker would have been away
        for number in range(NODES):
            look(world, number, boot_id="after the outage", checks=[{**BAD, "status": "pass"}])
        worker.beat()
    assert {(one["state"], one["outcome"]) for one in repairs(world)} == {("cancelled", "recovered")}
    assert taken(world.operator.get("/v1/repairs/budget"))["fleet"]["disturbed"] == 0
    assert all(one["admitted"] for one in decisions(world))


def test_a_fault_seen_during_a_repair_starts_nothing_when_the_service_starts_again(
    world: World, worker: Background, settings: Settings
) -> None:
    """C103."""
    world.expect(1)
    world.admit("node-a", [card(1)])
    bad = [{**BAD, "device": card(1)["uuid"]}]
    for _ in range(8):
        world.report("node-a", [card(1)], checks=bad)
        world.clock.advance(90)
    worker.beat()
    (order,) = repairs(world)
    world.report("node-a", [card(1)], checks=[*bad, {"name": "condition.kernel_deadlock", "status": "fail"}])
    carry_out(world, order)
    for _ in range(14):
        world.clock.advance(GAP_SECONDS)
        checks = [{**BAD, "status": "pass"}, {"name": "condition.kernel_deadlock", "status": "pass"}]
        world.report("node-a", [card(1)], boot_id="boot-2", checks=checks)
    before = len(world.events())

    with restarted(world, settings) as again:
        again.clock.advance(60)
        again.report("node-a", [card(1)], boot_id="boot-2", checks=checks)
        assert [one["state"] for one in repairs(again)] == ["done"]
        assert [one["type"] for one in again.events()[before:] if one["type"].startswith("repair")] == []


def test_an_order_never_reaches_the_machine_that_took_the_name(world: World, worker: Background) -> None:
    """C97, C105."""
    world.expect(1)
    world.admit("node-a", [card(1)])
    for _ in range(8):
        world.report("node-a", [card(1)], checks=[{**BAD, "device": card(1)["uuid"]}])
        world.clock.advance(90)
    worker.beat()
    (order,) = repairs(world)
    assert (order["state"], order["provider_id"]) == ("ready", "i-of-node-a")

    world.report("node-a", [card(2)], provider_id="i-2", boot_id="boot-2")
    refused = world.operator.post(f"/v1/repairs/{order['id']}/claim", json={})
    assert (refused.status_code, refused.json["code"]) == (409, "not_open")
    worker.beat()

    assert [(one["state"], one["outcome"]) for one in repairs(world)] == [("cancelled", "gone")]
    assert "check_failing" not in codes(world.decision("node-a"))
    assert name(0) not in {one["node"] for one in repairs(world)}
