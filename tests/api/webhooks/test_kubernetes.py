# SPDX-License-Identifier: Apache-2.0
"""Is a Kubernetes API server answered as it expects, and is a node that is not admitted kept closed?

The reviews are of the shape that an API server of 1.35 sends for what kubelet, kubectl and controllers do.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from api.app import create_app
from api.context import standing
from registry.config import Settings
from registry.domain.errors import StoreUnavailable
from registry.domain.roles import Role
from registry.domain.taints import MANAGED_LABEL, TAINT_KEY
from registry.store.database import Database
from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit, send
from tests.clock import Clock

FOLDER = Path(__file__).with_name("reviews")
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

OPENING = {
    "controller-removes-ours",
    "dry-run-removes-ours",
    "kubectl-label-removes-ours",
    "kubectl-taint-removes-ours",
    "merge-patch-replaces-all-taints",
    "status-write-drops-our-label",
}
"""Those that would let work onto a node."""

BORN_OPEN = {"kubelet-registers-without-our-taint", "created-with-a-generated-name"}


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture
def webhook(asker: Callable[..., Asker]) -> Asker:
    return asker(Role.WEBHOOK)


def ask(asking: Asker, review: dict[str, Any], what: str = "validate") -> dict[str, Any]:
    """Send a review as an API server does, and return the response in the answer."""
    answered = asking.post(f"/k8s/nodes/{what}?timeout=2s", json=review)
    assert answered.status_code == 200, answered.text
    assert answered.content_type == "application/json"
    body: dict[str, Any] = answered.json
    assert (body["apiVersion"], body["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert body["response"]["uid"] == review["request"]["uid"]
    response: dict[str, Any] = body["response"]
    return response


def test_on_a_node_that_is_not_admitted_only_what_opens_it_is_refused(webhook: Asker) -> None:
    responses = {name: ask(webhook, read(name)) for name in NAMES}

    refused = {name: response["status"] for name, response in responses.items() if not response["allowed"]}
    assert refused.keys() == OPENING
    assert {status["code"] for status in refused.values()} == {403}
    assert {status["message"].partition("the ")[0] for status in refused.values()} == {"node-a is not admitted, so "}


def test_on_a_node_that_is_admitted_nothing_is_refused(
    webhook: Asker, operator: Asker, node: Asker, clock: Clock
) -> None:
    admit(operator, node, clock)

    for name in NAMES:
        assert ask(webhook, read(name)) == {"uid": read(name)["request"]["uid"], "allowed": True}, name


def test_a_node_of_ours_that_is_born_open_is_closed_and_nothing_else_changes(webhook: Asker) -> None:
    responses = {name: ask(webhook, read(name), "mutate") for name in NAMES}

    patched = {name: response["patch"] for name, response in responses.items() if "patch" in response}
    assert all(response["allowed"] for response in responses.values())
    assert patched.keys() == BORN_OPEN
    added = {"key": "pratique.dev/unadmitted", "effect": "NoSchedule"}
    for name, patch in patched.items():
        assert responses[name]["patchType"] == "JSONPatch"
        assert json.loads(base64.b64decode(patch)) == [{"op": "add", "path": "/spec/taints/-", "value": added}]


def test_the_refusal_says_why_in_words(webhook: Asker, operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    operator.post("/v1/quarantines", json={"targets": [{"device": SERIALS[0]}], "reason": "fell off the bus"})

    message = ask(webhook, read("controller-removes-ours"))["status"]["message"]

    assert f"the taint {TAINT_KEY} stays on it" in message
    assert SERIALS[0] in message
    assert "fell off the bus" in message


def test_all_doors_say_the_same(webhook: Asker, operator: Asker, node: Asker, clock: Clock) -> None:
    """The webhook, the node's admission and the preview decide alike, as a node's fate goes up and down."""

    def doors() -> set[bool]:
        asked = {"candidates": [{"node": "node-a"}]}
        return {
            ask(webhook, read("controller-removes-ours"))["allowed"],
            operator.get("/v1/nodes/node-a/admission").json["admitted"],
            operator.post("/v1/admissions", json=asked).json["items"][0]["admitted"],
        }

    assert doors() == {False}
    admit(operator, node, clock)
    assert doors() == {True}
    clock.advance(121)
    assert doors() == {False}
    send(node)
    assert doors() == {True}
    opened = operator.post("/v1/quarantines", json={"targets": [{"node": "node-a"}], "reason": "x"}).json["items"]
    assert doors() == {False}
    operator.post(f"/v1/quarantines/{opened[0]['quarantine']['id']}/release", json={"reason": "x"})
    assert doors() == {False}


def test_nothing_is_written_dry_run_or_not(webhook: Asker, operator: Asker) -> None:
    newest = "/v1/events?order=desc&limit=1"
    before = operator.get(newest).json

    for name in NAMES:
        ask(webhook, read(name))
        ask(webhook, read(name), "mutate")

    assert operator.get(newest).json == before
    assert operator.get("/v1/nodes").json["items"] == []


def test_whoever_uncordons_a_node_that_stays_closed_is_told(webhook: Asker) -> None:
    response = ask(webhook, read("kubectl-uncordon"))

    assert response["allowed"] is True
    assert response["warnings"] == ["node-a takes no work yet, uncordoned or not: node_unknown"]


def test_a_token_in_the_address_is_as_good_as_one_in_the_header(
    anonymous: Asker, token: Callable[..., str], app: Flask
) -> None:
    secret = token(Role.WEBHOOK)
    review = read("kubectl-taint-removes-ours")

    by_path = anonymous.post(f"/k8s/{secret}/nodes/validate?timeout=2s", json=review)

    assert by_path.json["response"]["allowed"] is False
    assert anonymous.post("/k8s/nodes/validate", json=review).status_code == 401
    last = "0" if secret[-1] != "0" else "1"
    assert anonymous.post(f"/k8s/{secret[:-1]}{last}/nodes/validate", json=review).status_code == 401
    header = Asker(app.test_client(), secret)
    wrong = f"/k8s/{token(Role.AUDITOR)}/nodes/validate"
    assert header.post(wrong, json=review).status_code == 403, "the address counts, not the header"


@pytest.fixture
def without_store(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(Database, "read", fail)
    monkeypatch.setattr(Database, "look", fail)


def test_without_the_store_only_what_opens_a_node_is_refused(webhook: Asker, without_store: None) -> None:
    responses = {name: ask(webhook, read(name)) for name in NAMES}

    refused = {name: response["status"]["message"] for name, response in responses.items() if not response["allowed"]}
    assert refused.keys() == OPENING
    assert {message.rpartition(": ")[2] for message in refused.values()} == {"the records cannot be read"}
    assert {name for name in NAMES if "patch" in ask(webhook, read(name), "mutate")} == BORN_OPEN


def test_a_store_that_goes_away_between_the_token_and_the_decision_refuses_too(
    webhook: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr("api.webhooks.kubernetes.decide_admission", fail)

    assert ask(webhook, read("kubectl-taint-removes-ours"))["allowed"] is False
    assert ask(webhook, read("kubectl-taint-removes-another"))["allowed"] is True


def broken(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    review = copy.deepcopy(read("kubectl-taint-removes-ours"))
    change(review)
    return review


MALFORMED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no request": lambda review: review.pop("request"),
    "an old version": lambda review: review.update(apiVersion="admission.k8s.io/v1beta1"),
    "another kind": lambda review: review.update(kind="TokenReview"),
    "no uid": lambda review: review["request"].pop("uid"),
    "no resource": lambda review: review["request"].pop("resource"),
    "no such operation": lambda review: review["request"].update(operation="PATCH"),
    "no object": lambda review: review["request"].update(object=None),
    "no old object": lambda review: review["request"].pop("oldObject"),
    "no name": lambda review: review["request"].pop("name"),
    "an object that is a text": lambda review: review["request"].update(object="node-a"),
    "labels that are a list": lambda review: review["request"]["object"]["metadata"].update(labels=[MANAGED_LABEL]),
    "taints that are an object": lambda review: review["request"]["oldObject"]["spec"].update(taints={}),
}


def test_a_malformed_review_is_a_400_that_says_what_is_wrong(webhook: Asker) -> None:
    for name, change in MALFORMED.items():
        answered = webhook.post("/k8s/nodes/validate", json=broken(change))

        assert answered.status_code == 400, name
        assert answered.content_type == "application/problem+json"
        assert answered.json["code"] == "malformed_body"
        assert answered.json["detail"]
        assert "data for required field" not in answered.json["detail"], name


def test_what_is_no_json_at_all_is_a_400_too(webhook: Asker) -> None:
    answered = webhook.post("/k8s/nodes/mutate", data=b"{", content_type="application/json")

    assert (answered.status_code, answered.json["code"]) == (400, "malformed_body")


@pytest.fixture
def named_by(settings: Settings, webhook: Asker, clock: Clock) -> Iterator[Callable[[str], Asker]]:
    """Make a webhook to whose service Kubernetes Nodes are known by something else than their names."""
    made: list[Flask] = []

    def make(way: str) -> Asker:
        made.append(create_app(replace(settings, node_name_from=way), clock=clock))
        asking = Asker(made[-1].test_client(), None)
        asking.headers = webhook.headers
        return asking

    yield make
    for app in made:
        standing(app).database.close_all()


def test_a_node_is_asked_for_by_the_name_it_reports_under(
    named_by: Callable[[str], Asker], operator: Asker, node: Asker, clock: Clock
) -> None:
    admit(operator, node, clock)
    ways = {"name": True, "label:kubernetes.io/hostname": True, "providerID": False, "label:no.such/label": False}

    said = {way: ask(named_by(way), read("kubectl-taint-removes-ours"))["allowed"] for way in ways}

    assert said == ways


def test_nobody_opens_a_node_by_giving_it_the_name_of_another_in_the_same_breath(
    named_by: Callable[[str], Asker], operator: Asker, node: Asker, clock: Clock
) -> None:
    admit(operator, node, clock)
    review = read("kubectl-taint-removes-ours")
    review["request"]["oldObject"]["metadata"]["labels"]["fleet/name"] = "node-b"
    review["request"]["object"]["metadata"]["labels"]["fleet/name"] = "node-a"

    assert ask(named_by("label:fleet/name"), review)["allowed"] is False
