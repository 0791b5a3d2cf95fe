# SPDX-License-Identifier: Apache-2.0
"""Does a new node come by a token of its own over HTTP, once, and what may that token do?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from registry.domain.roles import Role
from tests.api.conftest import Asker
from tests.api.v1.fleet import GAP_SECONDS, PROFILE, report
from tests.clock import Clock

WISH = {"role": "join", "name": "pool", "pattern": "gpu-*", "uses": 3, "expires_at": "2026-11-30T00:00:00Z"}
TRADE = {"node": "gpu-1", "provider_id": "i-1"}


def joiner(app: Flask, admin: Asker, **changes: Any) -> Asker:
    """Somebody with a fresh join token."""
    made = admin.post("/v1/tokens", json={**WISH, **changes})
    assert made.status_code == 201, made.text
    return Asker(app.test_client(), made.json["token"])


def joined(app: Flask, admin: Asker, **changes: Any) -> Asker:
    """The node gpu-1, instance i-1, with the token that it was given."""
    answer = joiner(app, admin, **changes).post("/v1/join", json={**TRADE, "profile": changes.get("profile")})
    assert answer.status_code == 201, answer.text
    return Asker(app.test_client(), answer.json["token"])


def send(asking: Asker, **changes: Any) -> TestResponse:
    return asking.post("/v1/nodes/gpu-1/reports", json=report(**{"provider_id": "i-1", **changes}))


def test_a_join_token_is_made_with_its_bounds_and_shown_with_its_count(app: Flask, admin: Asker) -> None:
    asking = joiner(app, admin, profile="g5.48xlarge")
    asking.post("/v1/join", json={**TRADE, "profile": "g5.48xlarge"})

    (listed,) = admin.get("/v1/tokens?role=join").json["items"]

    assert {name: listed[name] for name in ("pattern", "profile", "uses", "used", "expires_at", "node")} == {
        "pattern": "gpu-*",
        "profile": "g5.48xlarge",
        "uses": 3,
        "used": 1,
        "expires_at": "2026-11-30T00:00:00.000000Z",
        "node": None,
    }
    (own,) = admin.get(f"/v1/tokens?joined_with={listed['id']}").json["items"]
    assert (own["role"], own["node"], own["provider_id"]) == ("node", "gpu-1", "i-1")


@pytest.mark.parametrize(
    ("changes", "pointers"),
    [
        ({"pattern": None}, ["/pattern"]),
        ({"uses": None, "expires_at": None}, ["/uses", "/expires_at"]),
        ({"pattern": "gpu/*"}, ["/pattern"]),
        ({"uses": 0}, ["/uses"]),
        ({"uses": "3"}, ["/uses"]),
        ({"expires_at": "2026-11-29T12:00:00Z"}, ["/expires_at"]),
        ({"expires_at": "tomorrow"}, ["/expires_at"]),
        ({"node": "gpu-1"}, ["/node"]),
        ({"role": "auditor"}, ["/pattern", "/uses", "/expires_at"]),
        ({"role": "auditor", "pattern": None, "uses": None, "expires_at": None, "profile": "p"}, ["/profile"]),
    ],
)
def test_bounds_that_make_no_sense_are_named(admin: Asker, changes: dict[str, Any], pointers: list[str]) -> None:
    refused = admin.post("/v1/tokens", json={**WISH, **changes})

    assert refused.status_code == 422
    assert sorted(error["pointer"] for error in refused.json["errors"]) == sorted(pointers)


def test_the_token_of_a_trade_reports_and_asks_for_its_own_node(app: Flask, admin: Asker) -> None:
    node = joined(app, admin)

    assert send(node).status_code == 200
    assert node.get("/v1/nodes/gpu-1/admission").status_code == 200
    assert node.get("/v1/nodes/gpu-2/admission").status_code == 403


def test_it_is_bound_to_its_instance_in_every_report(app: Flask, admin: Asker) -> None:
    node = joined(app, admin)
    assert send(node).status_code == 200

    changed, same = send(node, provider_id="i-2", report_id="r-2"), send(node, report_id="r-3")

    assert (changed.status_code, changed.json["code"]) == (403, "forbidden")
    assert "bound to instance i-1" in changed.json["detail"]
    assert same.status_code == 200
    assert admin.get("/v1/nodes/gpu-1").json["provider_id"] == "i-1"


def test_raw_output_is_held_to_it_too(app: Flask, admin: Asker) -> None:
    node = joined(app, admin)
    fields = {"report_id": "r", "boot_id": "b", "provider_id": "i-2", "profile": "g5.48xlarge"}

    assert node.post("/v1/nodes/gpu-1/reports", data=fields, content_type="multipart/form-data").status_code == 403


def test_it_tells_of_no_fault_while_another_instance_has_the_name(app: Flask, admin: Asker) -> None:
    """The slots of the machine before it hold other devices."""
    told = {"code": "xid_48", "node": "gpu-1", "slot": "0000:10:00.0", "occurred_at": "2026-11-29T12:00:00Z"}

    def tell(asking: Asker, id_: str) -> int:
        return asking.post("/v1/failures", json={**told, "failure_id": id_}).status_code

    first = joined(app, admin)
    assert tell(first, "before-any-report") == 201
    assert send(first).status_code == 200
    assert tell(first, "mine") == 201
    second = joiner(app, admin).post("/v1/join", json={**TRADE, "provider_id": "i-2"}).json["token"]
    after = Asker(app.test_client(), second)

    assert tell(after, "too-early") == 403
    assert send(after, provider_id="i-2", boot_id="boot-of-i-2").status_code == 200
    assert tell(after, "now-its-own") == 201
    assert "too-early" not in {one["failure_id"] for one in admin.get("/v1/failures").json["items"]}


def test_a_profile_that_the_join_token_was_bound_to_binds_its_nodes_as_well(app: Flask, admin: Asker) -> None:
    node = joined(app, admin, profile="g5.48xlarge")

    assert send(node, profile="g5.48xlarge").status_code == 200
    assert "bound to profile g5.48xlarge" in send(node, profile="lab-0x", report_id="r-2").json["detail"]


def test_an_instance_that_has_not_reported_is_not_admitted_by_what_another_one_did(
    app: Flask, admin: Asker, clock: Clock
) -> None:
    asking = joiner(app, admin)
    old = Asker(app.test_client(), asking.post("/v1/join", json=TRADE).json["token"])
    admin.put("/v1/profiles/tiny", json=PROFILE)
    send(old)
    clock.advance(GAP_SECONDS)
    assert send(old, report_id="r-2").json["admission"]["admitted"] is True

    new = Asker(app.test_client(), asking.post("/v1/join", json={**TRADE, "provider_id": "i-2"}).json["token"])
    decision = new.get("/v1/nodes/gpu-1/admission").json

    assert [reason["code"] for reason in decision["reasons"]] == ["node_unknown"]
    assert "Instance i-2" in decision["reasons"][0]["message"]
    assert old.get("/v1/nodes/gpu-1/admission").json["code"] == "unauthenticated"


def test_a_second_trade_is_409_under_the_same_idempotency_key_too_and_an_event(app: Flask, admin: Asker) -> None:
    asking = joiner(app, admin)
    key = {"headers": {"Idempotency-Key": "k-1"}}
    first = asking.post("/v1/join", json=TRADE, **key)

    again = asking.post("/v1/join", json=TRADE, **key)

    assert (again.status_code, again.json["code"]) == (409, "already_joined")
    assert again.json["token_id"] == first.json["id"]
    assert first.json["token"] not in again.text
    (event,) = admin.get("/v1/events?type=join.refused").json["items"]
    assert event["data"]["because"] == "already_joined"
    assert event["actor"] == {"kind": "node", "name": "gpu-1"}


def test_revoking_the_token_of_an_instance_frees_it(app: Flask, admin: Asker) -> None:
    asking = joiner(app, admin)
    first = asking.post("/v1/join", json=TRADE).json

    assert admin.delete(f"/v1/tokens/{first['id']}").status_code == 204

    assert asking.post("/v1/join", json=TRADE).status_code == 201


@pytest.mark.parametrize(
    ("bounds", "trade", "because"),
    [
        ({}, {"node": "cpu-1"}, "name_outside"),
        ({"profile": "p5.48xlarge"}, {"profile": "g5.48xlarge"}, "profile_outside"),
        ({"uses": 1}, {"node": "gpu-9", "provider_id": "i-9"}, "used_up"),
    ],
)
def test_what_the_bounds_do_not_cover_is_403_and_says_what_to_do(
    app: Flask, admin: Asker, bounds: dict[str, Any], trade: dict[str, Any], because: str
) -> None:
    asking = joiner(app, admin, **bounds)
    if because == "used_up":
        assert asking.post("/v1/join", json=TRADE).status_code == 201

    refused = asking.post("/v1/join", json={**TRADE, **trade})

    assert (refused.status_code, refused.json["code"], refused.json["because"]) == (403, "forbidden", because)
    assert "ask " in refused.json["detail"]


def test_a_join_token_ends_at_its_time(app: Flask, admin: Asker, clock: Clock) -> None:
    asking = joiner(app, admin, expires_at="2026-11-29T12:00:10Z")
    clock.advance(10)

    refused = asking.post("/v1/join", json=TRADE)

    assert (refused.status_code, refused.json["because"]) == (403, "expired")


@pytest.mark.parametrize(
    ("trade", "pointer"),
    [
        ({"node": "gpu-1"}, "/provider_id"),
        ({"provider_id": "i-1"}, "/node"),
        ({**TRADE, "node": "a/b"}, "/node"),
        ({**TRADE, "provider_id": ""}, "/provider_id"),
        ({**TRADE, "boot_id": 7}, "/boot_id"),
        ({**TRADE, "role": "admin"}, "/role"),
    ],
)
def test_a_wrong_trade_is_named(app: Flask, admin: Asker, trade: dict[str, Any], pointer: str) -> None:
    refused = joiner(app, admin).post("/v1/join", json=trade)

    assert refused.status_code == 422
    assert [error["pointer"] for error in refused.json["errors"]] == [pointer]


def test_nobody_trades_without_a_join_token(
    anonymous: Asker, node: Asker, operator: Asker, asker: Callable[..., Asker]
) -> None:
    assert anonymous.post("/v1/join", json=TRADE).status_code == 401
    assert node.post("/v1/join", json=TRADE).status_code == 403
    assert operator.post("/v1/join", json=TRADE).status_code == 403
    assert asker(Role.JOIN).get("/v1/tokens").status_code == 403
