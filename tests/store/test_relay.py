# SPDX-License-Identifier: Apache-2.0
"""When threads move a row each, does one do it for all, and does nobody pay for another's fault, or wait for ever?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime

import pytest

from registry.domain.errors import InvalidField, StoreUnavailable
from registry.store import relay as relays
from registry.store.database import Database, Transaction
from registry.store.relay import Relay
from tests.racing import STUCK_SECONDS, wait_until

only_sqlite = pytest.mark.parametrize("engine", ["sqlite"])
"""The other engine lets all write at once, and needs no relay."""

THREADS = 6


class Work:
    """Puts numbers into a table, and notes which came together; one number cannot be kept."""

    def __init__(self, bad: int = 0) -> None:
        self._bad = bad
        self.together: list[list[int]] = []
        self.begun, self.may_go = threading.Event(), threading.Event()

    def __call__(self, tx: Transaction, items: Sequence[int]) -> list[int]:
        self.together.append(list(items))
        self.begun.set()
        assert self.may_go.wait(STUCK_SECONDS)
        for item in items:
            tx.execute("INSERT INTO outage (from_at, to_at) VALUES (?, ?)", (0, 1 << 70 if item == self._bad else item))
        return [item * 10 for item in items]


BAD = 4


def bring_all(db: Database, now: datetime, work: Work) -> dict[int, Future[int]]:
    """Let the first thread lead, and the others wait behind it until all are there."""
    relay: Relay[int, int] = Relay(work)
    with ThreadPoolExecutor(THREADS) as pool:
        bring: Callable[[int], int] = lambda number: relay.bring(number, lambda: db.touch(now))  # noqa: E731
        futures = {1: pool.submit(bring, 1)}
        assert work.begun.wait(STUCK_SECONDS)
        for number in range(2, THREADS + 1):
            futures[number] = pool.submit(bring, number)
            wait_until(lambda there=number - 1: len(relay._waiting) >= there)  # type: ignore[misc]
        work.may_go.set()
    return futures


def led() -> Relay[int, int]:
    """A relay at which somebody is at work."""
    relay: Relay[int, int] = Relay(lambda _tx, items: [item * 10 for item in items])
    relay._is_led = True
    return relay


def bring_while(wait: Callable[..., bool], relay: Relay[int, int], db: Database, now: datetime) -> int:
    """Bring an item to a relay, with this in the place of every wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Event, "wait", wait)
        return relay.bring(1, lambda: db.touch(now))


def kept(db: Database) -> list[int]:
    with db.read() as snapshot:
        return [row[0] for row in snapshot.all("SELECT to_at FROM outage ORDER BY to_at")]


@only_sqlite
def test_those_that_wait_are_done_together_and_each_gets_its_own_answer(db: Database, now: datetime) -> None:
    work = Work()

    futures = bring_all(db, now, work)

    assert work.together == [[1], [2, 3, 4, 5, 6]]
    assert {number: future.result() for number, future in futures.items()} == {n: n * 10 for n in range(1, 7)}
    assert kept(db) == [1, 2, 3, 4, 5, 6]


@only_sqlite
def test_what_one_brought_and_nobody_can_keep_costs_only_that_one(db: Database, now: datetime) -> None:
    work = Work(bad=BAD)

    futures = bring_all(db, now, work)

    assert isinstance(futures[BAD].exception(), InvalidField)
    assert [number for number, future in futures.items() if future.exception() is None] == [1, 2, 3, 5, 6]
    assert kept(db) == [1, 2, 3, 5, 6]


@only_sqlite
def test_who_is_to_lead_as_its_patience_ends_leads(db: Database, now: datetime) -> None:
    relay = led()

    def too_long(event: threading.Event, timeout: float | None = None) -> bool:
        was_woken = event.is_set()
        event.set()  # at the very moment the other one ends
        return was_woken

    assert bring_while(too_long, relay, db, now) == 10
    assert not relay._is_led


@only_sqlite
def test_who_waits_too_long_is_told_and_the_next_do_not_wait(
    db: Database, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "BUSY_MILLISECONDS", 10)
    work = Work()
    relay: Relay[int, int] = Relay(work)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(relay.bring, 1, lambda: db.touch(now))
        assert work.begun.wait(STUCK_SECONDS)
        with pytest.raises(StoreUnavailable, match="other writers of this process do not finish"):
            relay.bring(2, lambda: db.touch(now))
        work.may_go.set()
        assert first.result(STUCK_SECONDS) == 10

    assert relay.bring(3, lambda: db.touch(now)) == 30
    assert kept(db) == [1, 3]


@only_sqlite
def test_whose_item_is_being_done_waits_longer_and_is_told_that_nobody_knows(db: Database, now: datetime) -> None:
    relay = led()
    waits: list[float | None] = []

    def taken(_event: threading.Event, timeout: float | None = None) -> bool:
        relay._take_all()
        waits.append(timeout)
        return False

    with pytest.raises(StoreUnavailable, match="not known yet"):
        bring_while(taken, relay, db, now)

    assert waits == [relays.BUSY_MILLISECONDS / 1000, 2 * relays.BUSY_MILLISECONDS / 1000]


def test_inside_a_write_a_move_is_a_part_of_that_one(db: Database, now: datetime) -> None:
    with db.write(now) as tx:
        assert db.move(tx, lambda given, items: [given is one for one in items], now) is True


def test_inside_a_read_nothing_can_be_moved(db: Database, now: datetime) -> None:
    with db.read(), pytest.raises(AssertionError, match="part of a read"):
        db.move(1, lambda _tx, items: items, now)
