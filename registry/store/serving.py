# SPDX-License-Identifier: Apache-2.0
"""Does a server run on this database file? It says so by a lock that ends with its last process, however that ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from registry.store.migrations import NotReady


class ServingLock:
    """The lock beside a database file. Servers share it; whoever puts another file in its place has it alone."""

    def __init__(self, path: Path) -> None:
        """Lock the database file at `path`, which need not exist."""
        self._path = path.with_name(f"{path.name}.serve.lock")
        self._descriptor: int | None = None

    def take(self, *, is_shared: bool) -> bool:
        """Take it, or return False when others stand against it. A process that is forked afterwards has it too.

        Raises NotReady when the file cannot be made.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise NotReady([f"The lock {self._path} cannot be made: {error.strerror}."]) from error
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def let_go(self) -> None:
        """Let go of it; processes that inherited it still have it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
