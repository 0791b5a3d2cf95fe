# SPDX-License-Identifier: Apache-2.0
"""How are files of the kernel read so that a driver that does not answer holds nobody up? In a thread, under a limit.

Reading a counter in sysfs asks the device, and a read that waits in the kernel ends for no signal. So it is left
behind, its answer is unknown, and no second one is begun beside it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from registry.agent.running import GRACE_SECONDS, LIMIT_SECONDS, TICK_SECONDS
from registry.collectors.running import ToolFailed

T = TypeVar("T")


class FileReader:
    """Reads for at most `limit` seconds, and no longer than until `is_stopping`. May be shared by threads."""

    def __init__(
        self, limit: float = LIMIT_SECONDS + 2 * GRACE_SECONDS, is_stopping: Callable[[], bool] = lambda: False
    ) -> None:
        """A tool that the reading runs has its own limit, which must end first."""
        self.limit = limit
        self._is_stopping = is_stopping
        self._left_behind: dict[str, threading.Thread] = {}

    def read(self, name: str, what: Callable[[], T]) -> T:
        """Give what `what` gives. Raises what it raises, and ToolFailed where it does not come back."""
        old = self._left_behind.get(name)
        if old is not None and old.is_alive():
            raise ToolFailed(f"the files of {name} still give no answer since an earlier look")
        done: Future[T] = Future()
        thread = threading.Thread(target=_work, args=(what, done), daemon=True)
        thread.start()
        until = time.monotonic() + self.limit
        while (left := until - time.monotonic()) > 0 and not self._is_stopping():
            if wait([done], min(left, TICK_SECONDS)).done:
                return done.result()
        self._left_behind[name] = thread
        raise ToolFailed(f"the files of {name} gave no answer within {self.limit:g} s")


def _work(what: Callable[[], T], done: Future[T]) -> None:
    try:
        done.set_result(what())
    except BaseException as error:  # noqa: BLE001 - whoever waits gets it
        done.set_exception(error)
