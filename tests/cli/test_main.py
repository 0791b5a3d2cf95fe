# SPDX-License-Identifier: Apache-2.0
"""Does the command explain itself, also where the server's libraries are not installed?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from registry.cli.output import plain, short_time
from registry.main import ON_THE_SERVER, OVER_HTTP, main

WITHOUT_SERVER = """
import sys
from pathlib import Path
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"peewee", "playhouse", "psycopg", "flask", "gunicorn", "marshmallow"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from registry.main import main
main()
"""


def walk(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found += walk(inner, (*path, name))
    return found


@pytest.mark.parametrize(("path", "command"), [(" ".join(path), command) for path, command in walk(main)[1:]])
def test_every_command_explains_itself(path: str, command: click.Command) -> None:
    result = CliRunner().invoke(main, [*path.split(), "--help"])

    assert result.exit_code == 0
    assert "Usage: main " + path in result.stdout
    assert command.help
    assert "Example" in result.stdout or path.startswith("audit")


def test_every_option_explains_itself() -> None:
    silent = [
        f"{' '.join(path)} {option.opts[0]}"
        for path, command in walk(main)
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ]

    assert not silent


@pytest.mark.parametrize("name", ON_THE_SERVER)
def test_without_the_servers_libraries_its_commands_say_what_to_install(name: str) -> None:
    command = [sys.executable, "-c", WITHOUT_SERVER, name, "--anything"]

    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert result.returncode == 1
    assert "pip install 'pratique[server]'" in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in OVER_HTTP)], ids=" ".join)
def test_without_the_servers_libraries_a_node_has_its_commands(arguments: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_SERVER, *arguments], capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stderr
    assert "Usage:" in result.stdout


def test_an_unknown_command_is_a_usage_error() -> None:
    assert CliRunner().invoke(main, ["frobnicate"]).exit_code == 2


def test_nothing_that_a_machine_says_steers_the_terminal() -> None:
    assert plain("H100\x1b[2J\x9b31m\n") == "H100?[2J?31m?"
    assert plain(None) == plain("") == "-"
    assert plain(value=True) == "yes"


def test_times_are_shown_to_the_second_and_other_words_whole() -> None:
    assert short_time("2026-11-29T12:00:00.123456Z") == "2026-11-29T12:00:00Z"
    assert short_time("1654922006312-with-a-long-tail-Z") == "1654922006312-with-a-long-tail-Z"


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_authorities_that_cannot_be_read_are_told_in_a_sentence(tmp_path: Path, content: str | None) -> None:
    place = tmp_path / "ca.pem"
    if content is not None:
        place.write_text(content)
    settings = {"PRATIQUE_URL": "https://127.0.0.1:1", "PRATIQUE_TOKEN": "prq_x", "PRATIQUE_CA_FILE": str(place)}

    for command in (["node", "list"], ["admit", "node-a"]):
        result = CliRunner(env=settings).invoke(main, command, catch_exceptions=False)

        assert result.exit_code == 2
        assert f"PRATIQUE_CA_FILE {place}" in result.stderr
