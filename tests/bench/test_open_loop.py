# SPDX-License-Identifier: Apache-2.0
"""Does the generator ask on time and count from that time, also when the server keeps everybody waiting?"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests.bench.open_loop import Heard, OpenLoop, Shot, retry_after

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BUSY = b"HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def one_at_a_time(answers: Iterator[bytes], pause: float) -> Iterator[str]:
    """A server that answers one connection after the other, each after a pause; an empty answer ends it without one."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for answer in answers:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1 << 16)
                    time.sleep(pause)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def send(url: str, shots: list[Shot]) -> list[Heard]:
    heard: list[Heard] = []

    def listen(one: Heard) -> Iterable[Shot]:
        heard.append(one)
        return ()

    OpenLoop(url, listen).run(iter(shots))
    return heard


def shot(at: float, number: int = 0) -> Shot:
    return Shot(at, "ask", number, b"GET / HTTP/1.1\r\n\r\n")


def test_who_waits_behind_another_is_counted_from_its_own_time() -> None:
    with one_at_a_time(iter([ANSWER] * 4), pause=0.1) as url:
        heard = send(url, [shot(number * 0.01, number) for number in range(4)])

    assert [one.status for one in heard] == [200] * 4
    assert [one.body for one in heard] == [b"ok"] * 4
    # A generator that waits for answers would have found 0.1 s each.
    assert all(one.seconds >= 0.1 + 0.09 * one.shot.number for one in heard)
    assert max(one.late for one in heard) < 0.1


def test_a_connection_that_ends_without_an_answer_is_no_answer() -> None:
    with one_at_a_time(iter([b"", ANSWER[:-1]]), pause=0) as url:
        heard = send(url, [shot(0, 1), shot(0.1, 2)])

    assert [(one.shot.number, one.status) for one in heard] == [(1, 0), (2, 0)]


def test_nobody_there_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"

    assert [one.status for one in send(url, [shot(0)])] == [0]


def test_what_an_answer_asks_for_is_sent_at_its_time() -> None:
    heard: list[Heard] = []

    def listen(one: Heard) -> Iterable[Shot]:
        heard.append(one)
        return [shot(one.now + 0.2, 2)] if one.shot.number == 1 else []

    with one_at_a_time(iter([BUSY, ANSWER]), pause=0) as url:
        OpenLoop(url, listen).run(iter([shot(0, 1)]))

    assert [(one.shot.number, one.status) for one in heard] == [(1, 503), (2, 200)]
    assert [retry_after(one) for one in heard] == [2.0, None]
    assert heard[1].shot.at >= 0.2
