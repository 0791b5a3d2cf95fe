# SPDX-License-Identifier: Apache-2.0
"""Does the command `pratique agent` say what it lacks, and end with the code that it promises?"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from registry.config import AgentSettings, ConfigError
from tests.agent.machine import FakeMachine

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
