# SPDX-License-Identifier: Apache-2.0
"""Row 8: does any crash leave a state without the event that tells of it, or an event without its state?

All images of disks that row 2 makes are looked at; where nothing that was written is lost, it is what `kill -9` leaves.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from registry.domain.errors import PratiqueError
from registry.store.database import open_database
from registry.store.engines import DRIVER_ERRORS
from tests.scorecard import halves
from tests.scorecard.ground import folder
from tests.scorecard.measured import Measured, Progress
from tests.scorecard.power import Loss, lay_out, losses, recording


def run(n: int, seed: int, engine: str, progress: Progress, fault: str = "none") -> Measured:
    """Look at `n` images of disks."""
    wrong: Counter[str] = Counter({"states without event": 0, "events without state": 0, "images unreadable": 0})
    seen: Counter[str] = Counter()
    with recording(fault) as recorded:
        for loss in losses(recorded, n, Random(seed)):
            _compare(loss, wrong, seen)
            progress(1)
    return Measured(n, wrong, seen)


def _compare(loss: Loss, wrong: Counter[str], seen: Counter[str]) -> None:
    with folder() as here:
        db = open_database(lay_out(loss, here))
        try:
            with db.read() as snapshot:
                found = halves.read(snapshot)
        except (*DRIVER_ERRORS, PratiqueError):
            wrong["images unreadable"] += 1
            return
        finally:
            db.close_all()
    wrong["states without event"] += len(found.rows - found.events)
    wrong["events without state"] += len(found.events - found.rows) + (not found.head_fits)
    seen["states compared"] += len(found.rows)
