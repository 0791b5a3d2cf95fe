# SPDX-License-Identifier: Apache-2.0
"""Can expectations be written and read through the door?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import Asker

BODY = {"gpu": {"count": 8, "models": ["NVIDIA H100 80GB HBM3"]}, "efa": {"count": 32}}


def test_a_profile_is_written_and_read(operator: Asker, auditor: Asker) -> None:
    first = operator.put("/v1/profiles/own.big", json=BODY)
    again = operator.put("/v1/profiles/own.big", json=BODY)

    assert (first.status_code, again.status_code) == (201, 200)
    shown = auditor.get("/v1/profiles/own.big").json
    assert (shown["name"], shown["gpu"]["count"], shown["efa"]["count"]) == ("own.big", 8, 32)
    assert "own.big" in [one["name"] for one in auditor.get("/v1/profiles").json["items"]]


def test_the_built_in_ones_are_there(auditor: Asker) -> None:
    assert auditor.get("/v1/profiles/p5.48xlarge").json["gpu"]["count"] == 8
    assert auditor.get("/v1/profiles/nobody").json["code"] == "not_found"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [("x", ""), ([], ""), ({}, "/gpu"), ({"gpu": {"count": True}}, "/gpu/count"), ({**BODY, "x/y": 1}, "/x~1y")],
)
def test_a_wrong_field_is_named(operator: Asker, body: Any, pointer: str) -> None:
    response = operator.put("/v1/profiles/own", json=body)

    assert (response.status_code, response.json["code"]) == (422, "invalid_field")
    assert pointer in [error["pointer"] for error in response.json["errors"]]


def test_the_policy_is_shown_with_its_digest(auditor: Asker) -> None:
    policy = auditor.get("/v1/policy").json

    assert policy["digest"].startswith("sha256:")
    assert policy["pass_gap_seconds"] == 30
    assert policy["effects"]["xid_79"] == "permanent"


def test_the_list_is_given_out_in_pages(operator: Asker, auditor: Asker) -> None:
    operator.put("/v1/profiles/a-first", json=BODY)

    first = auditor.get("/v1/profiles?limit=1").json
    rest = auditor.get(f"/v1/profiles?limit=1000&cursor={first['next']}").json

    assert [one["name"] for one in first["items"]] == ["a-first"]
    names = [one["name"] for one in rest["items"]]
    assert (names, rest["next"]) == (sorted(names), None)
    assert "p5.48xlarge" in names
    assert [one["name"] for one in auditor.get("/v1/profiles?name=a-first").json["items"]] == ["a-first"]
    assert auditor.get("/v1/profiles?order=desc").json["items"][-1]["name"] == "a-first"
