# SPDX-License-Identifier: Apache-2.0
"""What does the controller count, and how is it read? As Prometheus reads text, on an address of its own.

The format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ASKING_SECONDS = 10.0
"""How long whoever connects may take to ask."""

PREFIX = "pratique_controller_"

METERS: Mapping[str, tuple[str, str]] = {
    "decisions_total": ("counter", "Decisions that Pratique gave, by disposition."),
    "decision_errors_total": ("counter", "Questions to Pratique that got no decision."),
    "changes_total": ("counter", "Changes of Node objects, by what was changed."),
    "change_errors_total": ("counter", "Changes of Node objects that the API server did not make, by its status."),
    "conflicts_total": ("counter", "Node objects that were read again because somebody else had changed them."),
    "watch_restarts_total": ("counter", "Times that all nodes were read again."),
    "nodes": ("gauge", "Managed nodes, by the status of their condition PratiqueAdmitted."),
    "silent_nodes_kept": ("gauge", "Nodes that keep their taints because too many fell silent at once."),
    "leader": ("gauge", "Is this the one that acts? 1 or 0."),
}
"""Each meter: its type and what it counts."""


class Meters:
    """Counters and gauges; may be shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[str, float]] = {name: {} for name in METERS}

    def add(self, name: str, label: str = "", amount: float = 1) -> None:
        """Count. `label` is one pair as Prometheus writes it, `disposition="hold"`."""
        with self._lock:
            self._values[name][label] = self._values[name].get(label, 0) + amount

    def set(self, name: str, values: Mapping[str, float]) -> None:
        """Set a gauge, under all its labels at once."""
        with self._lock:
            self._values[name] = dict(values)

    def text(self) -> str:
        """Write all of them."""
        lines = []
        with self._lock:
            for name, (kind, about) in METERS.items():
                lines += [f"# HELP {PREFIX}{name} {about}", f"# TYPE {PREFIX}{name} {kind}"]
                for label, value in sorted(self._values[name].items()):
                    lines.append(f"{PREFIX}{name}{f'{{{label}}}' if label else ''} {value:g}")
        return "\n".join(lines) + "\n"


@dataclass(slots=True)
class Window:
    """Shows meters on `/metrics`, and on `/health/live` whether the loop still turns. Raises OSError from `open`."""

    meters: Meters
    is_alive: Callable[[], bool]

    def open(self, host: str, port: int) -> int:
        """Answer from now on, in threads that end with the program; returns the port."""
        meters, is_alive = self.meters, self.is_alive

        class Handler(BaseHTTPRequestHandler):
            timeout = ASKING_SECONDS

            def do_GET(self) -> None:
                """Answer one question."""
                if self.path == "/metrics":
                    self._answer(200, meters.text(), "text/plain; version=0.0.4; charset=utf-8")
                elif self.path == "/health/live":
                    alive = is_alive()
                    self._answer(200 if alive else 503, "alive\n" if alive else "the loop stands still\n", "text/plain")
                else:
                    self._answer(404, "there is /metrics and /health/live\n", "text/plain")

            def _answer(self, status: int, text: str, kind: str) -> None:
                content = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                """Say nothing: a question a few seconds is no news."""

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

        server = Server((host, port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port
