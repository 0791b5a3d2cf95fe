# SPDX-License-Identifier: Apache-2.0
"""Row 1: is anything lost that was acknowledged, when `kill -9` takes all server processes under four writers?"""

from __future__ import annotations

import time
from random import Random
from typing import Any

from tests.live.machines import Node, all_events, walk
from tests.live.server import Caller
from tests.live.test_crash import Promises, writing
from tests.scorecard.ground import live
from tests.scorecard.measured import Measured, Progress

LIVES_SECONDS = (0.0, 0.6)
"""How long a server lives under its writers once it has promised something: up to some dozens of commits."""

PATIENCE_SECONDS = 60.0


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Kill the server `n` times; each time it starts again on what is there."""
    random = Random(seed)
    promises = Promises()
    with live(engine) as server:
        operator, auditor = server.caller("operator", "alice"), server.caller("auditor", "vera")
        nodes = [Node(server) for _ in range(2)]
        for _ in range(n):
            with writing(promises, operator, nodes):
                wait_for_a_promise(promises)
                time.sleep(random.uniform(*LIVES_SECONDS))
                server.kill()
            server.start()
            progress(1)
        wrong = lost(promises, operator, auditor)
    return Measured(n, wrong, kept(promises))


def wait_for_a_promise(promises: Promises) -> None:
    """Wait until something more is acknowledged: where nothing was, nothing can be lost. Raises AssertionError."""
    before, deadline = len(promises.holds), time.monotonic() + PATIENCE_SECONDS
    while len(promises.holds) == before:
        if time.monotonic() > deadline:
            raise AssertionError("nothing is acknowledged any more")
        time.sleep(0.01)


def kept(promises: Promises) -> dict[str, int]:
    """Count what was acknowledged, and the calls that a death cut off."""
    return {
        "quarantines acknowledged": len(promises.holds),
        "releases acknowledged": len(promises.released),
        "failures acknowledged": len(promises.failures),
        "calls cut off": promises.lost,
    }


def lost(promises: Promises, operator: Caller, auditor: Caller) -> dict[str, int]:
    """Hold what was acknowledged against the records and the history."""
    states = {one["id"]: one["state"] for one in walk(operator, "/v1/quarantines", limit=1000, fresh=True)}
    events = all_events(auditor, fresh=True)
    opened, released = (_named(events, type_) for type_ in ("quarantine.opened", "quarantine.released"))
    recorded = {one["data"]["failure_id"] for one in events if one["type"] == "failure.recorded"}
    proof = auditor.get("/v1/audit/verify", fresh=True)
    return {
        "quarantines lost": len(promises.holds - (states.keys() & opened)),
        "releases lost": sum(states.get(one) != "released" or one not in released for one in promises.released),
        "failures lost": len(promises.failures - recorded),
        "quarantines without event": len(states.keys() - opened),
        "events without quarantine": len(opened - states.keys()),
        "chains broken": int(not proof["ok"] or proof["entries"] != len(events)),
    }


def _named(events: list[dict[str, Any]], type_: str) -> set[str]:
    """The holds that events of a type speak of."""
    subjects = [subject for event in events if event["type"] == type_ for subject in event["subjects"]]
    return {subject["id"] for subject in subjects if subject["kind"] == "quarantine"}
