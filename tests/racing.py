# SPDX-License-Identifier: Apache-2.0
"""How do several do something at the same moment? In threads that are let go together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
"""How long the threads may take until all of them are ready."""

STUCK_SECONDS = 20
"""Whoever is not there by then is stuck."""


def wait_until(is_so: Callable[[], bool]) -> None:
    """Return when it is so. Raises AssertionError when it is not before long."""
    deadline = time.monotonic() + STUCK_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def together(*works: Callable[[], T]) -> list[T]:
    """Do all works at once, each in a thread; none begins before all are ready. Raises what the first one raises."""
    gate = threading.Barrier(len(works))

    def run(work: Callable[[], T]) -> T:
        gate.wait(PATIENCE_SECONDS)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))
