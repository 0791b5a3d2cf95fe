# SPDX-License-Identifier: Apache-2.0
"""Who writes while things break? Threads that go on whatever they are answered, until the block is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

import requests

PAUSE_SECONDS = 0.02


class Writers:
    """Threads that repeat their works while the block lasts.

    No answer, and one that a test calls wrong because it is a 503, is a call that was cut off: `cut_off` counts it.
    """

    def __init__(self, works: Sequence[Callable[[], None]], *, cut_off: Callable[[], None]) -> None:
        self._works = works
        self._cut_off = cut_off
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(len(works))
        self._running: list[Future[None]] = []

    def __enter__(self) -> Self:
        self._running = [self._pool.submit(self._repeat, work) for work in self._works]
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._pool.shutdown()
        for one in self._running:
            one.result()

    def _repeat(self, work: Callable[[], None]) -> None:
        while not self._over.is_set():
            try:
                work()
            except (requests.RequestException, AssertionError):
                self._cut_off()
                time.sleep(PAUSE_SECONDS)
