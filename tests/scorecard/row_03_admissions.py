# SPDX-License-Identifier: Apache-2.0
"""Row 3: does any admission that begins after a quarantine was acknowledged admit the node that carries the device?

Cyclers make nodes admitted, hold one of their GPUs and let it go again. Readers ask at every door, of whichever of four
workers takes the connection. A reader's answer counts as wrong when the hold was acknowledged before it asked and no
release was sent before it was answered.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.live.machines import Node, held, quarantine, release
from tests.live.server import Caller, LiveServer
from tests.scorecard.ground import live
from tests.scorecard.measured import Measured, Progress

NODES, READERS, BATCH = 6, 4, 10
HELD_SECONDS, FREE_SECONDS = 0.3, 0.1
CONNECTION_REQUESTS = 25
"""A reader keeps a connection, and so a worker, for so many requests."""


@dataclass
class Watched:
    """A node, and since when it is held: `epoch` is odd from the acknowledgement until a release is sent."""

    node: Node
    epoch: int = 0


@dataclass
class Tally:
    """What the readers were answered."""

    wanted: int
    counts: Counter[str] = field(default_factory=Counter)
    over: threading.Event = field(default_factory=threading.Event)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def add(self, door: str, watched: Watched, epoch: int, *, is_admitted: bool) -> None:
        """Judge one decision that was asked for in an epoch."""
        is_held = epoch % 2 == 1 and watched.epoch == epoch
        with self.guard:
            self.counts[f"decisions by {door}"] += 1
            self.counts["decisions of a held node" if is_held else "other decisions"] += 1
            self.counts["admitted before or after"] += is_admitted and not is_held
            self.counts["wrong"] += is_admitted and is_held
            self.wanted -= 1
            if self.wanted <= 0:
                self.over.set()


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Make `n` decisions while nodes are held and let go."""
    with live(engine) as server:
        return race(server, n, seed, progress)


def race(server: LiveServer, n: int, seed: int, progress: Progress) -> Measured:
    """The same on a server that is there."""
    operator = server.caller("operator", f"alice-{seed}")
    watched = [Watched(Node(server)) for _ in range(NODES)]
    for one in watched:
        one.node.admit()
    tally, failures = Tally(n), list[BaseException]()
    works = [lambda one=one: cycle(operator, one, tally) for one in watched]
    works += [lambda at=at: read(server, operator, watched, tally, Random(seed * 1000 + at)) for at in range(READERS)]
    threads = [threading.Thread(target=_guarded, args=(work, tally, failures)) for work in works]
    for thread in threads:
        thread.start()
    left = n
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.2)
        progress(left - max(tally.wanted, 0))
        left = max(tally.wanted, 0)
    if failures:
        raise failures[0]
    done = n - tally.wanted
    wrong = tally.counts.pop("wrong")
    return Measured(done, {"admissions of a held node": wrong}, dict(sorted(tally.counts.items())))


def _guarded(work: Callable[[], None], tally: Tally, failures: list[BaseException]) -> None:
    try:
        work()
    except (AssertionError, OSError) as error:
        failures.append(error)
        tally.over.set()


def cycle(operator: Caller, watched: Watched, tally: Tally) -> None:
    """Hold and release a GPU of the node, again and again."""
    while not tally.over.is_set():
        (item,) = quarantine(operator, held(watched.node), fresh=True)
        watched.epoch += 1  # acknowledged
        tally.over.wait(HELD_SECONDS)
        watched.epoch += 1  # from here on it may be let go
        release(operator, item["quarantine"]["id"])
        watched.node.admit()
        tally.counts["holds"] += 1
        tally.over.wait(FREE_SECONDS)


def read(server: LiveServer, operator: Caller, watched: list[Watched], tally: Tally, random: Random) -> None:
    """Ask at one door after the other."""
    doors = {"admission": _admission, "line": _line, "report": _report, "node page": _page}
    while not tally.over.is_set():
        for _ in range(CONNECTION_REQUESTS):
            if random.random() < 0.5:
                _ask_for_many(operator, watched, tally)
                continue
            one, door = random.choice(watched), random.choice(list(doors))
            epoch = one.epoch
            tally.add(door, one, epoch, is_admitted=doors[door](one.node, operator))
        operator.close()
        for one in watched:
            one.node.caller.close()


def _ask_for_many(operator: Caller, watched: list[Watched], tally: Tally) -> None:
    """Ask for all nodes, each several times, in one request."""
    asked = (watched * BATCH)[:BATCH]
    epochs = [one.epoch for one in asked]
    answer = operator.post("/v1/admissions", {"candidates": [{"node": one.node.name} for one in asked]})
    assert answer.status_code == 200, answer.text
    for one, epoch, told in zip(asked, epochs, answer.json()["items"], strict=True):
        tally.add("admissions", one, epoch, is_admitted=told["admitted"])


def _admission(node: Node, _: Caller) -> bool:
    return bool(node.decision()["admitted"])


def _line(node: Node, _: Caller) -> bool:
    path = f"/v1/nodes/{node.name}/admission"
    return node.caller.ask("GET", path, headers={"Accept": "text/plain"}).text.startswith("admit")


def _report(node: Node, _: Caller) -> bool:
    return bool(node.report()["admission"]["admitted"])


def _page(node: Node, operator: Caller) -> bool:
    return bool(operator.get(f"/v1/nodes/{node.name}")["admission"]["admitted"])
