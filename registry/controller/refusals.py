# SPDX-License-Identifier: Apache-2.0
"""Which writes does the API server not make, and when is each tried again?

Decisions go on being asked for meanwhile, so that what can be written is written in time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Container
from dataclasses import dataclass, field

from registry.client import pause_before
from registry.controller.api_server import ApiError, Conflict

PAUSES = 6
"""How often the pause is doubled: half a minute then is the longest."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The last of so many tries that failed in a row, and when the next may be made."""

    tries: int
    until: float
    status: int
    detail: str


@dataclass(slots=True)
class Refusals:
    """Writes that failed, by node and part of it. May be shared by threads; `monotonic` counts seconds."""

    monotonic: Callable[[], float]
    _standing: dict[tuple[str, str], _Refusal] = field(default_factory=dict)
    _quiet_until: float = -math.inf
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_resting(self, node: str, part: str) -> bool:
        """Is it too early to try this again, or to ask a server that wants to be left alone?"""
        with self._lock:
            refusal = self._standing.get((node, part))
            until = self._quiet_until if refusal is None else max(refusal.until, self._quiet_until)
        return self.monotonic() < until

    def note(self, node: str, part: str, error: ApiError) -> bool:
        """Remember one; false where the last try ended alike, so that it need not be told again."""
        now = self.monotonic()
        with self._lock:
            before = self._standing.get((node, part))
            # Whoever was outrun by others was not refused: nothing is won by coming more seldom.
            tries = 0 if before is None or isinstance(error, Conflict) else before.tries + 1
            until = now + pause_before(min(tries, PAUSES), error.retry_after)
            self._standing[node, part] = _Refusal(tries, until, error.status, error.detail)
            if error.retry_after is not None:
                self._quiet_until = max(self._quiet_until, now + pause_before(0, error.retry_after))
        return before is None or (before.status, before.detail) != (error.status, error.detail)

    def settled(self, node: str, part: str) -> None:
        """It was written."""
        with self._lock:
            self._standing.pop((node, part), None)

    def keep_only(self, nodes: Container[str]) -> None:
        """Forget those that are gone."""
        with self._lock:
            for one in [one for one in self._standing if one[0] not in nodes]:
                del self._standing[one]
