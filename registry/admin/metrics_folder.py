# SPDX-License-Identifier: Apache-2.0
"""Where do the processes of one server count their requests, and who clears away what a killed server left there?

A folder in memory, made when the server starts and removed when it ends. The server and its workers keep a lock on a
file in it (https://man7.org/linux/man-pages/man2/flock.2.html), which the kernel takes from them however they end: a
folder whose lock nobody holds is nobody's, and one without such a file is none of ours. A process id in its name would
say less, because ids come again, and because containers that share the memory do not share the ids.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Read by the metrics library when it is imported: https://prometheus.github.io/client_python/multiprocess/."""

PREFIX = "pratique-metrics-"
UNLOCKED_PREFIX = "pratique-starting-"
"""What the folder is called until it is locked, so that no other server takes it for a left one meanwhile."""

LOCK = "lock"
"""The file in it that is locked. The metrics library looks at files that end with `.db` alone."""


def make(parent: Path | None) -> Path:
    """Make the folder, empty, below `parent` or where temporary files go, and lock it. Removes those left there."""
    folder = Path(tempfile.mkdtemp(prefix=UNLOCKED_PREFIX, dir=parent))
    # Never closed: the lock is to last as long as this process and the workers that it forks.
    fcntl.flock(os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), fcntl.LOCK_EX)
    _remove_left(folder.parent)
    folder = folder.rename(folder.with_name(PREFIX + folder.name.removeprefix(UNLOCKED_PREFIX)))
    os.environ[VARIABLE] = str(folder)
    return folder


def remove() -> None:
    """Remove the folder of this server."""
    shutil.rmtree(os.environ[VARIABLE], ignore_errors=True)


def _remove_left(parent: Path) -> None:
    """Remove our folders whose lock no process holds. What has no lock, is somebody else's or gone, is left alone."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            if folder.is_symlink():
                continue
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_uid == os.geteuid():
                shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            continue  # a server that runs
        finally:
            os.close(descriptor)
