# SPDX-License-Identifier: Apache-2.0
"""Does a person really mean it? Asked before what is hard to undo; a script says so beforehand, with `--yes`."""

from __future__ import annotations

import sys

import click

from registry.cli.connection import Command


def confirmable(command: Command) -> Command:
    """Give a command the option `--yes`, which it receives as `yes`."""
    return click.option("--yes", is_flag=True, help="Do not ask; for scripts.")(command)


def consent(warning: str, word: str, *, yes: bool) -> None:
    """Have a person type `word` after the warning, unless `yes`.

    Raises click.UsageError, exit code 2, when something else was typed and when nobody can be asked.
    """
    if yes:
        return
    if not is_asked_by_a_person():
        raise click.UsageError(f"{warning} Nobody can be asked here: give --yes.")
    click.echo(warning, err=True)
    typed = click.prompt(f"Type {word} to go on", default="", show_default=False, err=True)
    if str(typed).strip() != word:
        raise click.UsageError("That is something else. Nothing was changed.")


def is_asked_by_a_person() -> bool:
    """Tell whether there is a terminal to ask on and to read from."""
    return sys.stdin.isatty() and sys.stderr.isatty()
