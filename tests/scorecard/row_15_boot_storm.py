# SPDX-License-Identifier: Apache-2.0
"""Row 15: are all nodes decided when a whole fleet boots at once, with no error and in flat memory?

Nobody knows any of the nodes. Each sends two clean reports of 8 GPUs and 32 EFAs, and must be admitted by the second.
"""

from __future__ import annotations

import http.client
import itertools
import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from urllib.parse import urlsplit

from registry.domain.actors import SYSTEM
from registry.domain.roles import Role
from registry.services.tokens import create_token
from registry.store.database import open_database
from tests.bench import machine
from tests.bench.serving import PEPPER, Running, private_bytes, server
from tests.scorecard.ground import folder, records
from tests.scorecard.measured import Measured, Progress

THREADS = 16
GROWTH_MAX_BYTES = 32 << 20
"""How much a worker may grow in the second half of the storm: what depends on the number of nodes grows by more."""

PATIENCE_SECONDS = 60


class Storm:
    """What the nodes were told."""

    def __init__(self, running: Running, secret: str, n: int, progress: Progress) -> None:
        self._address = urlsplit(running.url)
        self._running, self._secret, self._n, self._progress = running, secret, n, progress
        self._numbers = itertools.count()
        self._guard = threading.Lock()
        self.wrong = Counter({"errors": 0, "nodes not admitted": 0})
        self.at_half = 0

    def boot_some(self) -> None:
        """Boot one node after the other, until all are there."""
        connection = http.client.HTTPConnection(
            self._address.hostname or "", self._address.port, timeout=PATIENCE_SECONDS
        )
        while (number := next(self._numbers)) < self._n:
            if number == self._n // 2:
                self.at_half = private_bytes(self._running.pid)
            answers = [self._report(connection, number, word) for word in ("first", "second")]
            with self._guard:
                self.wrong["errors"] += answers.count(None)
                self.wrong["nodes not admitted"] += not answers[-1]
            self._progress(1)
        connection.close()

    def _report(self, connection: http.client.HTTPConnection, number: int, word: str) -> bool | None:
        """Whether the node is admitted after this report; None for an answer that is none."""
        body = json.dumps(machine.report(number, f"report-{word}"))
        headers = {"Authorization": f"Bearer {self._secret}", "Content-Type": "application/json"}
        try:
            connection.request("POST", f"/v1/nodes/{machine.node_name(number)}/reports", body, headers)
            answer = connection.getresponse()
            told = answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return None
        return bool(json.loads(told)["admission"]["admitted"]) if answer.status == 200 else None


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Boot `n` nodes. There is no chance in it, so the seed changes nothing."""
    with records(engine) as url, folder() as here, server(url, here, {}) as running:
        db = open_database(url)
        secret = create_token(
            db, role=Role.ADMIN, name="storm", pepper=PEPPER.encode(), actor=SYSTEM, now=datetime.now(UTC)
        )[1]
        db.close_all()
        storm = Storm(running, secret, n, progress)
        begun = datetime.now(UTC)
        with ThreadPoolExecutor(THREADS) as pool:
            for one in [pool.submit(storm.boot_some) for _ in range(THREADS)]:
                one.result()
        seconds = (datetime.now(UTC) - begun).total_seconds()
        growth = private_bytes(running.pid) - storm.at_half
    wrong = {**storm.wrong, "workers that grew": int(growth > GROWTH_MAX_BYTES)}
    seen = {
        "devices": n * machine.DEVICES,
        "seconds": int(seconds),
        "kB grown in the second half": max(0, growth) >> 10,
        "kB of the largest worker at half": storm.at_half >> 10,
    }
    return Measured(n, wrong, seen)
