# SPDX-License-Identifier: Apache-2.0
"""Row 11: what is decided while node, server and PostgreSQL cannot reach one another, and how soon is it right again?

The server is parted from its PostgreSQL by a cut or by silence, for up to three seconds, right after a hold of a node
that was admitted was acknowledged. Meanwhile callers ask for that node, and hold others. Longer absences up to an hour
are told by an injected clock: of the service, which must make no node stale, and of a node, which must.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import requests

from registry.services import life
from registry.store.database import open_database
from registry.store.migrations import migrate
from tests.clock import Clock
from tests.fleet import Fleet
from tests.live.machines import Node, fresh_gpus, held, quarantine, release, serial
from tests.live.server import Caller
from tests.postgres import Server
from tests.scorecard.ground import folder, postgresql, serving
from tests.scorecard.measured import Measured, Progress
from tests.scorecard.partition import Partition

PARTED_SECONDS = (0.2, 3.0)
AWAY_SECONDS = (31, 3600)
RIGHT_AGAIN_SECONDS, PATIENCE_SECONDS = 5.0, 60.0
ASKERS = 4
WRONG = (
    *("wrong decisions", "acknowledged and lost", "right again later than 5 s"),
    "nodes made stale by the service's own outage",
)


@dataclass(frozen=True, slots=True)
class Parted:
    """Who is on this side of the network: a node that is held each time, one that is not, and an operator."""

    network: Partition
    operator: Caller
    bad: Node
    good: Node


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Part them `n` times."""
    random, wrong, seen = Random(seed), Counter(dict.fromkeys(WRONG, 0)), Counter[str]()
    with postgresql() as cluster, folder() as here:
        name = "scorecard"
        migrate(cluster.create_database(name))
        url = f"postgresql://postgres@/{name}?host={here}"
        with Partition(here, cluster.folder) as network, serving(url) as server:
            parted = Parted(network, server.caller("operator"), Node(server), Node(server))
            parted.good.admit()
            for _ in range(n):
                _part(parted, random, wrong, seen)
                parted.good.report()  # as nodes do: silence would make it stale some time
                progress(1)
        _be_away(cluster, n, random, wrong, seen)
    return Measured(n, wrong, seen)


def _part(parted: Parted, random: Random, wrong: Counter[str], seen: Counter[str]) -> None:
    """One partition, with callers who ask all the while, and then until they are told what is right."""
    is_cut = random.random() < 0.5
    seconds = random.uniform(*PARTED_SECONDS)
    operator, bad = parted.operator, parted.bad
    bad.admit()
    wrong["wrong decisions"] += _word(operator, bad) != "admitted"
    with ThreadPoolExecutor(ASKERS + 1) as pool:
        (item,) = quarantine(operator, held(bad))
        (parted.network.cut if is_cut else parted.network.stall)()
        until = time.monotonic() + seconds
        asking = [pool.submit(_ask, operator, bad, until) for _ in range(ASKERS)]
        holding = pool.submit(_hold_others, operator, until)
        time.sleep(seconds)
        parted.network.heal()
        took = _seconds_until_right(operator, bad, parted.good)
        for one in asking:
            answers = one.result()
            wrong["wrong decisions"] += answers.pop("admitted", 0)
            seen.update(answers)
        acknowledged = holding.result()
    lost = [one for one in acknowledged if operator.get(f"/v1/quarantines/{one}")["state"] != "open"]
    release(operator, item["quarantine"]["id"])
    wrong["acknowledged and lost"] += len(lost)
    wrong["right again later than 5 s"] += took > RIGHT_AGAIN_SECONDS
    seen["cuts" if is_cut else "silences"] += 1
    seen["holds acknowledged in partitions"] += len(acknowledged)
    seen["milliseconds to be right again, in all"] += int(took * 1000)


def _hold_others(operator: Caller, until: float) -> list[str]:
    """Hold serials that nobody has seen, until a moment; return what was acknowledged."""
    acknowledged = []
    while time.monotonic() < until:
        target = {"identifier": {"kind": "gpu", "type": "serial", "value": serial(*fresh_gpus(1))}}
        body = {"targets": [target], "reason": "it smells"}
        with suppress(requests.RequestException):
            answer = operator.post("/v1/quarantines", body, fresh=True)
            if answer.status_code == 201:
                acknowledged += [one["quarantine"]["id"] for one in answer.json()["items"]]
    return acknowledged


def _ask(operator: Caller, node: Node, until: float) -> Counter[str]:
    """Ask for a held node until a moment; `admitted` must not come."""
    told: Counter[str] = Counter()
    while time.monotonic() < until:
        told[_word(operator, node)] += 1
    return told


def _word(operator: Caller, node: Node) -> str:
    try:
        answer = operator.ask("GET", f"/v1/nodes/{node.name}/admission", fresh=True)
    except requests.RequestException:
        return "no answer"
    if answer.status_code != 200:
        return f"{answer.status_code} answers"
    return "admitted" if answer.json()["admitted"] else "refused"


def _seconds_until_right(operator: Caller, bad: Node, good: Node) -> float:
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE_SECONDS:
        if _word(operator, good) == "admitted" and _word(operator, bad) == "refused":
            break
        time.sleep(0.05)
    return time.monotonic() - begun


def _be_away(cluster: Server, n: int, random: Random, wrong: Counter[str], seen: Counter[str]) -> None:
    """For up to an hour the service is away, and then a node is."""
    url = cluster.create_database("away")
    migrate(url)
    db = open_database(url)
    fleet = Fleet(db, Clock())
    fleet.admit()
    life.beat(db, fleet.clock.now, fleet.policy)
    for _ in range(n):
        fleet.report()
        fleet.clock.advance(random.uniform(*AWAY_SECONDS))
        life.beat(db, fleet.clock.now, fleet.policy)
        wrong["nodes made stale by the service's own outage"] += "report_stale" in fleet.codes()
        for _ in range(fleet.policy.report_stale_seconds // fleet.policy.life_sign_seconds + 1):
            fleet.clock.advance(fleet.policy.life_sign_seconds)
            life.beat(db, fleet.clock.now, fleet.policy)
        wrong["wrong decisions"] += "report_stale" not in fleet.codes()
        fleet.report()
        wrong["wrong decisions"] += "report_stale" in fleet.codes()
        seen["outages told by the clock"] += 1
    db.close_all()
