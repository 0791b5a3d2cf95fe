# SPDX-License-Identifier: Apache-2.0
"""Are the pages for each reader true? Every command in them is run, in the order it stands there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from registry.admin.demo_server import RunningServer, Stage, start_server
from tests.agent.machine import FakeMachine
from tests.commands import COMMAND, NEEDED, clean_environment, commands_of, make_tools, run_blocks, write_files
from tests.postgres import Server, find_programs
from tests.project import ROOT

PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
ROLES = {"bootstrap": "node", "agent": "node", "operator": "operator", "auditor": "auditor"}

REPORT = (
    "nvidia-smi -q -x | PRATIQUE_TOKEN_FILE=node-a.token pratique report node-a --provider-id i-0abc"
    " --profile g5.48xlarge --part nvidia_smi_xml=- --check gpu.xid=pass"
)
HOLD = 'PRATIQUE_TOKEN_FILE=operator.token pratique quarantine open --device 1654900010003 --reason "fell off the bus"'
CHECKPOINT = 'PRATIQUE_DATA_DIR="$RECORDS" pratique audit checkpoint'

needs_tools = pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason="the pages' commands need them")


def test_there_is_a_page_for_each_reader() -> None:
    assert set(PAGES) == {*ROLES, "administrator", "kubernetes"}


@pytest.mark.parametrize("name", PAGES)
def test_every_command_on_a_page_is_run(name: str) -> None:
    shown = re.findall(r"^\$ ", PAGES[name], re.MULTILINE)
    run = [command for block in commands_of(PAGES[name]) for command in COMMAND.findall(block)]

    assert len(run) == len(shown) > 2


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", PAGES[name]):
        page = ROOT / "docs" / target if target else ROOT / "docs" / f"{name}.md"
        headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in anchors, f"{target}#{anchor}"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return clean_environment(make_tools(tmp_path / "bin"))


@pytest.fixture
def server(tmp_path: Path, work: Path, environment: dict[str, str]) -> Iterator[RunningServer]:
    """A server that needs no gap between passes; the tokens of every role lie in the folder of work."""
    stage = Stage.set_up(tmp_path / "data")
    for name, token in stage.make_tokens(nodes=("node-a",)).items():
        (work / f"{name}.token").write_text(token)
    settings = {name: value for name, value in stage.environment.items() if name.startswith("PRATIQUE_")}
    running = start_server(
        Stage(stage.folder, {**environment, **settings, "PRATIQUE_PASS_GAP_SECONDS": "0"}, stage.settings)
    )
    yield running
    running.stop()


@needs_tools
@pytest.mark.slow
@pytest.mark.parametrize("name", ROLES)
def test_a_readers_commands_do_what_the_page_says(
    name: str, server: RunningServer, work: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    environment["PRATIQUE_URL"] = server.url
    write_files(PAGES[name], work)
    environment["PRATIQUE_AGENT_ROOT"] = str(FakeMachine(tmp_path / "machine").root)
    environment["RECORDS"] = str(tmp_path / "data")
    shutil.copy(ROOT / "deploy" / "verify_history.py", work)
    before = {"bootstrap": [], "agent": [], "operator": [REPORT, REPORT], "auditor": [REPORT, HOLD, CHECKPOINT]}[name]

    run_blocks(["".join(f"$ {command}\n" for command in before), *commands_of(PAGES[name])], work, environment)


@needs_tools
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_an_administrators_commands_do_what_the_page_says(
    work: Path, environment: dict[str, str], postgres: Server
) -> None:
    environment |= {"PGHOST": str(postgres.folder), "PGUSER": "postgres"}
    environment["PATH"] = f"{find_programs()}:{environment['PATH']}"
    write_files(PAGES["administrator"], work)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])

    try:
        blocks = [block.replace("8443", port) for block in commands_of(PAGES["administrator"])]
        run_blocks(blocks, work, environment)
    finally:
        for file in work.glob("*.pid"):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(file.read_text()), signal.SIGTERM)
