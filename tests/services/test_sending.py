# SPDX-License-Identifier: Apache-2.0
"""Does a document leave only for where it may, and only once it has been looked at where that is?"""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from registry.services import sending
from registry.services.sending import Answer, NotSent, choose, is_public, network_of, post, resolve, send

LOCAL = ("127.0.0.0/8",)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("100.100.100.200", "168.63.129.16", "224.0.0.1", "255.255.255.255", "192.0.2.1", "240.0.0.1"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::"),
        *("::127.0.0.1", "::169.254.169.254", "::ffff:0:127.0.0.1", "64:ff9b:1::7f00:1", "fec0::1", "4000::1"),
    ],
)
def test_what_is_not_of_the_public_internet_is_refused(address: str) -> None:
    with pytest.raises(NotSent, match="not public"):
        choose("audit.example", [address], ())


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "64:ff9b::101:101"])
def test_what_is_public_is_taken(address: str) -> None:
    assert choose("audit.example", [address], ()) == address


def test_one_bad_address_among_good_ones_is_enough_to_refuse() -> None:
    with pytest.raises(NotSent, match=r"10\.0\.0\.1"):
        choose("audit.example", ["1.1.1.1", "10.0.0.1"], ())
    with pytest.raises(NotSent, match="no address"):
        choose("audit.example", [], ())


@pytest.mark.parametrize("allowed", [("10.0.0.0/8",), ("10.0.0.1",), ("audit.internal",), ("x", "10.0.0.0/30")])
def test_what_is_named_is_allowed(allowed: tuple[str, ...]) -> None:
    assert choose("audit.internal", ["10.0.0.1"], allowed) == "10.0.0.1"


@pytest.mark.parametrize("allowed", [("10.1.0.0/16",), ("internal",), ("10.0.0",), ("fd00::/8",)])
def test_what_is_not_named_is_not(allowed: tuple[str, ...]) -> None:
    with pytest.raises(NotSent):
        choose("audit.internal", ["10.0.0.1"], allowed)


def test_a_name_is_no_network() -> None:
    assert network_of("audit.internal") is None
    assert not is_public(sending.ipaddress.ip_address("168.63.129.16"))


def test_a_name_without_an_address_is_refused() -> None:
    with pytest.raises(NotSent, match="has no address"):
        resolve("no-such-host.invalid", 443)


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that takes one connection after the other; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def replying(head: bytes, seen: list[bytes] | None = None) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        received = connection.recv(65536)
        while b"\r\n\r\n" not in received or not received.endswith(b"}"):
            received += connection.recv(65536)
        if seen is not None:
            seen.append(received)
        connection.sendall(head)

    return answer


def test_a_document_arrives_whole() -> None:
    seen: list[bytes] = []
    with listening(replying(b"HTTP/1.1 204 No Content\r\n\r\n", seen)) as port:
        post(f"http://127.0.0.1:{port}/in?to=1", b'{"a":1}', allowed=LOCAL)

    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert head.splitlines()[:2] == [b"POST /in?to=1 HTTP/1.1", b"Host: 127.0.0.1:%d" % port]
    assert b"Content-Length: 7" in head
    assert body == b'{"a":1}'


def test_what_was_looked_at_is_what_is_connected_to_although_the_name_has_moved() -> None:
    """A name that answers with a public address first and with loopback afterwards gains nothing."""
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    with listening(replying(b"HTTP/1.1 200 OK\r\n\r\n")) as port:
        post(f"http://audit.example:{port}/", b"{}", allowed=LOCAL, resolve=lambda *_: next(answers))

    assert next(answers) == ["10.0.0.1"]


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n", "answered 302"),
        (b"HTTP/1.1 500 Oh\r\n\r\n", "answered 500"),
        (b"SSH-2.0-OpenSSH\r\n", "no answer of HTTP"),
        (b"", "no answer of HTTP"),
        (b"x" * 100_000, "no answer of HTTP"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "no answer of HTTP"),
    ],
    ids=["redirect", "error", "another protocol", "nothing", "no end", "only a promise"],
)
def test_any_answer_but_yes_is_a_refusal(head: bytes, reason: str) -> None:
    with listening(replying(head)) as port, pytest.raises(NotSent, match=reason):
        post(f"http://127.0.0.1:{port}/", b"{}", allowed=LOCAL)


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        (b"HTTP/1.1 429 Slow\r\nX: y\r\nRetry-After: 120\r\n\r\nbody", Answer(429, "120")),
        (
            b"HTTP/1.0 503 Oh\r\nretry-after:Sun, 29 Nov 2026 12:05:00 GMT\r\n\r\n",
            Answer(503, "Sun, 29 Nov 2026 12:05:00 GMT"),
        ),
        (b"HTTP/1.1 503 Oh\r\n\r\nRetry-After: 7\r\n", Answer(503)),
        (b"HTTP/1.1 410 Gone\r\n", Answer(410)),
        (b"HTTP/1.1 200 OK\r\nRetry-After: 7\r\n\r\n", Answer(200)),
        (b"HTTP/1.1 500 Oh\r\n" + b"X: y\r\n" * 10_000, Answer(500)),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", Answer(204)),
        (
            b"HTTP/1.1 103 Oh\r\nRetry-After: 1\r\n\r\nHTTP/1.1 102 W\r\n\r\nHTTP/1.1 429 S\r\nRetry-After: 9\r\n\r\n",
            Answer(429, "9"),
        ),
    ],
)
def test_of_a_refusal_it_is_known_when_to_come_again(head: bytes, answer: Answer) -> None:
    with listening(replying(head)) as port:
        assert send(f"http://127.0.0.1:{port}/", b"{}", {"X-Own": "1"}, allowed=LOCAL) == answer


def test_own_headers_go_along_and_none_is_about_the_connection_twice() -> None:
    seen: list[bytes] = []
    with listening(replying(b"HTTP/1.1 204 No Content\r\n\r\n", seen)) as port:
        send(f"http://127.0.0.1:{port}/", b"{}", {"webhook-id": "evt_1", "Content-Type": "x/y"}, allowed=LOCAL)

    lines = seen[0].partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    names = [line.partition(b":")[0].lower() for line in lines]
    assert b"webhook-id: evt_1" in lines
    assert len(names) == len(set(names))


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    with pytest.raises(NotSent, match="cannot be reached"):
        post(f"http://127.0.0.1:{port}/", b"{}", allowed=LOCAL)


def test_one_that_answers_letter_by_letter_is_given_up_in_time() -> None:
    def drip(connection: socket.socket) -> None:
        for _ in range(30):
            try:
                connection.sendall(b"H")
            except OSError:
                return
            time.sleep(0.1)

    begun = time.monotonic()
    with listening(drip) as port, pytest.raises(NotSent, match="timed out"):
        post(f"http://127.0.0.1:{port}/", b"{}", allowed=LOCAL, timeout_seconds=0.5)
    assert time.monotonic() - begun < 2


def test_one_that_promises_an_answer_for_ever_is_given_up_in_time() -> None:
    def promise(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")

    begun = time.monotonic()
    with listening(promise) as port, pytest.raises(NotSent, match="timed out"):
        post(f"http://127.0.0.1:{port}/", b"{}", allowed=LOCAL, timeout_seconds=0.3)
    assert time.monotonic() - begun < 2


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=audit.example"
    files = f"-keyout {tmp_path / 'key.pem'} -out {tmp_path / 'cert.pem'}"
    subprocess.run(["openssl", *made.split(), *files.split()], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    def answer(connection: socket.socket) -> None:
        with pytest.raises(OSError, match=r"."), context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)

    with listening(answer) as port, pytest.raises(NotSent, match=r"(?i)certificate"):
        post(f"https://audit.example:{port}/", b"{}", allowed=LOCAL, resolve=lambda *_: ["127.0.0.1"])
