# SPDX-License-Identifier: Apache-2.0
"""With what is the loop tried where no server and no clock are wanted? Clocks that tests move, a server that obeys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from registry.agent.acting import Actor
from registry.agent.looking import Look
from registry.agent.loop import Agent
from registry.agent.memory import Memory
from registry.agent.messages import Sender, Span
from registry.agent.running import ToolRunner
from registry.agent.spool import Spool
from registry.agent.telling import Teller
from registry.client import Client, ProblemAnswer, ServerUnreachable
from registry.domain.reports import DeviceEntry, Kind, ReportedFailure
from tests.clock import NOON

NODE = "node-a"
GPU = DeviceEntry(Kind.GPU, "nvidia", slot="0000:53:00.0", serial="1654900010003", uuid="GPU-3")


@dataclass
class FakeTimes:
    """Clocks that move only while somebody waits, and by what a look or an answer takes."""

    seconds: float = 1000.0
    waits: list[float] = field(default_factory=list)
    rounds: int = 1_000_000
    """After so many waits the agent is told to stop."""

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds - 1000)

    def since_boot(self) -> int:
        return int(self.seconds * 1000)

    def wait(self, seconds: float) -> bool:
        if seconds:
            self.waits.append(seconds)
            self.seconds += seconds
        return len(self.waits) >= self.rounds


class ScriptedClient(Client):
    """A server that answers as it is told. `taken` holds what reached it, `said` what it says next, default yes."""

    def __init__(self, times: FakeTimes) -> None:
        super().__init__("http://server", "token")
        self.times = times
        self.takes = 0.0
        self.taken: list[dict[str, Any]] = []
        self.tried = 0
        self.is_away = False
        self.refusals: dict[str, ProblemAnswer] = {}
        """By code of a fault in the message, or "" for every message."""
        self.decision: dict[str, Any] = decision()
        self.more: dict[str, Any] = {}
        """What else the answer holds."""

    def report(
        self,
        node: str,
        message: Mapping[str, Any],
        parts: Mapping[str, bytes] | None = None,  # noqa: ARG002 - as the client has it
        *,
        fields: Mapping[str, str] | None = None,  # noqa: ARG002 - as the client has it
    ) -> dict[str, Any]:
        assert node == NODE
        self.tried += 1
        self.times.seconds += self.takes
        if self.is_away:
            raise ServerUnreachable("no answer from http://server: Connection refused")
        for code in ["", *(one["code"] for one in message.get("failures", ()))]:
            if code in self.refusals:
                raise self.refusals[code]
        self.taken.append(dict(message))
        return {"report_id": message["report_id"], "admission": self.decision, **self.more}


@dataclass
class Idle:
    """No slow checks, unless a test says what they found."""

    found: tuple[str, Look, Span] | None = None
    begun: list[str] = field(default_factory=list)
    free: list[bool] = field(default_factory=list)

    def start(self, run_id: str, *, is_free: bool) -> None:
        self.begun.append(run_id)
        self.free.append(is_free)

    def take(self) -> tuple[str, Look, Span] | None:
        found, self.found = self.found, None
        return found

    def end(self) -> None:
        self.begun.clear()


@dataclass
class Stage:
    """An agent and all that stands around it."""

    agent: Agent
    client: ScriptedClient
    times: FakeTimes
    spool: Spool
    idle: Idle
    said: list[str]
    notified: list[str]
    look: Look
    look_seconds: float = 0.0

    def seen(self) -> Look:
        """Look, which takes its time."""
        self.times.seconds += self.look_seconds
        return self.look

    def round(self, seconds: float = 31.0) -> None:
        """Do one round, and let the rest of the period pass."""
        self.agent.round()
        self.times.seconds += seconds

    @property
    def last(self) -> dict[str, Any]:
        """The message that the server got last."""
        return self.client.taken[-1]


def make_stage(folder: Path, *, file: Path | None = None, command: tuple[str, ...] = (), boot: str = "boot-1") -> Stage:
    """Put an agent on its stage."""
    times, said, notified = FakeTimes(), list[str](), list[str]()
    client = ScriptedClient(times)
    sender = Sender(NODE, "i-1", "p5.48xlarge", boot)
    spool = Spool(folder / "spool", say=said.append)
    idle = Idle()
    teller = Teller(sender, client, spool, times, said.append, lambda: None, 30.0, chance=middle)
    agent = Agent(
        sender=sender,
        teller=teller,
        memory=Memory(folder / "memory.json", boot),
        actor=Actor(file, command, ToolRunner({"PATH": "/usr/bin:/bin"}), said.append),
        look=look,
        beside=idle,
        times=times,
        say=said.append,
        notify=lambda *lines: notified.extend(lines),
        chance=middle,
        earlier_boots=teller.sort_out(),
    )
    stage = Stage(agent, client, times, spool, idle, said, notified, look())
    agent.look = stage.seen
    return stage


def middle(least: float, most: float) -> float:
    """Chance, without chance."""
    return (least + most) / 2


def look(**changes: Any) -> Look:
    """A look at one healthy GPU."""
    return Look(**{"lists": {"gpu": (GPU,)}, **changes})


def fault(number: int = 79, **changes: Any) -> ReportedFailure:
    """A fault that the kernel log tells."""
    given = {"failure_id": f"kernel-{number}", "code": f"xid_{number}", "slot": GPU.slot, "occurred_at": NOON}
    return ReportedFailure(**{**given, **changes})


def decision(*codes: str) -> dict[str, Any]:
    """A decision: yes, or no for these reasons."""
    reasons = [{"code": code, "message": code} for code in codes]
    disposition = "hold" if codes else "admit"
    return {"node": NODE, "admitted": not codes, "disposition": disposition, "reasons": reasons}


def problem(status: int, code: str, *, retry_after: float | None = None) -> ProblemAnswer:
    """A refusal."""
    error = ProblemAnswer(status, {"code": code, "detail": f"it is {code}"})
    error.retry_after = retry_after
    return error
