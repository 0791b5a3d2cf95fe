# SPDX-License-Identifier: Apache-2.0
"""Are holds opened, shown and released through the door, with the statuses that scripts branch on?"""

from __future__ import annotations

from typing import Any

import pytest
from werkzeug.test import TestResponse

from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit, codes
from tests.clock import Clock

UNSEEN = {"identifier": {"kind": "gpu", "type": "serial", "value": "1654999999999"}}
KNOWN = {"device": SERIALS[0]}


@pytest.fixture(autouse=True)
def fleet(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)


def open_(operator: Asker, *targets: dict[str, Any], path: str = "/v1/quarantines", **changes: Any) -> TestResponse:
    return operator.post(path, json={"targets": list(targets), "reason": "fell off the bus twice", **changes})


def test_a_device_is_held_and_its_node_is_not_admitted(operator: Asker, node: Asker) -> None:
    opened = open_(operator, KNOWN, ticket="T-1", evidence={"seen": [1.5, "twice"]})

    assert opened.status_code == 201
    (item,) = opened.json["items"]
    assert (item["target"], item["outcome"]) == (KNOWN, "opened")
    hold = item["quarantine"]
    assert (hold["state"], hold["ticket"], hold["permanent"]) == ("open", "T-1", False)
    assert operator.get(f"/v1/quarantines/{hold['id']}").json == hold
    assert "device_quarantined" in codes(node.get("/v1/nodes/node-a/admission").json)


def test_the_same_again_is_already_open(operator: Asker) -> None:
    open_(operator, KNOWN)

    again = open_(operator, KNOWN)

    assert (again.status_code, again.json["items"][0]["outcome"]) == (200, "already_open")


@pytest.mark.parametrize("target", [UNSEEN, KNOWN, {"node": "node-a"}], ids=lambda target: next(iter(target)))
def test_a_target_may_write_a_device_or_node_that_it_does_not_name_as_null(
    operator: Asker, target: dict[str, Any]
) -> None:
    whole = {"device": None, "node": None, **target}

    opened = open_(operator, whole)
    again = open_(operator, target)
    released = open_(operator, whole, path="/v1/quarantines/release")

    assert opened.status_code == 201, opened.text
    assert (again.status_code, again.json["items"][0]["outcome"]) == (200, "already_open")
    assert (released.status_code, released.json["items"][0]["outcome"]) == (200, "released")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/v1/quarantines", {"targets": [UNSEEN], "reason": "new board"}),
        ("/v1/quarantines/release", {"targets": [UNSEEN], "reason": "new board"}),
        ("/v1/quarantines/{hold}/release", {"reason": "new board"}),
    ],
    ids=["open", "release targets", "release"],
)
def test_a_key_that_no_change_takes_is_refused_in_a_dry_run_too(
    operator: Asker, path: str, message: dict[str, Any]
) -> None:
    hold = open_(operator, UNSEEN).json["items"][0]["quarantine"]["id"]

    refused = operator.post(f"{path.format(hold=hold)}?dry_run=true", json=message, headers={"Idempotency-Key": ""})

    assert (refused.status_code, refused.json["code"]) == (422, "invalid_field")
    assert "Idempotency-Key" in refused.json["errors"][0]["detail"]


def test_some_refused_hinder_nobody(operator: Asker) -> None:
    mixed = open_(operator, {"device": "nobody"}, UNSEEN)

    assert mixed.status_code == 201
    assert [item["outcome"] for item in mixed.json["items"]] == ["refused", "opened"]
    assert mixed.json["items"][0]["code"] == "not_found"


def test_nothing_held_is_a_problem_with_items(operator: Asker) -> None:
    refused = open_(operator, {"device": "nobody"}, {"device": "nothing"})

    assert refused.status_code == 422
    assert refused.content_type == "application/problem+json"
    assert refused.json["code"] == "not_found"
    assert [item["outcome"] for item in refused.json["items"]] == ["refused", "refused"]


@pytest.mark.parametrize("target", [KNOWN, UNSEEN, {"device": "nobody"}, {"node": "node-a"}])
def test_a_dry_run_says_what_would_be_and_holds_nothing(operator: Asker, target: dict[str, Any]) -> None:
    tried = open_(operator, target, path="/v1/quarantines?dry_run=true")

    assert tried.status_code == 200
    assert tried.json["dry_run"] is True
    assert len(tried.json["items"]) == 1
    assert operator.get("/v1/quarantines").json["items"] == []


def test_a_hold_is_released_once(operator: Asker) -> None:
    hold = open_(operator, KNOWN).json["items"][0]["quarantine"]
    address = f"/v1/quarantines/{hold['id']}/release"

    tried = operator.post(f"{address}?dry_run=true", json={"reason": "new board"})
    released = operator.post(address, json={"reason": "new board", "evidence": {"rma": "R-1"}})
    again = operator.post(address, json={"reason": "new board"})

    assert (tried.status_code, tried.json["dry_run"], tried.json["state"]) == (200, True, "open")
    assert (released.status_code, released.json["state"]) == (200, "released")
    assert (again.status_code, again.json["code"]) == (409, "not_open")
    assert operator.post("/v1/quarantines/nobody/release", json={"reason": "x"}).status_code == 404


def test_a_hold_is_looked_at_again_and_goes_on(operator: Asker) -> None:
    hold = open_(operator, KNOWN).json["items"][0]["quarantine"]
    address = f"/v1/quarantines/{hold['id']}/review"
    body = {"reason": "asked the maker", "review_at": "2099-01-31T12:00:00Z", "ticket": "RMA-7"}

    first = operator.post(address, json=body)
    kept = operator.post(address, json={"reason": "another number", "ticket": "RMA-8"})
    told = operator.get("/v1/events?type=quarantine.reviewed").json["items"]

    assert (first.status_code, first.json["state"], first.json["ticket"]) == (200, "open", "RMA-7")
    assert (kept.json["review_at"], kept.json["ticket"]) == ("2099-01-31T12:00:00.000000Z", "RMA-8")
    assert [one["data"]["why"] for one in told] == ["asked the maker", "another number"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"reason": "x"}, 422),
        ({"ticket": "RMA-7"}, 422),
        ({"reason": "x", "review_at": "2020-01-01T00:00:00Z"}, 422),
        ({"reason": "x", "ticket": "RMA-7", "owner": "me"}, 422),
    ],
)
def test_a_review_that_says_nothing_is_refused(operator: Asker, body: dict[str, str], status: int) -> None:
    hold = open_(operator, KNOWN).json["items"][0]["quarantine"]

    assert operator.post(f"/v1/quarantines/{hold['id']}/review", json=body).status_code == status
    assert operator.post("/v1/quarantines/nobody/review", json={"reason": "x", "ticket": "y"}).status_code == 404


def test_only_an_admin_undoes_a_permanent_hold(operator: Asker, admin: Asker) -> None:
    hold = open_(operator, KNOWN, permanent=True).json["items"][0]["quarantine"]
    address = f"/v1/quarantines/{hold['id']}/release"

    assert operator.post(address, json={"reason": "x"}).json["code"] == "forbidden"
    assert admin.post(address, json={"reason": "the wrong board"}).json["state"] == "released"


def test_many_are_released_by_target(operator: Asker) -> None:
    open_(operator, KNOWN)
    body = {"targets": [KNOWN, {"device": SERIALS[1]}, {"device": "nobody"}], "reason": "all clear"}

    tried = operator.post("/v1/quarantines/release?dry_run=true", json=body)
    released = operator.post("/v1/quarantines/release", json=body)

    assert [item["outcome"] for item in tried.json["items"]] == ["released", "not_held", "refused"]
    assert tried.json["dry_run"] is True
    assert released.status_code == 200
    assert [item["outcome"] for item in released.json["items"]] == ["released", "not_held", "refused"]


def test_holds_are_listed_by_state_and_device(operator: Asker) -> None:
    hold = open_(operator, KNOWN).json["items"][0]["quarantine"]
    open_(operator, UNSEEN)

    assert len(operator.get("/v1/quarantines?state=open").json["items"]) == 2
    assert [one["id"] for one in operator.get(f"/v1/quarantines?device={SERIALS[0]}").json["items"]] == [hold["id"]]
    assert operator.get("/v1/quarantines?state=released").json["items"] == []


def test_pages_follow_each_other(operator: Asker) -> None:
    ids = [open_(operator, target).json["items"][0]["quarantine"]["id"] for target in (KNOWN, UNSEEN)]

    first = operator.get("/v1/quarantines?limit=1").json
    second = operator.get(f"/v1/quarantines?limit=1&cursor={first['next']}").json

    assert [first["items"][0]["id"], second["items"][0]["id"]] == ids[::-1]
    assert second["next"] is None
    assert operator.get("/v1/quarantines?order=asc&limit=1").json["items"][0]["id"] == ids[0]
    wrong = operator.get("/v1/quarantines?cursor=nonsense")
    assert [error["pointer"] for error in wrong.json["errors"]] == ["/cursor"]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"targets": []}, "/targets"),
        ({"targets": [KNOWN] * 1001}, "/targets"),
        ({"targets": [{}]}, "/targets/0"),
        ({"targets": [{**KNOWN, **UNSEEN}]}, "/targets/0"),
        ({"targets": [{"device": 1654}]}, "/targets/0/device"),
        ({"targets": [{"identifier": {"kind": "gpu", "type": "colour", "value": "x"}}]}, "/targets/0/identifier/type"),
        ({"targets": [{"identifier": {"kind": "gpu", "type": "serial", "value": 5}}]}, "/targets/0/identifier/value"),
        ({"reason": None}, "/reason"),
        ({"reason": "  "}, "/reason"),
        ({"reason": "a\x00b"}, "/reason"),
        ({"scope": "rack"}, "/scope"),
        ({"match": "place"}, "/match"),
        ({"drain": "yes"}, "/drain"),
        ({"release_policy": "at_expiry"}, "/expires_at"),
        ({"expires_at": "2026-12-01"}, "/expires_at"),
        ({"evidence": []}, "/evidence"),
        ({"evidence": {"x": float("1e400")}}, ""),
        ({"owner": "me"}, "/owner"),
    ],
)
def test_a_wrong_wish_is_named(operator: Asker, changes: dict[str, Any], pointer: str) -> None:
    response = (
        open_(operator, **{"targets": [KNOWN], **changes})
        if "targets" not in changes
        else operator.post("/v1/quarantines", json={"reason": "x", **changes})
    )

    if pointer:
        assert (response.status_code, response.json["code"]) == (422, "invalid_field")
        assert [error["pointer"] for error in response.json["errors"]] == [pointer]
    else:
        assert response.json["code"] == "malformed_body"
