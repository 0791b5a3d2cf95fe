# SPDX-License-Identifier: Apache-2.0
"""How do events get to subscriptions? At least once, in the order of each subject, and nobody waits for anybody.

The history is the outbox: an event is in it by the transaction that it tells of, and each subscription has a position
there. Only what did not arrive at the first try gets a row. Whoever has the lease goes around: it reads what is due for
each subscription and hands it to a thread that knows HTTP and no database; what came of it is written down afterwards,
in one transaction under the lease. Between sending and writing lies all that can be sent twice.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from registry.domain.errors import StoreUnavailable
from registry.services import leasing, sending
from registry.services.leasing import Lease, LeaseLost
from registry.services.rounds import Batch, Planner, Stop
from registry.services.sending import Answer, NotSent
from registry.services.settling import Outcome, settle
from registry.services.webhook_keys import Safe, sign
from registry.store import deliveries
from registry.store import webhooks as store
from registry.store.database import Database

log = logging.getLogger(__name__)

TURN_SECONDS = 10.0
"""After so long a turn of a subscription begins no other message, so that what it has done is written down."""

TIMEOUT_SECONDS = 10.0
"""For one message. The specification has 15 to 30 s in mind; a receiver has only to keep a message and answer."""

KEEP_DELIVERED = timedelta(days=7)
"""How long a delivery is shown that arrived at a later try, or only tried the way."""

Send = Callable[[str, bytes, Mapping[str, str]], Answer]
Start = Callable[[Callable[[], None]], None]


class CourierSettings(Protocol):
    """What the settings say about messages."""

    @property
    def public_url(self) -> str | None:
        """Where people reach this service."""

    @property
    def allow_private_sinks(self) -> tuple[str, ...]:
        """Hosts and networks that may be sent to although they are not public."""


class Courier:
    """Goes around for one process. Only `work` of the thread of a subscription runs beside the rest."""

    def __init__(
        self,
        db: Database,
        settings: CourierSettings,
        pepper: bytes,
        *,
        clock: Callable[[], datetime],
        send: Send | None = None,
        start: Start | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`send`, `start` and `chance` are how a message leaves, how a thread begins, and what jitter is drawn from."""
        self._db = db
        self._clock = clock
        self._planner = Planner(Safe(pepper), settings.public_url)
        self._send = send or _sender(settings.allow_private_sinks)
        self._start = start or _in_a_thread
        self._chance = chance
        self._busy: set[str] = set()
        self._done: queue.SimpleQueue[tuple[Batch, Outcome]] = queue.SimpleQueue()
        self._news = threading.Event()
        self._tidied_at: datetime | None = None

    def wait(self, seconds: float) -> None:
        """Wait until a turn has ended, or for so long."""
        self._news.wait(seconds)
        self._news.clear()

    def go_around(self, lease: Lease) -> None:
        """Write down what came of the turns that have ended, and begin those that are due. Raises StoreUnavailable."""
        now = self._clock()
        self._write_down()
        if not self._db.look(lambda snapshot: store.list_subscriptions(snapshot, is_enabled=True)):
            return
        self._tidy(now)
        with self._db.read() as snapshot:
            batches = self._planner.plan(snapshot, self._busy, now)
        for batch in batches:
            self._busy.add(batch.subscription.id)
            # What sends nothing takes no thread.
            begin = self._start if batch.items else _at_once
            try:
                begin(self._turn(batch, lease))
            except RuntimeError as error:  # the system has no more threads: the next round may
                self._busy.discard(batch.subscription.id)
                log.warning("messages of subscription %s have to wait: %s", batch.subscription.id, error)
        self._write_down()

    def _turn(self, batch: Batch, lease: Lease) -> Callable[[], None]:
        def work() -> None:
            sent, stop = 0, None
            try:
                sent, stop = self._work_off(batch)
            except Exception as error:  # the outermost of a thread: the subscription must not stay busy for ever
                log.exception("a turn of subscription %s failed", batch.subscription.id)
                stop = Stop(f"the message cannot be sent: {type(error).__name__}")
            self._done.put((batch, Outcome(lease, sent, stop, self._clock())))
            self._news.set()

        return work

    def _work_off(self, batch: Batch) -> tuple[int, Stop | None]:
        """Send one message after the other; return how many arrived, and what stopped it."""
        if batch.fault is not None:
            return 0, Stop(batch.fault)
        end = time.monotonic() + TURN_SECONDS
        for number, item in enumerate(batch.items):
            if time.monotonic() > end:
                return number, None
            timestamp = int(self._clock().timestamp())
            headers = {"Content-Type": batch.content_type, "webhook-id": item.message}
            signatures = (sign(secret, item.message, timestamp, item.body) for secret in batch.secrets)
            headers |= {"webhook-timestamp": str(timestamp), "webhook-signature": " ".join(signatures)}
            try:
                answer = self._send(batch.url, item.body, headers)
            except NotSent as error:
                return number, Stop(str(error))
            if not answer.is_taken:
                return number, Stop(f"answered {answer.status}", answer.status, answer.retry_after)
        return len(batch.items), None

    def _write_down(self) -> None:
        """Write down what came of each turn that has ended. One that cannot be written now, say on a full disk, is kept
        until it can: what was sent is not sent again meanwhile.
        """
        while True:
            try:
                batch, outcome = self._done.get_nowait()
            except queue.Empty:
                return
            self._busy.discard(batch.subscription.id)
            if not batch.items and not batch.blocked and not batch.must_save:
                continue
            try:
                self._settle(batch, outcome)
            except LeaseLost:
                log.info("messages of subscription %s go on in another process", batch.subscription.id)
            except StoreUnavailable as error:
                log.warning("what became of messages cannot be written: %s", error.detail)
                self._busy.add(batch.subscription.id)
                self._done.put((batch, outcome))
                raise

    def _settle(self, batch: Batch, outcome: Outcome) -> None:
        def work() -> None:
            settle(self._db, batch, outcome, self._chance)

        leasing.under(self._db, outcome.lease, work, now=outcome.at)

    def _tidy(self, now: datetime) -> None:
        """Forget once an hour what has long arrived."""
        if self._tidied_at is not None and now - self._tidied_at < timedelta(hours=1):
            return
        self._tidied_at = now
        before = now - KEEP_DELIVERED
        if self._db.look(lambda snapshot: deliveries.has_settled_before(snapshot, before)):
            with self._db.write(now) as tx:
                deliveries.forget_settled(tx, before)


def _sender(allowed: tuple[str, ...]) -> Send:
    def send(url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        return sending.send(url, body, headers, allowed=allowed, timeout_seconds=TIMEOUT_SECONDS)

    return send


def _in_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="pratique-messages", daemon=True).start()


def _at_once(work: Callable[[], None]) -> None:
    work()
