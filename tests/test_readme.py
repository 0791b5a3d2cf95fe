# SPDX-License-Identifier: Apache-2.0
"""Is what the README says true? Its tables are held against the code, and its commands are run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import pytest

from registry.admin.demo_hardware import make_machine, print_gpus
from registry.admin.demo_server import RunningServer, Stage, start_server
from registry.config import NUMBERS, SETTING_NAMES
from registry.domain.decision import ExitCode, ReasonCode
from registry.domain.errors import PROBLEM_CODES
from registry.domain.events import EventType
from registry.domain.failures import Effect
from registry.domain.passes import Because
from registry.domain.quarantine import ReleasePolicy
from registry.domain.roles import Role
from tests.clock import NOON
from tests.project import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")

FENCE = re.compile(r"<!-- run: (?P<where>[a-z]+) -->\n```console\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)

# Prints what nvidia-smi would, each time a second later than before: the same look twice is no second look.
NVIDIA_SMI = """#!/bin/sh
set -eu
count=$(cat "$0.count" 2>/dev/null || echo 0)
echo $((count + 1)) > "$0.count"
sed "s/12:00:00/12:00:$(printf %02d "$count")/" "$0.xml"
"""


def first_cells(table_with: str) -> list[str]:
    """The first column of the table that holds this cell, without its ticks."""
    tables = [block for block in README.split("\n\n") if block.startswith("|") and f"| `{table_with}`" in block]
    assert len(tables) == 1, f"{table_with} stands in {len(tables)} tables"
    return re.findall(r"^\| `([^`]+)`", tables[0], re.MULTILINE)


@pytest.mark.parametrize(
    "words",
    [ReasonCode, EventType, Because, Effect, ReleasePolicy, Role],
    ids=lambda words: words.__name__,
)
def test_a_table_names_every_member_in_order(words: Iterable[StrEnum]) -> None:
    expected = [str(word) for word in words]

    assert first_cells(expected[0]) == expected


def test_the_table_of_problems_names_every_code_with_its_status() -> None:
    from api.errors import STATUS  # noqa: PLC0415 - the rest of this file needs no application

    statuses = {error.code: int(status) for error, status in STATUS.items()}

    assert first_cells("unauthenticated") == list(PROBLEM_CODES)
    assert [code for code, status in statuses.items() if f"| `{code}` | {status} |" not in README] == []


def test_the_table_of_settings_names_every_variable_and_default() -> None:
    rows = [line for line in README.splitlines() if line.startswith("| `PRATIQUE_")]
    named = [name for row in rows for name in re.findall(r"`(PRATIQUE_[A-Z_]+)`", row.split("|")[1])]

    assert sorted(named) == sorted([*SETTING_NAMES, "PRATIQUE_CORPUS"])
    for number in NUMBERS:
        default = "16 MiB" if number.name == "MAX_BODY_BYTES" else f"{number.default:,}"
        assert f"| `PRATIQUE_{number.name}` | {default} |" in README


def test_the_table_of_routes_names_every_route_and_no_other() -> None:
    from api.app import create_app  # noqa: PLC0415 - the rest of this file needs no application
    from registry.config import Settings  # noqa: PLC0415

    settings = Settings(database_url="sqlite:////nonexistent", data_dir=Path("/nonexistent"), secret_key="x" * 32)
    served = {
        f"{method} {braced(rule.rule)}"
        for rule in create_app(settings).url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }

    assert set(first_cells("POST /v1/nodes/{node}/reports")) == served


def test_the_exit_codes_are_those_of_the_commands() -> None:
    from registry.cli.exits import Exit  # noqa: PLC0415

    named = {int(code) for code in re.findall(r"^\| ([0-9]+) \|", README, re.MULTILINE)}

    assert named == {int(code) for code in (*ExitCode, *Exit)}


def test_every_link_inside_leads_somewhere() -> None:
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in README.splitlines()
        if line.startswith("#")
    }

    assert [anchor for anchor in re.findall(r"\]\(#([^)]+)\)", README) if anchor not in headings] == []
    assert [file for file in re.findall(r"\]\(([a-z][^):]*)\)", README) if not (ROOT / file).exists()] == []


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, ("bash", "curl", "jq"))), reason="the README's commands need them")
def test_its_commands_do_what_it_says(tmp_path: Path) -> None:
    blocks = [found["text"] for found in FENCE.finditer(README)]
    assert len(blocks) >= 6
    work = tmp_path / "work"
    work.mkdir()
    environment = {**clean_environment(), "PATH": f"{make_tools(tmp_path / 'bin')}:{os.environ['PATH']}"}
    stage = Stage.set_up(tmp_path / "data")
    environment |= {name: value for name, value in stage.environment.items() if name.startswith("PRATIQUE_")}
    environment["PRATIQUE_PASS_GAP_SECONDS"] = "0"
    server: RunningServer | None = None
    try:
        for text in blocks:
            run_block(text, work, environment)
            if server is None:
                server = start_server(Stage(stage.folder, environment, stage.settings))
                environment["PRATIQUE_URL"] = server.url
    finally:
        if server is not None:
            server.stop()


def braced(rule: str) -> str:
    """Write Flask's `<path:ref>` as the README's `{ref}`."""
    return re.sub(r"<(?:[a-z]+:)?([a-z_]+)>", r"{\1}", rule)


def run_block(text: str, folder: Path, environment: dict[str, str]) -> None:
    """Run the commands of one block in one shell; each must end well."""
    commands = re.findall(r"^\$ ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    script = "set -euo pipefail\n" + "\n".join(commands)
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    for expected in re.findall(r"^(exit code [0-9]+|[a-z0-9-]+: admitted.*)$", text, re.MULTILINE):
        assert expected in done.stdout, f"{script}\n{done.stdout}\n{done.stderr}"


def make_tools(folder: Path) -> Path:
    """Make `pratique`, as it is installed beside this Python, and an `nvidia-smi` of our own."""
    folder.mkdir()
    (folder / "pratique").write_text(f'#!/bin/sh\nexec {sys.executable} -m registry.main "$@"\n')
    (folder / "nvidia-smi").write_text(NVIDIA_SMI)
    (folder / "nvidia-smi.xml").write_text(print_gpus(make_machine("node-a", 1), NOON))
    for tool in ("pratique", "nvidia-smi"):
        (folder / tool).chmod(0o755)
    return folder


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
