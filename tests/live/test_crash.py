# SPDX-License-Identifier: Apache-2.0
"""Workers, then the whole server, die by `kill -9` in the middle of writes: is everything acknowledged still there?"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import requests

from tests.live.machines import Node, all_events, codes, fresh_gpus, serial, walk
from tests.live.server import Caller, LiveServer

WORKERS_KILLED = 2
SERVERS_KILLED = 2
PAUSE_SECONDS = 0.6
"""How long writers write between two deaths."""

PATIENCE_SECONDS = 30.0


@dataclass
class Promises:
    """What the server acknowledged, as the writers were told it. `lost` counts calls that got no answer."""

    holds: set[str] = field(default_factory=set)
    released: set[str] = field(default_factory=set)
    failures: set[str] = field(default_factory=set)
    lost: int = 0
    prefixes: tuple[str, ...] = ("",)
    """How the ids of our failures begin: other tests, on the same server, tell of theirs."""
    guard: threading.Lock = field(default_factory=threading.Lock)


def test_what_was_acknowledged_survives_the_death_of_workers_and_of_the_server(
    server: LiveServer, operator: Caller, auditor: Caller
) -> None:
    nodes = [Node(server) for _ in range(2)]
    promises = Promises(prefixes=tuple(f"{one.name}-" for one in nodes))

    with writing(promises, operator, nodes):
        for _ in range(WORKERS_KILLED):
            time.sleep(PAUSE_SECONDS)
            os.kill(server.workers()[0], signal.SIGKILL)
    server.all_workers()  # the dead have successors
    kept_after_workers = check(promises, operator, auditor)
    for _ in range(SERVERS_KILLED):
        with writing(promises, operator, nodes):
            time.sleep(PAUSE_SECONDS)
            server.kill()
        server.start()
        check(promises, operator, auditor)

    assert kept_after_workers > 0
    assert promises.lost > 0  # somebody was cut off: the deaths came in the middle of it
    for node in nodes:
        assert "device_quarantined" in codes(node.report()["admission"])


@contextmanager
def writing(promises: Promises, operator: Caller, nodes: list[Node]) -> Iterator[None]:
    """Let operators hold and release, and nodes report and fail, until the block is left."""
    over = threading.Event()
    works = [lambda: hold_and_release(operator, promises)] * 2 + [
        lambda node=node: report_and_fail(node, promises) for node in nodes
    ]
    with ThreadPoolExecutor(len(works)) as pool:
        writers = [pool.submit(repeat, work, over, promises) for work in works]
        try:
            yield
        finally:
            over.set()
        for writer in writers:
            writer.result()


def repeat(work: Callable[[], None], over: threading.Event, promises: Promises) -> None:
    while not over.is_set():
        try:
            work()
        except requests.RequestException:
            with promises.guard:
                promises.lost += 1
            time.sleep(0.02)


def hold_and_release(operator: Caller, promises: Promises) -> None:
    """Hold three serials nobody has seen, and release the first of them."""
    targets = [{"identifier": {"kind": "gpu", "type": "serial", "value": serial(one)}} for one in fresh_gpus(3)]
    items = acknowledged(operator.post("/v1/quarantines", {"targets": targets, "reason": "it smells"}, fresh=True))
    with promises.guard:
        promises.holds |= {item["quarantine"]["id"] for item in items["items"]}
    hold = items["items"][0]["quarantine"]["id"]
    acknowledged(operator.post(f"/v1/quarantines/{hold}/release", {"reason": "tested"}, fresh=True))
    with promises.guard:
        promises.released.add(hold)


def report_and_fail(node: Node, promises: Promises) -> None:
    """Report, as a node does, and tell of a fault that opens a hold."""
    acknowledged(node.caller.post(node.path, node.body(), fresh=True))
    failure = {
        "failure_id": f"{node.name}-{time.monotonic_ns()}",
        "device": serial(node.gpus[0]),
        "code": "xid_79",
        "occurred_at": datetime.now(UTC).isoformat(),
    }
    acknowledged(node.caller.post("/v1/failures", failure, fresh=True))
    with promises.guard:
        promises.failures.add(failure["failure_id"])


def acknowledged(answer: requests.Response) -> dict[str, Any]:
    """Whatever is answered while processes die is an answer that was meant; a worker's death is no answer at all."""
    assert answer.status_code in {200, 201}, answer.text
    told: dict[str, Any] = answer.json()
    return told


def check(promises: Promises, operator: Caller, auditor: Caller) -> int:
    """Compare what was acknowledged with the records and with the history; return how much that was."""
    states = {one["id"]: one["state"] for one in walk(operator, "/v1/quarantines", limit=500, fresh=True)}
    events = all_events(auditor, fresh=True)
    opened, released = (
        {subject["id"] for event in events if event["type"] == type_ for subject in event["subjects"]}
        for type_ in ("quarantine.opened", "quarantine.released")
    )
    kept = {one["failure_id"]: one["count"] for one in walk(operator, "/v1/failures", limit=500, fresh=True)}
    told = {one["data"]["failure_id"] for one in events if one["type"] == "failure.recorded"}
    failures = {id_: count for id_, count in kept.items() if id_.startswith(promises.prefixes)}
    recorded = {id_ for id_ in told if id_.startswith(promises.prefixes)}

    assert promises.holds <= states.keys()
    assert promises.holds <= opened
    assert {states[one] for one in promises.released} == {"released"}
    assert promises.released <= released
    # What a boot shows again is one failure, which counts it.
    assert promises.failures <= recorded
    assert failures.keys() <= recorded
    assert sum(failures.values()) == len(recorded)
    assert states.keys() <= opened
    proof = auditor.get("/v1/audit/verify", fresh=True)
    assert proof["ok"], proof
    assert proof["entries"] == len(events)
    return len(promises.holds) + len(promises.failures)
