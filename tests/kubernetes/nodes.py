# SPDX-License-Identifier: Apache-2.0
"""What do the Nodes of the emulated cluster look like, and what do others do to them?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from registry.domain.taints import CONDITION, MANAGED_LABEL, TAINT_KEY
from registry.domain.times import brief, parse_rfc3339
from tests.kubernetes.emulator import Emulator
from tests.kubernetes.objects import Document

BORN = {"key": TAINT_KEY, "effect": "NoSchedule"}
NODE_INFO = {
    "architecture": "amd64",
    "containerRuntimeVersion": "containerd://2.0.0",
    "kernelVersion": "6.8.0",
    "kubeProxyVersion": "",
    "kubeletVersion": "v1.33.0",
    "machineID": "1",
    "operatingSystem": "linux",
    "osImage": "Linux",
    "systemUUID": "1",
}
FOREIGN = {"key": "example.com/theirs", "value": "x", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


def node_object(name: str, *taints: dict[str, Any], labels: dict[str, str] | None = None, **spec: Any) -> Document:
    """A Node as a kubelet registers it, of those that are managed unless other labels are given."""
    marked = {MANAGED_LABEL: "true"} if labels is None else labels
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **marked}},
        "spec": {**({"taints": [dict(one) for one in taints]} if taints else {}), **spec},
        "status": {
            "conditions": [{**ready, "lastHeartbeatTime": "2026-11-29T12:00:00Z"}],
            "nodeInfo": {**NODE_INFO, "bootID": "11111111-2222-3333-4444-555555555555"},
        },
    }


class Cluster:
    """The Nodes of an emulated API server, as people and kubelets see them."""

    def __init__(self, api: Emulator) -> None:
        self.api = api

    def register(self, name: str, *taints: dict[str, Any], **more: Any) -> Document:
        """A kubelet registers its node, with the taints it was told to."""
        return self.api.objects.create("nodes", node_object(name, *taints, **more))

    def node(self, name: str) -> Document:
        """The object."""
        return self.api.objects.get("nodes", name)

    def taints(self, name: str) -> list[dict[str, Any]]:
        """Everybody's taints."""
        return self.node(name)["spec"].get("taints") or []

    def effects(self, name: str) -> list[str]:
        """What our taints do."""
        return sorted(one["effect"] for one in self.taints(name) if one["key"] == TAINT_KEY)

    def condition(self, name: str) -> dict[str, str]:
        """What our condition says; empty where there is none."""
        listed = self.node(name)["status"]["conditions"]
        return next((one for one in listed if one["type"] == CONDITION), {})

    def change_spec(self, name: str, **spec: Any) -> None:
        """Somebody else changes a node."""
        self.api.objects.update("nodes", name, lambda old: {**old, "spec": {**old["spec"], **spec}})

    def beat(self, name: str) -> None:
        """The kubelet writes its status."""

        def later(old: Document) -> Document:
            ready, *rest = old["status"]["conditions"]
            at = parse_rfc3339(ready["lastHeartbeatTime"]) + timedelta(seconds=10)
            ready = {**ready, "lastHeartbeatTime": brief(at)}
            return {**old, "status": {**old["status"], "conditions": [ready, *rest]}}

        self.api.objects.update("nodes", name, later, subresource="status")
