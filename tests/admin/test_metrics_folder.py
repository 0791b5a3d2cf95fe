# SPDX-License-Identifier: Apache-2.0
"""Does a server clear away what a killed one left in memory, and nothing that is in use?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.admin import metrics_folder

HOLD = "import sys; from pathlib import Path; from registry.admin import metrics_folder as m; "
HOLD += "print(m.make(Path(sys.argv[1])), flush=True); sys.stdin.read()"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(metrics_folder.VARIABLE, "")


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another server, as far as its folder goes."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    (folder / "counter_1.db").write_bytes(b"x")
    yield process, folder
    process.kill()
    process.communicate()


def test_the_folder_is_empty_and_said_to_the_metrics_library(tmp_path: Path) -> None:
    folder = metrics_folder.make(tmp_path)

    assert os.environ[metrics_folder.VARIABLE] == str(folder)
    assert folder.name.startswith(metrics_folder.PREFIX)
    assert [*tmp_path.iterdir()] == [folder]
    assert [one.name for one in folder.iterdir()] == [metrics_folder.LOCK]
    metrics_folder.remove()
    assert not folder.exists()


def test_what_a_killed_server_left_is_removed(tmp_path: Path, holder: tuple[subprocess.Popen[str], Path]) -> None:
    process, left = holder
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert left.exists()

    own = metrics_folder.make(tmp_path)

    assert [*tmp_path.iterdir()] == [own]


def test_the_folder_of_a_server_that_runs_is_left_alone(
    tmp_path: Path, holder: tuple[subprocess.Popen[str], Path]
) -> None:
    _, theirs = holder

    own = metrics_folder.make(tmp_path)

    assert {*tmp_path.iterdir()} == {own, theirs}
    assert (theirs / "counter_1.db").read_bytes() == b"x"


def test_what_only_looks_like_a_folder_of_ours_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("x")
    (elsewhere / metrics_folder.LOCK).touch()
    memory = tmp_path / "memory"
    memory.mkdir()
    (memory / f"{metrics_folder.PREFIX}link").symlink_to(elsewhere)
    (memory / f"{metrics_folder.PREFIX}file").write_text("x")
    other = memory / f"{metrics_folder.PREFIX}unlocked"  # of a program that takes no lock, and may well be running
    other.mkdir()
    (other / "counter_1.db").write_bytes(b"x")

    own = metrics_folder.make(memory)

    assert (elsewhere / "precious").exists()
    assert (other / "counter_1.db").exists()
    left = {f"{metrics_folder.PREFIX}{name}" for name in ("link", "file", "unlocked")}
    assert {one.name for one in memory.iterdir()} == {own.name, *left}
