# SPDX-License-Identifier: Apache-2.0
"""Does the shell complete commands, options and words, without loading the server's half?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from registry.main import ON_THE_SERVER, OVER_HTTP, main


def complete(*words: str) -> list[str]:
    """What the shell would offer for the last word."""
    *before, last = words
    shell = ShellComplete(main, {}, "pratique", "_PRATIQUE_COMPLETE")
    return [item.value for item in shell.get_completions(before, last)]


def test_every_command_is_offered() -> None:
    assert complete("") == [*OVER_HTTP, *ON_THE_SERVER]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("qua",), ["quarantine"]),
        (("quarantine", "im"), ["import"]),
        (("quarantine", "release", "--ye"), ["--yes"]),
        (("quarantine", "open", "--scope", ""), ["board", "unit"]),
        (("token", "create", "--role", "op"), ["operator"]),
        (("node", "show", "--output", "j"), ["json"]),
        (("doctor", "--out"), ["--output"]),
        (("--vers",), ["--version"]),
        (("frob",), []),
    ],
    ids=" ".join,
)
def test_what_fits_is_offered(words: tuple[str, ...], offered: list[str]) -> None:
    assert complete(*words) == offered


def test_offering_commands_loads_none_of_them() -> None:
    program = (
        "import sys\nfrom registry.main import main\n"
        "try: main(prog_name='pratique')\nexcept SystemExit: pass\n"
        "print(sorted({'peewee', 'requests', 'rich'} & set(sys.modules)))"
    )
    environment = {**os.environ, "_PRATIQUE_COMPLETE": "bash_complete", "COMP_WORDS": "pratique qu", "COMP_CWORD": "1"}

    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()

    assert done == ["plain,quarantine", "[]"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="it is bash that completes")
def test_bash_takes_the_script_as_it_is_documented(tmp_path: Path) -> None:
    program = tmp_path / "pratique"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m registry.main "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(_PRATIQUE_COMPLETE=bash_source pratique)"\n'
        "COMP_WORDS=(pratique quarantine im) COMP_CWORD=2\n_pratique_completion pratique\necho ${COMPREPLY[@]}"
    )

    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.split() == ["import"], done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    environment = {**os.environ, "_PRATIQUE_COMPLETE": f"{shell}_source"}
    program = "from registry.main import main; main(prog_name='pratique')"

    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert f"_PRATIQUE_COMPLETE={shell}_complete" in done.stdout
