# SPDX-License-Identifier: Apache-2.0
"""Which clocks does the agent read, and how does it wait? The one place of the agent that knows the machine's time."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Times(Protocol):
    """The clocks of a machine, and a wait that ends early when the agent is to stop."""

    def monotonic(self) -> float:
        """Seconds that only go up."""

    def now(self) -> datetime:
        """The time of day, as far as this machine knows it."""

    def since_boot(self) -> int:
        """Milliseconds since the machine started, sleep included."""

    def wait(self, seconds: float) -> bool:
        """Wait; true, at once, when the agent is to stop."""


class MachineTimes:
    """The clocks of this machine. `stop` ends every wait, from any thread and from a signal handler."""

    def __init__(self) -> None:
        self._stopping = threading.Event()

    def monotonic(self) -> float:
        """Seconds that only go up."""
        return time.monotonic()

    def now(self) -> datetime:
        """The time of day."""
        return datetime.now(UTC)

    def since_boot(self) -> int:
        """Milliseconds since the machine started: https://man7.org/linux/man-pages/man2/clock_gettime.2.html."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    def wait(self, seconds: float) -> bool:
        """Wait; true, at once, when the agent is to stop."""
        return self._stopping.wait(seconds)

    def is_stopping(self) -> bool:
        """Is the agent to stop?"""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Let the agent stop."""
        self._stopping.set()
