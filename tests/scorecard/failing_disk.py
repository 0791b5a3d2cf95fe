# SPDX-License-Identifier: Apache-2.0
"""What does the application answer while its disk fails, and what is in the records then?

`python -m tests.scorecard.failing_disk TEMPLATE N SEED`, with the library of failing_disk.c preloaded, prints one JSON
object for each trial. A trial asks the application some things on a copy of TEMPLATE while opens, writes or syncs fail.
"""

from __future__ import annotations

import ctypes
import errno
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from werkzeug.test import TestResponse

from api.app import create_app
from api.context import standing
from registry.config import Settings
from registry.domain.roles import Role
from registry.services import audit
from registry.store.database import open_database
from tests.api.conftest import PEPPER, Asker
from tests.api.v1.fleet import SERIALS, admit, gpu, report
from tests.clock import Clock
from tests.scorecard import halves
from tests.scorecard.application import SIGNING_KEY, Application
from tests.scorecard.neighbour import neighbour
from tests.scorecard.power import DATABASE

KINDS = {"open": 0, "write": 1, "sync": 2}
ERRORS = (errno.EIO, errno.ENOSPC)
RECOVERY_TRIES = 2
COUNTS = (1, 2, 1_000_000)
"""How many calls fail: a short fault, or until somebody makes room."""

Fault: TypeAlias = tuple[int, int, int, int]
"""The kind of call, the error, from which call on, and how many."""

NO_FAULT: Fault = (0, 0, 0, 0)


@dataclass
class Trial:
    """What is asked, what was acknowledged, and what was wrong with an answer.

    Another thread asks for admissions: it has a connection of its own, which it keeps while others are opened anew.
    """

    house: Application
    operator: Asker
    node: Asker
    other_thread: ThreadPoolExecutor
    promised: set[halves.Mark] = field(default_factory=set)
    is_held: bool = False
    wrong: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    def ask(self) -> None:
        """Report news, hold, ask, fail, hold another, release, report again, ask again."""
        self._report("tag-1")
        first = self._hold({"device": SERIALS[0]})
        self._admission()
        self._fail("failure-1")
        self._hold({"device": SERIALS[1]})
        self._admission()
        self._report("tag-2")
        if first is not None:
            answer = self._judge(self.operator.post(f"/v1/quarantines/{first}/release", json={"reason": "tested"}))
            if answer.status_code == 200:
                self.promised.add(("quarantine.released", first))
        self._report("tag-2")
        self._admission()

    def recover(self) -> None:
        """The fault is over: what was refused is taken now."""
        for _ in range(RECOVERY_TRIES):
            if self._hold({"identifier": {"kind": "gpu", "type": "serial", "value": "1659999999999"}}) is not None:
                return
        self.wrong["not recovered by itself"] += 1

    def _hold(self, target: dict[str, Any]) -> str | None:
        answer = self._judge(self.operator.post("/v1/quarantines", json={"targets": [target], "reason": "it smells"}))
        if answer.status_code != 201:
            return None
        hold = str(answer.json["items"][0]["quarantine"]["id"])
        self.promised.add(("quarantine.opened", hold))
        # The second device is never let go, so from here on the node is held for good.
        self.is_held |= target.get("device") == SERIALS[1]
        return hold

    def _report(self, tag: str) -> None:
        self.house.clock.advance(31)
        devices = [gpu(serial, 0x10 + at) for at, serial in enumerate(SERIALS)]
        devices[0]["asset_tag"] = tag
        answer = self._judge(self.node.post("/v1/nodes/node-a/reports", json=report(devices=devices)))
        if answer.status_code == 200:
            self.promised.add((halves.NEWS, tag))
            self.wrong["wrong admissions"] += self.is_held and answer.json["admission"]["admitted"]

    def _fail(self, failure_id: str) -> None:
        fault = {"failure_id": failure_id, "device": SERIALS[0], "code": "xid_94"}
        body = {**fault, "occurred_at": "2026-11-29T12:00:00Z"}
        if self._judge(self.operator.post("/v1/failures", json=body)).status_code == 201:
            self.promised.add(("failure.recorded", failure_id))

    def _admission(self) -> None:
        asking = self.other_thread.submit(self.node.get, "/v1/nodes/node-a/admission")
        answer = self._judge(asking.result())
        if answer.status_code == 200:
            self.wrong["wrong admissions"] += self.is_held and answer.json["admitted"]

    def _judge(self, answer: TestResponse) -> TestResponse:
        self.seen["answers"] += 1
        self.seen["503 answers"] += answer.status_code == 503
        self.wrong["neither done nor 503"] += answer.status_code not in {200, 201, 503}
        return answer


def main() -> None:
    """Run trials; the first one, in which nothing fails, tells how many calls there are."""
    template, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    disk = ctypes.CDLL(None)
    disk.disk_counted.restype = ctypes.c_long
    disk.disk_arm.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    with neighbour() as other:
        run_one(template, disk, NO_FAULT, alone)
        calls = {kind: disk.disk_counted(number) for kind, number in KINDS.items()}
        for fault, is_alone in plan(calls, count, Random(seed)):
            told = run_one(template, disk, fault, alone if is_alone else other.inside)
            print(json.dumps(told), flush=True)  # noqa: T201


def plan(calls: dict[str, int], count: int, random: Random) -> Iterator[tuple[Fault, bool]]:
    """Choose `count` of all faults, each alone and beside another process.

    First comes one of each open, as each leaves another state behind, then all the others by chance.
    """
    places = [(KINDS[kind], at) for kind, most in calls.items() for at in range(1, most + 1)]
    faults = [(kind, error, at, many) for kind, at in places for error in ERRORS for many in COUNTS]
    plans = [(fault, is_alone) for fault in faults for is_alone in (True, False)]
    random.shuffle(plans)
    plans.sort(key=lambda one: one[0][:2] != (KINDS["open"], errno.EIO) or one[0][3] != 1)
    return islice(cycle(plans), count)


def alone(_: str) -> AbstractContextManager[None]:
    """Nobody else has the records open."""
    return nullcontext()


@contextmanager
def trial_on(url: str, here: Path) -> Iterator[Trial]:
    """Give a trial on an application whose node is known and admitted, and which has no file open yet."""
    settings = Settings(
        database_url=url, data_dir=here, secret_key=PEPPER, signing_key=SIGNING_KEY, pass_gap_seconds=30
    )
    clock = Clock()
    house = Application(create_app(settings, clock=clock), clock)
    operator, node = house.asker(house.secret(Role.OPERATOR)), house.asker(house.secret(Role.NODE, node="node-a"))
    devices = [gpu(serial, 0x10 + at) | {"asset_tag": "the first"} for at, serial in enumerate(SERIALS)]
    admit(operator, node, clock)
    node.post("/v1/nodes/node-a/reports", json=report(devices=devices))
    standing(house.app).database.close_all()  # all files are opened anew, which may fail
    with ThreadPoolExecutor(1) as other_thread:
        yield Trial(house, operator, node, other_thread)
    standing(house.app).database.close_all()


def run_one(
    template: Path, disk: Any, fault: Fault, beside: Callable[[str], AbstractContextManager[None]]
) -> dict[str, dict[str, int]]:
    """One trial beside whoever has the records open too, and what is in the records after it."""
    with tempfile.TemporaryDirectory(prefix="failing-") as name:
        here = Path(name)
        shutil.copytree(template, here, dirs_exist_ok=True)
        url = f"sqlite:///{here / DATABASE}"
        with beside(url), trial_on(url, here) as trial:
            disk.disk_arm(*fault)
            trial.ask()
            if fault != NO_FAULT:
                disk.disk_arm(*NO_FAULT)
            trial.recover()
        look(url, trial)
    return {"wrong": dict(trial.wrong), "seen": dict(trial.seen)}


def look(url: str, trial: Trial) -> None:
    """Hold what was acknowledged against the records, and both halves against each other."""
    db = open_database(url)
    with db.read() as snapshot:
        both = halves.read(snapshot)
        trial.wrong["files unreadable"] += snapshot.one("PRAGMA integrity_check") != ("ok",)
    trial.wrong["acknowledged and lost"] += len(trial.promised - both.kept)
    trial.wrong["half applied"] += len(both.rows ^ both.events) + (not both.head_fits)
    trial.wrong["chains broken"] += not audit.verify(db)["ok"]
    db.close_all()


if __name__ == "__main__":
    main()
