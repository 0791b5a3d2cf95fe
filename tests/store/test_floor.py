# SPDX-License-Identifier: Apache-2.0
"""Does one thread compute at a time, in the order in which they came, and is nobody ever stuck for it?"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.store import floor as floors
from registry.store.database import Database
from registry.store.engines import WriterQueue
from registry.store.floor import Floor, ahead, given_back, let_go
from tests.racing import STUCK_SECONDS, wait_until

THREADS = 6


@pytest.fixture
def floor(monkeypatch: pytest.MonkeyPatch) -> Floor:
    """A floor that nobody loses because the machine is busy."""
    monkeypatch.setattr(floors, "FLOOR_SECONDS", STUCK_SECONDS)
    return Floor()


def is_free(floor: Floor) -> bool:
    """Tell whether another thread gets it at once."""
    return floor._holder is None and not floor._waiting


def wait_for(floor: Floor, waiting: int) -> None:
    """Return when so many wait for the floor."""
    wait_until(lambda: len(floor._waiting) >= waiting)


def test_they_get_it_in_the_order_in_which_they_ask(floor: Floor) -> None:
    order: list[int] = []

    def ask(number: int) -> None:
        with floor.held():
            order.append(number)

    with ThreadPoolExecutor(THREADS) as pool, floor.held():
        for number in range(THREADS):
            pool.submit(ask, number)
            wait_for(floor, number + 1)
        assert order == []

    assert order == list(range(THREADS))
    assert is_free(floor)


def test_who_only_asks_goes_first_but_not_for_ever(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors, "ASKED_IN_A_ROW", 2)
    order: list[str] = []

    def come(name: str, *, asks: bool) -> None:
        with floor.held(asks=asks):
            order.append(name)

    with ThreadPoolExecutor(THREADS) as pool, floor.held():
        for name in ("tells 1", "tells 2", "asks 1", "asks 2", "asks 3", "asks 4"):
            before = len(floor._waiting) + len(floor._asking)
            pool.submit(come, name, asks=name.startswith("asks"))
            wait_until(lambda there=before: len(floor._waiting) + len(floor._asking) > there)  # type: ignore[misc]

    assert order == ["asks 1", "asks 2", "tells 1", "asks 3", "asks 4", "tells 2"]
    assert is_free(floor)


def test_who_keeps_others_waiting_by_a_lock_goes_before_all(floor: Floor) -> None:
    order: list[str] = []
    waits, is_locked = threading.Event(), threading.Event()

    def write() -> None:
        with floor.held(), given_back() as place:
            waits.set()
            assert is_locked.wait(STUCK_SECONDS)
            with ahead(place):
                order.append("writes")

    def come(name: str, *, asks: bool) -> None:
        with floor.held(asks=asks):
            order.append(name)

    with ThreadPoolExecutor(THREADS) as pool:
        writer = pool.submit(write)
        assert waits.wait(STUCK_SECONDS)
        with floor.held():
            others = [pool.submit(come, "asks", asks=True), pool.submit(come, "tells", asks=False)]
            wait_until(lambda: len(floor._waiting) == len(floor._asking) == 1)
            is_locked.set()
            wait_until(lambda: len(floor._urgent) == 1)
        for one in (writer, *others):
            one.result(STUCK_SECONDS)

    assert order == ["writes", "asks", "tells"]
    assert is_free(floor)


def test_others_compute_while_one_waits_and_it_queues_up_again(floor: Floor) -> None:
    order: list[str] = []
    outside = threading.Event()

    def other() -> None:
        with floor.held():
            order.append("other")
            outside.set()

    with ThreadPoolExecutor(1) as pool, floor.held():
        order.append("before")
        asked = pool.submit(other)
        wait_for(floor, 1)
        with given_back():
            assert outside.wait(STUCK_SECONDS)
        order.append("after")
        asked.result(STUCK_SECONDS)

    assert order == ["before", "other", "after"]
    assert is_free(floor)


def test_who_has_no_floor_waits_without_taking_one(floor: Floor) -> None:
    with given_back():
        pass

    assert let_go() is None
    assert is_free(floor)


def test_it_is_given_back_by_whoever_fails(floor: Floor) -> None:
    with pytest.raises(ZeroDivisionError), floor.held(), given_back():
        raise ZeroDivisionError

    assert is_free(floor)


def test_what_is_given_back_early_is_not_given_back_twice(floor: Floor) -> None:
    with floor.held():
        assert let_go() is not None
        with ThreadPoolExecutor(1) as pool:
            has_it, may_end = threading.Event(), threading.Event()
            pool.submit(_hold, floor, has_it, may_end)
            assert has_it.wait(STUCK_SECONDS)
            assert let_go() is None
            assert not is_free(floor)
            may_end.set()

    assert is_free(floor)


def _hold(floor: Floor, has_it: threading.Event, may_end: threading.Event) -> None:
    with floor.held():
        has_it.set()
        assert may_end.wait(STUCK_SECONDS)


def test_who_computes_too_long_loses_it_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors, "FLOOR_SECONDS", 0.01)
    floor, order = Floor(), []
    has_it, may_end = threading.Event(), threading.Event()

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(_hold, floor, has_it, may_end)
        assert has_it.wait(STUCK_SECONDS)
        with floor.held():
            order.append("quick")
            may_end.set()
            slow.result(STUCK_SECONDS)
            assert not is_free(floor), "the slow one gave back what was no longer its own"

    assert order == ["quick"]
    assert is_free(floor)


class Play:
    """Threads that follow a plan each: what they compute, wait for, lock and give back."""

    def __init__(self) -> None:
        self.floor, self.lock = Floor(), threading.Lock()
        self.computing: list[int] = []
        self.most = 0

    def compute(self) -> None:
        if floors._here.place is None:
            return
        self.computing.append(1)
        self.most = max(self.most, len(self.computing))
        time.sleep(0)
        self.computing.pop()

    def wait(self) -> None:
        with given_back():
            time.sleep(0)

    def write(self) -> None:
        with given_back(), self.lock:
            time.sleep(0)

    def follow(self, plan: list[str]) -> None:
        steps = {"compute": self.compute, "wait": self.wait, "write": self.write, "end": let_go}
        with self.floor.held():
            for step in plan:
                steps[step]()


PLAN = st.lists(st.sampled_from(["compute", "wait", "write", "end"]), max_size=8)


@settings(max_examples=25, deadline=None)
@given(st.lists(PLAN, min_size=2, max_size=THREADS))
def test_in_no_order_of_computing_and_waiting_do_two_compute_or_is_one_stuck(plans: list[list[str]]) -> None:
    play = Play()

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(len(plans)) as pool:
        patch.setattr(floors, "FLOOR_SECONDS", STUCK_SECONDS)
        for future in [pool.submit(play.follow, plan) for plan in plans]:
            future.result(STUCK_SECONDS / 2)

    assert play.most <= 1
    assert is_free(play.floor)


def test_a_writer_in_waiting_lets_others_compute(tmp_path: Path, floor: Floor) -> None:
    queue = WriterQueue(tmp_path / "file.db")
    other_process = WriterQueue(tmp_path / "file.db")

    def touch() -> None:
        with floor.held(), queue.turn():
            pass

    with ThreadPoolExecutor(1) as pool:
        with other_process.turn():
            waiting = pool.submit(touch)
            wait_until(queue._threads.locked)
            wait_until(lambda: is_free(floor))
            assert not waiting.done()
        waiting.result(STUCK_SECONDS)

    assert is_free(floor)


def test_threads_that_write_touch_and_read_on_one_floor_all_come_to_an_end(db: Database, now: datetime) -> None:
    floor = Floor()
    start = threading.Barrier(THREADS)

    def work(number: int) -> int:
        start.wait(STUCK_SECONDS)
        for at in range(10):
            with floor.held():
                with db.read() as snapshot:
                    snapshot.sequence()
                with db.touch(now) if (at + number) % 2 else db.write(now) as tx:
                    tx.execute("INSERT INTO outage (from_at, to_at) VALUES (?, ?)", (0, number * 100 + at + 1))
        return number

    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(work, number) for number in range(THREADS)]
        done = [future.result(STUCK_SECONDS) for future in futures]

    assert done == list(range(THREADS))
    assert is_free(floor)
    with db.read() as snapshot:
        assert snapshot.one("SELECT COUNT(*) FROM outage") == (THREADS * 10,)
