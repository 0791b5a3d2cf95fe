# SPDX-License-Identifier: Apache-2.0
"""Is a person asked before what is hard to undo, and is a script never left waiting for an answer?"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from registry.admin.demo_hardware import make_machine
from registry.client import Client
from tests.cli.conftest import Pratique

MACHINE = make_machine("node-a", 1)
SERIAL = MACHINE.gpus[3].serial
OPEN = ("quarantine", "open", "--reason", "x", "--device", SERIAL)
PERMANENT = (*OPEN, "--permanent")
RETIRE = ("node", "retire", "node-a")


@pytest.fixture(autouse=True)
def reported(pratique: Pratique) -> None:
    assert pratique.report(MACHINE).exit_code == 0


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal with somebody in front of it."""
    monkeypatch.setattr("registry.cli.confirm.is_asked_by_a_person", lambda: True)


def is_held(pratique: Pratique) -> bool:
    return bool(pratique.json("quarantine", "list", "--state", "open")["items"])


def test_a_script_has_to_say_yes_beforehand(pratique: Pratique) -> None:
    refused = [pratique(*command) for command in (PERMANENT, RETIRE)]
    importing = pratique("quarantine", "import", "-", "--permanent", "--reason", "x", given="serial\n165000001\n")

    assert [result.exit_code for result in (*refused, importing)] == [2, 2, 2]
    assert all("--yes" in result.stderr for result in (*refused, importing))
    assert not is_held(pratique)
    assert pratique(*PERMANENT, "--yes").exit_code == 0
    assert pratique(*RETIRE, "--yes").exit_code == 0


def test_what_can_be_undone_is_not_asked_about(pratique: Pratique) -> None:
    assert pratique(*OPEN).exit_code == 0
    assert pratique("quarantine", "release", "--device", SERIAL, "--reason", "x").exit_code == 0
    assert pratique(*PERMANENT, "--dry-run").exit_code == 0
    assert not is_held(pratique)


@pytest.mark.parametrize(("typed", "code"), [(SERIAL, 0), (f" {SERIAL} ", 0), ("y", 2), ("", 2), (SERIAL[:-1], 2)])
@pytest.mark.usefixtures("person")
def test_only_the_serial_itself_is_a_yes(pratique: Pratique, typed: str, code: int) -> None:
    result = pratique(*PERMANENT, given=f"{typed}\n")

    assert result.exit_code == code
    assert f"Type {SERIAL}" in result.stderr
    assert is_held(pratique) == (code == 0)


@pytest.mark.usefixtures("person")
def test_several_targets_are_counted_aloud(pratique: Pratique) -> None:
    several = (*PERMANENT, "--device", MACHINE.gpus[4].serial)

    assert pratique(*several, given=f"{SERIAL}\n").exit_code == 2
    assert pratique(*several, given="2 targets\n").exit_code == 0


@pytest.mark.parametrize("by", ["id", "target"])
def test_a_permanent_hold_is_released_by_its_serial(
    pratique: Pratique, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = pratique.json(*PERMANENT, "--yes")["items"][0]["quarantine"]["id"]
    release = ("quarantine", "release", "--reason", "x", *([hold] if by == "id" else ["--device", SERIAL]))

    unasked = pratique(*release, who="admin")
    tried = pratique(*release, "--dry-run", who="admin")
    monkeypatch.setattr("registry.cli.confirm.is_asked_by_a_person", lambda: True)
    mistyped = pratique(*release, who="admin", given="yes\n")
    was_held = is_held(pratique)
    typed = pratique(*release, who="admin", given=f"{SERIAL}\n")

    assert [result.exit_code for result in (unasked, tried, mistyped, typed)] == [2, 0, 2, 0]
    assert was_held
    assert not is_held(pratique)


def test_an_operator_is_refused_before_anything_is_asked(pratique: Pratique) -> None:
    hold = pratique.json(*PERMANENT, "--yes")["items"][0]["quarantine"]["id"]

    result = pratique("quarantine", "release", hold, "--reason", "x")

    assert result.exit_code == 3
    assert "forbidden" in result.stderr


def test_the_question_stands_on_the_terminal_and_the_answer_is_read_from_it(pratique: Pratique) -> None:
    ours, theirs = pty.openpty()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")},
        "PRATIQUE_URL": pratique.url,
        "PRATIQUE_TOKEN": pratique.tokens["operator"],
    }
    command = [sys.executable, "-m", "registry.main", *PERMANENT, "--output", "json"]
    with subprocess.Popen(
        command, env=environment, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, text=True
    ) as running:
        os.write(ours, f"{SERIAL}\n".encode())
        stdout, _ = running.communicate(timeout=60)
    asked = os.read(ours, 4096).decode()
    os.close(ours)
    os.close(theirs)

    assert running.returncode == 0
    assert f"Type {SERIAL} to go on" in asked
    assert stdout.startswith("{"), "the question is not among the answers"


@pytest.mark.usefixtures("person")
def test_a_board_of_several_devices_is_released_by_its_serial(
    pratique: Pratique, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = pratique.json(*OPEN)["items"][0]["quarantine"]
    post = Client.post

    def on_a_wide_board(client: Client, *path: str, **options: Any) -> dict[str, Any]:
        answer = post(client, *path, **options)
        return {**answer, "devices": ["unit-1", "unit-2"]} if options["params"] else answer

    monkeypatch.setattr(Client, "post", on_a_wide_board)
    release = ("quarantine", "release", hold["id"], "--reason", "x")
    mistyped, typed = pratique(*release, given="no\n"), pratique(*release, given=f"{SERIAL}\n")

    assert [mistyped.exit_code, typed.exit_code] == [2, 0]
    assert "a whole board with 2 devices" in mistyped.stderr
