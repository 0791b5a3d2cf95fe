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
from tests.scorecard import halves
from tests.scorecard.ground import folder
from tests.scorecard.measured import Measured, Progress
from tests.scorecard.power import Loss, lay_out, losses, recording


def run(n: int, seed: int, engine: str, progress: Progress, fault: str = "none") -> Measured:
    """Let the power fail `n` times under writers with a fault in them."""
    wrong: Counter[str] = Counter({"writes or events lost": 0, "files unreadable": 0, "chains broken": 0})
    seen: Counter[str] = Counter()
    with recording(fault) as recorded:
        for loss in losses(recorded, n, Random(seed)):
            _judge(loss, wrong)
            seen["promises checked"] += len(loss.promised)
            progress(1)
    seen["system calls recorded"] = len(recorded.acts)
    return Measured(n, wrong, seen)


def _judge(loss: Loss, wrong: Counter[str]) -> None:
    with folder() as here:
        db = open_database(lay_out(loss, here))
        try:
            wrong["files unreadable"] += not _is_whole(db)
            with db.read() as snapshot:
                wrong["writes or events lost"] += len(loss.promised - halves.read(snapshot).kept)
            wrong["chains broken"] += not audit.verify(db)["ok"]
        except (*DRIVER_ERRORS, PratiqueError):
            wrong["files unreadable"] += 1
        finally:
            db.close_all()


def _is_whole(db: Database) -> bool:
    """Whether SQLite finds nothing wrong with its file: https://www.sqlite.org/pragma.html#pragma_integrity_check."""
    with db.read() as snapshot:
        return [tuple(row) for row in snapshot.all("PRAGMA integrity_check")] == [("ok",)]
