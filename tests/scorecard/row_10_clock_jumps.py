# SPDX-License-Identifier: Apache-2.0
"""Row 10: what do jumps of the server's clock release early, count twice or bring into another order?

The clock is injected and jumps between one second and ten years, forwards and backwards. Around each jump nodes report,
repeat a report and boot, and the sweep runs. A hold with an end is released early when no clock had reached that end;
every other hold when it is released at all.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from registry.services import audit, life
from registry.services.sweep import sweep
from registry.store.database import open_database
from tests.clock import NOON, Clock
from tests.fleet import Fleet, gpu, serial
from tests.scorecard.ground import records
from tests.scorecard.measured import Measured, Progress

LONGEST_SECONDS = 10 * 365.25 * 86_400
HOLD_FOR = timedelta(hours=1)
NODES = {"held": 0, "until": 4, "curing": 8, "free": 12}
"""What each node is for, and the number of its first GPU."""
EARLIEST, LATEST = NOON - timedelta(days=10_000), NOON + timedelta(days=20_000)


WRONG = ("early releases", "passes counted twice", "order changes", "held nodes admitted")


@dataclass
class Jumping:
    """A small fleet whose clock cannot be trusted."""

    fleet: Fleet
    boots: int = 1
    ends: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    """Of each hold with an end: that end, and the latest time that a clock told since it was opened."""
    have: int = 0
    history: list[tuple[int, str]] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(WRONG, 0)))
    seen: Counter[str] = field(default_factory=Counter)


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Let the clock jump `n` times."""
    random = Random(seed)
    with records(engine) as url:
        db = open_database(url)
        told = Jumping(Fleet(db, Clock()))
        begin(told)
        for _ in range(n):
            jump(told, random)
            live_on(told)
            look(told)
            progress(1)
        db.close_all()
    return Measured(n, told.wrong, told.seen)


def begin(told: Jumping) -> None:
    """All nodes are admitted, then two are held for good and for clean passes."""
    for name in NODES:
        report(told, name)
        told.fleet.clock.advance(31)
        report(told, name)
    told.fleet.hold({"device": serial(NODES["held"])})
    told.fleet.hold({"device": serial(NODES["curing"])}, release_policy="after_passes")


def report(told: Jumping, name: str, **changes: Any) -> dict[str, Any]:
    """One node reports four clean GPUs."""
    devices = [gpu(NODES[name] + at, at=at) for at in range(4)]
    boot = f"boot-{told.boots if name == 'free' else 1}"
    return told.fleet.report(name, devices, instance=f"i-{name}", boot=boot, **changes)


def jump(told: Jumping, random: Random) -> None:
    """Hold something for an hour, then let the clock jump; the service goes on where it was."""
    clock = told.fleet.clock
    for item in told.fleet.hold(
        {"device": serial(NODES["until"])}, release_policy="at_expiry", expires_at=clock.now + HOLD_FOR
    ):
        if item["outcome"] == "opened":
            # It takes the place of the one before, where that one still stood.
            told.ends.clear()
            told.ends[item["quarantine"]["id"]] = (clock.now + HOLD_FOR, clock.now)
    seconds = math.exp(random.uniform(0, math.log(LONGEST_SECONDS)))
    back = random.random() < 0.5
    if not EARLIEST < clock.now + timedelta(seconds=-seconds if back else seconds) < LATEST:
        back = not back
    clock.advance(-seconds if back else seconds)
    told.seen["jumps back" if back else "jumps forward"] += 1
    told.ends = {id_: (end, max(seen, clock.now)) for id_, (end, seen) in told.ends.items()}


def live_on(told: Jumping) -> None:
    """What a second after the jump would bring: a sign of life, a sweep, reports, one of them again, and a boot."""
    fleet = told.fleet
    life.beat(fleet.db, fleet.clock.now, fleet.policy)
    sweep(fleet.db, now=fleet.clock.now)
    told.boots += 1
    told.have = 0
    for at in range(2):
        fleet.clock.advance(31)
        for name in NODES:
            first = report(told, name, report_id=f"{name}-{told.boots}-{at}")
            again = report(told, name, report_id=f"{name}-{told.boots}-{at}")
            if name == "free":
                count_passes(told, first, again)
    told.ends = {id_: (end, max(seen, fleet.clock.now)) for id_, (end, seen) in told.ends.items()}
    sweep(fleet.db, now=fleet.clock.now)
    told.seen["admitted after two runs"] += fleet.decide("free").admitted


def count_passes(told: Jumping, first: dict[str, Any], again: dict[str, Any]) -> None:
    """One report is one pass at most, and a repetition none."""
    told.wrong["passes counted twice"] += first["pass"]["have"] > told.have + 1
    told.wrong["passes counted twice"] += again["admission"]["passes"]["have"] > first["pass"]["have"]
    told.have = first["pass"]["have"]
    told.seen["passes counted"] += first["pass"]["counted"]


def look(told: Jumping) -> None:
    """Judge what the jump did."""
    fleet = told.fleet
    for name in ("held", "curing"):
        told.wrong["held nodes admitted"] += fleet.decide(name).admitted
    is_open = {one["id"] for one in fleet.open_holds()}
    kept = sum(one["release_policy"] != "at_expiry" for one in fleet.open_holds())
    told.wrong["early releases"] += 2 - kept
    for id_, (end, latest) in list(told.ends.items()):
        if id_ not in is_open:
            told.wrong["early releases"] += latest < end
            told.seen["holds that came to their end"] += 1
            del told.ends[id_]
    look_at_order(told)


def look_at_order(told: Jumping) -> None:
    """What was in the history stands where it stood."""
    db = told.fleet.db
    with db.read() as snapshot:
        now = [(int(row[0]), str(row[1])) for row in snapshot.all("SELECT sequence, hash FROM event ORDER BY sequence")]
    proof = audit.verify(db)
    told.wrong["order changes"] += now[: len(told.history)] != told.history or not proof["ok"]
    told.history = now
    told.seen["events"] = len(now)
