# SPDX-License-Identifier: Apache-2.0
"""How do the live tests run a node's agent? As a process of its own, on a machine that the test makes and breaks."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.agent.machine import FakeMachine
from tests.live.machines import walk
from tests.live.server import Caller, LiveServer

PERIOD_SECONDS = 0.4
PATIENCE_SECONDS = 30.0

on_sqlite = pytest.mark.parametrize("server", ["sqlite"], indirect=True)
"""For what both engines do alike, and what takes long."""


class RunningAgent:
    """A node's agent as a process of its own."""

    def __init__(self, machine: FakeMachine, node: Caller, url: str, *more: str) -> None:
        self.machine = machine
        self.node = node
        self.url = url
        self.more = more
        self.log = machine.root.parent / "agent.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **settings: str) -> None:
        """Start it."""
        given = {"PRATIQUE_URL": self.url, "PRATIQUE_TOKEN": self.node.token, **settings}
        period = ("--period", str(PERIOD_SECONDS))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.machine.command(self.node.name, *period, *self.more),
                env=self.machine.environment(**given),
                stderr=log,
                stdout=log,
                stdin=subprocess.DEVNULL,
            )

    def end(self, number: signal.Signals) -> int:
        """Send it a signal and give its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_SECONDS)
        self.process = None
        return code

    def decision(self) -> dict[str, Any]:
        """What the agent last wrote for others to read; empty before that."""
        try:
            told: dict[str, Any] = json.loads(self.machine.decision.read_text())
        except FileNotFoundError:
            return {}
        return told

    def until(self, what: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, f"{self.decision()}\n{self.log.read_text()}"
            assert self.process is None or self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)

    def admitted(self) -> bool:
        """Was the last decision a yes?"""
        return bool(self.decision().get("admitted"))

    def spooled(self) -> int:
        """How many messages wait."""
        return len([file for file in (self.machine.state / "spool").glob("*") if file.suffix in {".fault", ".calm"}])


@contextmanager
def agent_on(
    server: LiveServer, machine: FakeMachine, name: str, *more: str, is_started: bool = True
) -> Iterator[RunningAgent]:
    """Run an agent under a node's name while the block lasts."""
    agent = RunningAgent(machine, server.caller("node", name), server.url, *more)
    if is_started:
        agent.start()
    try:
        yield agent
    finally:
        if agent.process is not None:
            agent.end(signal.SIGKILL)


def holds_on(operator: Caller, machine: FakeMachine) -> list[dict[str, Any]]:
    """What is held of a machine's GPUs now."""
    serials = {gpu.serial for gpu in machine.gpus}
    held = walk(operator, "/v1/quarantines", state="open")
    return [one for one in held if serials & {named["value"] for named in one["identifiers"]}]
