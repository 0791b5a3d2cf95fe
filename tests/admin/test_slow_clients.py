# SPDX-License-Identifier: Apache-2.0
"""Can somebody without a token keep the server from answering others? By being slow, or by sending no request."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import itertools
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from registry.admin import patience
from registry.admin.demo_server import RunningServer, Stage, start_server
from registry.admin.patience import PatientReader

pytestmark = pytest.mark.slow

SLOW = 60
"""More than the server has threads: two processes of four, and of eight for those that only ask."""

BEGUN = (
    b"",
    b"GET /health/li",
    b"GET /v1/nodes HTTP/1.1\r\nHost: x\r\n",
    b"POST /v1/failures HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
    b"POST /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
    b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\nGET /health",
)
"""What a slow client may have sent: the last one has been answered once."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage.set_up(tmp_path_factory.mktemp("slow"))


@pytest.fixture(scope="module")
def server(stage: Stage) -> Iterator[RunningServer]:
    running = start_server(stage)
    yield running
    running.stop()


def address(server: RunningServer) -> tuple[str, int]:
    host, _, port = server.url.partition("://")[2].rpartition(":")
    return host, int(port)


def connected(server: RunningServer) -> socket.socket:
    return socket.create_connection(address(server), timeout=30)


def seconds_to_answer(server: RunningServer) -> float:
    begun = time.monotonic()
    assert requests.get(f"{server.url}/health/live", timeout=30).status_code == 200
    return time.monotonic() - begun


def read_to_the_end(sock: socket.socket) -> bytes:
    read = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := sock.recv(65536):
            read += piece
    return read


def test_others_are_answered_at_once_and_the_slow_are_cut(server: RunningServer) -> None:
    with contextlib.ExitStack() as opened:
        slow = {number: opened.enter_context(connected(server)) for number in range(SLOW)}
        for number, begun in zip(slow, itertools.cycle(BEGUN), strict=False):
            slow[number].sendall(begun)
        dripping = [threading.Thread(target=drip, args=(slow[number],)) for number in range(2, SLOW, 12)]
        for thread in dripping:
            thread.start()
        time.sleep(0.2)
        since = time.monotonic()

        waited = seconds_to_answer(server)
        for one in slow.values():
            one.settimeout(20)
            read_to_the_end(one)
        cut_after = time.monotonic() - since
        for thread in dripping:
            thread.join()

    assert waited < 3
    assert cut_after < 16


def test_who_asks_is_answered_while_all_that_tell_wait_for_the_disk(server: RunningServer, stage: Stage) -> None:
    (secret,) = [made for role, made in stage.make_tokens(nodes=()).items() if role == "operator"]
    headers = {"Authorization": f"Bearer {secret}"}
    hold = {
        "targets": [{"identifier": {"kind": "gpu", "type": "serial", "value": "1652922001234"}}],
        "reason": "fell off the bus",
    }
    lock = stage.folder / "pratique.db.lock"
    with lock.open("rb") as held, ThreadPoolExecutor(SLOW) as pool:
        fcntl.flock(held, fcntl.LOCK_EX)
        telling = [
            pool.submit(requests.post, f"{server.url}/v1/quarantines", json=hold, headers=headers, timeout=30)
            for _ in range(SLOW)
        ]
        time.sleep(0.5)
        waited = max(seconds_to_answer(server) for _ in range(4))
        asked = requests.get(f"{server.url}/v1/quarantines", headers=headers, timeout=30).status_code
        assert not [one.result().text for one in telling if one.done()]
        fcntl.flock(held, fcntl.LOCK_UN)
        told = {one.result().status_code for one in telling}

    assert waited < 3
    assert asked == 200
    assert told <= {200, 201}


def drip(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        for _ in range(60):
            sock.sendall(b"X-Drip: 1\r\n")
            time.sleep(0.5)


def test_a_body_that_drips_ends_at_its_deadline() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        dripping = threading.Thread(target=drip, args=(theirs,))
        dripping.start()
        reader = PatientReader(ours)
        reader.allow(1.2)
        since = time.monotonic()
        with pytest.raises(TimeoutError, match=r"too long|silent"):
            reader.read(10_000)
        waited = time.monotonic() - since
        ours.close()
        dripping.join()

    assert 1 < waited < 3


def test_a_body_that_stops_ends_before_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "SILENCE_SECONDS", 0.2)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"{")
        reader = PatientReader(ours)
        reader.allow(20)
        since = time.monotonic()
        with pytest.raises(TimeoutError, match="silent"):
            reader.read(2)

    assert time.monotonic() - since < 5


def test_requests_sent_ahead_are_answered_in_turn(server: RunningServer) -> None:
    with connected(server) as eager:
        eager.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
        eager.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answered = read_to_the_end(eager)

    assert answered.count(b"HTTP/1.1 200 OK") == 3


def test_a_connection_is_used_again(server: RunningServer) -> None:
    kept = http.client.HTTPConnection(*address(server), timeout=30)
    kept.connect()
    port = kept.sock.getsockname()[1]
    for _ in range(3):
        kept.request("GET", "/health/live")
        assert kept.getresponse().read() == b'{"status":"ok"}\n'
        assert kept.sock is not None
        assert kept.sock.getsockname()[1] == port
        time.sleep(0.3)
    kept.close()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET /" + b"a" * 90_000, 414),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 9000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 90_000, 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: brotli, chunked\r\n\r\n", 501),
    ],
)
def test_what_is_no_request_is_refused_with_a_problem_document(
    server: RunningServer, request_: bytes, status: int
) -> None:
    with connected(server) as sender:
        sender.sendall(request_)
        head, _, body = read_to_the_end(sender).partition(b"\r\n\r\n")

    document = json.loads(body)
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Content-Type: application/problem+json" in head
    assert b"X-Request-Id: " + document["instance"].encode() in head
    assert (document["status"], document["code"]) == (status, "malformed_body")
    assert len(document["detail"]) <= 200


def test_a_large_body_that_is_not_wanted_does_not_hide_the_answer(server: RunningServer) -> None:
    answer = requests.post(f"{server.url}/v1/failures", data=b"x" * 5_000_000, timeout=30)

    assert answer.status_code == 401


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_slow_greetings_of_tls_keep_nobody_waiting(stage: Stage, certificate: Callable[[], tuple[str, str]]) -> None:
    cert, key = certificate()
    running = start_server(stage, "--tls-cert", cert, "--tls-key", key)
    trusting = ssl.create_default_context(cafile=cert)
    try:
        with contextlib.ExitStack() as opened:
            slow = [opened.enter_context(connected(running)) for _ in range(SLOW)]
            for one in slow[::2]:
                one.sendall(b"\x16\x03\x01\x02")
            since = time.monotonic()
            with trusting.wrap_socket(connected(running), server_hostname="127.0.0.1") as quick:
                quick.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                answered = read_to_the_end(quick)
            waited = time.monotonic() - since
    finally:
        running.stop()

    assert answered.startswith(b"HTTP/1.1 200 OK")
    assert waited < 3


@pytest.fixture
def certificate(tmp_path: Path) -> Callable[[], tuple[str, str]]:
    """Make a certificate for this host; gives its file and its key's."""

    def make() -> tuple[str, str]:
        cert, key = str(tmp_path / "server.crt"), str(tmp_path / "server.key")
        subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, *subject]
        subprocess.run(made, check=True, capture_output=True)
        return cert, key

    return make
