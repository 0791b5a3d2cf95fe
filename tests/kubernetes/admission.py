# SPDX-License-Identifier: Apache-2.0
"""How does the emulated API server ask our webhooks? With AdmissionReviews, about what the chart names, failing closed.

https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import dataclass, field

import requests

from registry.domain.taints import read_marks
from tests.kubernetes.objects import Attempt, Denied, Document
from tests.kubernetes.patches import json_patch

TIMEOUT_SECONDS = 10.0
"""Longer than in a cluster: two cores are shared by many."""


@dataclass
class Webhooks:
    """Asks `/k8s/nodes/mutate` about Nodes of ours that are born open, `/k8s/nodes/validate` about changes that take
    our taint or label away: those are the conditions of the chart. Nothing else waits for an answer.

    `asked` are the names of what it was asked about. Who does not answer has refused (`failurePolicy: Fail`).
    """

    url: str
    token: str
    asked: list[str] = field(default_factory=list)

    def __call__(self, attempt: Attempt) -> None:
        """Ask about one change, as a hook of the emulator. Raises Denied."""
        if attempt.resource != "nodes" or attempt.new is None:
            return
        after = read_marks(attempt.new)
        if attempt.old is None:
            if after.is_managed and not after.is_closed:
                self._mutate(attempt, attempt.new)
            return
        before = read_marks(attempt.old)
        if before.is_managed and (not after.is_managed or (before.is_closed and not after.is_closed)):
            response = self._ask("validate", attempt)
            if not response["allowed"]:
                raise Denied(response["status"]["message"], response["status"].get("code", 403))

    def _mutate(self, attempt: Attempt, new: Document) -> None:
        response = self._ask("mutate", attempt)
        changed = json_patch(new, json.loads(base64.b64decode(response["patch"])))
        new.clear()
        new.update(changed)

    def _ask(self, what: str, attempt: Attempt) -> Document:
        self.asked.append(attempt.name)
        review = _review(attempt)
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            answer = requests.post(
                f"{self.url}/k8s/nodes/{what}?timeout=2s", json=review, headers=headers, timeout=TIMEOUT_SECONDS
            )
            answer.raise_for_status()
        except requests.RequestException as error:
            raise Denied(f"failed calling webhook: {error}", 500) from error
        response: Document = answer.json()["response"]
        assert response["uid"] == review["request"]["uid"]
        return response


def _review(attempt: Attempt) -> Document:
    kind = {"group": "", "version": "v1", "kind": "Node"}
    resource = {"group": "", "version": "v1", "resource": "nodes"}
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            **({"subResource": attempt.subresource} if attempt.subresource else {}),
            "name": attempt.name,
            "operation": attempt.operation,
            "userInfo": {"username": attempt.user, "groups": ["system:authenticated"]},
            "object": attempt.new,
            "oldObject": attempt.old,
            "dryRun": attempt.dry_run,
            "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }
