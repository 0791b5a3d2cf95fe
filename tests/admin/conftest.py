# SPDX-License-Identifier: Apache-2.0
"""Where do the commands of the server's host work in tests? In a folder of their own, on SQLite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from registry.main import main

Run = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The data folder; it does not exist yet."""
    return tmp_path / "data"


@pytest.fixture
def run(folder: Path) -> Run:
    """Run `pratique <arguments>` on that folder; `settings` are variables without their prefix."""

    def run_command(*arguments: str, **settings: str) -> Result:
        environment = {f"PRATIQUE_{name}": value for name, value in {"DATA_DIR": str(folder), **settings}.items()}
        return CliRunner(env=environment).invoke(main, list(arguments), catch_exceptions=False)

    return run_command


@pytest.fixture
def migrated(run: Run) -> Run:
    """The same, with the database and the keys made."""
    assert run("migrate").exit_code == 0
    return run
