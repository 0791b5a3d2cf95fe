# SPDX-License-Identifier: Apache-2.0
"""Is a node of a cluster kept closed until it is admitted, and closed again when it no longer is? Real processes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from registry.domain.times import rfc3339
from tests.kubernetes.conftest import Start
from tests.kubernetes.emulator import Emulator
from tests.kubernetes.nodes import BORN, FOREIGN, Cluster
from tests.kubernetes.objects import Document
from tests.kubernetes.running import RunningController, stays, wait_for
from tests.live.machines import Node, fresh_gpus, held, quarantine, release
from tests.live.server import Caller, LiveServer

pytestmark = pytest.mark.slow


def test_a_node_is_born_closed_opened_closed_by_a_hold_and_opened_again(
    api: Emulator, cluster: Cluster, server: LiveServer, operator: Caller, start: Start
) -> None:
    node = Node(server)
    cluster.register(node.name, BORN, FOREIGN, unschedulable=True)
    running = start()

    is_closed(cluster, node, running, "NodeUnknown")
    node.report()
    is_closed(cluster, node, running, "PassesInsufficient")
    node.report()
    is_open(cluster, node, running)
    since = cluster.condition(node.name)["lastTransitionTime"]

    hold = quarantine(operator, held(node))[0]["quarantine"]["id"]
    is_closed(cluster, node, running, "DeviceQuarantined")
    assert "it smells" in cluster.condition(node.name)["message"]
    assert cluster.condition(node.name)["lastTransitionTime"] >= since

    release(operator, hold)
    is_closed(cluster, node, running, "PassesInsufficient")
    node.admit()
    is_open(cluster, node, running)

    assert [one for one in cluster.taints(node.name) if one["key"] == FOREIGN["key"]] == [FOREIGN]
    assert cluster.node(node.name)["spec"]["unschedulable"] is True
    assert running.end() == 0
    assert api.objects.get("leases", "pratique-controller", "pratique")["spec"]["holderIdentity"] == ""


def test_a_machine_that_takes_over_a_name_or_boots_anew_waits_for_passes_of_its_own(
    api: Emulator, cluster: Cluster, server: LiveServer, start: Start
) -> None:
    """C97, C105: what another instance or an earlier boot of the name reported lets nobody in."""
    node = Node(server)
    node.admit()
    cluster.register(node.name, BORN)
    boots(api, node.name, "boot-1")
    running = start("--match-boot")
    is_open(cluster, node, running)

    boots(api, node.name, "boot-2")  # its agent is not up yet; the newest reports are a moment old
    is_closed(cluster, node, running, "PassesInsufficient")
    for _ in range(2):
        node.report(boot_id="boot-2")
    is_open(cluster, node, running)

    api.objects.delete("nodes", node.name)
    cluster.register(node.name, BORN)
    boots(api, node.name, "boot-of-another-machine")
    is_closed(cluster, node, running, "PassesInsufficient")


def test_what_is_not_ours_is_left_alone(cluster: Cluster, server: LiveServer, start: Start) -> None:
    system, ours = Node(server), Node(server)
    cluster.register(system.name, BORN, labels={})
    cluster.register(ours.name, BORN)
    for one in (system, ours):
        one.admit()
    before = cluster.node(system.name)
    running = start()

    is_open(cluster, ours, running)

    assert cluster.node(system.name) == before


def test_a_node_that_is_short_of_a_gpu_is_open_under_a_waiver_and_no_longer(
    cluster: Cluster, server: LiveServer, operator: Caller, start: Start
) -> None:
    """C107: three GPUs of four, until a person says that three will do, and until that ends."""
    node = Node(server, gpus=fresh_gpus(3))
    cluster.register(node.name, BORN)
    for _ in range(2):
        node.report()
    running = start()
    is_closed(cluster, node, running, "DeviceMissing")

    waive(operator, node, datetime.now(UTC) + timedelta(hours=1))
    for _ in range(2):
        node.report()
    is_open(cluster, node, running)
    waive(operator, node, datetime.now(UTC) - timedelta(seconds=1))
    is_closed(cluster, node, running, "DeviceMissing")


def test_pods_are_evicted_only_where_told_to_and_only_while_it_drains(
    cluster: Cluster, server: LiveServer, operator: Caller, start: Start
) -> None:
    """C106: the service evicts nothing by itself; a drain closes the node, and with the option evicts."""
    node = Node(server)
    node.admit()
    cluster.register(node.name)
    quiet = start()
    hold = quarantine(operator, held(node), drain=True)[0]["quarantine"]["id"]
    wait_for(lambda: cluster.effects(node.name) == ["NoSchedule"])
    assert stays(lambda: cluster.effects(node.name) == ["NoSchedule"])
    quiet.end()

    evicting = start("--evict-on-drain")
    wait_for(lambda: cluster.effects(node.name) == ["NoExecute", "NoSchedule"], evicting.lines)
    release(operator, hold)
    wait_for(lambda: cluster.effects(node.name) == ["NoSchedule"], evicting.lines)
    node.admit()
    is_open(cluster, node, evicting)


def waive(operator: Caller, node: Node, until: datetime) -> None:
    """Somebody accepts three GPUs."""
    body = {"kind": "gpu", "count": 3, "until": rfc3339(until), "reason": "the spare comes on Friday"}
    answer = operator.post(f"/v1/nodes/{node.name}/waivers", body)
    assert answer.status_code in {200, 201}, answer.text


def boots(api: Emulator, name: str, boot_id: str) -> None:
    """The kubelet tells of its boot."""

    def change(old: Document) -> Document:
        return {**old, "status": {**old["status"], "nodeInfo": {"bootID": boot_id}}}

    api.objects.update("nodes", name, change, subresource="status")


def is_closed(cluster: Cluster, node: Node, running: RunningController, reason: str) -> None:
    """Our taint stands, and the condition says why."""
    wait_for(lambda: cluster.condition(node.name).get("reason") == reason, running.lines)
    assert cluster.condition(node.name)["status"] == "False"
    assert cluster.effects(node.name) == ["NoSchedule"]


def is_open(cluster: Cluster, node: Node, running: RunningController) -> None:
    """Nothing of ours keeps pods away."""
    wait_for(lambda: cluster.condition(node.name).get("status") == "True", running.lines)
    assert cluster.condition(node.name)["reason"] == "Admitted"
    assert cluster.effects(node.name) == []
