# SPDX-License-Identifier: Apache-2.0
"""Does one of two controllers act, and does the other go on when it dies? Real processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from tests.kubernetes.conftest import Start
from tests.kubernetes.emulator import Emulator
from tests.kubernetes.nodes import BORN, Cluster
from tests.kubernetes.running import LEASE_SECONDS, RunningController, stays, wait_for
from tests.live.machines import Node, held, quarantine
from tests.live.server import Caller, LiveServer

pytestmark = pytest.mark.slow

ACTS, ACTS_NOT = "this controller acts", "this controller acts no longer"


@pytest.fixture
def pair(start: Start) -> tuple[RunningController, RunningController]:
    """The one that acts and the one that waits."""
    first = start()
    wait_for(lambda: first.said(ACTS))
    second = start()
    wait_for(lambda: second.said("started"))
    return first, second


def holder(api: Emulator) -> str:
    return str(api.objects.get("leases", "pratique-controller", "pratique")["spec"]["holderIdentity"])


def identity(one: RunningController) -> str:
    return str(one.said("started")[0]["identity"])


def test_when_the_leader_is_killed_the_other_goes_on(
    api: Emulator,
    cluster: Cluster,
    server: LiveServer,
    operator: Caller,
    pair: tuple[RunningController, RunningController],
) -> None:
    first, second = pair
    node = Node(server)
    cluster.register(node.name, BORN)
    node.admit()
    wait_for(lambda: cluster.effects(node.name) == [])
    assert second.said(ACTS) == []

    killed = time.monotonic()
    first.end(signal.SIGKILL)
    quarantine(operator, held(node))
    wait_for(lambda: cluster.effects(node.name) == ["NoSchedule"])

    assert time.monotonic() - killed > LEASE_SECONDS / 3  # a lease is never taken from one that may still act
    assert holder(api) == identity(second)


def test_one_that_is_told_to_stop_lets_the_other_begin_at_once(
    api: Emulator, pair: tuple[RunningController, RunningController]
) -> None:
    first, second = pair

    assert first.end() == 0
    assert first.said("the lease is given back")
    wait_for(lambda: second.said(ACTS))
    assert holder(api) == identity(second)


def test_one_that_stood_still_acts_no_longer_when_it_moves_again(
    api: Emulator,
    cluster: Cluster,
    server: LiveServer,
    operator: Caller,
    pair: tuple[RunningController, RunningController],
) -> None:
    first, second = pair
    assert first.process is not None
    node = Node(server)
    cluster.register(node.name, BORN)
    node.admit()
    wait_for(lambda: first.said("taints changed") and cluster.condition(node.name))
    assert cluster.effects(node.name) == []

    os.kill(first.process.pid, signal.SIGSTOP)
    wait_for(lambda: second.said(ACTS))
    before = len(first.said("taints changed"))
    quarantine(operator, held(node))
    wait_for(lambda: cluster.effects(node.name) == ["NoSchedule"])
    os.kill(first.process.pid, signal.SIGCONT)
    cluster.change_spec(node.name, taints=[])

    wait_for(lambda: first.said(ACTS_NOT))
    wait_for(lambda: cluster.effects(node.name) == ["NoSchedule"])
    assert len(first.said("taints changed")) == before, first.lines()
    assert holder(api) == identity(second)


def test_one_that_is_told_to_stop_in_the_middle_of_much_work_stops_and_gives_the_lease_back(
    api: Emulator, cluster: Cluster, server: LiveServer, start: Start
) -> None:
    for number in range(200):
        cluster.register(f"node-{number:03d}-of-many")
    api.on_request.append(lambda asked: time.sleep(0.2 if asked.verb == "patch" else 0))
    running = start()
    wait_for(lambda: running.said("taints changed"))

    told = time.monotonic()
    assert running.end() == 0
    assert time.monotonic() - told < 5  # of some twenty that are left
    assert running.said("the lease is given back")


def test_an_api_server_that_restarts_is_met_again(
    api: Emulator, cluster: Cluster, server: LiveServer, start: Start
) -> None:
    running = start()
    wait_for(lambda: running.said(ACTS))
    api.stop()
    time.sleep(2 * LEASE_SECONDS)
    node = Node(server)
    node.admit()
    cluster.register(node.name, BORN)

    api.start()

    wait_for(lambda: cluster.effects(node.name) == [], running.lines)
    assert running.said(ACTS_NOT)


def test_while_pratique_is_away_every_node_stays_as_it_is(cluster: Cluster, start: Start) -> None:
    """C111: with the service away GPU nodes keep their taints, and others are never touched."""
    cluster.register("gpu-shut", BORN)
    cluster.register("gpu-open")
    cluster.register("system", labels={})
    before = cluster.node("system")

    running = start("--patience", "0.5", url="http://127.0.0.1:1")

    for name, effects in (("gpu-shut", ["NoSchedule"]), ("gpu-open", [])):
        wait_for(lambda name=name: cluster.condition(name).get("status") == "Unknown", running.lines)  # type: ignore[misc]
        assert stays(still(cluster, name, effects))
    assert cluster.node("system") == before
    assert running.end() == 0


def still(cluster: Cluster, name: str, effects: list[str]) -> Callable[[], bool]:
    return lambda: cluster.effects(name) == effects
