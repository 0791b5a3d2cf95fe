# SPDX-License-Identifier: Apache-2.0
"""Who asks at the time when it is to be asked, however long others wait for their answers?

A generator that waits for one answer before it asks the next thing asks less of a slow server, and never notices how
slow it was: coordinated omission. Here each request has its time, goes out at that time over a connection of its own,
as a node's does, and is counted from that time on. How late the generator itself was is counted too.
"""

from __future__ import annotations

import heapq
import itertools
import resource
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from registry.client import CONNECT_TIMEOUT, READ_TIMEOUT

LOOK_SECONDS = 0.25
"""How often it is looked for connections that nobody answers."""

PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Shot:
    """One request, as it goes over the wire, and when: seconds after the beginning. `mark` is the asker's own."""

    at: float
    sort: str
    number: int
    data: bytes
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of it: status 0 is no answer. Seconds from its time, and those by which it went out late."""

    shot: Shot
    status: int
    head: bytes
    body: bytes
    now: float
    late: float

    @property
    def seconds(self) -> float:
        """From when it was to be asked until the last byte of the answer."""
        return self.now - self.shot.at


@dataclass(slots=True)
class _Line:
    """One connection. `until` is when it is given up."""

    shot: Shot
    left: memoryview
    late: float
    until: float
    got: bytearray = field(default_factory=bytearray)
    end: int = 0


Listener = Callable[[Heard], Iterable[Shot]]
"""Told of each answer; gives what is to be asked because of it."""


class OpenLoop:
    """Sends shots in the order of their times until none is left and all are answered or given up."""

    def __init__(self, url: str, listener: Listener) -> None:
        address = urlsplit(url)
        self._to = (address.hostname or "", address.port or 80)
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._lines: dict[socket.socket, _Line] = {}
        self._later: list[tuple[float, int, Shot]] = []
        self._order = itertools.count()
        self._begun = 0.0
        _allow_connections()

    def run(self, shots: Iterator[Shot]) -> float:
        """Send them all; returns the seconds that it took."""
        self._begun = time.monotonic()
        following = next(shots, None)
        looked = 0.0
        while following or self._later or self._lines:
            now = self._now()
            while following and following.at <= now:
                self._send(following)
                following = next(shots, None)
            while self._later and self._later[0][0] <= now:
                self._send(heapq.heappop(self._later)[2])
            if now > looked + LOOK_SECONDS:
                self._give_up(now)
                looked = now
            self._listen(min(following.at if following else now + 1, self._later[0][0] if self._later else now + 1))
        return self._now()

    def _now(self) -> float:
        return time.monotonic() - self._begun

    def _send(self, shot: Shot) -> None:
        now = self._now()
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.connect_ex(self._to)
        self._lines[connection] = _Line(shot, memoryview(shot.data), now - shot.at, now + CONNECT_TIMEOUT)
        self._selector.register(connection, selectors.EVENT_WRITE)

    def _listen(self, until: float) -> None:
        for key, events in self._selector.select(max(0.0, min(until - self._now(), LOOK_SECONDS))):
            connection: socket.socket = key.fileobj  # type: ignore[assignment]
            line = self._lines[connection]
            try:
                if events & selectors.EVENT_WRITE:
                    self._write(connection, line)
                else:
                    self._read(connection, line)
            except OSError:
                self._end(connection, status=0)

    def _write(self, connection: socket.socket, line: _Line) -> None:
        line.left = line.left[connection.send(line.left) :]
        if not line.left:
            line.until = self._now() + READ_TIMEOUT
            self._selector.modify(connection, selectors.EVENT_READ)

    def _read(self, connection: socket.socket, line: _Line) -> None:
        piece = connection.recv(PIECE)
        line.got += piece
        if not line.end and (head := line.got.find(b"\r\n\r\n")) >= 0:
            line.end = head + 4 + int(_header(line.got[:head], b"content-length") or 0)
        if line.end and len(line.got) >= line.end:
            self._end(connection, status=int(line.got[9:12]))
        elif not piece:
            self._end(connection, status=0)

    def _give_up(self, now: float) -> None:
        for connection in [one for one, line in self._lines.items() if line.until < now]:
            self._end(connection, status=0)

    def _end(self, connection: socket.socket, *, status: int) -> None:
        self._selector.unregister(connection)
        connection.close()
        line = self._lines.pop(connection)
        head, _, body = bytes(line.got).partition(b"\r\n\r\n")
        for shot in self._listener(Heard(line.shot, status, head, body, self._now(), line.late)):
            heapq.heappush(self._later, (shot.at, next(self._order), shot))


def retry_after(heard: Heard) -> float | None:
    """The seconds that an answer asks to wait, if it does."""
    said = _header(heard.head, b"retry-after")
    return float(said) if said and said.isdigit() else None


def _header(head: bytes | bytearray, name: bytes) -> bytes | None:
    for line in bytes(head).split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


def _allow_connections() -> None:
    """A fleet that boots has more connections than a process may open by itself."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
