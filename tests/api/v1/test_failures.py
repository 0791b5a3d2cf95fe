# SPDX-License-Identifier: Apache-2.0
"""Are faults recorded once, listed and withdrawn through the door?"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from registry.domain.times import rfc3339
from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit, codes
from tests.clock import NOON, Clock

_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def fleet(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    clock.advance(1)


def failure(clock: Clock, **changes: Any) -> dict[str, Any]:
    return {
        "failure_id": f"f-{next(_numbers)}",
        "node": "node-a",
        "slot": "0000:10:00.0",
        "code": "xid_79",
        "occurred_at": rfc3339(clock()),
        **changes,
    }


def test_a_fault_is_recorded_and_its_device_is_held(operator: Asker, node: Asker, clock: Clock) -> None:
    response = node.post("/v1/failures", json=failure(clock))

    assert response.status_code == 201
    (item,) = response.json["items"]
    recorded = item["failure"]
    assert item["outcome"] == "recorded"
    assert {"id", "cause", "severity", "effect", "recorded_at", "count", "last_at", "state"} <= recorded.keys()
    assert (recorded["code"], recorded["state"]) == ("xid_79", "active")
    assert "device_quarantined" in codes(operator.get("/v1/nodes/node-a/admission").json)


def test_the_same_failure_id_again_is_already_recorded(operator: Asker, clock: Clock) -> None:
    body = failure(clock)

    first, again = operator.post("/v1/failures", json=body), operator.post("/v1/failures", json=body)

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json["items"][0]["outcome"] == "already_recorded"


def test_many_are_answered_one_by_one(operator: Asker, clock: Clock) -> None:
    good, bad = failure(clock, code="xid_31"), failure(clock, node=None, slot=None, device="GPU-nobody")

    response = operator.post("/v1/failures", json={"failures": [good, bad]})

    assert response.status_code == 201
    assert [item["outcome"] for item in response.json["items"]] == ["recorded", "refused"]


def test_a_node_speaks_for_its_own_devices_only(node: Asker, clock: Clock) -> None:
    refused = node.post("/v1/failures", json=failure(clock, node="node-b"))

    assert (refused.status_code, refused.json["code"]) == (422, "forbidden")
    assert refused.json["items"][0]["outcome"] == "refused"


def test_faults_are_listed_and_filtered(operator: Asker, clock: Clock) -> None:
    operator.post("/v1/failures", json=failure(clock, code="xid_31"))
    operator.post("/v1/failures", json=failure(clock, code="xid_63", slot="0000:11:00.0"))

    assert [one["code"] for one in operator.get("/v1/failures").json["items"]] == ["xid_63", "xid_31"]
    assert [one["code"] for one in operator.get("/v1/failures?code=xid_31").json["items"]] == ["xid_31"]
    assert [one["code"] for one in operator.get(f"/v1/failures?device={SERIALS[1]}").json["items"]] == ["xid_63"]


def test_one_fault_is_shown_as_its_list_shows_it(operator: Asker, clock: Clock) -> None:
    recorded = operator.post("/v1/failures", json=failure(clock)).json["items"][0]["failure"]

    shown = operator.get(f"/v1/failures/{recorded['id']}")

    assert shown.json == recorded
    assert [shown.json] == operator.get("/v1/failures").json["items"]
    assert operator.get("/v1/failures/nobody").json["code"] == "not_found"


def test_a_fault_that_was_none_is_withdrawn_once(operator: Asker, clock: Clock) -> None:
    recorded = operator.post("/v1/failures", json=failure(clock)).json["items"][0]["failure"]
    address = f"/v1/failures/{recorded['id']}/withdraw"

    assert operator.post(address, json={"reason": "a drill"}).json["state"] == "withdrawn"
    assert operator.post(address, json={"reason": "a drill"}).json["code"] == "not_open"
    assert operator.post("/v1/failures/nobody/withdraw", json={"reason": "x"}).json["code"] == "not_found"


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"failure_id": None}, "/failure_id"),
        ({"failure_id": ""}, "/failure_id"),
        ({"code": "XID 79"}, "/code"),
        ({"code": "xid_079"}, "/code"),
        ({"occurred_at": None}, "/occurred_at"),
        ({"occurred_at": "2026-11-29T12:00:00"}, "/occurred_at"),
        ({"slot": "five"}, "/slot"),
        ({"device": 1654}, "/device"),
        ({"evidence": {"a": "\ud800"}}, "/evidence"),
        ({"count": 2}, "/count"),
    ],
)
def test_a_wrong_field_is_named(operator: Asker, changes: dict[str, Any], pointer: str) -> None:
    alone = operator.post("/v1/failures", json=failure(Clock(NOON), **changes))
    among = operator.post("/v1/failures", json={"failures": [failure(Clock(NOON), **changes)]})

    assert (alone.status_code, among.status_code) == (422, 422)
    assert [error["pointer"] for error in alone.json["errors"]] == [pointer]
    assert [error["pointer"] for error in among.json["errors"]] == [f"/failures/0{pointer}"]


@pytest.mark.parametrize("body", [[], "x", {"failures": []}, {"failures": {}}, {"failures": [1]}])
def test_what_is_no_failure_is_refused(operator: Asker, body: Any) -> None:
    assert operator.post("/v1/failures", json=body).status_code == 422
