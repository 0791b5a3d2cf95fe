# SPDX-License-Identifier: Apache-2.0
"""Does the client repeat what it may, stop where it must, and name what went wrong?"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from registry.client import Client, NotAuthorised, ProblemAnswer, ServerUnreachable, pause_before
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
