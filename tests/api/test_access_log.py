# SPDX-License-Identifier: Apache-2.0
"""Does each request leave one line that finds it again, and no secret?"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator

import pytest
from flask import Flask

from registry.admin.logs import JsonFormatter
from registry.domain.roles import Role
from registry.services import health
from tests.api.conftest import Asker


class Lines(logging.Handler):
    """Keeps what the server would have written."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.written: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.written.append(self.format(record))


@pytest.fixture
def lines() -> Iterator[list[str]]:
    handler, root = Lines(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler.written
    root.removeHandler(handler)
    root.setLevel(level)


def access(lines: list[str]) -> list[dict[str, object]]:
    return [told for told in map(json.loads, lines) if told["logger"] == "pratique.access"]


def test_a_request_leaves_one_line_that_says_who_asked_for_what(operator: Asker, lines: list[str]) -> None:
    response = operator.get("/v1/devices/nobody?x=1", headers={"X-Request-Id": "find-me"})

    (told,) = access(lines)
    assert told["request_id"] == "find-me" == response.headers["X-Request-Id"]
    assert (told["method"], told["path"], told["route"]) == ("GET", "/v1/devices/nobody", "/v1/devices/<path:ref>")
    assert (told["status"], told["role"], told["level"]) == (422, "operator", "info")
    assert isinstance(told["milliseconds"], float)
    assert told["token"]


TRACE = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")


def test_a_request_that_belongs_to_a_trace_is_found_by_it(operator: Asker, lines: list[str]) -> None:
    operator.get("/v1/devices", headers={"traceparent": f"00-{TRACE[0]}-{TRACE[1]}-01"})

    (told,) = access(lines)
    assert (told["trace_id"], told["parent_id"]) == TRACE


@pytest.mark.parametrize("header", ["nonsense", f"00-{'0' * 32}-{TRACE[1]}-01", f"ff-{TRACE[0]}-{TRACE[1]}-01"])
def test_a_malformed_trace_is_left_out(operator: Asker, lines: list[str], header: str) -> None:
    assert operator.get("/v1/devices", headers={"traceparent": header}).status_code == 200

    (told,) = access(lines)
    assert "trace_id" not in told


def test_what_went_wrong_in_a_trace_is_found_by_it_too(
    app: Flask, anonymous: Asker, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app.testing = False
    monkeypatch.setattr(health, "liveness", lambda: 1 / 0)

    assert anonymous.get("/health/live", headers={"traceparent": f"00-{TRACE[0]}-{TRACE[1]}-01"}).status_code == 500

    failed = [told for told in map(json.loads, lines) if str(told["message"]).endswith(" failed")]
    assert [told["trace_id"] for told in failed] == [TRACE[0]]


def test_no_line_shows_what_stands_in_a_tokens_place(
    token: Callable[..., str], anonymous: Asker, lines: list[str]
) -> None:
    secret = token(Role.WEBHOOK)
    for given in (secret, secret[:-7], "k", "k8s"):
        anonymous.post(f"/k8s/{given}/nodes/validate", json={})
    anonymous.post(f"/k8s/{secret}/nodes/nonsense", json={})

    assert {told["path"] for told in access(lines)[:4]} == {"/k8s/[cut]/nodes/validate"}
    assert secret[12:] not in "".join(lines)


def test_an_address_that_steers_a_terminal_is_written_harmlessly(anonymous: Asker, lines: list[str]) -> None:
    anonymous.get("/v1/%1b%5b2J%0aforged")

    (line,) = [one for one in lines if "forged" in one]
    assert line.isascii()
    assert line.isprintable()


def test_no_token_is_ever_in_a_line(
    admin: Asker, anonymous: Asker, token: Callable[..., str], lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = token(Role.OPERATOR)
    bearer = {"Authorization": f"Bearer {secret}"}
    made = admin.post("/v1/tokens", json={"role": "auditor", "name": "x"}).json["token"]

    anonymous.get("/v1/nodes", headers=bearer)
    anonymous.get(f"/v1/nodes?token={secret}")
    anonymous.get(f"/v1/devices/{secret}", headers=bearer)
    anonymous.delete(f"/v1/tokens/{secret}", headers=admin.headers)
    anonymous.get("/v1/nodes", headers={"Authorization": f"Bearer {secret[:-1]}x", "X-Request-Id": secret})
    logging.getLogger("pratique").warning("somebody wrote %s", secret)
    try:
        int(secret)
    except ValueError:
        logging.getLogger("pratique").exception("failed")

    assert len(lines) >= 8
    text = "\n".join(lines)
    for one in (secret, made, admin.headers["Authorization"].removeprefix("Bearer ")):
        assert one[12:] not in text
    assert "prq_operator_[cut]" in text


def test_a_failure_has_its_traceback_and_its_request(lines: list[str]) -> None:
    try:
        int("inner words")
    except ValueError:
        logging.getLogger("api").exception("request %s failed", "r-1")

    told = json.loads(lines[-1])
    assert told["message"] == "request r-1 failed"
    assert "ValueError: invalid literal for int() with base 10: 'inner words'" in told["exception"]
