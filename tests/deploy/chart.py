# SPDX-License-Identifier: Apache-2.0
"""What does the chart render, and which changes does an API server ask about by it?"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import celpy
import pytest
import yaml

from registry.domain.taints import MANAGED, MANAGED_LABEL
from tests.deploy.tools import find
from tests.project import ROOT

HELM = find("helm")
CHART = ROOT / "deploy" / "helm" / "pratique"

needs_helm = pytest.mark.skipif(HELM is None, reason="no Helm here: make tools")

LARGE: dict[str, Any] = {
    "database": {
        "kind": "postgresql",
        "postgresql": {"urlSecret": {"name": "db"}, "ownerUrlSecret": {"name": "db-owner"}, "grantTo": "pratique"},
    },
    "keys": {"existingSecret": "pratique-keys"},
    "tls": {"existingSecret": "pratique-tls"},
    "server": {"replicas": 3, "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]},
    "settings": {"PASS_COUNT": 3, "CHECKPOINT_URL": "https://checkpoints.example/"},
    "policy": '[thresholds]\npass_count = 3\n\n[effects]\nxid_92 = "hold"\n',
    "ingress": {"enabled": True, "host": "pratique.example", "tlsSecret": "ingress-tls", "className": "nginx"},
    "networkPolicy": {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
    "controller": {
        "enabled": True,
        "tokenSecret": {"name": "controller-token"},
        "evictOnDrain": True,
        "nodeNameFrom": "providerID",
    },
    "webhook": {"enabled": True, "token": "prq_webhook_abc123", "caBundle": "LS0tLS1CRUdJTg=="},
}


class Refused(Exception):
    """Helm refused the values; says why."""


def render(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Render the chart with these values, and nothing of any cluster."""
    assert HELM is not None
    command = [HELM, "template", "pratique", str(CHART), "--namespace", "pratique", "--values", "-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def of_kind(documents: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] in kinds]


def webhooks() -> dict[str, dict[str, Any]]:
    found = of_kind(render(LARGE), "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
    return {webhook["name"].partition(".")[0]: webhook for one in found for webhook in one["webhooks"]}


class Matcher:
    """Says of a review whether an API server would ask a webhook about it."""

    def __init__(self, webhook: dict[str, Any]) -> None:
        environment = celpy.Environment()
        self._webhook = webhook
        self._conditions = [
            environment.program(environment.compile(one["expression"])) for one in webhook["matchConditions"]
        ]

    def asks(self, review: dict[str, Any]) -> bool:
        """Tell by rules, selector and conditions, in the order of an API server."""
        asked = review["request"]
        resource = "/".join(filter(None, (asked["resource"]["resource"], asked.get("subResource"))))
        is_ruled = any(
            asked["operation"] in rule["operations"]
            and resource in rule["resources"]
            and asked["resource"]["group"] in rule["apiGroups"]
            for rule in self._webhook["rules"]
        )
        objects = [asked[name] for name in ("object", "oldObject") if asked.get(name)]
        # Either object may match: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#matching-requests-objectselector
        is_selected = any((one["metadata"].get("labels") or {}).get(MANAGED_LABEL) == MANAGED for one in objects)
        return is_ruled and is_selected and self.meets(asked.get("object"), asked.get("oldObject"))

    def meets(self, new: Any, old: Any) -> bool:
        """Evaluate the match conditions, all of which must hold."""
        values = {"object": celpy.json_to_cel(new), "oldObject": celpy.json_to_cel(old)}
        return all(bool(condition.evaluate(values)) for condition in self._conditions)
