# SPDX-License-Identifier: Apache-2.0
"""Does this token ask too often? One bucket a token and process, filled at a steady rate.

Processes know nothing of each other: each lets its share of the rate through.
"""

from __future__ import annotations

import math
import threading
from datetime import datetime

BUCKETS_MAX = 50_000
"""Buckets kept: more than tokens that a fleet uses. Full ones are forgotten when it is exceeded."""

BURST_SECONDS = 1
"""For how long requests are saved up: a script that sends a few at once is not the flood this is for."""


class TokenBucket:
    """A bucket for each key. `rate` is requests a second over all `workers`; 0 lets everything through."""

    def __init__(self, rate: float, workers: int = 1) -> None:
        self._rate = rate / workers
        self._size = max(1.0, self._rate * BURST_SECONDS)
        self._buckets: dict[str, tuple[float, datetime]] = {}
        self._lock = threading.Lock()

    def take(self, key: str, now: datetime) -> int:
        """Take one request's worth. Return 0, or after how many seconds to come again."""
        if not self._rate:
            return 0
        with self._lock:
            if len(self._buckets) >= BUCKETS_MAX:
                self._forget_full(now)
            level = self._level(key, now)
            if level < 1:
                return math.ceil((1 - level) / self._rate)
            self._buckets[key] = (level - 1, now)
        return 0

    def _level(self, key: str, now: datetime) -> float:
        level, since = self._buckets.get(key, (self._size, now))
        # A clock set back must not empty a bucket.
        passed = max(0.0, (now - since).total_seconds())
        return min(self._size, level + passed * self._rate)

    def _forget_full(self, now: datetime) -> None:
        levels = {key: self._level(key, now) for key in self._buckets}
        self._buckets = {key: kept for key, kept in self._buckets.items() if levels[key] < self._size}
