# SPDX-License-Identifier: Apache-2.0
"""How long does one connection wait for its client? Each thing that a client has to do has a deadline of its own.

The deadlines hold for the whole of a thing: whoever sends a byte now and then gains nothing by it.
"""

from __future__ import annotations

import errno
import json
import math
import ssl
import time
import uuid
from http import HTTPStatus
from typing import Any

from gunicorn import http
from gunicorn.http.unreader import SocketUnreader
from gunicorn.sock import ssl_wrap_socket
from gunicorn.workers.gthread import TConn

from registry.store.floor import given_back

HEAD_SECONDS = 10.0
"""From a connection, or the first byte of a further request, to the end of the request's head; TLS is part of it."""

BODY_SECONDS = 30.0
"""For the whole body: a report of the largest size at 5 Mbit/s."""

SILENCE_SECONDS = 10.0
"""For the next piece of a body."""

ANSWER_SECONDS = 60.0
"""For a client to take the next piece of its answer: whoever pages through an export by hand must be quicker."""

REST_SECONDS = 0.5
"""For what is left of a body that nobody wanted, before the connection ends instead."""

HEAD_BYTES = 64 * 1024
"""Longest head: gunicorn would keep 800 KiB for each connection, and a request of ours has 1."""

LINGER_BYTES = 64 * 1024
"""How much of an unwanted body is thrown away after the answer."""

_END_OF_HEAD = b"\r\n\r\n"
_NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class PatientReader(SocketUnreader):  # type: ignore[misc]  # gunicorn ships no types
    """Reads from a socket until a deadline."""

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self._deadline = -math.inf

    def allow(self, seconds: float) -> None:
        """Set the deadline for everything read from now on."""
        self._deadline = time.monotonic() + seconds

    def chunk(self, size_hint: int | None = None) -> bytes:
        """Return the next piece. Raises TimeoutError, with the number that gunicorn takes for a client that left."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(errno.ECONNRESET, "the client took too long")
        try:
            self.sock.settimeout(0)
            piece: bytes = super().chunk(size_hint)
        except _NOT_YET:
            return self._wait_for_chunk(size_hint, min(left, SILENCE_SECONDS))
        finally:
            self.sock.settimeout(ANSWER_SECONDS)
        return piece

    def _wait_for_chunk(self, size_hint: int | None, seconds: float) -> bytes:
        self.sock.settimeout(seconds)
        try:
            with given_back():
                piece: bytes = super().chunk(size_hint)
        except TimeoutError:
            raise TimeoutError(errno.ECONNRESET, "the client fell silent") from None
        return piece


class PatientConnection(TConn):  # type: ignore[misc]
    """A connection whose head is gathered without a thread."""

    sock: Any
    parser: Any

    def __init__(self, cfg: Any, sock: Any, client: Any, server: Any) -> None:
        """Raises OSError when the client has left already."""
        super().__init__(cfg, sock, client, server)
        if cfg.is_ssl:
            self.sock = ssl_wrap_socket(self.sock, cfg)
        self.is_greeted = not cfg.is_ssl
        self.head = b""
        self.thrown_away = 0
        self.data_ready = True  # a thread has never to wait for the first byte

    @property
    def has_head(self) -> bool:
        """Whether a whole head is there. One empty line before it is allowed (RFC 9112, section 2.2)."""
        return _END_OF_HEAD in self.head.removeprefix(b"\r\n")

    @property
    def asks(self) -> bool:
        """Whether the request, of which a head is there, only asks (RFC 9110, section 9.2.1)."""
        return self.head.lstrip(b"\r\n").startswith((b"GET ", b"HEAD "))

    def gather(self) -> bool:
        """Take what came of the head; true when it is whole. Raises OSError when the client left or talks no TLS."""
        try:
            if not self.is_greeted:
                self.sock.do_handshake()
                self.is_greeted = True
            while not self.has_head and len(self.head) < HEAD_BYTES:
                piece = self.sock.recv(HEAD_BYTES)
                if not piece:
                    raise ConnectionResetError(errno.ECONNRESET, "the client left")
                self.head += piece
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        return self.has_head

    def init(self) -> None:
        """Make the parser, or give it the next head; gunicorn calls this in a thread."""
        if self.parser is None:
            self.parser = http.get_parser(self.cfg, self.sock, self.client)
            self.parser.unreader = PatientReader(self.sock)
        self.initialized = True
        self.sock.settimeout(ANSWER_SECONDS)
        self.parser.unreader.allow(HEAD_SECONDS)
        self.parser.unreader.unread(self.head)
        self.head = b""

    def throw_away(self) -> bool:
        """Read what the client still sends after its answer; true when it is done, or sends too much."""
        try:
            piece = self.sock.recv(LINGER_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        self.thrown_away += len(piece)
        return not piece or self.thrown_away >= LINGER_BYTES


def problem(status: int, detail: str) -> bytes:
    """Write the answer to what is no request, in the shape of all our errors (RFC 9457), whole with its head."""
    named = HTTPStatus(status)
    request_id = uuid.uuid4().hex
    document = {
        "type": "about:blank",
        "title": named.phrase,
        "status": status,
        "code": "internal" if status == HTTPStatus.INTERNAL_SERVER_ERROR else "malformed_body",
        "detail": detail,
        "instance": request_id,
        "errors": [],
    }
    body = json.dumps(document)
    lines = (
        f"HTTP/1.1 {status} {named.phrase}",
        "Connection: close",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        "X-Content-Type-Options: nosniff",
        f"X-Request-Id: {request_id}",
    )
    return "\r\n".join((*lines, "", body)).encode("ascii")
