# SPDX-License-Identifier: Apache-2.0
"""Can a node be judged, shown, kept out, excused and retired through the door?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from registry.domain.times import rfc3339
from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit, codes, send
from tests.clock import Clock

ADMISSION = "/v1/nodes/node-a/admission"


def test_a_node_that_never_reported_is_a_no(operator: Asker) -> None:
    response = operator.get(ADMISSION)

    assert response.status_code == 200
    assert response.json["admitted"] is False
    assert codes(response.json) == ["node_unknown"]


def test_a_decision_has_its_whole_shape(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)

    decision = node.get(ADMISSION).json

    assert {
        "node",
        "admitted",
        "disposition",
        "reasons",
        "passes",
        "policy",
        "sequence",
        "decided_at",
    } <= decision.keys()
    assert decision["passes"] == {"have": 2, "need": 2}
    assert decision["policy"] == operator.get("/v1/policy").json["digest"]


@pytest.mark.parametrize("accept", ["text/plain", "text/plain, application/json;q=0.5"])
def test_a_shell_gets_one_line(operator: Asker, node: Asker, clock: Clock, accept: str) -> None:
    before = node.get(ADMISSION, headers={"Accept": accept})
    admit(operator, node, clock)
    after = node.get(ADMISSION, headers={"Accept": accept})

    assert before.content_type.startswith("text/plain")
    assert before.text.split() == ["hold", "13", "node_unknown", "-"]
    assert after.text.split() == ["admit", "0", "-", "-"]
    assert after.text.endswith("\n")


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/html, */*;q=0.1", ""])
def test_everybody_else_gets_json(operator: Asker, accept: str) -> None:
    assert operator.get(ADMISSION, headers={"Accept": accept}).content_type == "application/json"


def test_a_node_is_shown_with_its_devices_by_slot(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)

    shown = operator.get("/v1/nodes/node-a").json

    assert (shown["name"], shown["provider_id"], shown["boot_id"]) == ("node-a", "i-1", "boot-1")
    assert (shown["profile"], shown["state"]) == ("tiny", "admitted")
    assert [device["serial"] for device in shown["devices"]] == list(SERIALS)
    assert shown["admission"]["admitted"] is True
    assert operator.get("/v1/nodes/node-b").status_code == 404


def test_nodes_are_listed_and_filtered(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)

    assert [one["name"] for one in operator.get("/v1/nodes").json["items"]] == ["node-a"]
    assert operator.get("/v1/nodes?state=admitted&profile=tiny").json["items"] != []
    assert operator.get("/v1/nodes?state=held").json == {"items": [], "next": None}


def test_a_nodes_history_begins_with_its_registration(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)

    events = operator.get("/v1/nodes/node-a/history").json["items"]
    newest = operator.get("/v1/nodes/node-a/history?order=desc&limit=1").json

    assert "node.registered" in [event["type"] for event in events]
    assert newest["items"][0]["sequence"] == events[-1]["sequence"]
    assert newest["next"]


def test_maintenance_holds_until_it_ends(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    body = {"until": rfc3339(clock() + timedelta(hours=1)), "reason": "new cables"}

    assert operator.post("/v1/nodes/node-a/maintenance", json=body).status_code == 200
    assert "maintenance" in codes(operator.get(ADMISSION).json)
    body["until"] = rfc3339(clock() - timedelta(seconds=1))
    assert operator.post("/v1/nodes/node-a/maintenance", json=body).status_code == 200
    assert codes(operator.get(ADMISSION).json) == []


def test_a_waiver_excuses_a_missing_device(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    clock.advance(31)
    assert "device_missing" in codes(send(node, devices=[], checks=[])["admission"])
    body = {"kind": "gpu", "count": 0, "until": rfc3339(clock() + timedelta(days=2)), "reason": "until Friday"}

    granted = operator.post("/v1/nodes/node-a/waivers", json=body)

    assert granted.status_code in {200, 201}
    assert "device_missing" not in codes(operator.get(ADMISSION).json)


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("maintenance", {"until": "tomorrow", "reason": "x"}, "/until"),
        ("maintenance", {"until": "2026-12-01T00:00:00Z"}, "/reason"),
        ("waivers", {"kind": "gpu", "count": -1, "until": "2026-12-01T00:00:00Z", "reason": "x"}, "/count"),
        ("waivers", {"kind": "cpu", "count": 1, "until": "2026-12-01T00:00:00Z", "reason": "x"}, "/kind"),
        ("retire", {"why": "x"}, "/why"),
    ],
)
def test_a_wrong_wish_is_named(operator: Asker, path: str, body: dict[str, object], pointer: str) -> None:
    response = operator.post(f"/v1/nodes/node-a/{path}", json=body)

    assert (response.status_code, response.json["code"]) == (422, "invalid_field")
    assert [error["pointer"] for error in response.json["errors"]] == [pointer]


def test_a_retired_node_is_unknown_until_it_reports(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)

    assert operator.post("/v1/nodes/node-a/retire").json["state"] == "retired"
    assert codes(operator.get(ADMISSION).json) == ["node_unknown"]
    clock.advance(31)
    assert codes(send(node)["admission"]) != ["node_unknown"]
    assert operator.post("/v1/nodes/node-z/retire", json={"reason": "gone"}).json["code"] == "not_found"


def test_what_would_be_said_is_answered_in_order(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    identifiers = [{"kind": "gpu", "type": "serial", "value": SERIALS[0]}]
    operator.post("/v1/quarantines", json={"targets": [{"device": SERIALS[0]}], "reason": "seen twice"})

    items = operator.post(
        "/v1/admissions", json={"candidates": [{"node": "node-z"}, {"node": "node-a"}, {"identifiers": identifiers}]}
    ).json["items"]

    assert codes(items[0]) == ["node_unknown"]
    assert "device_quarantined" in codes(items[1])
    assert "device_quarantined" in codes(items[2])


@pytest.mark.parametrize(
    "body", [{}, {"candidates": []}, {"candidates": [{}]}, {"candidates": [{"node": "a"}] * 1001}, {"candidates": [1]}]
)
def test_a_question_that_names_nobody_is_refused(auditor: Asker, body: dict[str, object]) -> None:
    assert auditor.post("/v1/admissions", json=body).status_code == 422
