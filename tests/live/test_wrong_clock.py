# SPDX-License-Identifier: Apache-2.0
"""What does an agent do to the records whose machine has the wrong time? The real one is run, on a clock that jumps."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from registry.domain.times import parse_rfc3339
from registry.services.recording import SAME_LINE
from tests.agent.machine import FakeMachine
from tests.live.agents import RunningAgent, agent_on, holds_on, on_sqlite
from tests.live.machines import walk
from tests.live.server import Caller, LiveServer

HOURS = timedelta(hours=7)
RIGHT = timedelta(0)
SLACK = timedelta(seconds=3)
"""The kernel tells the time of its boot in whole seconds, and a round on a busy machine takes as long."""

FROM_FUTURE = "this look does not count as a pass: from_future"


class ClockedMachine(FakeMachine):
    """A machine whose clock the test sets: the agent and the kernel go by it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.module = "tests.live.wrong_clock"
        self.clock = folder / "clock"
        self.ahead(RIGHT)

    def ahead(self, by: timedelta) -> None:
        """Set the clock, in one blow: whoever reads it sees it before or after."""
        beside = self.clock.with_suffix(".new")
        beside.write_text(str(by.total_seconds()))
        beside.rename(self.clock)
        self.set_clock(by)

    def environment(self, **settings: str) -> dict[str, str]:
        """What the agent finds around it."""
        return super().environment(WRONG_CLOCK=str(self.clock), **settings)


@pytest.fixture
def machine(tmp_path: Path) -> ClockedMachine:
    """A machine of its own."""
    return ClockedMachine(tmp_path)


@pytest.fixture
def running(server: LiveServer, machine: ClockedMachine) -> Iterator[RunningAgent]:
    """An agent on it, which has yet to be started."""
    with agent_on(server, machine, f"clock-{machine.number}", is_started=False) as made:
        yield made


def faults(operator: Caller, node: str) -> list[dict[str, Any]]:
    return sorted(walk(operator, "/v1/failures", node=node), key=lambda one: one["id"])


def counts(operator: Caller, node: str) -> dict[str, int]:
    return {one["code"]: one["count"] for one in faults(operator, node)}


def forget_and_start(running: RunningAgent) -> None:
    """Kill the agent and let it lose what it knew, so that it reads the log from its beginning."""
    running.end(signal.SIGKILL)
    (running.machine.state / "memory.json").unlink(missing_ok=True)
    running.machine.decision.unlink()
    running.start()
    running.until(lambda: running.decision().get("decision"))


@on_sqlite
def test_hours_behind_passes_count_and_what_fails_now_is_news(
    machine: ClockedMachine, running: RunningAgent, operator: Caller
) -> None:
    machine.ahead(-HOURS)
    running.start()
    running.until(running.admitted)
    began = datetime.now(UTC)
    machine.log_xid(1, 79)
    running.until(lambda: holds_on(operator, machine))

    (fault,) = faults(operator, running.node.name)
    (hold,) = holds_on(operator, machine)
    assert began - SLACK <= parse_rfc3339(fault["last_at"]) <= parse_rfc3339(fault["recorded_at"])
    assert began - SLACK <= parse_rfc3339(hold["opened_at"]) <= datetime.now(UTC)

    # Of what was released nothing comes back, and what is seen after it does.
    said_at = time.monotonic()
    assert operator.post(f"/v1/quarantines/{hold['id']}/release", {"reason": "reseated"}).status_code == 200
    running.until(running.admitted)
    forget_and_start(running)
    running.until(running.admitted)
    assert holds_on(operator, machine) == []
    running.until(lambda: time.monotonic() > said_at + SAME_LINE.total_seconds() + 0.5)
    machine.log_xid(1, 79)
    running.until(lambda: holds_on(operator, machine))
    assert counts(operator, running.node.name) == {"xid_79": 2}


@on_sqlite
def test_hours_ahead_no_pass_counts_and_the_reason_is_told_and_what_fails_is_held(
    machine: ClockedMachine, running: RunningAgent, operator: Caller
) -> None:
    machine.ahead(HOURS)
    running.start()
    running.until(lambda: FROM_FUTURE in running.log.read_text())
    running.until(lambda: running.decision().get("codes") == ["passes_insufficient"])
    assert running.decision()["decision"]["passes"]["have"] == 0

    machine.log_xid(1, 79)
    running.until(lambda: holds_on(operator, machine))
    (fault,) = faults(operator, running.node.name)
    assert parse_rfc3339(fault["last_at"]) <= parse_rfc3339(fault["recorded_at"]) <= datetime.now(UTC)

    # Set right, it is a node as any other, and nothing that it told before is told anew.
    (hold,) = holds_on(operator, machine)
    assert operator.post(f"/v1/quarantines/{hold['id']}/release", {"reason": "reseated"}).status_code == 200
    machine.ahead(RIGHT)
    running.until(running.admitted)
    forget_and_start(running)
    running.until(running.admitted)
    assert (holds_on(operator, machine), counts(operator, running.node.name)) == ([], {"xid_79": 1})


@on_sqlite
def test_a_clock_that_jumps_while_it_runs_neither_loses_nor_doubles_anything(
    machine: ClockedMachine, running: RunningAgent, operator: Caller
) -> None:
    running.start()
    running.until(running.admitted)
    for seen, by in enumerate((RIGHT, HOURS, -HOURS, RIGHT), start=1):
        machine.ahead(by)
        time.sleep(SAME_LINE.total_seconds() + 0.2)  # further apart than two readings of one line may be
        machine.log_xid(seen - 1, 94, "Contained ECC error")
        machine.log_xid(0, 31, "MMU Fault")
        running.until(lambda times=seen: counts(operator, running.node.name).get("xid_31") == times)  # type: ignore[misc]

    for by in (HOURS, -HOURS, RIGHT):
        machine.ahead(by)
        forget_and_start(running)
    running.until(running.admitted)

    told = {(one["code"], one["serial"]): one["count"] for one in faults(operator, running.node.name)}
    assert told == {("xid_31", machine.gpus[0].serial): 4} | {("xid_94", gpu.serial): 1 for gpu in machine.gpus}
    for one in faults(operator, running.node.name):
        assert parse_rfc3339(one["last_at"]) <= datetime.now(UTC)
    assert holds_on(operator, machine) == []


@on_sqlite
@pytest.mark.parametrize("wrong", [HOURS, -HOURS], ids=["ahead", "behind"])
def test_what_waited_under_a_wrong_clock_is_of_the_boot_that_saw_it(
    server: LiveServer, machine: ClockedMachine, running: RunningAgent, operator: Caller, wrong: timedelta
) -> None:
    """A fault that a restart cures, told by nobody before the restart: it is on record, and holds nothing."""
    running.start()
    running.until(running.admitted)
    server.kill()
    machine.ahead(wrong)
    machine.log_xid(0, 48, "DBE (double bit error)")
    running.until(lambda: running.spooled() >= 2)
    running.end(signal.SIGKILL)

    machine.boot()
    machine.ahead(RIGHT)
    server.start(running.url.removeprefix("http://"))
    running.start()
    running.until(lambda: running.spooled() == 0)
    running.until(running.admitted)

    shown = operator.get(f"/v1/nodes/{running.node.name}")
    (fault,) = faults(operator, running.node.name)
    assert (shown["boot_id"], fault["code"], fault["count"]) == (machine.boot_id, "xid_48", 1)
    assert parse_rfc3339(fault["last_at"]) <= parse_rfc3339(fault["recorded_at"])
    assert holds_on(operator, machine) == []
