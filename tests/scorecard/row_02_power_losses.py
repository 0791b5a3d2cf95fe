# SPDX-License-Identifier: Apache-2.0
"""Row 2: after the power failed, is everything there that was acknowledged, and can the file be read?

What real writers do to SQLite's files is recorded once with strace; then the power fails at many moments of it. (For
PostgreSQL this is PostgreSQL's own promise: what we add to it is that commits are synchronous, which row 1 tries.)
"""

from __future__ import annotations

from collections import Counter
from random import Random

from registry.domain.errors import PratiqueError
from registry.services import audit
from registry.store.database import Database, open_database
from registry.store.engines import DRIVER_ERRORS
from tests.scorecard.ground import folder
from tests.scorecard.marks import all_marks
from tests.scorecard.measured import Measured, Progress
from tests.scorecard.power import Loss, lay_out, losses, recording


def run(n: int, seed: int, engine: str, progress: Progress, fault: str = "none") -> Measured:
    """Let the power fail `n` times under writers with a fault in them."""
    wrong: Counter[str] = Counter({"writes or events lost": 0, "files unreadable": 0, "chains broken": 0})
    seen: Counter[str] = Counter()
    with recording(fault) as recorded:
        for loss in losses(recorded, n, Random(seed)):
            _judge(loss, wrong, seen)
            progress(1)
    seen["system calls recorded"] = len(recorded.acts)
    return Measured(n, wrong, seen)


def _judge(loss: Loss, wrong: Counter[str], seen: Counter[str]) -> None:
    seen["promises checked"] += len(loss.promised)
    with folder() as here:
        db = open_database(lay_out(loss, here))
        try:
            is_whole, found = read(db)
            if not is_whole:
                wrong["files unreadable"] += 1
            wrong["writes or events lost"] += len(loss.promised - found)
            wrong["chains broken"] += not audit.verify(db)["ok"]
        except (*DRIVER_ERRORS, PratiqueError):
            wrong["files unreadable"] += 1
        finally:
            db.close_all()


def read(db: Database) -> tuple[bool, set[tuple[str, str]]]:
    """Whether SQLite finds its file whole, and the marks of all events whose records are there, too."""
    with db.read() as snapshot:
        is_whole = snapshot.all("PRAGMA integrity_check") == [("ok",)]
        events = {(type_, mark) for type_, mark in all_marks(snapshot)}
        states = dict(snapshot.all("SELECT id, state FROM quarantine"))
        failures = {id_ for (id_,) in snapshot.all("SELECT failure_id FROM failure_sight")}
    rows = {("quarantine.opened", id_) for id_ in states}
    rows |= {("quarantine.released", id_) for id_, state in states.items() if state == "released"}
    rows |= {("failure.recorded", id_) for id_ in failures}
    # Each news of a device takes the place of the one before: only its event stays.
    return is_whole, {one for one in events if one in rows or one[0] == "device.changed"}
