# SPDX-License-Identifier: Apache-2.0
"""Is a decision acted on as told: the file always, the command when something changes, and nothing else?"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from registry.agent.acting import Actor, standing_of, without_decision
from registry.agent.memory import Memory
from registry.agent.notify import ALIVE, READY, Notifier
from registry.agent.running import ToolRunner
from tests.agent.scripted import NODE, decision

NOW = "2026-11-29T12:00:00.000000Z"
YES, NO = standing_of(decision()), standing_of(decision("device_quarantined", "passes_insufficient"))


@pytest.fixture
def said() -> list[str]:
    return []


def actor(said: list[str], *, file: Path | None = None, script: str = "") -> Actor:
    return Actor(file, ["sh", "-c", script] if script else (), ToolRunner(os.environ, limit=1), said.append)


def test_a_decision_is_read_with_its_exit_code() -> None:
    assert (YES.admitted, YES.disposition, YES.exit_code, YES.codes) == (True, "admit", 0, ())
    assert (NO.admitted, NO.disposition, NO.exit_code) == (False, "hold", 10)


def test_the_file_holds_the_decision_for_all_to_read(tmp_path: Path, said: list[str]) -> None:
    file = tmp_path / "decision.json"

    actor(said, file=file).act(NO, NOW)

    told = json.loads(file.read_text())
    assert told["decision"] == decision("device_quarantined", "passes_insufficient")
    assert {name: told[name] for name in ("node", "admitted", "exit_code", "codes", "written_at")} == {
        "node": NODE,
        "admitted": False,
        "exit_code": 10,
        "codes": ["device_quarantined", "passes_insufficient"],
        "written_at": NOW,
    }
    assert file.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [file]


def test_no_decision_is_a_no_that_drains_nothing(tmp_path: Path, said: list[str]) -> None:
    file = tmp_path / "decision.json"

    actor(said, file=file).act(without_decision(NODE, "no answer"), NOW)

    told = json.loads(file.read_text())
    assert (told["admitted"], told["disposition"], told["exit_code"], told["codes"]) == (
        False,
        "hold",
        20,
        ["no_decision"],
    )
    assert (told["decision"], told["detail"]) == (None, "no answer")


def test_a_file_that_cannot_be_written_is_said_once_and_stops_nothing(tmp_path: Path, said: list[str]) -> None:
    one = actor(said, file=tmp_path / "missing" / "decision.json", script=f"echo ran >> {tmp_path}/ran")

    one.act(YES, NOW)
    one.act(NO, NOW)

    assert len(said) == 1
    assert (tmp_path / "ran").read_text() == "ran\nran\n"


def test_the_command_runs_when_the_decision_becomes_another(tmp_path: Path, said: list[str]) -> None:
    log = tmp_path / "log"
    one = actor(
        said, script=f'echo "$DECISION_ADMITTED $DECISION_EXIT_CODE $DECISION_CODES" >> {log}; cat >> {log}.json'
    )

    for standing in (YES, YES, NO, NO, YES):
        one.act(standing, NOW)

    assert log.read_text().splitlines() == [
        "true 0 ",
        "false 10 device_quarantined,passes_insufficient",
        "true 0 ",
    ]
    assert json.loads(Path(f"{log}.json").read_text().partition("}{")[0] + "}")["node"] == NODE
    assert said == []


def test_an_agent_that_begins_anew_runs_the_command_for_another_decision_only(tmp_path: Path, said: list[str]) -> None:
    script = f"echo $DECISION_EXIT_CODE >> {tmp_path}/ran"
    first, again = (actor(said, script=script) for _ in range(2))
    first.act(NO, NOW)
    memory = Memory(tmp_path / "memory.json", "boot-1")
    memory.acted = first.done
    memory.save()

    again.done = Memory(tmp_path / "memory.json", "boot-1").acted
    again.act(NO, NOW)
    again.act(YES, NOW)
    another = Actor(None, ["sh", "-c", f"{script}; :"], ToolRunner(os.environ), said.append, again.done)
    another.act(YES, NOW)

    assert (tmp_path / "ran").read_text() == "10\n0\n0\n"
    assert Memory(tmp_path / "memory.json", "boot-2").acted == []


def test_a_command_that_failed_is_run_again(tmp_path: Path, said: list[str]) -> None:
    one = actor(said, script=f"echo ran >> {tmp_path}/ran; echo no room >&2; test $(wc -l < {tmp_path}/ran) -gt 1")

    for _ in range(3):
        one.act(YES, NOW)

    assert (tmp_path / "ran").read_text() == "ran\nran\n"
    assert said == ["the command for a changed decision ended with 1: no room"]


def test_a_command_that_hangs_is_ended_and_said(said: list[str]) -> None:
    actor(said, script="sleep 60").act(YES, NOW)

    assert "was killed" in said[0]


def test_a_command_that_is_not_there_is_said(said: list[str]) -> None:
    Actor(None, ["/no/such/command"], ToolRunner(os.environ), said.append).act(YES, NOW)

    assert said == ["the command for a changed decision did not do it: there is no /no/such/command here"]


@pytest.mark.parametrize("is_abstract", [False, True], ids=["a path", "an abstract name"])
def test_systemd_hears_what_is_told(tmp_path: Path, is_abstract: bool) -> None:
    import socket  # noqa: PLC0415 - the suite forbids sockets elsewhere

    name = f"pratique-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}" if is_abstract else name)
        Notifier({"NOTIFY_SOCKET": f"@{name}" if is_abstract else name})(READY, ALIVE, "STATUS=admitted")

        assert manager.recv(1000) == b"READY=1\nWATCHDOG=1\nSTATUS=admitted"


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": "/no/such/socket"}])
def test_without_a_manager_nothing_happens(environ: dict[str, str]) -> None:
    Notifier(environ)(READY)
