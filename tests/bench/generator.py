# SPDX-License-Identifier: Apache-2.0
"""Who asks? `wrk` where it is installed, else threads of our own, which take more of the processor for themselves."""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CONNECTIONS = 16
THREADS = 2
NUMBER, TURN = "\x01", "\x02"
"""What stands in a request for a number that never comes again, and for `pass` and `warn` in turn."""

_NUMBER_LENGTH = 14


@dataclass(frozen=True, slots=True)
class Window:
    """What came of a few seconds of asking. Times are milliseconds."""

    requests: int
    seconds: float
    refused: int
    p50: float
    p99: float


def ask_for(method: str, path: str, secret: str | None, body: dict[str, Any] | None = None) -> bytes:
    """Write a request as it goes over the wire."""
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False) if body is not None else ""
    text = text.replace(json.dumps(NUMBER)[1:-1], NUMBER).replace(json.dumps(TURN)[1:-1], TURN)
    length = len(text) + text.count(NUMBER) * (_NUMBER_LENGTH - 1) + text.count(TURN) * 3
    lines = [f"{method} {path} HTTP/1.1", "Host: bench"]
    lines += [f"Authorization: Bearer {secret}"] if secret else []
    lines += ["Content-Type: application/json", f"Content-Length: {length}"] if body is not None else []
    return ("\r\n".join(lines) + "\r\n\r\n" + text).encode()


def write_requests(file: Path, requests: Iterable[bytes]) -> Path:
    """Put requests into a file, apart by a zero byte."""
    file.write_bytes(b"\0".join(requests))
    return file


def ask(url: str, file: Path, seconds: float) -> Window:
    """Send the requests of a file over and over for so many seconds."""
    start = f"{time.time_ns() // 100_000_000 % 1_000_000:06d}"
    program = shutil.which("wrk")
    return _wrk(program, url, file, seconds, start) if program else _threads(url, file, seconds, start)


def _wrk(program: str, url: str, file: Path, seconds: float, start: str) -> Window:
    script = Path(__file__).with_name("wrk.lua")
    options = [f"-t{THREADS}", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s", "--timeout", "20s", "-s", script]
    ran = subprocess.run(
        [program, *options, url, "--", file, str(THREADS), start], capture_output=True, text=True, check=True
    )
    line = next(line for line in ran.stdout.splitlines() if line.startswith("RESULT "))
    requests, micros, refused, lost, p50, p99 = map(int, line.split()[1:])
    return Window(requests, micros / 1e6, refused + lost, p50 / 1000, p99 / 1000)


def _threads(url: str, file: Path, seconds: float, start: str) -> Window:
    requests = file.read_bytes().split(b"\0")
    begun, took, refused = time.monotonic(), list[float](), list[int]()
    askers = [
        threading.Thread(
            target=_one,
            args=(url, requests[at::CONNECTIONS] or requests, f"{start}{at:02d}", begun + seconds, took, refused),
        )
        for at in range(CONNECTIONS)
    ]
    for one in askers:
        one.start()
    for one in askers:
        one.join()
    took.sort()
    passed = time.monotonic() - begun
    return Window(len(took), passed, len(refused), took[len(took) // 2] * 1000, took[int(len(took) * 0.99)] * 1000)


def _one(url: str, requests: list[bytes], start: str, end: float, took: list[float], refused: list[int]) -> None:
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port)) as connection:
        answers = connection.makefile("rb")
        for sent, request in zip(itertools.count(), itertools.cycle(requests)):
            began = time.monotonic()
            if began >= end:
                return
            turn = b"pass" if sent // len(requests) % 2 else b"warn"
            whole = request.replace(b"\x01", f"{start}{sent:06d}".encode()).replace(b"\x02", turn)
            connection.sendall(whole)
            status = int(answers.readline().split()[1])
            length = 0
            while (line := answers.readline()) != b"\r\n":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            answers.read(length)
            took.append(time.monotonic() - began)
            if status >= 400:
                refused.append(status)
