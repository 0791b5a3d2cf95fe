# SPDX-License-Identifier: Apache-2.0
"""What does each server process do by itself? Every few seconds it says that it is alive, and one of them sweeps.

The sign of life tells our own outages from the silence of nodes; the sweep ends what has run out and asks the rules
again about evidence that stands. Of all processes of all servers one does it at a time: the one that has the lease.
Checkpoints have a thread of their own, because what they are sent to may be slow: nobody else waits for it. So has the
look at all nodes, which takes the longer the larger the fleet: no sign of life must come late for it. And so have the
messages to subscriptions, which should not wait for the next beat.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from datetime import datetime
from functools import partial

from flask import Flask

from api.context import Standing, standing
from registry.domain.errors import StoreUnavailable
from registry.services import (
    capacity,
    checkpoints,
    condition_changes,
    fleet_count,
    jobs,
    leasing,
    life,
    repair_planning,
    safe_mode,
    sinks,
    sweep,
)
from registry.services.courier import Courier
from registry.services.job_revisions import judge_due, look_again
from registry.services.leasing import BACKGROUND, Lease, LeaseLost
from registry.services.outside import outside_checkpoints

log = logging.getLogger(__name__)

MESSAGES_SECONDS = 1.0
"""How often it is looked whether there is something to tell to subscriptions."""

BRING_OVER_SECONDS = 0.5
"""How often it is looked whether much was written beside the SQLite file: a large fleet writes 6 MB a second."""


class Background:
    """The threads of one process. They end with the process, or when `stop` is called."""

    def __init__(self, stands: Standing) -> None:
        self._stands = stands
        self._holder = str(uuid.uuid4())
        self._lease: Lease | None = None
        self._stopping = threading.Event()
        self._courier = Courier(stands.database, stands.settings, stands.pepper, clock=stands.clock)
        self._threads = [
            threading.Thread(target=self._run, name="pratique-background", daemon=True),
            self._thread("pratique-checkpoints", self.keep_checkpoints, self._rest),
            self._thread("pratique-capacity", self.look_at_nodes, self._rest),
            self._thread("pratique-courier", self.bring_messages, lambda: self._courier.wait(MESSAGES_SECONDS)),
        ]
        if stands.database.path is not None:
            rest = partial(self._stopping.wait, BRING_OVER_SECONDS)
            self._threads.append(self._thread("pratique-log", self.bring_over, rest))

    def start(self) -> None:
        """Begin; the first sign of life comes at once."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_seconds: float = 10) -> None:
        """Ask it to end, and wait until it has closed its connection."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(timeout_seconds)

    @property
    def is_running(self) -> bool:
        """True until it has ended."""
        return any(thread.is_alive() for thread in self._threads)

    def beat(self) -> None:
        """Do one round: the sign of life first, so that a sweep that fails does not make us look dead."""
        now = self._stands.clock()
        database, policy = self._stands.database, self._stands.policy
        self._try("sign of life", lambda: _discard(life.beat(database, now=now, policy=policy)))
        is_first = self._lease is None
        self._try("lease", lambda: self._take(now))
        if self._lease is not None:
            self._try("look at the checkpoints", lambda: self._assess(now))
            self._do("sweep", self._lease, now, lambda: sweep.sweep(database, now=now))
            escalate = partial(condition_changes.escalate, database, policy=policy, now=now, afresh=is_first)
            self._do("look at the conditions", self._lease, now, escalate)
            tend = partial(repair_planning.tend, database, policy=policy, now=now)
            self._do("look at the repairs", self._lease, now, tend)
            revise = partial(judge_due, database, policy=policy, now=now)
            self._do("judge failed jobs anew", self._lease, now, revise)
            again = partial(look_again, database, policy=policy, now=now)
            self._do("look at failed jobs again", self._lease, now, again)
            self._do("sealing of old messages", self._lease, now, lambda: jobs.seal_old(database, now=now))

    def keep_checkpoints(self) -> None:
        """Sign the head if it is time, and bring the checkpoints to where they are kept. Any process may do it."""
        now = self._stands.clock()
        database, settings = self._stands.database, self._stands.settings
        self._try("checkpoint", lambda: checkpoints.keep_signed(database, settings, now=now))
        self._try("checkpoint outside", lambda: _discard(sinks.tend(database, settings, now=now)))

    def look_at_nodes(self) -> None:
        """Count where all nodes stand, and what the fleet has, if it is time and this process has the lease."""
        lease, now = self._lease, self._stands.clock()
        if lease is not None:
            policy, rest = self._stands.policy, self._stopping.wait
            look = partial(capacity.look, self._stands.database, lease, policy=policy, now=now, rest=rest)
            self._try("look at the nodes", lambda: _discard(look()))
            keep = partial(fleet_count.keep_count, self._stands.database, lease, now=now)
            self._try("count of the fleet", lambda: _discard(keep()))

    def bring_messages(self) -> None:
        """Tell subscriptions what is due, if this process has the lease. Nobody is waited for."""
        lease = self._lease
        if lease is not None:
            self._try("bringing of messages", lambda: self._courier.go_around(lease))

    def bring_over(self) -> None:
        """Bring what was written beside the SQLite file into it. Any process may: on a full disk none has the lease."""
        self._try("writing to the database file", lambda: _discard(self._stands.database.bring_over()))

    def _take(self, now: datetime) -> None:
        self._lease = None
        self._lease = leasing.take(self._stands.database, BACKGROUND, self._holder, now=now)

    def _assess(self, now: datetime) -> None:
        """Compare the history with its checkpoints outside: the database may have been put back under our feet."""
        seen = outside_checkpoints(self._stands.settings.checkpoint_file)
        safe_mode.assess(self._stands.database, seen, now=now)

    def _do(self, what: str, lease: Lease, now: datetime, work: Callable[[], None]) -> None:
        """Do what only one process may do; one that slept too long finds that another has begun."""
        self._try(what, lambda: leasing.under(self._stands.database, lease, work, now=now))

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.beat()
                self._rest()
        finally:
            if self._lease is not None:
                self._try("end of the lease", self._give_back)
            self._stands.database.close()

    def _thread(self, name: str, work: Callable[[], None], rest: Callable[[], object]) -> threading.Thread:
        """Make a thread that works and rests by turns until the end, and closes its connection then."""

        def run() -> None:
            try:
                while not self._stopping.is_set():
                    work()
                    rest()
            finally:
                self._stands.database.close()

        return threading.Thread(target=run, name=name, daemon=True)

    def _rest(self) -> None:
        self._stopping.wait(self._stands.policy.life_sign_seconds)

    def _give_back(self) -> None:
        if self._lease is not None:
            leasing.give_back(self._stands.database, self._lease, now=self._stands.clock())

    def _try(self, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except StoreUnavailable as error:
            log.warning("no %s: the store cannot answer: %s", what, error.detail)
        except LeaseLost:
            log.info("no %s: another process has the lease by now", what)
        except Exception:  # the outermost loop: one bad row must not make every node look alive for ever
            log.exception("the %s failed", what)


def start(app: Flask) -> Background:
    """Start the thread of this process. Call it after a fork, never before."""
    running = Background(standing(app))
    running.start()
    return running


def _discard(_: object) -> None:
    return None
