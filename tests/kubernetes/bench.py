# SPDX-License-Identifier: Apache-2.0
"""How is the controller tried turn by turn? Against the emulated cluster, with answers and a clock that a test sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from registry.client import ClientError, ServerUnreachable
from registry.controller.api_server import ApiServer
from registry.controller.applying import Applier
from registry.controller.asking import Asker
from registry.controller.bell import Bell
from registry.controller.lease import Lease
from registry.controller.loop import Controller
from registry.controller.meters import Meters
from registry.controller.nodes import Nodes
from registry.controller.watching import Watcher
from registry.domain.node_naming import Naming
from registry.domain.times import rfc3339
from tests.clock import NOON, Clock
from tests.kubernetes.emulator import Emulator
from tests.kubernetes.nodes import BORN, Cluster

INTERVAL = 10.0


def decision(node: str, disposition: str = "hold", *codes: str, **more: Any) -> dict[str, Any]:
    """A decision as Pratique gives it."""
    reasons = [{"code": code, "message": f"{code} of {node}", **more} for code in codes]
    return {
        "node": node,
        "admitted": disposition == "admit",
        "disposition": disposition,
        "reasons": reasons,
        "passes": {"have": 0, "need": 2},
        "policy": "sha256:0",
        "sequence": 1,
        "decided_at": rfc3339(NOON),
    }


class ScriptedPratique:
    """Stands where the client stands; nodes of which nothing is set are admitted. `fails` is raised in place of it."""

    url = "http://pratique"

    def __init__(self) -> None:
        self.token = "good"
        self.decisions: dict[str, Any] = {}
        self.fails: ClientError | None = None
        self.fails_after = 0
        self.asked: list[list[str]] = []

    def post(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a question."""
        assert path == ("admissions",)
        names = [one["node"] for one in body["candidates"]]
        if self.fails is not None and len(self.asked) >= self.fails_after:
            raise self.fails
        self.asked.append(names)
        return {"items": [self.decisions.get(name) or decision(name, "admit") for name in names]}

    def all_asked(self) -> list[str]:
        """Every node that was asked about since the last time."""
        asked, self.asked = self.asked, []
        return [name for names in asked for name in names]


@dataclass
class Bench:
    """A controller whose turns a test takes."""

    api: Emulator
    naming: Naming = field(default_factory=Naming)
    evicts: bool = False
    clock: Clock = field(default_factory=Clock)
    pratique: ScriptedPratique = field(default_factory=ScriptedPratique)
    said: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster = Cluster(self.api)
        server = ApiServer(self.api.url)
        meters, bell = Meters(), Bell()
        self.nodes = Nodes()
        lease = Lease(server, "pratique", "lease", f"bench-{id(self)}", self.say, self.seconds, self.clock)
        applier = Applier(
            *(server, self.nodes, self.naming, self.say, meters, self.clock, self.seconds, lease.is_held, self.evicts),
            sleep=lambda _: None,
        )
        self.controller = Controller(
            self.nodes,
            Asker(self.pratique),  # type: ignore[arg-type]  # stands where the client stands
            applier,
            lease,
            bell,
            self.say,
            meters,
            self.seconds,
            self.clock,
            interval=INTERVAL,
        )
        self.watcher = Watcher(server, self.nodes, self.naming, self.say, meters, bell.is_stopping, lambda _: None)

    def say(self, message: str, *, level: str = "info", **fields: Any) -> None:  # noqa: ARG002 - as the log has it
        """Keep a line of the log."""
        self.said.append((message, fields))

    def seconds(self) -> float:
        """A clock that only goes up."""
        return (self.clock.now - NOON).total_seconds()

    def turn(self, seconds: float = 0.0) -> None:
        """Let time go by, read the nodes, and do one round as the one that acts."""
        self.clock.advance(seconds)
        self.controller.lease.step()
        self.watcher.list()
        self.round()

    def round(self) -> None:
        """Do one round."""
        applier = self.controller.applier
        self.controller.round(lambda work: [applier.settle(*one) for one in work])

    def admit(self, count: int) -> list[str]:
        """Have so many nodes that are open and admitted."""
        names = [f"node-{number:03d}" for number in range(count)]
        for name in names:
            self.cluster.register(name, BORN)
        self.turn()
        assert all(self.cluster.effects(name) == [] for name in names)
        return names

    def silence(self, *names: str) -> None:
        """From now on nobody hears of these."""
        for name in names:
            self.pratique.decisions[name] = decision(name, "hold", "report_stale")

    def hear(self, *names: str) -> None:
        """They are heard of again, and admitted."""
        for name in names:
            del self.pratique.decisions[name]

    def closed(self) -> list[str]:
        """The nodes that bear our taint."""
        listed = self.api.objects.all("nodes")
        return [name for one in listed if self.cluster.effects(name := one["metadata"]["name"])]

    def later(self) -> Bench:
        """Another controller on the same cluster, which begins when this one has ended."""
        self.controller.lease.release()
        return Bench(self.api, self.naming, self.evicts, self.clock, self.pratique)


def unreachable() -> ClientError:
    """What a client says when nobody answers."""
    return ServerUnreachable("no answer from http://pratique: Connection refused")


def minutes(count: float) -> float:
    """So many minutes, in seconds."""
    return timedelta(minutes=count).total_seconds()
