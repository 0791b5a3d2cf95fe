# SPDX-License-Identifier: Apache-2.0
"""Does the service keep to its own document, whatever is sent? Requests are made up from it, right ones and wrong ones.

Some 2,000 of them in the suite, on both engines; FUZZ=N makes N times as many.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from flask import Flask, Response, request_finished
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
from registry.services import health
from tests.api.conftest import Asker
from tests.api.on_record import records
from tests.clock import Clock

CASES = 32 * int(os.environ.get("FUZZ", "1"))
"""Requests for each operation and engine."""

OURS = schemathesis.Config.from_dict({"generation": {"with-security-parameters": False}})
"""Tokens are not made up: nothing but the door would be asked. Who may pass it is asked in test_roles.py."""

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def operations() -> list[tuple[str, str]]:
    """Every (path, method) of the application, those that remove something last. No database is needed to know them."""
    nowhere = Settings(database_url="sqlite:////nonexistent", data_dir=Path("/nonexistent"), secret_key="x" * 32)
    every = [(braced(rule.rule), method) for rule, method in routes(create_app(nowhere))]
    return sorted(every, key=lambda one: (one[1] == "DELETE", one))


@pytest.fixture
def known(app: Flask, admin: Asker, node: Asker, clock: Clock, token: Callable[..., str]) -> dict[str, str]:
    """Records of every sort, and what they are called."""
    return records(app, admin, node, clock, token)


def ask_much(app: Flask, admin: Asker, known: dict[str, str], asked: tuple[str, str], cases: int) -> None:
    """Send so many requests to one operation. Raises what schemathesis does when an answer is not in the document."""
    path, method = asked
    operation = schemathesis.openapi.from_wsgi("/openapi.json", app.wsgi_app, config=OURS)[path][method]
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
            case.path_parameters = _placed(case.path_parameters, known)
            case.query = _placed(case.query, known)
            case.body = _placed(case.body, known)
        response = case.call(headers={**(case.headers or {}), **admin.headers})
        # What is known was put in the place of what was made up, so that a wrong case may have become a right one.
        case.validate_response(response, checks=CHECKS if is_known else [*CHECKS, negative_data_rejection])
        if response.status_code >= 400 and path != "/health/ready":
            problem = response.json()
            assert response.headers["content-type"] == ["application/problem+json"]
            assert problem["code"] in PROBLEM_CODES
            assert problem["status"] == response.status_code

    ask()


def _placed(made: Any, known: Mapping[str, str]) -> Any:
    """Put what is on record in the place of what was made up, wherever a text has a name that is known."""
    if isinstance(made, dict):
        return {
            name: known[name] if name in known and isinstance(value, str) else _placed(value, known)
            for name, value in made.items()
        }
    return [_placed(one, known) for one in made] if isinstance(made, list) else made


def test_what_is_made_up_is_asked_past_the_door(app: Flask, admin: Asker, known: dict[str, str]) -> None:
    app.testing = False
    answered: list[int] = []

    def keep(_: Flask, response: Response, **__: Any) -> None:
        answered.append(response.status_code)

    with request_finished.connected_to(keep, app):
        ask_much(app, admin, known, ("/v1/nodes/{node}", "GET"), 20)

    assert 200 in answered[1:], "the first is the document itself"
    assert 401 not in answered


def test_an_error_of_our_own_is_found_and_not_raised(app: Flask, admin: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    app.testing = False
    monkeypatch.setattr(health, "liveness", lambda: 1 // 0)

    with pytest.raises(BaseExceptionGroup, match="1 distinct failure"):
        ask_much(app, admin, {}, ("/health/live", "GET"), 1)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), operations(), ids=lambda part: part)
def test_whatever_is_sent_the_answer_is_in_the_document(
    app: Flask, admin: Asker, known: dict[str, str], path: str, method: str
) -> None:
    app.testing = False

    ask_much(app, admin, known, (path, method), CASES)
