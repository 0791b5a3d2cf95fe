# SPDX-License-Identifier: Apache-2.0
"""What do the conditions of a Kubernetes Node amount to: just begun, alternating, stuck, spelt in many ways?"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask

from api.background import Background
from api.context import standing
from registry.config import Settings
from tests.cases.conftest import GAP_SECONDS, World, codes, one_engine, restarted
from tests.cases.kernel import CARDS, failures


def node_object(world: World, *conditions: dict[str, Any]) -> bytes:
    """What kubectl prints. Each condition may leave out its times: old, and seen now."""
    now, old = world.clock.now, world.clock.now - timedelta(hours=1)
    plain = {"lastHeartbeatTime": f"{now:%Y-%m-%dT%H:%M:%SZ}", "lastTransitionTime": f"{old:%Y-%m-%dT%H:%M:%SZ}"}
    listed = [{**plain, "reason": "Said", "message": "as its detector says", **one} for one in conditions]
    meta = {"name": "node-a", "uid": "1"}
    return json.dumps({"kind": "Node", "metadata": meta, "status": {"conditions": listed}}).encode()


def tell(world: World, *conditions: dict[str, Any]) -> dict[str, Any]:
    """Report the cards a gap later, with the conditions of the node."""
    world.clock.advance(GAP_SECONDS)
    fields = {"devices": json.dumps(CARDS), "covers": '["gpu"]'}
    return world.report_raw(node_conditions=node_object(world, *conditions), fields=fields)


def statuses(world: World) -> dict[str, str]:
    """Where each condition stands, by its check."""
    return {one["name"]: one["status"] for one in world.show()["checks"] if one["name"].startswith("condition.")}


@one_engine
@pytest.mark.parametrize("status", ["True", "False"])
def test_a_condition_in_the_window_after_its_detector_started_is_unknown(world: World, status: str) -> None:
    """C113."""
    world.expect(4, "condition.gpu_healthy")
    for _ in range(3):
        changed = f"{world.clock.now + timedelta(seconds=GAP_SECONDS - 3):%Y-%m-%dT%H:%M:%SZ}"
        answer = tell(world, {"type": "GPUHealthy", "status": status, "lastTransitionTime": changed})
        assert (answer["pass"]["counted"], statuses(world)) == (False, {"condition.gpu_healthy": "unknown"})
        assert "check_failing" not in codes(answer["admission"])
    for _ in range(2):
        answer = tell(world, {"type": "GPUHealthy", "status": "True"})
    assert answer["admission"]["admitted"] is True


@one_engine
def test_a_condition_that_alternates_each_minute_never_lets_a_node_in(world: World) -> None:
    """C114."""
    world.expect(4)
    for at_ in range(8):
        changed = f"{world.clock.now + timedelta(seconds=GAP_SECONDS - 10):%Y-%m-%dT%H:%M:%SZ}"
        status = "True" if at_ % 2 else "False"
        answer = tell(world, {"type": "KernelDeadlock", "status": status, "lastTransitionTime": changed})
        assert answer["admission"]["admitted"] is False


@one_engine
def test_a_condition_that_stays_true_blocks_since_it_changed_however_its_heartbeat_moves(world: World) -> None:
    """C114."""
    world.expect(4)
    since = f"{world.clock.now - timedelta(days=8):%Y-%m-%dT%H:%M:%SZ}"
    for _ in range(4):
        told = {"type": "XidCriticalError", "status": "True", "reason": '{"31":true}', "lastTransitionTime": since}
        answer = tell(world, told)
        assert "check_failing" in codes(answer["admission"])
    (failure,) = failures(world)
    assert (failure["code"], failure["count"]) == ("xid_31", 1)
    assert failure["occurred_at"].startswith(since[:-1])
    assert len(world.events("check.changed")) == 1
    (check,) = [one for one in world.show()["checks"] if one["name"] == "condition.xid_critical_error"]
    assert check["since"] < check["at"]
    assert since[:10] in check["findings"][0]["message"]


@one_engine
@pytest.mark.parametrize(
    ("type_", "status", "stands"),
    [
        ("XidCriticalError", "True", "fail"),
        ("XidCriticalError", True, "fail"),
        ("XidCriticalError", "False", "pass"),
        ("XidCriticalError", False, "pass"),
        ("XidCriticalError", "Unknown", "unknown"),
        ("XidCriticalError", "", "unknown"),
        ("AcceleratedHardwareReady", "True", "pass"),
        ("AcceleratedHardwareReady", True, "pass"),
        ("AcceleratedHardwareReady", "False", "fail"),
        ("AcceleratedHardwareReady", False, "fail"),
        ("AcceleratedHardwareReady", "Unknown", "unknown"),
    ],
)
def test_each_type_has_its_own_polarity_and_the_reason_does_not_change_it(
    world: World, type_: str, status: str | bool, stands: str
) -> None:
    """C116."""
    world.expect(4)
    reason = "XidCriticalError" if type_ == "AcceleratedHardwareReady" else "AcceleratedHardwareReady"

    for _ in range(2):
        answer = tell(world, {"type": type_, "status": status, "reason": reason})

    assert list(statuses(world).values()) == [stands]
    assert answer["admission"]["admitted"] is (stands == "pass")


@one_engine
@pytest.mark.parametrize("status", ["True", "False", "Unknown", True])
def test_a_type_that_nobody_knows_is_told_and_has_no_effect(world: World, status: str | bool) -> None:
    """C116."""
    world.expect(4)

    for _ in range(2):
        answer = tell(world, {"type": "FluxCapacitorCharged", "status": status, "reason": '{"79":true}'})

    assert [one["code"] for one in answer["warnings"]] == ["unknown_condition"]
    assert "FluxCapacitorCharged" in answer["warnings"][0]["message"]
    assert (statuses(world), failures(world)) == ({}, [])
    assert answer["admission"]["admitted"] is True


@one_engine
@pytest.mark.parametrize("reason", ['{"31":true,"79":false}', {"31": True, "79": False}, "Xid31", ["31"]])
def test_the_codes_in_a_reason_are_faults_of_the_node(world: World, reason: Any) -> None:
    """C116."""
    world.expect(4)
    since = f"{world.clock.now:%Y-%m-%dT%H:%M:%SZ}"
    for _ in range(2):
        told = {"type": "XidCriticalError", "status": "True", "reason": reason, "lastTransitionTime": since}
        tell(world, told)
    assert [(one["code"], one["node"], one["serial"]) for one in failures(world)] == [("xid_31", "node-a", None)]


def conditions(world: World) -> list[tuple[str, str]]:
    """Name and status of what stands on the node."""
    return [(one["name"], one["status"]) for one in world.show()["conditions"]]


def last(world: World, seconds: int, told: dict[str, Any]) -> dict[str, Any]:
    """Let a condition of the node be told for so long, and return the last answer."""
    end = world.clock.now + timedelta(seconds=seconds)
    while world.clock.now < end:
        world.clock.advance(60)
        answer = tell(world, told)
    return answer


@one_engine
def test_a_condition_that_comes_and_goes_blocks_while_it_is_well(world: World) -> None:
    """C114."""
    world.expect(4)
    for _ in range(3):
        tell(world, {"type": "KernelDeadlock", "status": "True"})
        answer = tell(world, {"type": "KernelDeadlock", "status": "False"})
    answer = tell(world, {"type": "KernelDeadlock", "status": "False"})

    (reason,) = answer["admission"]["reasons"]
    assert (reason["code"], reason["check"]) == ("check_failing", "condition.kernel_deadlock.flapping")
    assert (answer["admission"]["disposition"], answer["pass"]["have"]) == ("hold", 2)
    assert conditions(world) == [("condition.kernel_deadlock.flapping", "problem")]

    world.clock.advance(3600)
    for _ in range(2):
        answer = tell(world, {"type": "KernelDeadlock", "status": "False"})
    assert answer["admission"]["admitted"] is True


@pytest.mark.parametrize(
    ("type_", "status", "tolerance"), [("AcceleratedHardwareReady", "False", 600), ("KernelDeadlock", "True", 1800)]
)
def test_a_condition_is_a_failure_after_its_tolerance_whatever_restarts_and_whoever_words_it(
    world: World, settings: Settings, type_: str, status: str, tolerance: int
) -> None:
    """C114: the time of the transition counts, not that of the heartbeat."""
    world.expect(4)
    told = {"type": type_, "status": status}
    begun = world.clock.now
    answer = tell(world, {**told, "reason": "First"})
    assert (codes(answer["admission"])[0], answer["admission"]["disposition"]) == ("check_failing", "hold")
    answer = last(world, tolerance - 200, {**told, "reason": "Second", "message": "in other words"})
    assert answer["admission"]["disposition"] == "hold"

    with restarted(world, settings) as again:
        (stands,) = again.show()["conditions"]
        assert (stands["status"], stands["tolerance_seconds"]) == ("problem", tolerance)
        assert stands["since"] == f"{begun + timedelta(seconds=GAP_SECONDS):%Y-%m-%dT%H:%M:%S}.000000Z"
        assert "Second" in stands["message"]
        assert [one["type"] for one in again.events() if one["type"].startswith("condition.")] == ["condition.opened"]
        answer = last(again, 200, told)

    assert answer["admission"]["disposition"] == "drain"
    assert "condition_failure" in codes(answer["admission"])


@one_engine
def test_the_worker_tells_in_time_what_nobody_asks_about(world: World, app: Flask) -> None:
    world.expect(4)
    one, other = Background(standing(app)), Background(standing(app))
    tell(world, {"type": "AcceleratedHardwareReady", "status": "False"})
    for number in range(62):
        world.clock.advance(10)
        (one, other)[number % 2].beat()
        if number % 6 == 0:
            world.report("node-a")  # it lives, and says no more of its cluster

    told = world.events("condition.failed")
    assert [(one["data"]["condition"], one["actor"]["kind"]) for one in told] == [
        ("condition.accelerated_hardware_ready", "system")
    ]
    assert told[0]["at"] <= f"{world.clock.now - timedelta(seconds=1):%Y-%m-%dT%H:%M:%S}"


@one_engine
def test_a_monitor_that_is_away_for_eight_days_makes_no_failure(world: World) -> None:
    """C76."""
    world.expect(4)
    away = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "DCGMError"}
    for _ in range(8):
        world.clock.advance(24 * 3600)
        last(world, 120, away)

    assert conditions(world) == [("condition.accelerated_hardware_ready", "unknown")]
    assert world.decision()["disposition"] == "hold"
    for _ in range(2):
        answer = tell(world, {**away, "status": "True", "reason": "Said"})
    assert answer["admission"]["admitted"] is True
    assert conditions(world) == []
