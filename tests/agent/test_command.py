# SPDX-License-Identifier: Apache-2.0
"""Does the command `pratique agent` say what it lacks, and end with the code that it promises?"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from registry.config import SETTING_NAMES, AgentSettings, ConfigError
from tests.agent.machine import FakeMachine
from tests.cli.scripted import Answer, scripted
from tests.project import ROOT

SERVER = {"PRATIQUE_URL": "http://127.0.0.1:9", "PRATIQUE_TOKEN": "prq_node_x"}
"""Nobody listens at the discard port: https://www.rfc-editor.org/rfc/rfc863."""


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def once(machine: FakeMachine, *more: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        machine.command("node-a", "--once", *more),
        env=machine.environment(**{**SERVER, **settings}),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_without_a_server_there_is_no_decision_and_the_report_waits(machine: FakeMachine) -> None:
    done = once(machine)

    assert done.returncode == 20
    assert "Connection refused; reports wait in" in done.stderr
    assert len(list((machine.state / "spool").glob("*.calm"))) == 1
    assert '"no_decision"' in machine.decision.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ({"PRATIQUE_AGENT_PROFILE": ""}, 4, "PRATIQUE_AGENT_PROFILE"),
        ({"PRATIQUE_AGENT_ROOT": "/nonexistent"}, 4, "holds no boot id"),
        ({"PRATIQUE_TOKEN": ""}, 2, "Who asks?"),
        ({"PRATIQUE_AGENT_STATE_DIR": "/proc/agent"}, 2, "/proc/agent cannot be used"),
        ({"PRATIQUE_AGENT_ON_CHANGE": "say 'it"}, 2, "the agent cannot begin"),
        ({"PRATIQUE_AGENT_DIAG_LEVEL": "9"}, 2, "from 0 to 4"),
        ({"PRATIQUE_AGENT_STATEFILE": "/x"}, 2, "there is no such setting"),
    ],
)
def test_what_is_wrong_is_said_before_it_begins(
    machine: FakeMachine, settings: dict[str, str], code: int, said: str
) -> None:
    done = once(machine, **settings)

    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


def test_its_settings_have_defaults_and_an_empty_one_counts_as_not_set() -> None:
    settings = AgentSettings.from_env({"PRATIQUE_AGENT_NODE": "", "PRATIQUE_AGENT_DIAG_LEVEL": "2"})

    assert settings == AgentSettings(diag_level=2)
    assert (settings.root, settings.state_dir) == (Path("/"), Path("/var/lib/pratique-agent"))
    with pytest.raises(ConfigError, match="PRATIQUE_AGENT_DIAG_LEVEL"):
        AgentSettings.from_env({"PRATIQUE_AGENT_DIAG_LEVEL": "high"})


def test_it_loads_neither_the_servers_libraries_nor_what_draws_on_terminals() -> None:
    program = "import sys, registry.cli.agent; print(*sorted({'rich', 'peewee', 'flask', 'pynvml'} & set(sys.modules)))"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert loaded.stdout.strip() == ""


FOREIGN = {"Content-Type": "application/json"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer(404, {"code": 404, "message": "no route"}, FOREIGN), 20),
        (Answer(200, {"status": "ok"}), 20),
        (Answer(404, {"code": "not_found", "detail": "there is no such address here"}), 20),
        (Answer(409, {"code": "instance_superseded", "detail": "i-2 came after."}), 14),
    ],
    ids=["foreign", "ok", "another address", "superseded"],
)
def test_one_round_ends_with_what_the_answer_is_worth(machine: FakeMachine, answer: Answer, code: int) -> None:
    with scripted(answer) as server:
        done = once(machine, PRATIQUE_URL=server.url)

    left = json.loads(machine.decision.read_text())
    assert (done.returncode, left["admitted"], left["exit_code"]) == (code, False, code), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is full")
def test_a_log_that_takes_nothing_ends_no_round(machine: FakeMachine) -> None:
    with Path("/dev/full").open("w") as full:
        command = machine.command("node-a", "--once")
        done = subprocess.run(command, env=machine.environment(**SERVER), stdout=full, stderr=full, check=False)

    assert done.returncode == 20
    assert '"no_decision"' in machine.decision.read_text()


@pytest.mark.slow
def test_a_look_from_here_that_a_proxy_refuses_is_no_decision(machine: FakeMachine) -> None:
    command = [sys.executable, "-m", "registry.main", "admit", "node-a", "--here"]
    with scripted(Answer(400, {"code": 400, "message": "bad request"}, FOREIGN)) as server:
        environment = machine.environment(PRATIQUE_URL=server.url, PRATIQUE_TOKEN="prq_node_x")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 20, done.stderr


@pytest.mark.slow
def test_told_to_stop_it_lets_the_command_end_what_it_does(machine: FakeMachine, tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nsleep 1\ntouch {tmp_path}/done\n")
    hook.chmod(0o755)
    body = {"node": "node-a", "admitted": False, "disposition": "hold", "reasons": []}
    command = machine.command("node-a", "--on-change", str(hook))
    with (
        echoing(body) as url,
        subprocess.Popen(command, env=machine.environment(**{**SERVER, "PRATIQUE_URL": url})) as it,
    ):
        until = time.monotonic() + 20
        while not (tmp_path / "begun").exists() and time.monotonic() < until:
            time.sleep(0.02)
        it.terminate()
        assert it.wait(20) == 0

    assert (tmp_path / "done").exists()


@contextmanager
def echoing(decision: dict[str, Any]) -> Iterator[str]:
    """Run a server that takes every report, with this decision."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = json.dumps({"report_id": sent["report_id"], "admission": decision}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.slow
def test_systemd_hears_that_it_is_up_alive_and_on_its_way_out(machine: FakeMachine, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        command = machine.command("node-a", "--period", "0.2")
        environment = machine.environment(**SERVER, NOTIFY_SOCKET=str(tmp_path / "notify"))
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
            first = manager.recv(1000)
            process.terminate()
            assert process.wait(20) == 0
        last = first
        while last != b"STOPPING=1":
            last = manager.recv(1000)

    assert first == b"READY=1\nWATCHDOG=1\nSTATUS=not admitted; 1 messages wait"


@pytest.mark.parametrize("name", ["pratique-agent.service", "agent-daemonset.yaml"])
def test_what_is_set_in_the_files_for_operators_is_a_setting(name: str) -> None:
    text = (ROOT / "deploy" / name).read_text()

    named = set(re.findall(r"PRATIQUE_[A-Z_]+", text))

    assert named
    assert named <= set(SETTING_NAMES)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="judges units")
def test_systemd_finds_no_fault_with_the_unit() -> None:
    judged = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", ROOT / "deploy" / "pratique-agent.service"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert judged.stderr.replace("\n", "") == ""


@pytest.mark.slow
def test_it_stays_within_its_memory(machine: FakeMachine) -> None:
    with subprocess.Popen(
        machine.command("node-a", "--period", "0.2"),
        env=machine.environment(**SERVER),
        stderr=subprocess.DEVNULL,
    ) as process:
        spool = machine.state / "spool"
        while process.poll() is None and len(list(spool.glob("*.calm"))) < 10:
            time.sleep(0.05)
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.terminate()
        assert process.wait(20) == 0
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))

    assert peak < 80 * 1024, f"{peak} KiB"
    assert machine.decision.exists()
