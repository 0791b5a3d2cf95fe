# SPDX-License-Identifier: Apache-2.0
"""Can a program that carries out repairs do so over HTTP?"""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from api.background import Background
from api.context import standing
from registry.domain.roles import Role
from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit, send
from tests.clock import Clock


@pytest.fixture
def worker(app: Flask) -> Background:
    """What the server does between requests, when it is told to."""
    return Background(standing(app))


@pytest.fixture
def order(worker: Background, operator: Asker, node: Asker, clock: Clock) -> dict[str, Any]:
    """A repair that may begin: a GPU of node-a has been bad for longer than is tolerated."""
    admit(operator, node, clock)
    bad = {"name": "gpu.ecc", "status": "fail", "device": SERIALS[0]}
    for _ in range(9):
        clock.advance(90)
        send(node, checks=[bad], report_id=clock.now.isoformat())
    worker.beat()
    (found,) = operator.get("/v1/repairs").json["items"]
    assert isinstance(found, dict)
    return found


def test_a_repair_is_claimed_renewed_and_completed(order: dict[str, Any], operator: Asker) -> None:
    assert (order["action"], order["state"], order["device"]["serial"]) == ("reset_gpu", "ready", SERIALS[0])
    path = f"/v1/repairs/{order['id']}"
    claimed = operator.post(f"{path}/claim", json={"holder": "robot-1"})
    second = operator.post(f"{path}/claim", json={"holder": "robot-2"})
    renewed = operator.post(f"{path}/claim", json={"holder": "robot-1", "token": claimed.json["token"]})

    assert (claimed.status_code, renewed.status_code) == (200, 200)
    assert (second.status_code, second.json["code"]) == (409, "not_open")
    assert "robot-1" in second.json["detail"]
    done = operator.post(f"{path}/complete", json={"outcome": "done", "holder": "robot-1", "token": 1})
    assert (done.status_code, done.json["state"], done.json["outcome"]) == (200, "done", "carried_out")
    late = operator.post(f"{path}/complete", json={"outcome": "done", "holder": "robot-1", "token": 1})
    assert (late.status_code, late.json["code"]) == (409, "not_open")
    assert operator.get(path).json == operator.get("/v1/repairs", query_string={"state": "done"}).json["items"][0]
    types = [one["type"] for one in operator.get("/v1/events?order=asc&limit=1000").json["items"]]
    assert [one for one in types if one.startswith("repair")] == [
        *("repair.planned", "repair.readied", "repair.claimed", "repair.claimed", "repair.completed")
    ]


def test_a_claim_that_is_repeated_under_its_key_is_made_once(order: dict[str, Any], operator: Asker) -> None:
    headers = {"Idempotency-Key": "k-1"}
    first, again = (
        operator.post(f"/v1/repairs/{order['id']}/claim", json={"holder": "robot-1"}, headers=headers) for _ in range(2)
    )

    assert (first.status_code, first.json) == (again.status_code, again.json)
    assert again.headers["Idempotent-Replayed"] == "true"


def test_a_repair_is_cancelled_with_a_reason(order: dict[str, Any], operator: Asker) -> None:
    path = f"/v1/repairs/{order['id']}/cancel"
    assert operator.post(path, json={}).status_code == 422
    assert operator.post(path, json={"reason": "x", "outcome": "carried_out"}).status_code == 422

    found = operator.post(path, json={"reason": "it was pulled", "outcome": "gone"})

    assert (found.json["state"], found.json["outcome"], found.json["detail"]) == ("cancelled", "gone", "it was pulled")
    assert operator.post(path, json={"reason": "x"}).status_code == 409


def test_all_are_stopped_and_go_on(order: dict[str, Any], worker: Background, operator: Asker) -> None:
    stopped = operator.post("/v1/repairs/stop", json={"reason": "storm"})
    assert stopped.json["stopped"]["reason"] == "storm"
    assert stopped.json["fleet"] == {"disturbed": 1, "nodes": 1, "limit": 1}
    worker.beat()
    assert operator.get(f"/v1/repairs/{order['id']}").json["state"] == "planned"
    assert operator.get("/v1/repairs/budget").json["fleet"]["disturbed"] == 0
    metrics = operator.get("/metrics").text
    assert "pratique_repairs_stopped 1.0" in metrics
    assert 'pratique_repairs{action="reset_gpu",state="planned"} 1.0' in metrics

    assert operator.post("/v1/repairs/resume", json={"reason": "over"}).json["stopped"] is None
    assert operator.post("/v1/repairs/resume", json={"reason": "over"}).status_code == 409
    assert operator.post("/v1/repairs/resume", json={"reason": "x", "condition": "gpu.ecc"}).status_code == 409
    worker.beat()
    assert operator.get(f"/v1/repairs/{order['id']}").json["state"] == "ready"


def test_an_auditor_looks_and_a_repair_that_is_not_there_is_not_found(
    order: dict[str, Any], asker: Any, operator: Asker
) -> None:
    auditor = asker(Role.AUDITOR)
    assert auditor.get(f"/v1/repairs/{order['id']}").status_code == 200
    for path in ("", "/claim", "/complete", "/cancel"):
        body = {"reason": "x", "outcome": "done"} if path else None
        method = operator.post if path else operator.get
        answer = method(f"/v1/repairs/nothing{path}", **({"json": _only(path, body)} if body else {}))
        assert (answer.status_code, answer.json["code"]) == (404, "not_found")


def _only(path: str, body: dict[str, Any]) -> dict[str, Any]:
    wanted = {"/claim": (), "/complete": ("outcome", "reason"), "/cancel": ("reason",)}[path]
    return {name: body[name] for name in wanted}
