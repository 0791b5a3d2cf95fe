# SPDX-License-Identifier: Apache-2.0
"""Does the emulator pass for a cluster before the real `kubectl`, and what becomes of what people do with it?"""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from registry.domain.taints import TAINT_KEY
from tests.kubernetes.conftest import Kubectl, Start
from tests.kubernetes.emulator import Emulator
from tests.kubernetes.nodes import BORN, FOREIGN, Cluster
from tests.kubernetes.objects import Attempt, Denied
from tests.kubernetes.running import done, wait_for
from tests.live.machines import Node, held, quarantine
from tests.live.server import Caller, LiveServer

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def test_it_lists_describes_taints_and_cordons(api: Emulator, cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.register("node-a", BORN)

    assert "node-a" in done(kubectl("get", "nodes", "-l", "pratique.dev/managed=true"))
    done(kubectl("taint", "nodes", "node-a", "example.com/theirs=x:NoExecute"))
    assert [one["key"] for one in cluster.taints("node-a")] == ["example.com/theirs", TAINT_KEY]
    done(kubectl("taint", "nodes", "node-a", f"{TAINT_KEY}:NoSchedule-"))
    assert cluster.effects("node-a") == []
    done(kubectl("cordon", "node-a"))
    assert cluster.node("node-a")["spec"]["unschedulable"] is True
    done(kubectl("label", "node", "node-a", "pratique.dev/managed-"))
    assert "pratique.dev/managed" not in cluster.node("node-a")["metadata"]["labels"]
    told = done(kubectl("describe", "node", "node-a"))
    assert "Unschedulable:      true" in told
    assert "example.com/theirs=x:NoExecute" in told


def test_a_dry_run_and_a_change_that_is_denied_change_nothing(
    api: Emulator, cluster: Cluster, kubectl: Kubectl
) -> None:
    cluster.register("node-a", BORN)
    seen: list[Attempt] = []

    def deny(attempt: Attempt) -> None:
        seen.append(attempt)
        if not attempt.dry_run:
            raise Denied("node-a is not admitted: device_quarantined")

    api.objects.before_update.append(deny)

    done(kubectl("taint", "nodes", "node-a", f"{TAINT_KEY}:NoSchedule-", "--dry-run=server"))
    refused = kubectl("taint", "nodes", "node-a", f"{TAINT_KEY}:NoSchedule-")

    assert refused.returncode == 1
    assert "device_quarantined" in refused.stderr
    assert cluster.effects("node-a") == ["NoSchedule"]
    assert [(one.operation, one.user, one.dry_run) for one in seen] == [
        ("UPDATE", "kubectl", True),
        ("UPDATE", "kubectl", False),
    ]


@pytest.mark.slow
def test_what_a_person_opens_by_hand_is_closed_again(
    cluster: Cluster, kubectl: Kubectl, server: LiveServer, operator: Caller, start: Start
) -> None:
    """C100: `kubectl uncordon` and `kubectl taint` on a node with a device on hold let no work in for long."""
    node = Node(server)
    cluster.register(node.name, BORN, FOREIGN)
    node.admit()
    quarantine(operator, held(node))
    running = start()
    wait_for(lambda: cluster.condition(node.name).get("status") == "False", running.lines)

    done(kubectl("cordon", node.name))
    done(kubectl("uncordon", node.name))
    done(kubectl("taint", "nodes", node.name, f"{TAINT_KEY}:NoSchedule-"))

    wait_for(lambda: cluster.effects(node.name) == ["NoSchedule"], running.lines)
    assert FOREIGN in cluster.taints(node.name)
    told = done(kubectl("describe", "node", node.name))
    assert "PratiqueAdmitted" in told
    assert "DeviceQuarantined" in told
    shown: dict[str, Any] = json.loads(done(kubectl("get", "node", node.name, "-o", "json")))
    assert "unschedulable" not in shown["spec"] or shown["spec"]["unschedulable"] is False
