# SPDX-License-Identifier: Apache-2.0
"""Does the service keep to its own document, whatever is sent? Requests are made up from it, right ones and wrong ones.

Some 2,000 of them in the suite, on both engines; FUZZ=N makes N times as many.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from flask import Flask
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from api.app import create_app
from api.openapi import braced, routes
from registry.config import Settings
from registry.domain.errors import PROBLEM_CODES
from registry.domain.roles import Role
from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit
from tests.clock import Clock

CASES = 32 * int(os.environ.get("FUZZ", "1"))
"""Requests for each operation and engine."""

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def operations() -> list[tuple[str, str]]:
    """Every (path, method) of the application; no database is needed to know them."""
    nowhere = Settings(database_url="sqlite:////nonexistent", data_dir=Path("/nonexistent"), secret_key="x" * 32)
    return sorted((braced(rule.rule), method) for rule, method in routes(create_app(nowhere)))


@pytest.fixture
def known(admin: Asker, node: Asker, clock: Clock, token: Callable[..., str]) -> dict[str, str]:
    """Records of every sort, and what they are called in addresses."""
    admit(admin, node, clock)
    token(Role.AUDITOR, name="spare")
    spare = admin.get("/v1/tokens").json["items"][0]["id"]
    fault = {"failure_id": "f-1", "device": SERIALS[0], "code": "xid_79", "occurred_at": "2026-11-29T12:00:00Z"}
    failure = admin.post("/v1/failures", json=fault).json["items"][0]["failure"]["id"]
    hold = admin.get("/v1/quarantines").json["items"][0]["id"]
    begun = {"event_id": "e-1", "kind": "started", "at": "2026-11-29T11:00:00Z", "nodes": ["node-a"], "devices": 2}
    assert admin.post("/v1/jobs/job-1/events", json={"events": [begun]}).status_code == 201
    subscription = admin.post("/v1/webhooks", json={"url": "https://hooks.example/"}).json["id"]
    return {
        "webhook": subscription,
        "node": "node-a",
        "ref": SERIALS[1],
        "name": "tiny",
        "failure": failure,
        "quarantine_id": hold,
        "job": "job-1",
        "token": spare,
        "secret": token(Role.WEBHOOK),
        "file": "page.js",
    }


def ask_much(app: Flask, admin: Asker, known: dict[str, str], asked: tuple[str, str], cases: int) -> None:
    """Send so many requests to one operation. Raises what schemathesis does when an answer is not in the document."""
    path, method = asked
    operation = schemathesis.openapi.from_wsgi("/openapi.json", app)[path][method]
    right = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    takes_something = bool(list(operation.iter_parameters()) or list(operation.body))
    wrong = [operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)] if takes_something else []
    made = st.one_of(right, *wrong)

    @settings(
        max_examples=cases,
        deadline=None,  # how long an answer takes on a busy machine says nothing of the document
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=made, is_known=st.booleans())
    def ask(case: Any, is_known: bool) -> None:
        if is_known:
            case.path_parameters.update({name: known[name] for name in case.path_parameters if name in known})
        response = case.call(headers={**admin.headers, **(case.headers or {})})
        # What is known was put in the place of what was made up, so that a wrong case may have become a right one.
        case.validate_response(response, checks=CHECKS if is_known else [*CHECKS, negative_data_rejection])
        if response.status_code >= 400 and path != "/health/ready":
            problem = response.json()
            assert response.headers["content-type"] == ["application/problem+json"]
            assert problem["code"] in PROBLEM_CODES
            assert problem["status"] == response.status_code

    ask()


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), operations(), ids=lambda part: part)
def test_whatever_is_sent_the_answer_is_in_the_document(
    app: Flask, admin: Asker, known: dict[str, str], path: str, method: str
) -> None:
    app.testing = False

    ask_much(app, admin, known, (path, method), CASES)
