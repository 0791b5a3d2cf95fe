# SPDX-License-Identifier: Apache-2.0
"""Does a node's agent keep the records right, through hangs, deaths and a server that is away? The real one is run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.services.recording import SAME_LINE
from tests.agent.machine import GPU_COUNT, FakeMachine
from tests.live.agents import PATIENCE_SECONDS, RunningAgent, agent_on, holds_on, on_sqlite
from tests.live.machines import walk
from tests.live.server import Caller, LiveServer

HANG_SECONDS = 2.0


@pytest.fixture
def running(server: LiveServer, tmp_path: Path) -> Iterator[RunningAgent]:
    """An agent that is started on a machine of its own."""
    machine = FakeMachine(tmp_path)
    with agent_on(server, machine, f"agent-{machine.number}") as started:
        yield started


def test_a_healthy_node_is_refused_then_admitted_after_two_passes(
    running: RunningAgent, operator: Caller, auditor: Caller
) -> None:
    running.until(running.admitted)

    node = operator.get(f"/v1/nodes/{running.node.name}")
    events = walk(auditor, f"/v1/nodes/{running.node.name}/history")
    have = [event["data"]["have"] for event in events if event["type"] == "pass.counted"]
    assert (node["boot_id"], node["provider_id"]) == (running.machine.boot_id, running.machine.provider_id)
    assert {device["serial"] for device in node["devices"]} == {gpu.serial for gpu in running.machine.gpus}
    assert have == [1, 2]
    assert "passes_insufficient" in running.log.read_text()


def test_an_xid_79_in_the_log_quarantines_within_one_period(running: RunningAgent, operator: Caller) -> None:
    running.until(running.admitted)

    running.machine.log_xid(2, 79)
    running.until(lambda: running.decision()["exit_code"] == 10)

    held = [reason for reason in running.decision()["decision"]["reasons"] if reason["code"] == "device_quarantined"]
    failures = walk(operator, "/v1/failures", node=running.node.name)
    assert [reason["device"]["serial"] for reason in held] == [running.machine.gpus[2].serial]
    assert [(one["code"], one["count"]) for one in failures] == [("xid_79", 1)], (failures, running.log.read_text())


@on_sqlite
def test_a_hanging_tool_makes_checks_unknown_and_no_device_missing(running: RunningAgent, operator: Caller) -> None:
    running.until(running.admitted)

    running.machine.hang()
    running.until(lambda: "check_unknown" in running.decision()["codes"])

    assert "device_missing" not in running.decision()["codes"]
    devices = operator.get(f"/v1/nodes/{running.node.name}")["devices"]
    assert [device["state"] for device in devices] == ["in_service"] * GPU_COUNT
    running.until(lambda: all(not is_alive(child) for child in running.machine.children()[:1]))

    running.machine.recover()
    running.until(running.admitted)


def test_nothing_is_lost_or_told_twice_while_the_server_is_away(
    server: LiveServer, operator: Caller, auditor: Caller, tmp_path: Path
) -> None:
    machine = FakeMachine(tmp_path)
    with agent_on(server, machine, f"agent-{machine.number}") as running:
        running.until(running.admitted)
        address = server.url.removeprefix("http://")
        server.kill()
        machine.log_xid(1, 63, "Row remapper: new row marked for remapping")
        running.until(lambda: running.spooled() >= 4)
        running.end(signal.SIGKILL)
        machine.log_xid(1, 48, "DBE (double bit error)")
        running.start()
        running.until(lambda: running.spooled() >= 6)

        server.start(address)
        running.until(lambda: running.spooled() == 0)

    failures = {one["code"]: one["count"] for one in walk(operator, "/v1/failures", node=running.node.name)}
    reports = walk(auditor, f"/v1/nodes/{running.node.name}/history")
    assert failures == {"xid_63": 1, "xid_48": 1}
    assert [event["data"]["code"] for event in reports if event["type"] == "failure.recorded"].count("xid_63") == 1
    assert not list((machine.state / "spool").iterdir())


@on_sqlite
def test_what_was_spooled_in_an_earlier_boot_is_evidence_of_that_boot(
    server: LiveServer, operator: Caller, auditor: Caller, tmp_path: Path
) -> None:
    machine = FakeMachine(tmp_path)
    with agent_on(server, machine, f"agent-{machine.number}") as running:
        running.until(running.admitted)
        address, first = server.url.removeprefix("http://"), machine.boot_id
        server.kill()
        machine.log_xid(0, 48, "DBE (double bit error)")
        running.until(lambda: running.spooled() >= 2)
        running.end(signal.SIGKILL)

        machine.boot()
        server.start(address)
        running.start()
        running.until(lambda: running.spooled() == 0)
        running.until(lambda: running.decision()["decision"])

        node = operator.get(f"/v1/nodes/{running.node.name}")
        failures = walk(operator, "/v1/failures", node=running.node.name)
        assert len(failures) == 1, failures
        (failure,) = failures
        assert (failure["code"], node["boot_id"]) == ("xid_48", machine.boot_id)
        assert first != machine.boot_id
        running.until(lambda: "check_failing" not in running.decision()["codes"])


@on_sqlite
def test_a_boot_that_the_server_never_saw_does_not_come_back_out_of_the_spool(
    server: LiveServer, operator: Caller, tmp_path: Path
) -> None:
    machine = FakeMachine(tmp_path)
    with agent_on(server, machine, f"agent-{machine.number}") as running:
        running.until(running.admitted)
        address = server.url.removeprefix("http://")
        server.kill()
        running.end(signal.SIGKILL)
        for waiting in (2, 4):
            machine.boot()
            machine.log_xid(0, 48, f"DBE (double bit error) {waiting}")
            running.start()
            running.until(lambda least=waiting: running.spooled() >= least)  # type: ignore[misc]
            running.end(signal.SIGKILL)

        server.start(address)
        running.start()
        running.until(lambda: running.spooled() == 0)

        node = operator.get(f"/v1/nodes/{running.node.name}")
        failures = walk(operator, "/v1/failures", node=running.node.name)
        assert node["boot_id"] == machine.boot_id
        assert [one["code"] for one in failures] == ["xid_48", "xid_48"]
        running.until(lambda: running.decision()["decision"])
        assert running.decision()["pass"]["because"] != "not_current"


@on_sqlite
def test_a_signal_to_stop_ends_it_cleanly_even_while_a_tool_hangs(running: RunningAgent) -> None:
    running.until(running.admitted)
    running.machine.hang()
    running.until(running.machine.children)

    began = time.monotonic()
    code = running.end(signal.SIGTERM)

    assert code == 0
    assert time.monotonic() - began < HANG_SECONDS
    assert not any(is_alive(child) for child in running.machine.children())
    assert "check_unknown" not in running.decision()["codes"]


@on_sqlite
def test_an_agent_that_was_killed_goes_on_where_it_was(running: RunningAgent, operator: Caller) -> None:
    running.machine.log_xid(3, 94, "Contained ECC error")
    running.until(lambda: walk(operator, "/v1/failures", node=running.node.name))
    running.until((running.machine.state / "memory.json").exists)

    running.end(signal.SIGKILL)
    (running.machine.state / "memory.json").unlink()
    running.start()
    running.machine.log_xid(3, 13, "Graphics Exception")
    running.until(lambda: len(walk(operator, "/v1/failures", node=running.node.name)) == 2)

    failures = {one["code"]: one["count"] for one in walk(operator, "/v1/failures", node=running.node.name)}
    assert failures == {"xid_94": 1, "xid_13": 1}


@on_sqlite
def test_after_a_release_the_old_line_has_no_effect_and_a_later_one_does(
    running: RunningAgent, operator: Caller
) -> None:
    """C57: the log is read from its beginning again when the agent dies and has lost its memory."""
    running.until(running.admitted)
    running.machine.log_xid(1, 79)
    said_at = time.monotonic()
    running.until(lambda: holds_on(operator, running.machine))
    (hold,) = holds_on(operator, running.machine)

    assert operator.post(f"/v1/quarantines/{hold['id']}/release", {"reason": "reseated"}).status_code == 200
    running.until(running.admitted)
    running.end(signal.SIGKILL)
    (running.machine.state / "memory.json").unlink()
    running.machine.decision.unlink()
    running.start()
    running.until(running.admitted)
    assert holds_on(operator, running.machine) == []

    running.until(lambda: time.monotonic() > said_at + SAME_LINE.total_seconds() + 0.5)
    running.machine.log_xid(1, 79)
    running.until(lambda: holds_on(operator, running.machine))
    (failure,) = walk(operator, "/v1/failures", node=running.node.name)
    assert (failure["code"], failure["count"]) == ("xid_79", 2)


@on_sqlite
def test_an_agent_that_starts_anew_and_finds_all_healthy_frees_nothing(running: RunningAgent, operator: Caller) -> None:
    """C68: nothing is left of the fault where the agent could see it."""
    running.until(running.admitted)
    running.machine.log_xid(1, 64, "Failed to persist row remap")
    running.until(lambda: "check_failing" in running.decision()["codes"])
    (reason, *_) = running.decision()["codes"]

    running.end(signal.SIGKILL)
    shutil.rmtree(running.machine.state)
    (running.machine.root / "dev/kmsg").write_text("6,1,0,-;Linux version 6.8.0-1021-aws (buildd@host)\n")
    running.machine.decision.unlink()
    running.start()
    running.until(lambda: running.decision().get("codes") == [reason])

    node = operator.get(f"/v1/nodes/{running.node.name}")
    assert {one["status"] for one in node["checks"]} <= {"pass", "not_applicable"}
    assert reason == "device_quarantined"
    assert [one["owner"] for one in holds_on(operator, running.machine)] == ["rule:xid_64"]


@on_sqlite
def test_the_agent_of_an_instance_that_was_replaced_ends_and_says_why(running: RunningAgent, tmp_path: Path) -> None:
    running.until(running.admitted)

    newer = FakeMachine(tmp_path / "newer")
    with_new = RunningAgent(newer, running.node, running.url)
    with_new.start()
    assert running.process is not None
    code = running.process.wait(PATIENCE_SECONDS)
    running.process = None
    with_new.end(signal.SIGTERM)

    assert code == 14
    assert "This agent ends." in running.log.read_text()


@on_sqlite
def test_a_second_agent_does_not_use_the_same_folder(running: RunningAgent) -> None:
    running.until(running.admitted)

    second = subprocess.run(
        running.machine.command(running.node.name, "--once"),
        env=running.machine.environment(PRATIQUE_URL=running.url, PRATIQUE_TOKEN=running.node.token),
        capture_output=True,
        text=True,
        check=False,
    )

    assert second.returncode == 2
    assert "Another agent uses" in second.stderr


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
