# SPDX-License-Identifier: Apache-2.0
"""How does the emulated API server ask webhooks? As the chart's configurations say, by HTTP, before each change."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import requests

from tests.deploy.chart import LARGE, Matcher, webhooks
from tests.kubernetes.objects import Attempt, Denied, Document
from tests.kubernetes.patches import json_patch

TIMEOUT_SECONDS = 2


class Admission:
    """A hook for `before_update`. `asked` are the webhooks that were asked, `warnings` what they let people know."""

    def __init__(self, url: str, token: str) -> None:
        self.asked: list[str] = []
        self.warnings: list[str] = []
        self._url, self._token = url, token
        found = webhooks()
        # Those that change an object come first.
        self._order = [(name, found[name], Matcher(found[name])) for name in ("born", "closed", "uncordon")]

    def __call__(self, attempt: Attempt) -> None:
        """Ask about a change. Raises Denied."""
        for name, webhook, matcher in self._order:
            review = _review(attempt)
            if not matcher.asks(review):
                continue
            self.asked.append(name)
            response = self._ask(webhook, review)
            if response is None:
                continue
            self.warnings += response.get("warnings", ())
            if not response["allowed"]:
                raise Denied(response["status"]["message"], response["status"]["code"])
            if "patch" in response and attempt.new is not None:
                patched = json_patch(attempt.new, json.loads(base64.b64decode(response["patch"])))
                attempt.new.clear()
                attempt.new.update(patched)

    def _ask(self, webhook: dict[str, Any], review: Document) -> dict[str, Any] | None:
        path = webhook["clientConfig"]["service"]["path"].replace(LARGE["webhook"]["token"], self._token)
        try:
            answered = requests.post(
                f"{self._url}{path}?timeout={TIMEOUT_SECONDS}s", json=review, timeout=TIMEOUT_SECONDS
            )
            answered.raise_for_status()
        except requests.RequestException as error:
            if webhook["failurePolicy"] == "Ignore":
                return None
            raise Denied(f"failed calling webhook {webhook['name']}", 500) from error
        body: dict[str, Any] = answered.json()
        assert body["response"]["uid"] == review["request"]["uid"]
        response: dict[str, Any] = body["response"]
        return response


def _review(attempt: Attempt) -> Document:
    resource = {"group": "", "version": "v1", "resource": attempt.resource}
    if attempt.resource == "leases":
        resource |= {"group": "coordination.k8s.io"}
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": str(uuid.uuid4()),
            "resource": resource,
            **({"subResource": attempt.subresource} if attempt.subresource else {}),
            "name": attempt.name,
            "operation": attempt.operation,
            "userInfo": {"username": attempt.user},
            "object": attempt.new,
            "oldObject": attempt.old,
            "dryRun": attempt.dry_run,
        },
    }
