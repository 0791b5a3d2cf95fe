# SPDX-License-Identifier: Apache-2.0
"""Row 4: could one register have answered so, for one device, and for several that are read in one view?"""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.live.machines import Node
from tests.live.server import LiveServer
from tests.scorecard.ground import live
from tests.scorecard.histories import EACH, THREADS, Callers, step
from tests.scorecard.linear import is_linearizable
from tests.scorecard.measured import Measured, Progress

OWNERS, WIDTH = 2, 3


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Record histories of single devices with `n` operations in all, then as many of several devices."""
    with live(engine) as server:
        return judge(server, n, seed, progress)


def judge(server: LiveServer, n: int, seed: int, progress: Progress) -> Measured:
    """The same on a server that is there."""
    random = Random(seed)
    operators = [server.caller("operator") for _ in range(OWNERS)]
    wrong = Counter({"histories not linearizable": 0, "views of several devices torn": 0})
    seen: Counter[str] = Counter()
    done = 0
    while done < n:
        for what, width in (("histories not linearizable", 1), ("views of several devices torn", WIDTH)):
            node = Node(server)
            node.report()
            history = Callers(node, operators, width, random).history()
            wrong[what] += not is_linearizable(history, frozenset(), step)
            seen["histories"] += 1
            seen["operations"] += len(history)
            seen["operations that overlap another"] += sum(
                any(one is not other and one.begun < other.ended and other.begun < one.ended for other in history)
                for one in history
            )
        done += THREADS * EACH
        progress(THREADS * EACH)
    return Measured(done, wrong, seen)
