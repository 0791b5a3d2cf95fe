# SPDX-License-Identifier: Apache-2.0
"""Who takes messages in tests? An HTTP server of its own that answers as it is told, and keeps what came."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Judge = Callable[["Message"], tuple[int, Mapping[str, str]]]


@dataclass(frozen=True)
class Message:
    """One POST as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class Receiver:
    """Listens at `url` until `close`; `port` may be that of one that was closed before."""

    def __init__(self, judge: Judge = lambda _: (204, {}), port: int = 0) -> None:
        self.judge = judge
        self.asked: list[Message] = []
        self.taken: list[Message] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                message = Message(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                receiver.asked.append(message)
                status, headers = receiver.judge(message)
                if 200 <= status < 300:
                    receiver.taken.append(message)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in"

    def close(self) -> None:
        """Stop listening; nobody is answered any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
