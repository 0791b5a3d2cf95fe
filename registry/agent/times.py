# SPDX-License-Identifier: Apache-2.0
"""Which clocks does the agent read, and how does it wait? The one place of the agent that knows the machine's time."""

from __future__ import annotations

import os
import select
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
    """The clocks of this machine. `stop` ends every wait.

    It may be called by a signal handler, which runs in the middle of whatever the program does: a `threading.Event`
    takes a lock that the interrupted wait may hold, a byte in a pipe takes none.
    """

    def __init__(self) -> None:
        self._is_stopping = False
        self._bell, self._rope = os.pipe()

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
        if not self._is_stopping and seconds > 0:
            select.select([self._bell], [], [], seconds)
        return self._is_stopping

    def is_stopping(self) -> bool:
        """Is the agent to stop?"""
        return self._is_stopping

    def stop(self) -> None:
        """Let the agent stop."""
        self._is_stopping = True
        os.write(self._rope, b".")
