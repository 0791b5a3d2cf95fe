# SPDX-License-Identifier: Apache-2.0
"""Is what the README says true? Its tables are held against the code, and its commands are run."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import pytest

from registry.admin.demo_server import RunningServer, Stage, start_server
from registry.config import NUMBERS, SETTING_NAMES, Settings
from registry.domain.decision import ExitCode, ReasonCode
from registry.domain.errors import PROBLEM_CODES
from registry.domain.events import EventType
from registry.domain.failures import Effect
from registry.domain.passes import Because
from registry.domain.quarantine import ReleasePolicy
from registry.domain.roles import Role
from tests.commands import NEEDED, clean_environment, commands_of, make_tools, run_blocks
from tests.project import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


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

    settings = Settings(database_url="sqlite:////nonexistent", data_dir=Path("/nonexistent"), secret_key="x" * 32)
    served = {
        f"{method} {braced(rule.rule)}"
        for rule in create_app(settings).url_map.iter_rules()
        if rule.rule != "/" and not rule.rule.startswith("/console")  # pages for people; programs read nothing there
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
@pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason="the README's commands need them")
def test_its_commands_do_what_it_says(tmp_path: Path) -> None:
    blocks = commands_of(README)
    assert len(blocks) >= 6
    work = tmp_path / "work"
    work.mkdir()
    environment = clean_environment(make_tools(tmp_path / "bin"))
    settings = {"PRATIQUE_DATA_DIR": str(tmp_path / "data"), "PRATIQUE_PASS_GAP_SECONDS": "0"}
    environment |= settings
    server: RunningServer | None = None
    try:
        for text in blocks:
            run_blocks([text], work, environment)
            if server is None:
                server = start_server(Stage(tmp_path / "data", environment, Settings.from_env(settings)))
                environment["PRATIQUE_URL"] = server.url
    finally:
        if server is not None:
            server.stop()


def braced(rule: str) -> str:
    """Write Flask's `<path:ref>` as the README's `{ref}`."""
    return re.sub(r"<(?:[a-z]+:)?([a-z_]+)>", r"{\1}", rule)
