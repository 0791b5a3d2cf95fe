# SPDX-License-Identifier: Apache-2.0
"""Does the webhook keep nodes closed before people and programs, and everything else going while it is away?"""

from __future__ import annotations

import shutil

import pytest

from registry.domain.taints import MANAGED_LABEL, TAINT_KEY
from tests.deploy.chart import needs_helm
from tests.kubernetes.admission import Admission
from tests.kubernetes.conftest import Kubectl, Start
from tests.kubernetes.emulator import Emulator
from tests.kubernetes.nodes import BORN, FOREIGN, Cluster, node_object
from tests.kubernetes.objects import Denied
from tests.kubernetes.running import done, wait_for
from tests.live.machines import Node, held, quarantine
from tests.live.server import Caller, LiveServer

pytestmark = [needs_helm, pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")]

NOWHERE = "http://127.0.0.1:9"
OPEN = (f"{TAINT_KEY}:NoSchedule-",)


@pytest.fixture
def admission(api: Emulator, server: LiveServer) -> Admission:
    made = Admission(server.url, server.caller("webhook").token)
    api.objects.before_update.append(made)
    return made


@pytest.mark.slow
def test_a_node_is_closed_from_its_birth_to_its_end_unless_it_is_admitted(
    cluster: Cluster, kubectl: Kubectl, admission: Admission, server: LiveServer, operator: Caller, start: Start
) -> None:
    """C97, C100: nobody opens it but a decision, and what takes its name over is closed again."""
    node = Node(server)
    cluster.register(node.name, FOREIGN)
    assert cluster.effects(node.name) == ["NoSchedule"]
    assert f"{node.name} is not admitted" in kubectl("taint", "nodes", node.name, *OPEN).stderr

    running = start()
    node.admit()
    wait_for(lambda: cluster.effects(node.name) == [], running.lines)
    assert not running.said("a node could not be marked")

    quarantine(operator, held(node))
    wait_for(lambda: cluster.effects(node.name) == ["NoSchedule"], running.lines)
    for _ in range(2):
        refused = kubectl("taint", "nodes", node.name, *OPEN)
        assert refused.returncode == 1
        assert f"{node.name} is not admitted" in refused.stderr
        assert "in quarantine" in refused.stderr
    assert kubectl("label", "node", node.name, f"{MANAGED_LABEL}-").returncode == 1
    done(kubectl("cordon", node.name))
    done(kubectl("uncordon", node.name))
    assert "device_quarantined" in admission.warnings[-1]
    assert cluster.effects(node.name) == ["NoSchedule"]

    done(kubectl("delete", "node", node.name, "--wait=false"))
    cluster.register(node.name, FOREIGN)
    assert cluster.effects(node.name) == ["NoSchedule"]
    assert FOREIGN in cluster.taints(node.name)


def test_an_admitted_node_is_let_go(
    cluster: Cluster, kubectl: Kubectl, admission: Admission, server: LiveServer
) -> None:
    node = Node(server)
    node.admit()
    cluster.register(node.name, BORN)

    done(kubectl("taint", "nodes", node.name, *OPEN, "--dry-run=server"))
    assert cluster.effects(node.name) == ["NoSchedule"]
    done(kubectl("taint", "nodes", node.name, *OPEN))
    done(kubectl("label", "node", node.name, f"{MANAGED_LABEL}-"))

    assert cluster.effects(node.name) == []
    assert set(admission.asked) == {"closed"}


def test_what_runs_is_not_driven_away(
    cluster: Cluster, kubectl: Kubectl, admission: Admission, server: LiveServer, operator: Caller
) -> None:
    """C106: a hold that drains lets nobody in, and the webhook itself drives nobody out."""
    node = Node(server)
    node.admit()
    cluster.register(node.name, BORN)
    quarantine(operator, held(node), drain=True)

    assert kubectl("taint", "nodes", node.name, *OPEN).returncode == 1
    assert cluster.effects(node.name) == ["NoSchedule"]


def test_without_the_service_nothing_is_opened_and_everything_else_goes_on(
    api: Emulator, cluster: Cluster, kubectl: Kubectl
) -> None:
    """C111: neither other nodes, nor system pods, nor our own, nor the kubelets of managed nodes wait for it."""
    away = Admission(NOWHERE, "prq_webhook_none")
    api.objects.before_update.append(away)

    cluster.register("system", FOREIGN, labels={})
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "pratique-0"}, "spec": {"nodeName": "system"}}
    api.objects.create("pods", pod, "pratique")
    cluster.register("gpu", BORN)
    for name in ("system", "gpu"):
        cluster.beat(name)
        done(kubectl("cordon", name))
        done(kubectl("taint", "nodes", name, "example.com/other=x:NoSchedule"))
        done(kubectl("label", "node", name, "example.com/rack=7"))
    assert away.asked == []

    done(kubectl("uncordon", "gpu"))
    assert kubectl("taint", "nodes", "gpu", *OPEN).returncode == 1
    assert kubectl("label", "node", "gpu", f"{MANAGED_LABEL}-").returncode == 1
    assert cluster.effects("gpu") == ["NoSchedule"]
    with pytest.raises(Denied, match=r"born\.nodes"):
        api.objects.create("nodes", node_object("born-open"))
    done(kubectl("delete", "node", "gpu", "--wait=false"))
