# SPDX-License-Identifier: Apache-2.0
"""Are tokens made, shown once, listed without their secret, and worthless when revoked?"""

from __future__ import annotations

import pytest
from flask import Flask

from tests.api.conftest import Asker
from tests.clock import Clock


def made(admin: Asker, **changes: object) -> dict[str, str]:
    response = admin.post("/v1/tokens", json={"role": "operator", "name": "bob", **changes})
    assert response.status_code == 201, response.text
    answered: dict[str, str] = response.json
    return answered


def test_a_token_is_good_at_once_and_shown_once(app: Flask, admin: Asker) -> None:
    token = made(admin, role="node", node="node-b")

    listed = admin.get("/v1/tokens").json["items"]

    assert (token["role"], token["name"], token["node"]) == ("node", "bob", "node-b")
    assert Asker(app.test_client(), token["token"]).get("/v1/nodes/node-b/admission").status_code == 200
    assert token["id"] in [one["id"] for one in listed]
    assert not any("token" in one for one in listed)
    assert token["token"] not in str(listed)


def test_a_revoked_token_opens_nothing(app: Flask, admin: Asker) -> None:
    token = made(admin)
    bob = Asker(app.test_client(), token["token"])

    revoked = admin.delete(f"/v1/tokens/{token['id']}")

    assert (revoked.status_code, revoked.data) == (204, b"")
    assert bob.get("/v1/nodes").json["code"] == "unauthenticated"
    assert admin.delete(f"/v1/tokens/{token['id']}").json["code"] == "not_open"
    assert admin.delete("/v1/tokens/unknown").json["code"] == "not_found"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"role": "node", "name": "n"}, "/node"),
        ({"role": "operator", "name": "n", "node": "node-a"}, "/node"),
        ({"role": "node", "name": "n", "node": "a/b"}, "/node"),
        ({"role": "root", "name": "n"}, "/role"),
        ({"role": "admin"}, "/name"),
        ({"role": "admin", "name": " "}, "/name"),
        ({"role": "admin", "name": " n"}, "/name"),
        ({"role": "admin", "name": "n", "ttl": 1}, "/ttl"),
    ],
)
def test_a_wrong_wish_is_named(admin: Asker, body: dict[str, object], pointer: str) -> None:
    response = admin.post("/v1/tokens", json=body)

    assert response.status_code == 422
    assert [error["pointer"] for error in response.json["errors"]] == [pointer]


def test_a_repeated_wish_makes_one_token_and_does_not_show_the_secret_again(admin: Asker) -> None:
    wish = {"json": {"role": "auditor", "name": "carol"}, "headers": {"Idempotency-Key": "k-1"}}

    first, again = (admin.post("/v1/tokens", **wish) for _ in range(2))

    assert first.json["token"].startswith("prq_auditor_")
    assert again.json == {**first.json, "token": None}
    assert again.headers["Idempotent-Replayed"] == "true"
    assert len([one for one in admin.get("/v1/tokens").json["items"] if one["name"] == "carol"]) == 1


def test_the_list_is_given_out_in_pages_newest_first(admin: Asker, clock: Clock) -> None:
    wanted = []
    for name in ("bob", "carol"):
        clock.advance(1)
        wanted.insert(0, made(admin, name=name)["id"])

    first = admin.get("/v1/tokens?limit=1").json
    second = admin.get(f"/v1/tokens?limit=1&cursor={first['next']}").json

    assert [first["items"][0]["id"], second["items"][0]["id"]] == wanted
    assert [one["name"] for one in admin.get("/v1/tokens?name=bob&role=operator").json["items"]] == ["bob"]
    assert admin.get("/v1/tokens?secret=x").status_code == 422
