# SPDX-License-Identifier: Apache-2.0
"""Does each request leave one line that finds it again, and no secret?"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator

import pytest

from registry.admin.logs import JsonFormatter
from registry.domain.roles import Role
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
