# SPDX-License-Identifier: Apache-2.0
"""Row 6: does a change that is asked for again and again through a bad network happen once?

Each change is sent, under one key, until an answer arrives; some callers then ask once more, and once with another body
under the same key, which must be refused. Some copies come late, when the hold was let go and the news is old. At the
end the history must hold each change once.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

import requests

from tests.live.machines import Node, all_events, fresh_gpus, serial
from tests.live.server import Caller, LiveServer
from tests.scorecard.ground import live
from tests.scorecard.measured import Measured, Progress
from tests.scorecard.proxy import Proxy

THREADS = 12
TIMEOUT_SECONDS, STALL_SECONDS = 1.0, 1.3
TRIES_MAX = 60
AGAIN_SHARE, FORGED_SHARE, LATE_SHARE = 0.2, 0.2, 0.2
LATE_MAX = 40
"""How many changes a late copy may be behind: the service knows the last 64 reports of a node."""

BUSY = {"idempotency_in_progress", "store_unavailable"}
"""Asked again like no answer."""


@dataclass
class Told:
    """What was asked for, by what the history must hold once for it: a type of event, and what tells it from others."""

    changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    tries: int = 0
    cut_off: int = 0
    forged: int = 0
    late: int = 0
    refused: int = 0
    accepted: int = 0
    guard: threading.Lock = field(default_factory=threading.Lock)


class Retrier:
    """A caller that does not give up."""

    def __init__(self, url: str, caller: Caller, told: Told, random: Random) -> None:
        self._url, self._caller, self._told, self._random = url, caller, told, random
        self._sent: deque[tuple[str, dict[str, Any], str | None]] = deque(maxlen=LATE_MAX)

    def send(self, path: str, body: dict[str, Any], forged: dict[str, Any], key: str | None) -> dict[str, Any]:
        """Send it until it is answered, perhaps once more, and perhaps once with another body."""
        answer = self._until_taken(path, body, key)
        if self._random.random() < AGAIN_SHARE:
            self._until_taken(path, body, key)
        if self._sent and self._random.random() < LATE_SHARE:
            self._until_taken(*self._random.choice(self._sent))
            with self._told.guard:
                self._told.late += 1
        self._sent.append((path, body, key))
        if self._random.random() < FORGED_SHARE:
            refused = self._until_answered(path, forged, key)
            with self._told.guard:
                self._told.forged += 1
                self._told.accepted += refused.status_code != 422
        told: dict[str, Any] = answer.json()
        return told

    def _until_taken(self, path: str, body: dict[str, Any], key: str | None) -> requests.Response:
        answer = self._until_answered(path, body, key)
        with self._told.guard:
            self._told.refused += answer.status_code not in {200, 201}
        return answer

    def _until_answered(self, path: str, body: dict[str, Any], key: str | None) -> requests.Response:
        headers = {"Authorization": f"Bearer {self._caller.token}", **({"Idempotency-Key": key} if key else {})}
        for _ in range(TRIES_MAX):
            with self._told.guard:
                self._told.tries += 1
            try:
                answer = requests.post(self._url + path, json=body, headers=headers, timeout=TIMEOUT_SECONDS)
            except requests.RequestException:
                with self._told.guard:
                    self._told.cut_off += 1
                continue
            if answer.status_code < 400 or answer.json()["code"] not in BUSY:
                return answer
        raise AssertionError(f"no answer to {path} in {TRIES_MAX} tries")


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Make `n` changes through the proxy."""
    with live(engine) as server:
        return retry(server, n, seed, progress)


def retry(server: LiveServer, n: int, seed: int, progress: Progress) -> Measured:
    """The same on a server that is there."""
    told, random = Told(), Random(seed)
    with Proxy(int(server.url.rpartition(":")[2]), seed, STALL_SECONDS) as proxy:
        callers = [Actor(server, proxy.url, told, Random(random.random())) for _ in range(THREADS)]
        numbers = itertools.count()
        with ThreadPoolExecutor(THREADS) as pool:
            for one in [pool.submit(_work, caller, numbers, n, progress) for caller in callers]:
                one.result()
        wrong = judge(told, server)
        seen = {"requests": told.tries, "cut off": told.cut_off, "with another body": told.forged, "late": told.late}
        seen.update(proxy.fates)
    return Measured(n, wrong, seen)


def _work(actor: Actor, numbers: itertools.count[int], n: int, progress: Progress) -> None:
    while next(numbers) < n:
        actor.act()
        progress(1)


class Actor:
    """An operator and a node that make changes in turn."""

    def __init__(self, server: LiveServer, url: str, told: Told, random: Random) -> None:
        self.node = Node(server)
        devices = self.node.body()["devices"]
        devices[0]["asset_tag"] = "the first"  # learning one is no change
        self.node.report(devices=devices)
        operator = server.caller("operator")
        self._told, self._random = told, random
        self._operator = Retrier(url, operator, told, random)
        self._reporter = Retrier(url, self.node.caller, told, random)
        self._open: list[str] = []
        self._ids = (f"{self.node.name}-{at}" for at in itertools.count())

    def act(self) -> None:
        """Make one change."""
        acts: list[Callable[[], None]] = [self._hold, self._report, self._fail]
        if self._open:
            acts.append(self._release)
        self._random.choice(acts)()

    def _hold(self) -> None:
        (number,) = fresh_gpus(1)
        target = {"identifier": {"kind": "gpu", "type": "serial", "value": serial(number)}}
        body = {"targets": [target], "reason": "it smells"}
        told = self._operator.send("/v1/quarantines", body, {**body, "reason": "no"}, next(self._ids))
        hold = str(told["items"][0]["quarantine"]["id"])
        self._open.append(hold)
        self._note("quarantine.opened", serial(number))

    def _release(self) -> None:
        hold = self._open.pop()
        path = f"/v1/quarantines/{hold}/release"
        self._operator.send(path, {"reason": "tested"}, {"reason": "no"}, next(self._ids))
        self._note("quarantine.released", hold)

    def _report(self) -> None:
        """News of a device in each: a report that changed nothing leaves no entry to be counted."""
        body = self.node.body(report_id=next(self._ids))
        tag = f"tag-{body['report_id']}"
        body["devices"][0]["asset_tag"] = tag
        self._reporter.send(self.node.path, body, {**body, "zone": "elsewhere"}, None)
        self._note("device.changed", tag)

    def _fail(self) -> None:
        failure = {
            "failure_id": next(self._ids),
            "device": serial(self.node.gpus[0]),
            "code": "xid_94",
            "occurred_at": datetime.now(UTC).isoformat(),
        }
        self._reporter.send("/v1/failures", failure, {**failure, "code": "xid_79"}, next(self._ids))
        self._note("failure.recorded", str(failure["failure_id"]))

    def _note(self, type_: str, what: str) -> None:
        with self._told.guard:
            self._told.changes[type_, what] += 1


def judge(told: Told, server: LiveServer) -> dict[str, int]:
    """Hold what was asked for against the history."""
    auditor = server.caller("auditor")
    found: Counter[tuple[str, str]] = Counter()
    for event in all_events(auditor, fresh=True):
        found.update((event["type"], what) for what in _marks(event))
    counted = {one: found[one] for one in told.changes}
    return {
        "effects twice": sum(count > 1 for count in counted.values()),
        "effects missing": sum(count == 0 for count in counted.values()),
        "repetitions refused": told.refused,
        "other bodies accepted": told.accepted,
    }


def _marks(event: dict[str, Any]) -> list[str]:
    """What tells one change of a type from another."""
    type_ = event["type"]
    if type_ == "quarantine.opened":
        return _texts(event["data"]["target"])
    if type_ == "quarantine.released":
        return [one["id"] for one in event["subjects"] if one["kind"] == "quarantine"]
    if type_ == "failure.recorded":
        return [event["data"]["failure_id"]]
    return [value for value in _texts(event["data"]) if value.startswith("tag-")] if type_ == "device.changed" else []


def _texts(data: Any) -> list[str]:
    """All texts in a document; of a change only what is new."""
    if isinstance(data, dict):
        return [text for name, value in data.items() if name not in {"before", "old", "from"} for text in _texts(value)]
    if isinstance(data, list):
        return [text for value in data for text in _texts(value)]
    return [data] if isinstance(data, str) else []
