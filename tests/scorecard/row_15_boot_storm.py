# SPDX-License-Identifier: Apache-2.0
"""Row 15: are all nodes decided when a whole fleet boots at once, with no error and in flat memory?"""

from __future__ import annotations

from tests.bench import fleet_storm, machine
from tests.bench.fleet_rate import share
from tests.scorecard.ground import folder, records
from tests.scorecard.measured import Measured, Progress

GROWTH_MAX_BYTES = 32 << 20
"""How much a process may grow in the second half of the storm: what depends on the number of nodes grows by more."""


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Boot `n` nodes. There is no chance in it but the client's pauses, so the seed changes nothing."""
    with records(engine) as url, folder() as here:
        told = fleet_storm.run(url, here, n, tick=progress)
    _, half, after = told.memory
    wrong = {
        "errors": told.errors,
        "nodes not decided": told.undecided,
        "processes that grew": int(told.grown > GROWTH_MAX_BYTES),
    }
    seen = {
        "devices": n * machine.DEVICES,
        "seconds": int(told.seconds),
        "seconds p99 from boot to admission": int(share(told.decided, 0.99)),
        "requests sent again": told.repeated,
        "requests given up until the next report": told.given_up,
        "MB of the largest process at half": max(half.values()) >> 20,
        "MB of the largest process after": max(after.values()) >> 20,
    }
    return Measured(n, wrong, seen)
