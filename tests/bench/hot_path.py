# SPDX-License-Identifier: Apache-2.0
"""What do an admission and an unchanged report cost beside what any request must do, and where does the time go?

    python -m tests.bench.hot_path [--nodes N] [--rounds N] [--profile]

Each figure is the median of interleaved rounds in this process, without HTTP: the ratios hold where the digits do not.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from registry.domain.actors import Actor, ActorKind
from registry.domain.reports import DeviceEntry
from registry.domain.roles import Role
from registry.services.tokens import authenticate, create_token
from registry.store.database import Database, open_database
from registry.store.migrations import migrate
from tests.clock import Clock
from tests.fleet import CLEAN_GPU, Fleet, efa, gpu, passing
from tests.postgres import Server

PEPPER = b"p" * 32
PROFILE = "p5.48xlarge"
CHECKS = passing(
    *CLEAN_GPU, "efa.link", "gpu.nvlink", "gpu.thermal", "gpu.responding", "gpu.recovery_action", "dcgm.health"
)


def devices_of(node: int) -> tuple[DeviceEntry, ...]:
    """Eight GPUs and 32 EFAs."""
    gpus = (gpu(node * 8 + slot, at=slot, readings={"temperature_celsius": 40}) for slot in range(8))
    return (*gpus, *(efa(node * 32 + slot, at=slot) for slot in range(32)))


def send(fleet: Fleet, node: int) -> None:
    """Send the same report of a node again."""
    fleet.report(f"node-{node}", devices_of(node), profile=PROFILE, checks=CHECKS)


def build(db: Database, nodes: int) -> Fleet:
    """Bring up nodes, each admitted after two clean passes."""
    fleet = Fleet(db, Clock())
    for _ in range(3):
        for node in range(nodes):
            send(fleet, node)
        fleet.clock.advance(fleet.policy.pass_gap_seconds)
    assert fleet.decide("node-0").admitted
    return fleet


def works_on(fleet: Fleet, nodes: int) -> dict[str, Callable[[int], object]]:
    """What is timed, by name; each takes the number of the call."""
    system = Actor(ActorKind.SYSTEM, "bench")
    now = fleet.clock.now
    _, secret = create_token(fleet.db, role=Role.OPERATOR, name="bench", pepper=PEPPER, actor=system, now=now)
    body = json.dumps({"devices": [_json(one) for one in devices_of(0)], "checks": [one.name for one in CHECKS]})
    return {
        "authenticate": lambda _: authenticate(fleet.db, secret, PEPPER),
        "parse the body": lambda _: json.loads(body),
        "admission": lambda at: fleet.decide(f"node-{at % nodes}"),
        "unchanged report": lambda at: send(fleet, at % nodes),
    }


def _json(entry: DeviceEntry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in ("kind", "vendor", "slot", "serial", "uuid", "model", "mac", "name")}


def measure(works: dict[str, Callable[[int], object]], rounds: int, calls: int = 40) -> dict[str, float]:
    """Give the median microseconds of one call of each, taking turns."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds):
        for name, work in works.items():
            begun = time.perf_counter()
            for at in range(calls):
                work(turn * calls + at)
            taken[name].append((time.perf_counter() - begun) / calls * 1e6)
    return {name: statistics.median(times) for name, times in taken.items()}


def show(engine: str, found: dict[str, float]) -> None:
    """Print the figures of one engine."""
    base = found["authenticate"]
    for name, micros in found.items():
        print(f"{engine:<11} {name:<17} {micros:9.0f} us  {micros / base:6.1f} x authenticate")


def profile(name: str, work: Callable[[int], object]) -> None:
    """Print where the time of 200 calls goes."""
    profiler = cProfile.Profile()
    profiler.enable()
    for at in range(200):
        work(at)
    profiler.disable()
    print(f"--- {name}")
    pstats.Stats(profiler).sort_stats("tottime").print_stats(18)


def main() -> None:
    """Measure on SQLite and on PostgreSQL."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--profile", action="store_true")
    asked = parser.parse_args()
    server = Server()
    with tempfile.TemporaryDirectory() as folder:
        urls = {"sqlite": f"sqlite:///{Path(folder) / 'bench.db'}", "postgresql": server.create_database("bench")}
        for engine, url in urls.items():
            migrate(url)
            db = open_database(url)
            fleet = build(db, asked.nodes)
            works = works_on(fleet, asked.nodes)
            show(engine, measure(works, asked.rounds))
            if asked.profile:
                profile(f"{engine}: admission", works["admission"])
                profile(f"{engine}: unchanged report", works["unchanged report"])
            db.close_all()
    server.stop()


if __name__ == "__main__":
    main()
