# SPDX-License-Identifier: Apache-2.0
"""Who brings what was written beside the SQLite file into it? Somebody who has time, so that no writer has to.

SQLite lets the writer do it whose commit makes the log long, while all others wait: for a fleet's reports that is a
tenth of a second each second or two, and a queue that takes longer than that to be worked off. Here nearly all of it is
brought over while the others go on writing, and only what came meanwhile when they wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from registry.store.engines import BUSY_MILLISECONDS, DRIVER_ERRORS, WriterQueue, translate

PAGES = 4_000
"""How much lies beside the file before it is brought over, 16 MB: pages that many wrote are brought over once."""

READER_MILLISECONDS = 20
"""How long to wait for those that still read what lies beside the file. Who reads longer is let be until next time."""


def bring_over(connection: Any, queue: WriterQueue) -> bool:
    """Bring over what lies beside the file, if it is much; True if all of it was, and its room is used again.

    `NOOP` only counts, since SQLite 3.51; one that does not know the word brings over what it can:
    https://www.sqlite.org/pragma.html#pragma_wal_checkpoint. Raises StoreUnavailable.
    """
    _, written, done = _checkpoint(connection, "NOOP")
    if written - done < PAGES:
        return False
    _, written, done = _checkpoint(connection, "PASSIVE")
    if written - done >= PAGES:
        return False  # somebody still reads what was there before: no writer has to wait for nothing
    with queue.turn(), _impatient(connection):
        was_busy, _, _ = _checkpoint(connection, "RESTART")
    return not was_busy


def _checkpoint(connection: Any, how: str) -> tuple[int, int, int]:
    """Return whether somebody was in the way, how many pages are beside the file, and how many of them are in it."""
    try:
        was_busy, written, done = connection.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
    except DRIVER_ERRORS as error:
        raise translate(error) from error
    return was_busy, written, done


@contextmanager
def _impatient(connection: Any) -> Iterator[None]:
    """Wait for nobody for long in this block: the other writers wait, too."""
    connection.execute(f"PRAGMA busy_timeout = {READER_MILLISECONDS}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
