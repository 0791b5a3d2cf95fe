# SPDX-License-Identifier: Apache-2.0
"""What does each server process do by itself? Every few seconds it says that it is alive, and sweeps.

The sign of life tells our own outages from the silence of nodes; the sweep ends what has run out and asks the rules
again about evidence that stands.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from flask import Flask

from api.context import Standing, standing
from registry.domain.errors import StoreUnavailable
from registry.services import life, sweep

log = logging.getLogger(__name__)


class Background:
    """The thread of one process. It ends with the process, or when `stop` is called."""

    def __init__(self, stands: Standing) -> None:
        self._stands = stands
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pratique-background", daemon=True)

    def start(self) -> None:
        """Begin; the first sign of life comes at once."""
        self._thread.start()

    def stop(self, timeout_seconds: float = 10) -> None:
        """Ask it to end, and wait until it has closed its connection."""
        self._stopping.set()
        self._thread.join(timeout_seconds)

    @property
    def is_running(self) -> bool:
        """True until it has ended."""
        return self._thread.is_alive()

    def beat(self) -> None:
        """Do one round: the sign of life first, so that a sweep that fails does not make us look dead."""
        now = self._stands.clock()
        database, policy = self._stands.database, self._stands.policy
        self._try("sign of life", lambda: _discard(life.beat(database, now=now, policy=policy)))
        self._try("sweep", lambda: sweep.sweep(database, now=now))

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.beat()
                self._stopping.wait(self._stands.policy.life_sign_seconds)
        finally:
            self._stands.database.close()

    def _try(self, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except StoreUnavailable as error:
            log.warning("no %s: the store cannot answer: %s", what, error.detail)
        except Exception:  # the outermost loop: one bad row must not make every node look alive for ever
            log.exception("the %s failed", what)


def start(app: Flask) -> Background:
    """Start the thread of this process. Call it after a fork, never before."""
    running = Background(standing(app))
    running.start()
    return running


def _discard(_: object) -> None:
    return None
