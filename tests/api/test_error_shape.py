# SPDX-License-Identifier: Apache-2.0
"""Does every way to fail answer one shape, with a code that scripts can branch on?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from api.app import create_app
from api.context import standing
from api.errors import CODE_OF_STATUS, STATUS
from registry.config import Settings
from registry.domain import errors as facts
from registry.domain.errors import PROBLEM_CODES, PratiqueError
from registry.domain.roles import Role
from registry.services import nodes
from tests.api.conftest import Asker
from tests.clock import Clock

REPORTS = "/v1/nodes/node-a/reports"


def check(response: TestResponse, status: int, code: str) -> dict[str, Any]:
    """Check that an answer is a problem document, and return it."""
    assert response.status_code == status, response.text
    assert response.content_type == "application/problem+json"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    problem: dict[str, Any] = json.loads(response.data)
    assert {"type", "title", "status", "code", "detail", "errors", "instance"} <= problem.keys()
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["code"] in PROBLEM_CODES
    assert problem["instance"] == response.headers["X-Request-Id"]
    assert problem["detail"]
    for error in problem["errors"]:
        assert error["pointer"] == "" or error["pointer"].startswith("/")
        assert error["detail"]
    return problem


def every_fact() -> Iterator[type[PratiqueError]]:
    yield from PratiqueError.__subclasses__()


def test_every_fact_has_a_status_and_every_code_a_fact() -> None:
    ours = {fact for fact in every_fact() if fact.__module__ == facts.__name__}

    assert ours == set(STATUS)
    assert {fact.code for fact in ours} | set(CODE_OF_STATUS.values()) | {"internal"} == set(PROBLEM_CODES)


@pytest.mark.parametrize("fact", list(STATUS), ids=lambda fact: fact.code)
def test_a_fact_becomes_its_status(admin: Asker, monkeypatch: pytest.MonkeyPatch, fact: type[PratiqueError]) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fact("words", errors=(facts.FieldError("/a", "is wrong"),), candidates=[{"id": "1"}], status=1)

    monkeypatch.setattr(nodes, "show_node", fail)

    problem = check(admin.get("/v1/nodes/node-a"), int(STATUS[fact]), fact.code)

    assert problem["errors"] == [{"pointer": "/a", "detail": "is wrong"}]
    assert problem["candidates"] == [{"id": "1"}]


def test_a_store_that_cannot_answer_says_when_to_come_again(admin: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise facts.StoreUnavailable("the disk is full")

    monkeypatch.setattr(nodes, "show_node", fail)

    assert int(admin.get("/v1/nodes/node-a").headers["Retry-After"]) > 0


def test_what_nobody_foresaw_is_bland_and_logged(
    app: Flask, admin: Asker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("inner words")

    app.config["PROPAGATE_EXCEPTIONS"] = False
    monkeypatch.setattr(nodes, "show_node", fail)

    problem = check(admin.get("/v1/nodes/node-a", headers={"X-Request-Id": "find-me"}), 500, "internal")

    assert "inner words" not in json.dumps(problem)
    assert "find-me" in caplog.text
    assert "ZeroDivisionError: inner words" in caplog.text
    assert "prq_" not in caplog.text


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"Authorization": "Basic abc"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer nonsense"},
        {"Authorization": f"Bearer prq_admin_{'a' * 49}"},
        {"Authorization": "Bearer prq_ädmin_\x80"},
    ],
)
def test_no_token_or_a_bad_one_is_unauthenticated(anonymous: Asker, header: dict[str, str]) -> None:
    response = anonymous.get("/v1/nodes", headers=header)

    check(response, 401, "unauthenticated")
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/nodes/", "/v2/nodes", "//v1/nodes", "/v1//nodes", "/v1/repair"])
def test_an_unknown_address_is_not_found(admin: Asker, path: str) -> None:
    check(admin.get(path), 404, "not_found")


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/v1/nodes"), ("OPTIONS", "/v1/nodes"), ("GET", REPORTS)])
def test_a_wrong_method_names_the_right_ones(admin: Asker, method: str, path: str) -> None:
    response = admin.ask(method, path)

    check(response, 405, "method_not_allowed")
    assert response.headers["Allow"]


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{", "application/json"),
        (b'{"a":1,"a":1}', "application/json"),
        (b"\xff", "application/json"),
        (b"[" * 50_000, "application/json"),
        (b"{}", "text/plain"),
        (b"a=1", "application/x-www-form-urlencoded"),
        (b"", "application/json"),
        (b"x", "multipart/form-data"),
        (b"x", "multipart/form-data; boundary=y"),
    ],
)
def test_a_body_that_cannot_be_read_is_malformed(node: Asker, body: bytes, content_type: str) -> None:
    check(node.post(REPORTS, data=body, content_type=content_type), 400, "malformed_body")


def test_a_compressed_body_is_malformed(node: Asker) -> None:
    check(node.post(REPORTS, data=b"x", headers={"Content-Encoding": "gzip"}), 400, "malformed_body")


def test_a_wrong_field_is_named_by_pointer(node: Asker) -> None:
    body = {"devices": [{"kind": "gpu", "vendor": "nvidia", "serial": 1654}]}

    problem = check(node.post(REPORTS, json=body), 422, "invalid_field")

    assert "/devices/0/serial" in [error["pointer"] for error in problem["errors"]]


def test_a_part_that_cannot_be_read_is_named(node: Asker) -> None:
    fields = {"report_id": "r", "boot_id": "b", "provider_id": "i", "profile": "p", "nvidia_smi_xml": "<nvidia"}

    problem = check(node.post(REPORTS, data=fields, content_type="multipart/form-data"), 422, "part_unreadable")

    assert [error["pointer"] for error in problem["errors"]] == ["/nvidia_smi_xml"]


def test_a_chunked_body_has_to_say_its_length(node: Asker) -> None:
    response = node.post(REPORTS, data=b"5\r\nhello\r\n0\r\n\r\n", headers={"Transfer-Encoding": "chunked"})

    check(response, 411, "length_required")


@pytest.fixture
def small(settings: Settings, clock: Clock) -> Iterator[Flask]:
    app = create_app(replace(settings, max_body_bytes=2000, rate_limit_per_second=1), clock=clock)
    yield app
    standing(app).database.close_all()


@pytest.fixture
def small_client(small: Flask) -> FlaskClient:
    return small.test_client()


def test_a_body_over_the_limit_is_refused_before_it_is_read(small_client: FlaskClient, node: Asker) -> None:
    response = small_client.post(REPORTS, data=b"x" * 2001, headers=node.headers)

    check(response, 413, "body_too_large")


def test_too_many_requests_are_told_when_to_come_again(
    small_client: FlaskClient, token: Callable[..., str], clock: Clock
) -> None:
    headers = {"Authorization": f"Bearer {token(Role.OPERATOR, name='busy')}"}
    answers = [small_client.get("/v1/policy", headers=headers) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 429]
    check(answers[-1], 429, "rate_limited")
    clock.advance(int(answers[-1].headers["Retry-After"]))
    assert small_client.get("/v1/policy", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "/limit"),
        ("limit=1001", "/limit"),
        ("limit=x", "/limit"),
        ("limit=-1", "/limit"),
        ("limit=1&limit=2", "/limit"),
        ("order=up", "/order"),
        ("offset=5", "/offset"),
        ("name=a%00b", "/name"),
    ],
)
def test_a_wrong_parameter_is_named(operator: Asker, query: str, pointer: str) -> None:
    problem = check(operator.get(f"/v1/nodes?{query}"), 422, "invalid_field")

    assert [error["pointer"] for error in problem["errors"]] == [pointer]


@pytest.mark.parametrize("path", ["/v1/nodes/a%00b", "/v1/devices/%ED%A0%80%0A", "/v1/quarantines/a%1Bb"])
def test_an_address_that_nothing_can_have_is_not_found(operator: Asker, path: str) -> None:
    check(operator.get(path), 404, "not_found")


def test_an_answer_carries_the_callers_request_id_where_it_is_sane(anonymous: Asker) -> None:
    kept = anonymous.get("/health/live", headers={"X-Request-Id": "job-17.a"})
    replaced = anonymous.get("/health/live", headers={"X-Request-Id": "a b"})

    assert kept.headers["X-Request-Id"] == "job-17.a"
    assert len(replaced.headers["X-Request-Id"]) == 32


def test_what_is_under_v1_is_kept_by_no_cache(anonymous: Asker) -> None:
    assert anonymous.get("/v1/nodes").headers["Cache-Control"] == "no-store"
