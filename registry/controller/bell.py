# SPDX-License-Identifier: Apache-2.0
"""How does a loop wait so that news, or the order to stop, ends the wait? With a byte in a pipe.

A signal handler runs in the middle of anything; a `threading.Event` takes a lock that the interrupted code may hold.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress


class Bell:
    """Rung by threads and signal handlers, waited for by one loop."""

    def __init__(self) -> None:
        self._is_stopping = False
        self._end, self._rope = os.pipe()
        os.set_blocking(self._end, False)
        os.set_blocking(self._rope, False)

    def ring(self) -> None:
        """Let the loop look at once."""
        with suppress(BlockingIOError):  # a full pipe rings already
            os.write(self._rope, b".")

    def stop(self) -> None:
        """Let the loop end."""
        self._is_stopping = True
        self.ring()

    def is_stopping(self) -> bool:
        """Is everything to end?"""
        return self._is_stopping

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until it is rung; true when all is to end."""
        if not self._is_stopping and seconds > 0:
            select.select([self._end], [], [], seconds)
        with suppress(BlockingIOError):
            os.read(self._end, 65_536)
        return self._is_stopping
