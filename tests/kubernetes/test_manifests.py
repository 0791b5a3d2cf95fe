# SPDX-License-Identifier: Apache-2.0
"""Is what is shipped for a cluster enough, no more than enough, and unable to lock itself out?"""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
import yaml

from registry.domain.taints import CONDITION, MANAGED, MANAGED_LABEL, TAINT_KEY
from registry.main import main
from tests.kubernetes.conftest import Start
from tests.kubernetes.emulator import Emulator
from tests.kubernetes.nodes import BORN, Cluster
from tests.kubernetes.running import wait_for
from tests.live.machines import Node, held, quarantine
from tests.live.server import Caller, LiveServer
from tests.project import ROOT

NEWEST = "1.37"
"""The schemas of Kubernetes that what is written is held against."""

FOLDER = ROOT / "deploy" / "kubernetes"


def documents(name: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")) if one]


def one_of(name: str, kind: str) -> dict[str, Any]:
    (found,) = [one for one in documents(name) if one["kind"] == kind]
    return found


def permissions() -> set[tuple[str, str]]:
    rules = [rule for kind in ("ClusterRole", "Role") for rule in one_of("controller.yaml", kind)["rules"]]
    return {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}


@pytest.mark.slow
def test_the_permissions_are_those_that_are_used_and_no_other(
    api: Emulator, cluster: Cluster, server: LiveServer, operator: Caller, start: Start
) -> None:
    api.allowed = permissions()
    node = Node(server)
    node.admit()
    cluster.register(node.name, BORN)
    meddled = iter((True,))
    # One conflict, so that a node is also read by itself.
    api.on_request.append(
        lambda asked: cluster.beat(node.name) if asked.verb == "patch" and next(meddled, False) else None
    )

    running = start()
    wait_for(lambda: cluster.condition(node.name).get("status") == "True", running.lines)
    quarantine(operator, held(node))
    wait_for(lambda: cluster.effects(node.name) == ["NoSchedule"], running.lines)
    running.end()

    assert api.verbs() == permissions()
    lease = api.objects.get("leases", "pratique-controller", "pratique")
    for written in (cluster.node(node.name), lease):
        kubernetes_validate.validate(written, NEWEST, strict=True)
    assert {one.namespace for one in api.asked if one.resource == "leases"} == {"pratique"}
    assert not [line for line in running.lines() if line.get("status") == 403]


def test_the_controller_is_never_put_on_a_node_that_waits_for_it() -> None:
    """C111: its own pods must not need what they bring about."""
    pod = one_of("controller.yaml", "Deployment")["spec"]["template"]["spec"]

    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [{"key": MANAGED_LABEL, "operator": "NotIn", "values": [MANAGED]}]}]
    assert "tolerations" not in pod


def test_the_controller_is_started_with_options_that_there_are() -> None:
    (container,) = one_of("controller.yaml", "Deployment")["spec"]["template"]["spec"]["containers"]
    command = main.get_command(None, container["command"][1])  # type: ignore[arg-type]

    assert command is not None
    known = {name for option in command.params for name in option.opts}
    assert {argument.partition("=")[0] for argument in container["args"]} <= known


def test_nodes_are_born_with_our_taint_and_our_label() -> None:
    pool = one_of("nodepool.yaml", "NodePool")["spec"]["template"]
    kubelet = one_of("kubelet.yaml", "KubeletConfiguration")

    assert pool["metadata"]["labels"] == {MANAGED_LABEL: MANAGED}
    assert pool["spec"]["startupTaints"] == kubelet["registerWithTaints"] == [BORN]
    assert TAINT_KEY not in str(pool["spec"]["taints"])


def test_others_are_told_of_our_condition_and_never_of_unknown() -> None:
    rule = one_of("node-readiness-rule.yaml", "NodeReadinessRule")["spec"]
    check = one_of("node-health-check.yaml", "NodeHealthCheck")["spec"]

    assert rule["conditions"] == [{"type": CONDITION, "requiredStatus": "True"}]
    assert (rule["enforcementMode"], rule["taint"]["key"].partition("/")[0]) == ("bootstrap-only", "readiness.k8s.io")
    assert [(one["type"], one["status"]) for one in check["unhealthyConditions"]] == [(CONDITION, "False")]
    assert rule["nodeSelector"] == check["selector"] == {"matchLabels": {MANAGED_LABEL: MANAGED}}
