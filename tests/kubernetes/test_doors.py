# SPDX-License-Identifier: Apache-2.0
"""Do the controller and the webhook work together before the real kubectl, and what if the service is away?"""

from __future__ import annotations

import shutil

import pytest

from registry.domain.taints import MANAGED_LABEL, TAINT_KEY
from tests.kubernetes.admission import Webhooks
from tests.kubernetes.conftest import Kubectl, Start
from tests.kubernetes.emulator import Emulator
from tests.kubernetes.nodes import BORN, Cluster
from tests.kubernetes.objects import Denied
from tests.kubernetes.running import done, wait_for
from tests.live.machines import Node, held, quarantine
from tests.live.server import Caller, LiveServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]


@pytest.fixture
def webhooks(api: Emulator, server: LiveServer) -> Webhooks:
    """The webhooks of the real server, asked by the emulated API server."""
    hook = Webhooks(server.url, server.caller("webhook").token)
    api.objects.before_update.append(hook)
    return hook


def test_a_node_that_forgot_its_taint_is_born_closed_and_only_admission_opens_it(
    cluster: Cluster, server: LiveServer, operator: Caller, webhooks: Webhooks, kubectl: Kubectl, start: Start
) -> None:
    node = Node(server)
    cluster.register(node.name)
    assert cluster.taints(node.name) == [BORN]

    refused = kubectl("taint", "nodes", node.name, f"{TAINT_KEY}:NoSchedule-")
    assert refused.returncode == 1
    assert "has reported" in refused.stderr

    node.admit()
    running = start()
    wait_for(lambda: cluster.effects(node.name) == [], running.lines)
    quarantine(operator, held(node))
    wait_for(lambda: cluster.effects(node.name) == ["NoSchedule"], running.lines)
    for change in (
        ("taint", "nodes", node.name, f"{TAINT_KEY}:NoSchedule-"),
        ("label", "node", node.name, f"{MANAGED_LABEL}-"),
        ("taint", "nodes", node.name, f"{TAINT_KEY}:NoSchedule-", "--dry-run=server"),
    ):
        assert "it smells" in kubectl(*change).stderr
    done(kubectl("cordon", node.name))
    done(kubectl("uncordon", node.name))
    assert cluster.effects(node.name) == ["NoSchedule"]


def test_with_the_service_away_gpu_nodes_stay_closed_and_all_others_go_on(
    api: Emulator, cluster: Cluster, kubectl: Kubectl
) -> None:
    """C111: a webhook that fails closed is asked when our node would open, and about nothing else in the cluster."""
    webhooks = Webhooks("http://127.0.0.1:1", "none")
    cluster.register("gpu", BORN)
    api.objects.before_update.append(webhooks)

    cluster.register("system", labels={})
    done(kubectl("taint", "nodes", "system", "example.com/theirs=x:NoExecute"))
    cluster.register("late", BORN)
    for name in ("system", "gpu", "late"):
        cluster.beat(name)
        done(kubectl("cordon", name))
        done(kubectl("uncordon", name))
    assert webhooks.asked == []
    refused = kubectl("taint", "nodes", "gpu", f"{TAINT_KEY}:NoSchedule-")

    assert refused.returncode == 1
    assert cluster.effects("gpu") == ["NoSchedule"]
    assert webhooks.asked == ["gpu"]
    with pytest.raises(Denied):
        cluster.register("born-open")
