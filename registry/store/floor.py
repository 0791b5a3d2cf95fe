# SPDX-License-Identifier: Apache-2.0
"""Which request of a process computes? The one that has the floor; the others wait for it, or for something else.

Only one thread of a process can run Python at a time. Where several want to, each statement that the database is asked
lets another thread in, and the one that asked waits to be let in again, perhaps while it keeps all writers waiting.
So a request takes the floor, computes in one go, and gives it back whenever it waits for something that can take long:
a client, a lock, the disk at a commit. A statement is waited for with the floor, at PostgreSQL too: handing it on costs
more than the wait, as long as PostgreSQL is near.
Who only asks goes before who tells: an answer takes a fraction of a report, and somebody waits for it.

The floor is a matter of speed alone: nothing is guarded by it, and who keeps it too long loses it to the next.
Nobody can be stuck for it either: it is given back before the wait for a lock, and whoever got the lock has it next.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

FLOOR_SECONDS = 0.01
"""How long one may have the floor while others wait: four times what an unchanged report takes. Whoever needs longer
reads much, from a slow disk or from afar, and then the others had better begin."""


ASKED_IN_A_ROW = 8
"""How many that ask go before one that tells, so that it has its turn however many ask."""


@dataclass(slots=True, eq=False)
class _Place:
    """One request, waiting until its gate opens, or having the floor since then."""

    floor: Floor
    asks: bool = False
    gate: threading.Lock = field(default_factory=threading.Lock)
    since: float = 0.0


class Floor:
    """Given to one thread at a time: to those that only ask first, and else in the order in which they come."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._holder: _Place | None = None
        self._waiting: deque[_Place] = deque()
        self._asking: deque[_Place] = deque()
        self._urgent: deque[_Place] = deque()
        self._in_a_row = 0

    @contextmanager
    def held(self, *, asks: bool = False) -> Iterator[None]:
        """Wait for the floor and keep it while the block lasts, or until `let_go`. Not inside another `held`."""
        self.take(asks=asks)
        try:
            yield
        finally:
            let_go()

    def take(self, *, asks: bool = False, is_urgent: bool = False) -> None:
        """Wait for the floor; `let_go` gives it back. Urgent: before all others, because they wait for this one."""
        mine = _Place(self, asks)
        mine.gate.acquire()
        with self._mutex:
            (self._urgent if is_urgent else self._asking if asks else self._waiting).append(mine)
            if self._holder is None:
                self._hand_on()
        # Each looks now and then whether the holder has had its time; all at once would only wake one another.
        while not mine.gate.acquire(timeout=FLOOR_SECONDS * (1 if is_urgent else max(1, len(self._waiting)))):
            with self._mutex:
                if self._holder is not None and time.monotonic() - self._holder.since >= FLOOR_SECONDS:
                    self._hand_on()
        _here.place = mine

    def give(self, place: _Place) -> None:
        """Hand the floor on, unless it was lost to somebody who waited too long."""
        with self._mutex:
            if self._holder is place:
                self._hand_on()

    def _hand_on(self) -> None:
        """Let the next one have it, if anybody waits. The mutex is held."""
        line = self._next_line()
        self._holder = line.popleft() if line else None
        if self._holder is not None:
            self._holder.since = time.monotonic()
            self._holder.gate.release()

    def _next_line(self) -> deque[_Place]:
        """Return the line of which the first has its turn. It is empty when nobody waits."""
        if self._urgent:
            return self._urgent
        if self._asking and (self._in_a_row < ASKED_IN_A_ROW or not self._waiting):
            self._in_a_row += 1
            return self._asking
        self._in_a_row = 0
        return self._waiting


_here = threading.local()
"""The place of this thread, while it has the floor."""


def let_go() -> _Place | None:
    """Give back the floor that this thread has, and return with what right it had it; None where it has none."""
    place: _Place | None = getattr(_here, "place", None)
    if place is None:
        return None
    _here.place = None
    place.floor.give(place)
    return place


@contextmanager
def given_back() -> Iterator[_Place | None]:
    """Wait for something outside in this block, and let others compute meanwhile. No lock may be held at its end."""
    place = let_go()
    try:
        yield place
    finally:
        if place is not None:
            place.floor.take(asks=place.asks)


@contextmanager
def ahead(place: _Place | None) -> Iterator[None]:
    """Have the floor in this block as the next one, after it was given back: others wait for the lock we have."""
    if place is None:
        yield
        return
    place.floor.take(asks=place.asks, is_urgent=True)
    try:
        yield
    finally:
        let_go()
