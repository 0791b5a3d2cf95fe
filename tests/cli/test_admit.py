# SPDX-License-Identifier: Apache-2.0
"""Does the exit code of `pratique admit` say what it promises, and does waiting end?"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from registry.admin.demo_hardware import make_machine
from registry.cli.admit import pause_after, poll
from registry.client import Client, NotAuthorised, ServerUnreachable
from registry.domain.times import rfc3339
from registry.main import main
from tests.cli.conftest import Pratique
from tests.cli.scripted import Answer, scripted
from tests.clock import Clock


def decision(*codes: str, retry_in: float | None = None, now: datetime) -> dict[str, Any]:
    again = {"retry_at": rfc3339(now + timedelta(seconds=retry_in))} if retry_in is not None else {}
    return {
        "node": "node-a",
        "admitted": not codes,
        "disposition": "hold" if codes else "admit",
        "reasons": [{"code": code, "message": f"about {code}", **again} for code in codes],
        "passes": {"have": 0, "need": 2},
        "policy": "sha256:0",
        "sequence": 1,
        "decided_at": rfc3339(now),
    }


def ask(url: str, *more: str) -> tuple[int, str, str]:
    result = CliRunner(env={"PRATIQUE_TOKEN": "prq_x"}).invoke(main, ["admit", "node-a", "--url", url, *more])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((), 0),
        (("device_quarantined", "passes_insufficient"), 10),
        (("node_quarantined",), 10),
        (("passes_insufficient",), 11),
        (("device_quarantined", "identity_conflict"), 12),
        (("device_unidentified", "passes_insufficient"), 12),
        (("node_unknown",), 13),
        (("passes_insufficient", "maintenance"), 13),
        (("something_of_a_newer_server",), 13),
    ],
    ids=str,
)
def test_the_exit_code_tells_the_gravest_reason(codes: tuple[str, ...], expected: int, now: datetime) -> None:
    with scripted(Answer(body=decision(*codes, now=now))) as server:
        code, out, _ = ask(server.url)

    assert code == expected
    assert all(f"{reason}: about {reason}" in out for reason in codes)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(401, {"code": "unauthenticated", "detail": "no"}), 3),
        (Answer(403, {"code": "forbidden", "detail": "no"}), 3),
        (Answer(404, {"code": "not_found", "detail": "no such address"}), 20),
        (Answer(500, {"code": "internal", "detail": "no"}), 20),
        (Answer(200, b"<html>"), 20),
    ],
    ids=["401", "403", "404", "500", "no-json"],
)
def test_an_answer_that_is_no_decision_is_no_yes(answer: Answer, expected: int) -> None:
    with scripted(answer) as server:
        code, out, err = ask(server.url)

    assert code == expected
    assert out == ""
    assert err.startswith("pratique: ")


@pytest.mark.parametrize(
    "url",
    ["http://", "http://[::1", "http://host:99999", "http://a..b", "http://ho st", "https://:443", "http://h:0"],
)
def test_an_address_that_can_be_none_is_a_usage_error(url: str) -> None:
    code, _, err = ask(url)

    assert (code, "The address" in err) == (2, True)


def test_a_silent_server_is_waited_for_as_long_as_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.client.LEAST_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        before = time.monotonic()
        code, _, err = ask(f"http://127.0.0.1:{silent.getsockname()[1]}", "--wait", "1s")

    assert (code, "timed out" in err) == (20, True)
    assert time.monotonic() - before < 3


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file"), (b"\n", "is empty"), (b"a b", "one token"), (b"\xff", "no text")]
)
def test_a_token_file_that_is_of_no_use_is_named_with_the_reason(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)

    code, _, err = ask("http://127.0.0.1:9", "--token-file", str(file))

    assert (code, str(file) in err, reason in err) == (2, True, True)


@pytest.mark.slow
def test_a_server_that_is_away_is_no_yes() -> None:
    with scripted(Answer()) as server:
        url = server.url

    code, _, err = ask(url)

    assert code == 20
    assert "no answer from" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["admit"],
        ["admit", "node/a", "--url", "http://127.0.0.1:9"],
        ["admit", "node-a"],
        ["admit", "node-a", "--url", "ftp://127.0.0.1"],
        ["admit", "node-a", "--url", "http://127.0.0.1:9", "--wait", "soon"],
        ["admit", "node-a", "--url", "http://127.0.0.1:9", "--token-file", "/nonexistent/token"],
        ["admit", "node-a", "--url", "http://127.0.0.1:9", "--profile", "p5.48xlarge"],
    ],
    ids=["no-node", "no-name", "no-url", "no-http", "no-duration", "no-token-file", "another-machine"],
)
def test_what_cannot_be_followed_is_a_usage_error(arguments: list[str]) -> None:
    assert CliRunner(env={"PRATIQUE_TOKEN": "prq_x"}).invoke(main, arguments).exit_code == 2


def test_a_token_comes_from_standard_input_and_never_shows() -> None:
    with scripted(Answer(401, {"code": "unauthenticated", "detail": "no"})) as server:
        result = CliRunner().invoke(
            main, ["admit", "node-a", "--url", server.url, "--token-file", "-"], input="prq_node_secret\n"
        )

    assert server.asked[0].headers["Authorization"] == "Bearer prq_node_secret"
    assert "secret" not in result.output


def test_waiting_ends_with_the_admission(clock: Clock, now: datetime) -> None:
    waiting = Answer(body=decision("passes_insufficient", retry_in=3, now=now))
    pauses: list[float] = []

    with scripted(waiting, waiting, Answer(500, {"code": "internal"}), Answer(body=decision(now=now))) as server:
        found = poll(
            asking(server.url), "node-a", 900, pause=pause_after, clock=seconds_of(clock), sleep=passing(clock, pauses)
        )

    assert found["admitted"]
    assert len(pauses) == 3
    assert 3 <= pauses[0] <= 3.6


def test_waiting_ends_with_its_time_and_the_last_decision(clock: Clock, now: datetime) -> None:
    pauses: list[float] = []

    with scripted(Answer(body=decision("device_quarantined", now=now))) as server:
        found = poll(
            asking(server.url), "node-a", 60, pause=pause_after, clock=seconds_of(clock), sleep=passing(clock, pauses)
        )

    assert not found["admitted"]
    assert sum(pauses) == pytest.approx(60)


def test_waiting_for_a_server_that_stays_away_ends_without_a_decision(clock: Clock) -> None:
    with scripted(Answer(200, b"<html>")) as server, pytest.raises(ServerUnreachable):
        poll(asking(server.url), "node-a", 60, pause=pause_after, clock=seconds_of(clock), sleep=passing(clock, []))


def test_nobody_waits_for_a_token_to_become_good(clock: Clock) -> None:
    with scripted(Answer(401, {"code": "unauthenticated"})) as server, pytest.raises(NotAuthorised):
        poll(asking(server.url), "node-a", 60, pause=pause_after, clock=seconds_of(clock), sleep=passing(clock, []))

    assert len(server.asked) == 1


def test_the_pause_goes_by_the_servers_clock_and_is_bounded(now: datetime) -> None:
    assert 12 <= pause_after(decision("passes_insufficient", retry_in=12, now=now)) <= 14.4
    assert 0.5 <= pause_after(decision("passes_insufficient", retry_in=-5, now=now)) <= 0.6
    assert 30 <= pause_after(decision("maintenance", retry_in=86_400, now=now)) <= 36
    assert 5 <= pause_after(decision("device_quarantined", now=now)) <= 6


def test_a_node_is_admitted_after_two_clean_passes(pratique: Pratique) -> None:
    machine = make_machine("node-a", 1)

    codes = [pratique("admit", "node-a", who="node-a").exit_code]
    for _ in range(2):
        pratique.report(machine)
        codes.append(pratique("admit", "node-a", who="node-a").exit_code)

    assert codes == [13, 11, 0]


def test_a_held_device_and_anothers_node_have_codes_of_their_own(pratique: Pratique) -> None:
    machine = make_machine("node-a", 1)
    pratique.report(machine)
    pratique("quarantine", "open", "--device", machine.gpus[3].serial, "--reason", "smells")

    assert pratique("admit", "node-a", who="node-a").exit_code == 10
    assert pratique("admit", "node-a", who="node-b").exit_code == 3


def asking(url: str) -> Callable[[], dict[str, Any]]:
    client = Client(url, "prq_x", retries=0)
    return lambda: client.admission("node-a")


def seconds_of(clock: Clock) -> Any:
    return lambda: clock().timestamp()


def passing(clock: Clock, pauses: list[float]) -> Any:
    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(seconds)

    return sleep
