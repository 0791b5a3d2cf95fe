# SPDX-License-Identifier: Apache-2.0
"""What writes while the power fails?

`python -m tests.scorecard.power_writer DATABASE ACKS COUNT [FAULT]`: threads hold, release, record failures and report
through the real services, and leave a line for each acknowledgement in the file ACKS, which is how a recording of this
process's system calls knows what was promised when.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import replace

from registry.store import write_ahead
from registry.store.database import Database, open_database
from tests.clock import Clock
from tests.fleet import Fleet, gpu, serial
from tests.racing import together
from tests.scorecard import faults

THREADS = 3
PAGES_BESIDE = 40
"""How much lies beside the file before it is brought over: a hundredth of a server's, so that it happens often."""

BRING_OVER_SECONDS = 0.02
KIND = "g5.12xlarge"


class Writer:
    """One node and one operator, who do things in turn."""

    def __init__(self, db: Database, number: int, acks: int, guard: threading.Lock) -> None:
        self._fleet = Fleet(db, Clock())
        self._node, self._first = f"node-{number}", 100 + number * 4
        self._number, self._acks, self._guard, self._count = number, acks, guard, 0

    def act(self) -> None:
        """Report news, report nothing new, hold, fail, release: each is told once it was acknowledged."""
        self._count += 1
        name = f"{self._number}-{self._count}"
        self._report(f"tag-{name}")
        self._told("device.changed", f"tag-{name}")
        self._report(f"tag-{name}")  # a heartbeat, which may be lost
        (item,) = self._fleet.hold({"device": serial(self._first)})
        hold = str(item["quarantine"]["id"])
        self._told("quarantine.opened", hold)
        failure = f"failure-{name}"
        self._fleet.fail("xid_94", device=serial(self._first + 1), failure_id=failure)
        self._told("failure.recorded", failure)
        self._fleet.release(hold)
        self._told("quarantine.released", hold)

    def _report(self, tag: str) -> None:
        self._fleet.clock.advance(31)
        devices = [gpu(self._first + at, at=at) for at in range(4)]
        devices[0] = replace(devices[0], asset_tag=tag)
        self._fleet.report(self._node, devices, instance=f"i-{self._number}", profile=KIND)

    def begin(self) -> None:
        """Be known, with a tag that is the first."""
        self._report("the first")

    def _told(self, type_: str, what: str) -> None:
        with self._guard:
            os.write(self._acks, f"{type_} {what}\n".encode())


def main() -> None:
    """Write until each thread has acted so often; then end as a process does that is killed."""
    path, acks_path, count, *fault = sys.argv[1:]
    faults.put_in(fault[0] if fault else "none")
    db = open_database(f"sqlite:///{path}")
    acks = os.open(acks_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    guard = threading.Lock()
    writers = [Writer(db, number, acks, guard) for number in range(THREADS)]
    for one in writers:
        one.begin()

    def work(writer: Writer) -> None:
        for _ in range(int(count)):
            writer.act()

    threading.Thread(target=bring_over, args=(db,), daemon=True).start()
    together(*(lambda one=one: work(one) for one in writers))
    os._exit(0)  # closing would tidy the files up


def bring_over(db: Database) -> None:
    """Bring what is beside the file into it all the while, as a server does."""
    write_ahead.PAGES = PAGES_BESIDE
    while True:
        db.bring_over()
        time.sleep(BRING_OVER_SECONDS)


if __name__ == "__main__":
    main()
