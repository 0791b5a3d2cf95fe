# SPDX-License-Identifier: Apache-2.0
"""Who else has the records open? Another process, as a server has several: what they share lives on without us."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from registry.store.database import Database, open_database
from tests.project import ROOT

LEAVE = "leave"


class Neighbour:
    """A process that opens what it is told to, and keeps it open until it is told to leave."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @contextmanager
    def inside(self, url: str) -> Iterator[None]:
        """Have records open there for as long as the block lasts."""
        self._tell(url)
        try:
            yield
        finally:
            self._tell(LEAVE)

    def _tell(self, what: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise AssertionError("the neighbour is gone")


@contextmanager
def neighbour() -> Iterator[Neighbour]:
    """Start one; it ends with the block."""
    command = [sys.executable, "-m", "tests.scorecard.neighbour"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Neighbour(process)


def main() -> None:
    """Do as each line of the standard input says, and answer each with a line."""
    db: Database | None = None
    for line in sys.stdin:
        if db is not None:
            db.close_all()
            db = None
        if line.strip() != LEAVE:
            db = open_database(line.strip())
            with db.read() as snapshot:
                snapshot.one("SELECT sequence FROM chain_head")
        print("done", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
