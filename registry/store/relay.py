# SPDX-License-Identifier: Apache-2.0
"""How do many threads move a row each, when only one may write at a time? One of them moves those of all that wait.

Each turn at the lock of a SQLite file costs a wait for the other processes, a beginning and an end, and each of these
lets other threads of the process in. What takes a tenth of a millisecond by itself is not worth a turn of its own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from registry.domain.errors import PratiqueError, StoreUnavailable
from registry.store.engines import BUSY_MILLISECONDS
from registry.store.floor import given_back
from registry.store.snapshots import Transaction

T = TypeVar("T")
R = TypeVar("R")

Work = Callable[[Transaction, Sequence[T]], Sequence[R]]


@dataclass(slots=True, eq=False)
class _Load(Generic[T, R]):
    """What one thread wants done; woken, it is done, or its thread is to do all that wait."""

    item: T
    woken: threading.Event = field(default_factory=threading.Event)
    results: list[R] = field(default_factory=list)
    is_done: bool = False


class Relay(Generic[T, R]):
    """Threads bring an item each; `work` gets all that wait, in one transaction, in the order in which they came."""

    def __init__(self, work: Work[T, R]) -> None:
        self._work = work
        self._mutex = threading.Lock()
        self._waiting: deque[_Load[T, R]] = deque()
        self._is_led = False

    def bring(self, item: T, transaction: Callable[[], AbstractContextManager[Transaction]]) -> R:
        """Return what `work` returned for this item, when its transaction is over.

        `transaction` opens one, if this thread is the one to do it. What fails for several is tried by each alone, so
        that nobody pays for another's item. Raises what `transaction` or `work` raises, and StoreUnavailable when the
        others do not finish.
        """
        mine = _Load[T, R](item)
        with self._mutex:
            self._waiting.append(mine)
            must_lead, self._is_led = not self._is_led, True
        if not must_lead:
            self._await(mine)
        if not mine.is_done:
            self._lead(mine, transaction)
        if mine.results:
            return mine.results[0]
        with transaction() as tx:
            return self._work(tx, [item])[0]

    def _await(self, mine: _Load[T, R]) -> None:
        with given_back():
            if mine.woken.wait(BUSY_MILLISECONDS / 1000):
                return
            if self._withdraw(mine):
                raise StoreUnavailable("the database is busy: other writers of this process do not finish")
            # It is being done, or this thread was told to lead at the last moment.
            if mine.woken.wait(2 * BUSY_MILLISECONDS / 1000):
                return
        raise StoreUnavailable("a writer of this process does not finish: whether this was done is not known yet")

    def _withdraw(self, mine: _Load[T, R]) -> bool:
        """Leave the line, if nobody has begun with this and it is not this thread's turn to lead."""
        with self._mutex:
            if mine.woken.is_set() or mine not in self._waiting:
                return False
            self._waiting.remove(mine)
            return True

    def _lead(self, mine: _Load[T, R], transaction: Callable[[], AbstractContextManager[Transaction]]) -> None:
        """Do all that wait when the transaction has begun, this thread's own among them; then let the next one lead."""
        loads: list[_Load[T, R]] = []
        try:
            with transaction() as tx:
                loads = self._take_all()
                results = self._work(tx, [one.item for one in loads])
            for one, result in zip(loads, results, strict=True):
                one.results.append(result)
        except PratiqueError:
            if len(loads) < 2:
                raise
        finally:
            self._hand_on(mine, loads)

    def _take_all(self) -> list[_Load[T, R]]:
        with self._mutex:
            loads = list(self._waiting)
            self._waiting.clear()
        return loads

    def _hand_on(self, mine: _Load[T, R], loads: Sequence[_Load[T, R]]) -> None:
        with self._mutex:
            if mine in self._waiting:
                self._waiting.remove(mine)
            self._is_led = bool(self._waiting)
            if self._waiting:
                self._waiting[0].woken.set()
        for one in loads:
            one.is_done = True
            one.woken.set()
