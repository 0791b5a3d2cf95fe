# SPDX-License-Identifier: Apache-2.0
"""Does the client repeat what it may, stop where it must, and name what went wrong?"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from registry.client import Client, ClientError, NotAuthorised, ProblemAnswer, ServerUnreachable, pause_before
from tests.cli.scripted import Answer, scripted

DECISION = {"node": "node-a", "admitted": True, "disposition": "admit", "reasons": []}
BUSY = Answer(503, {"code": "store_unavailable", "detail": "the database cannot answer"})


def client_of(url: str, *, pauses: list[float] | None = None, retries: int = 3) -> Client:
    taken = [] if pauses is None else pauses
    return Client(url, "prq_test", retries=retries, sleep=taken.append)


def test_it_shows_its_token_and_quotes_every_part_of_the_path() -> None:
    with scripted(Answer(body=DECISION)) as server:
        client_of(server.url + "/").admission("a/b c?d")

    assert server.asked[0].path == "/v1/nodes/a%2Fb%20c%3Fd/admission"
    assert server.asked[0].headers["Authorization"] == "Bearer prq_test"


def test_it_asks_again_while_the_server_restarts() -> None:
    pauses: list[float] = []

    with scripted(BUSY, Answer(502, b"<html>"), Answer(body={"ok": 1})) as server:
        found = client_of(server.url, pauses=pauses).get("nodes")

    assert found == {"ok": 1}
    assert len(server.asked) == 3
    assert len(pauses) == 2


def test_it_gives_up_with_the_servers_own_words() -> None:
    with scripted(BUSY) as server, pytest.raises(ProblemAnswer, match="the database cannot answer") as raised:
        client_of(server.url, retries=2).get("nodes")

    assert raised.value.code == "store_unavailable"
    assert len(server.asked) == 3


def test_every_repeat_of_a_post_carries_the_same_key() -> None:
    with scripted(BUSY, BUSY, Answer(201)) as server:
        client_of(server.url).post("quarantines", body={"reason": "x"})

    keys = {asked.headers["Idempotency-Key"] for asked in server.asked}
    assert len(server.asked) == 3
    assert len(keys) == 1
    assert {asked.body for asked in server.asked} == {b'{"reason": "x"}'}


def test_it_waits_for_the_first_arrival_of_its_own_key() -> None:
    busy = Answer(409, {"code": "idempotency_in_progress", "detail": "still running"})

    with scripted(busy, Answer(201, {"done": True})) as server:
        found = client_of(server.url).post("quarantines", body={})

    assert found == {"done": True}


def test_raw_parts_are_sent_whole_again() -> None:
    with scripted(BUSY, Answer(body={"report_id": "r1", "admission": DECISION})) as server:
        client_of(server.url).report("node-a", {}, {"nvidia_smi_xml": b"<xml/>" * 1000}, fields={"report_id": "r1"})

    first, second = server.asked
    assert first.body == second.body
    assert b"<xml/><xml/>" in second.body
    assert b"r1" in second.body
    assert "Idempotency-Key" not in second.headers


@pytest.mark.parametrize("status", [400, 404, 409, 413, 422, 500])
def test_an_answer_that_will_not_change_is_asked_for_once(status: int) -> None:
    refusal = Answer(status, {"code": "not_found", "detail": "no", "errors": [{"pointer": "/a", "detail": "is wrong"}]})

    with scripted(refusal) as server, pytest.raises(ProblemAnswer) as raised:
        client_of(server.url).get("nodes")

    assert len(server.asked) == 1
    assert [(one.pointer, one.detail) for one in raised.value.errors] == [("/a", "is wrong")]


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_is_not_good_has_an_error_of_its_own(status: int) -> None:
    with scripted(Answer(status, {"code": "forbidden", "detail": "no"})) as server, pytest.raises(NotAuthorised):
        client_of(server.url).get("nodes")


@pytest.mark.parametrize(
    "strange",
    [
        Answer(200, b"<html>hello</html>"),
        Answer(200, [1, 2]),
        Answer(404, b"nothing here"),
        Answer(302, b"", {"Location": "http://elsewhere.invalid/"}),
        Answer(200, b'{"cut": ', length=100),
    ],
    ids=["no-json", "no-object", "no-problem", "redirect", "cut-off"],
)
def test_what_is_no_pratique_server_is_called_unreachable(strange: Answer) -> None:
    with scripted(strange) as server, pytest.raises(ServerUnreachable):
        client_of(server.url).get("nodes")


def test_nobody_listening_is_told_in_plain_words() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        pauses: list[float] = []

        with pytest.raises(ServerUnreachable, match="Connection refused"):
            client_of(url, pauses=pauses).get("nodes")

    assert len(pauses) == 3


def test_neither_proxy_nor_netrc_of_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login eve password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    with scripted(Answer()) as server:
        client_of(server.url).get("nodes")

    assert server.asked[0].headers["Authorization"] == "Bearer prq_test"


def test_a_list_is_walked_by_its_cursors_and_not_beyond_its_limit() -> None:
    pages = [Answer(body={"items": [1, 2], "next": "c1"}), Answer(body={"items": [3, 4], "next": "c2"})]

    with scripted(*pages) as server:
        found = list(client_of(server.url).items("devices", params={"state": "missing"}, limit=4))

    assert found == [1, 2, 3, 4]
    assert [asked.path for asked in server.asked] == [
        "/v1/devices?state=missing&limit=4",
        "/v1/devices?state=missing&cursor=c1&limit=2",
    ]


def test_a_stream_that_breaks_off_is_no_whole_stream() -> None:
    with scripted(Answer(200, b'{"sequence": 1}\n', length=1000)) as server:
        lines = client_of(server.url).lines("events", "export")

        with pytest.raises(ServerUnreachable, match="broke off"):
            list(lines)


def test_pauses_grow_and_end_and_follow_the_server() -> None:
    assert 0.25 <= pause_before(0) <= 0.5
    assert 1.0 <= pause_before(2) <= 2.0
    assert pause_before(20) == 30.0
    assert pause_before(0, 7.0) == 7.0
    assert pause_before(0, 86_400.0) == 30.0


@contextmanager
def dripping(begin: bytes) -> Iterator[str]:
    """Run a server that begins an answer and goes on with a blank every 50 ms."""
    over = threading.Event()

    def drip(line: socket.socket) -> None:
        with line, suppress(OSError):
            line.recv(65_536)
            line.sendall(begin)
            while not over.wait(0.05):
                line.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def serve() -> None:
            with suppress(OSError):
                while not over.is_set():
                    drip(server.accept()[0])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        over.set()


BEGUN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"


@pytest.mark.parametrize("begin", [BEGUN + b"\r\n", BEGUN + b"X-Slow: "], ids=["body", "headers"])
def test_a_server_that_never_ends_its_answer_is_given_up(begin: bytes) -> None:
    with dripping(begin) as url:
        client = Client(url, "prq_test", retries=0, answer_seconds=0.3)
        threads = threading.active_count()
        before = time.monotonic()

        with pytest.raises(ServerUnreachable, match="timed out"):
            client.get("nodes")

        assert time.monotonic() - before < 2
        while threading.active_count() > threads and time.monotonic() - before < 5:
            time.sleep(0.01)
        assert threading.active_count() <= threads


def test_an_agent_that_is_told_to_stop_waits_for_no_answer() -> None:
    with dripping(BEGUN) as url:
        client = Client(url, "prq_test", retries=0, is_stopping=lambda: True)
        before = time.monotonic()

        with pytest.raises(ServerUnreachable, match="is stopping"):
            client.get("nodes")

        assert time.monotonic() - before < 2


def test_no_try_begins_that_the_time_of_all_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.client.LEAST_SECONDS", 0.2)
    with dripping(BEGUN) as url:
        client = Client(url, "prq_test", until=time.monotonic())
        before = time.monotonic()

        with pytest.raises(ServerUnreachable):
            client.get("nodes")

        assert time.monotonic() - before < 2


@pytest.mark.parametrize(
    "foreign",
    [
        Answer(401, {"code": None, "errors": [1]}, {"Content-Type": "application/json"}),
        Answer(404, {"code": 404, "message": "no route"}, {"Content-Type": "application/json"}),
        Answer(400, {"code": "malformed_body"}, {"Content-Type": "application/json"}),
        Answer(422, {"code": "blocked_by_waf"}),
        Answer(422, b"[" * 200_000, {"Content-Type": "application/problem+json"}),
        Answer(200, b"[" * 200_000),
    ],
    ids=["null", "number", "json", "code", "deep-problem", "deep"],
)
def test_only_a_problem_with_a_code_of_ours_is_the_servers_own_word(foreign: Answer) -> None:
    with scripted(foreign) as server, pytest.raises(ServerUnreachable):
        client_of(server.url).get("nodes")


def test_errors_that_are_no_fields_are_passed_over() -> None:
    refusal = Answer(422, {"code": "invalid_field", "errors": ["some text", {"pointer": "/a"}]})

    with scripted(refusal) as server, pytest.raises(ProblemAnswer) as raised:
        client_of(server.url).get("nodes")

    assert [one.pointer for one in raised.value.errors] == ["/a"]


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (Answer(503, BUSY.body, {"Retry-After": "7"}), 7.0),
        (Answer(503, BUSY.body, {"Retry-After": "\xb2"}), None),
        (Answer(503, BUSY.body, {"Retry-After": "soon"}), None),
        (Answer(503, b"<html>", {"Retry-After": "3600"}), None),
        (Answer(503, {"code": 1}, {"Retry-After": "3600"}), None),
    ],
)
def test_a_pause_is_taken_from_the_servers_own_word_alone(answer: Answer, seconds: float | None) -> None:
    with scripted(answer) as server, pytest.raises(ClientError) as raised:
        client_of(server.url, retries=0).get("nodes")

    assert raised.value.retry_after == seconds


@pytest.mark.parametrize("body", [{"status": "ok"}, {"report_id": "r2", "admission": DECISION}, {"report_id": "r1"}])
def test_a_report_is_taken_by_whoever_names_it_and_decides(body: dict[str, object]) -> None:
    with scripted(Answer(200, body)) as server, pytest.raises(ServerUnreachable):
        client_of(server.url).report("node-a", {"report_id": "r1"})


@pytest.mark.parametrize("body", [{"status": "ok"}, {**DECISION, "admitted": "yes"}, {**DECISION, "reasons": ["x"]}])
def test_what_decides_nothing_is_no_decision(body: dict[str, object]) -> None:
    with scripted(Answer(200, body)) as server, pytest.raises(ServerUnreachable, match="no decision"):
        client_of(server.url).admission("node-a")
