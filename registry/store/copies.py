# SPDX-License-Identifier: Apache-2.0
"""How is a SQLite database copied while others write, and how is a copy looked into without changing it?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from registry.store.engines import BUSY_MILLISECONDS, DRIVER_ERRORS, sqlite, translate
from registry.store.snapshots import Snapshot

PAGES_AT_ONCE = 2048
"""After how many pages the progress is told: 8 MiB of the usual pages."""

Progress = Callable[[int, int], None]
"""Is told how much is done, and of how much."""


def copy_database(source: Path, target: Path, progress: Progress) -> None:
    """Copy a database, which may be written meanwhile, into a new file that needs no other beside it.

    The copy is one moment of the database. A read transaction holds that moment: otherwise every commit of another
    process would begin the copy anew (https://www.sqlite.org/c3ref/backup_finish.html). Raises StoreUnavailable.
    """
    try:
        with closing(_connect(source, "rw")) as old, closing(_connect(target, "rwc")) as new:
            old.execute("BEGIN")
            old.execute("SELECT count(*) FROM sqlite_master").fetchone()
            tell = lambda _status, left, total: progress(total - left, total)  # noqa: E731 - said where it is used
            old.backup(new, pages=PAGES_AT_ONCE, progress=tell)
            old.execute("ROLLBACK")
            new.execute("PRAGMA journal_mode = DELETE")  # a write-ahead log would be a second file
    except DRIVER_ERRORS as error:
        raise translate(error) from error


@contextmanager
def look_into(file: Path) -> Iterator[Snapshot]:
    """Read a copy that nobody writes; no file appears beside it. Raises StoreUnavailable."""
    try:
        with closing(_connect(file, "ro", immutable=True)) as connection:
            connection.execute("BEGIN")
            yield Snapshot("sqlite", connection)
    except DRIVER_ERRORS as error:
        raise translate(error) from error


def find_damage(snapshot: Snapshot) -> str | None:
    """Return the first thing that SQLite finds wrong with the file, or None.

    Every page and index is read: https://www.sqlite.org/pragma.html#pragma_integrity_check.
    """
    row = snapshot.one("PRAGMA integrity_check(1)")
    if row is None or row[0] != "ok":
        return str(row[0]) if row else "nothing can be read"
    if (orphan := snapshot.one("PRAGMA foreign_key_check")) is not None:
        return f"a row of table {orphan[0]} refers to nothing"
    return None


def merge_log(file: Path) -> bool:
    """Bring what stands in the write-ahead log beside a database into it; False when that cannot be done."""
    try:
        with closing(_connect(file, "rw")) as connection:
            row = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return row is not None and row[0] == 0
    except DRIVER_ERRORS:
        return False


def _connect(file: Path, mode: str, *, immutable: bool = False) -> Any:
    address = f"file:{quote(str(file))}?mode={mode}" + ("&immutable=1" if immutable else "")
    return sqlite.connect(address, uri=True, timeout=BUSY_MILLISECONDS / 1000, isolation_level=None)
