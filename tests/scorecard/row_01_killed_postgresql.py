# SPDX-License-Identifier: Apache-2.0
"""Row 1: is anything lost that was acknowledged, when `kill -9` takes all of PostgreSQL under four writers?"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import TypeVar

import requests

from registry.store.migrations import migrate
from tests.bench.serving import family
from tests.live.machines import Node
from tests.live.test_crash import Promises, hold_and_release, report_and_fail
from tests.postgres import Server
from tests.scorecard.ground import postgresql, serving
from tests.scorecard.measured import Measured, Progress
from tests.scorecard.row_01_killed_servers import LIVES_SECONDS, kept, lost, wait_for_a_promise
from tests.scorecard.writers import Writers

RECOVERY_SECONDS = 60.0
T = TypeVar("T")


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Kill every process of PostgreSQL `n` times; the servers of ours live on and must find back by themselves."""
    random = Random(seed)
    promises = Promises()
    with postgresql() as cluster:
        url = cluster.create_database("scorecard")
        migrate(url)
        with serving(url) as server:
            operator, auditor = server.caller("operator", "alice"), server.caller("auditor", "vera")
            nodes = [Node(server) for _ in range(2)]
            works = [lambda: hold_and_release(operator, promises)] * 2
            works += [lambda node=node: report_and_fail(node, promises) for node in nodes]
            for _ in range(n):
                with Writers(works, cut_off=lambda: _cut_off(promises)):
                    wait_for_a_promise(promises)
                    time.sleep(random.uniform(*LIVES_SECONDS))
                    crash(cluster)
                    time.sleep(0.1)
                    restart(cluster)
                progress(1)
            wrong = patiently(lambda: lost(promises, operator, auditor))
    return Measured(n, wrong, kept(promises))


def crash(cluster: Server) -> None:
    """End all processes of PostgreSQL with `kill -9`."""
    process = cluster._process
    assert process is not None
    for pid in family(process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def restart(cluster: Server) -> None:
    """Start it on what its last life left."""
    cluster._admin.close()
    cluster._process = cluster._start()
    cluster._admin = cluster._wait_until_it_answers(cluster._process)


def patiently(work: Callable[[], T]) -> T:
    """Do it until it works: the server says 503 until its database is back. Raises what the last try raised."""
    deadline = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            return work()
        except (AssertionError, requests.RequestException):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _cut_off(promises: Promises) -> None:
    with promises.guard:
        promises.lost += 1
