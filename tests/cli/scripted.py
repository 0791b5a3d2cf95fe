# SPDX-License-Identifier: Apache-2.0
"""What does a client do with a bad server? This one answers as it is told, on a real socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One answer. `length` may lie about the body, to break off in its middle; a body may be made of the request's."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None


def media_type(answer: Answer) -> dict[str, str]:
    """Say what a body is, as the service does: a problem document, or JSON."""
    if isinstance(answer.body, bytes):
        return {}
    is_problem = answer.status >= 400 and isinstance(answer.body, dict)
    return {"Content-Type": "application/problem+json" if is_problem else "application/json"}


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class ScriptedServer:
    """Gives its answers in order, the last one for ever."""

    answers: list[Answer]
    asked: list[Asked] = field(default_factory=list)
    url: str = ""


@contextmanager
def scripted(*answers: Answer) -> Iterator[ScriptedServer]:
    """Run a server with these answers for as long as the block lasts."""
    script = ScriptedServer(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            script.asked.append(Asked(self.command, self.path, dict(self.headers.items()), body))
            given = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
            told = given.body(body) if callable(given.body) else given.body
            content = told if isinstance(told, bytes) else json.dumps(told).encode()
            self.send_response(given.status)
            for name, value in {**media_type(given), **given.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content) if given.length is None else given.length))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = answer  # noqa: N815 - the names http.server calls

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
