# SPDX-License-Identifier: Apache-2.0
"""How do many writers share one wait for the disk? Those that queue in one process commit together.

A commit costs one wait for the disk, whatever is in it: on a disk that takes 4 ms, one commit for each of eight waiting
writers takes 32 ms, one for all of them 4. The order of writes, what each sees, and what each may rely on when it is
acknowledged stay the same.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from registry.domain.errors import StoreUnavailable
from registry.store import engines
from registry.store.connections import Connections
from registry.store.engines import DRIVER_ERRORS, WriterQueue, run, translate

PARTS_MAX = 32
"""Writers in one commit: as many as a process has threads, at the most; past that the wait of the first grows."""

SECONDS_MAX = 0.02
"""How long a commit is put off for those that wait: other processes, and readers of what is acknowledged, wait too."""


@dataclass(slots=True)
class _Batch:
    """One transaction in the making, and how it ended."""

    connection: Any
    held: ExitStack
    begun: float
    parts: int = 0
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None

    @property
    def has_room(self) -> bool:
        return self.parts < PARTS_MAX and time.monotonic() - self.begun < SECONDS_MAX


class WriterGroup:
    """Lets the threads of one process write one after the other, and commits for as many as are waiting.

    One thread at a time has the baton. It runs its part of the open transaction, then hands the baton to the next in
    the queue and waits; the last one commits for all. A part that fails is undone by itself.
    """

    def __init__(self, connections: Connections, begin: str, queue: WriterQueue | None) -> None:
        """Write through one shared connection, with `begin` as the first statement; `queue` lines up processes."""
        self._connections = connections
        self._begin = begin
        self._queue = queue
        self._mutex = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Event] = deque()
        self._batch: _Batch | None = None

    @contextmanager
    def part(self) -> Iterator[Any]:
        """Give the connection, inside the transaction, for one part of it; when left, that part is durable.

        Whatever is raised in the block undoes this part and is raised again. Raises StoreUnavailable when the others
        take too long or the database cannot answer, then nothing of it was done.
        """
        self._take_baton()
        batch = self._batch or self._open()
        batch.parts += 1
        is_first = batch.parts == 1
        try:
            if not is_first:
                self._run(batch, "SAVEPOINT part")
            yield batch.connection
            if not is_first:
                self._run(batch, "RELEASE SAVEPOINT part")
        except BaseException as error:
            self._undo(batch, error, is_first=is_first)
            raise
        if not self._pass_on(batch):
            self._commit(batch)
        elif not batch.done.wait(3 * engines.BUSY_MILLISECONDS / 1000):
            raise StoreUnavailable("a writer of this process does not finish: whether this was done is not known yet")
        if batch.error is not None:
            raise StoreUnavailable("the database could not make it durable: it was not done") from batch.error

    def _take_baton(self) -> None:
        with self._mutex:
            if not self._is_taken:
                self._is_taken = True
                return
            mine = threading.Event()
            self._waiting.append(mine)
        if mine.wait(engines.BUSY_MILLISECONDS / 1000):
            return
        with self._mutex:
            if mine in self._waiting:
                self._waiting.remove(mine)
                raise StoreUnavailable("the database is busy: other writers of this process do not finish")

    def _open(self) -> _Batch:
        """Begin a transaction, when this process has its turn. The baton goes on when that fails."""
        with ExitStack() as held:
            try:
                if self._queue is not None:
                    held.enter_context(self._queue.turn())
                connection = self._connections.begin(self._begin)
            except BaseException:
                held.close()
                self._let_go()
                raise
            self._batch = _Batch(connection, held.pop_all(), time.monotonic())
        return self._batch

    def _run(self, batch: _Batch, sql: str) -> None:
        try:
            run(batch.connection, sql)
        except DRIVER_ERRORS as error:
            raise translate(error) from error

    def _undo(self, batch: _Batch, error: BaseException, *, is_first: bool) -> None:
        """Undo one part. Where that alone cannot be done, the whole transaction falls, and all are told."""
        if is_first:
            self._end(batch, None, why=error)
            return
        try:
            run(batch.connection, "ROLLBACK TO SAVEPOINT part")
            run(batch.connection, "RELEASE SAVEPOINT part")
        except DRIVER_ERRORS:
            self._end(batch, error)
            return
        if not self._pass_on(batch):
            with suppress(StoreUnavailable):  # the others are told; this part has its own reason to fail
                self._commit(batch)

    def _pass_on(self, batch: _Batch) -> bool:
        """Hand the baton to the next that waits, with the transaction still open. False when it is time to commit."""
        with self._mutex:
            if not self._waiting or not batch.has_room:
                return False
            self._waiting.popleft().set()
            return True

    def _commit(self, batch: _Batch) -> None:
        try:
            self._connections.commit(batch.connection)
        except BaseException as error:
            self._end(batch, error)
            raise
        self._end(batch, None, is_committed=True)

    def _end(
        self,
        batch: _Batch,
        error: BaseException | None,
        *,
        is_committed: bool = False,
        why: BaseException | None = None,
    ) -> None:
        """Close the transaction, tell everybody in it of an error, and let the next one begin."""
        if not is_committed:
            self._connections.roll_back(batch.connection, why or error)
        self._batch = None
        batch.error = error
        batch.held.close()
        batch.done.set()
        self._let_go()

    def _let_go(self) -> None:
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False
