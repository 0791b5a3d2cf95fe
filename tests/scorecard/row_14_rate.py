# SPDX-License-Identifier: Apache-2.0
"""Row 14: does a fleet of 12,500 nodes that reports every 30 seconds leave admissions quick?

Reports come at their times whether or not the server keeps up: one that is answered late is counted late.
"""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from urllib.parse import urlsplit

from tests.bench import load, machine
from tests.bench.load import Size
from tests.bench.serving import PEPPER, server
from tests.scorecard.ground import folder, records
from tests.scorecard.measured import Measured, Progress

ID = "the-id-of-the-report"
RATE = 417
"""Reports a second: 12,500 nodes, one each in 30 seconds."""

FLEET, SMALL_FLEET = Size("rate", 12_500 * machine.DEVICES, 500_000), Size("few", 60 * machine.DEVICES, 2_400)
FLEET_FROM = 10 * RATE
"""For fewer reports than this a small fleet is enough: it is a look whether the row works."""

REPORTERS, ASKERS = 12, 2
ASK_PAUSE_SECONDS = 0.02
LATE_SECONDS = 1.0
P99_MAX_MS = 100
PATIENCE_SECONDS = 60


class Day:
    """What nodes and schedulers were told, and when."""

    def __init__(self, url: str, nodes: int, n: int, progress: Progress) -> None:
        self._address = urlsplit(url)
        self._nodes, self._n, self._progress = nodes, n, progress
        self._numbers = itertools.count()
        self._begun = time.monotonic() + 0.5
        self._guard = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.waits: list[float] = []
        self.over = threading.Event()

    def report_some(self) -> None:
        """Take the next report, wait for its time, send it."""
        with self._connection() as connection:
            while (number := next(self._numbers)) < self._n:
                due = self._begun + number / RATE
                time.sleep(max(0.0, due - time.monotonic()))
                node = number % self._nodes
                body = _body(node).replace(ID, f"rate-{number}")
                is_told = self._ask(connection, "POST", f"/v1/nodes/{machine.node_name(node)}/reports", node, body)
                with self._guard:
                    self.counts["refused"] += not is_told
                    self.counts["late"] += time.monotonic() - due > LATE_SECONDS
                self._progress(1)

    def ask_some(self, first: int) -> None:
        """Ask for one node after the other, as long as reports come."""
        with self._connection() as connection:
            for number in itertools.count(first, ASKERS):
                if self.over.wait(ASK_PAUSE_SECONDS):
                    return
                node = number % self._nodes
                begun = time.monotonic()
                is_told = self._ask(connection, "GET", f"/v1/nodes/{machine.node_name(node)}/admission", node)
                with self._guard:
                    self.counts["refused"] += not is_told
                    self.waits.append(time.monotonic() - begun)

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        host, port = self._address.hostname or "", self._address.port
        connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
        try:
            yield connection
        finally:
            connection.close()

    def _ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, node: int, body: str | None = None
    ) -> bool:
        headers = {"Authorization": f"Bearer {machine.secret(node)}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return False
        return answer.status == 200


@cache
def _body(node: int) -> str:
    """What a node reports, but for the id: made once, so that who asks takes little from who answers."""
    return json.dumps(machine.report(node, ID))


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Send `n` reports at their times, and ask meanwhile. There is no chance in it, so the seed changes nothing."""
    size = FLEET if n >= FLEET_FROM else SMALL_FLEET
    with records(engine) as url, folder() as here:
        load.fill(url, size, PEPPER.encode())
        with server(url, here, {}) as running:
            day = Day(running.url, size.measured, n, progress)
            begun = time.monotonic()
            with ThreadPoolExecutor(REPORTERS + ASKERS) as pool:
                asking = [pool.submit(day.ask_some, at) for at in range(ASKERS)]
                for one in [pool.submit(day.report_some) for _ in range(REPORTERS)]:
                    one.result()
                day.over.set()
                for asker in asking:
                    asker.result()
            seconds = time.monotonic() - begun
    waits = sorted(day.waits)
    p99 = waits[int(len(waits) * 0.99)] * 1000
    wrong = {
        "requests refused": day.counts["refused"],
        "reports answered more than a second late": day.counts["late"],
        f"p99 of admission not below {P99_MAX_MS} ms": int(p99 >= P99_MAX_MS),
    }
    seen = {
        "nodes": size.nodes,
        "reports a second": int(n / seconds),
        "admissions asked": len(waits),
        "ms p99 of admission": int(p99),
        "ms p50 of admission": int(waits[len(waits) // 2] * 1000),
    }
    return Measured(n, wrong, seen)
