# SPDX-License-Identifier: Apache-2.0
"""How do the records come back? From a backup that was checked, into an empty place, all of them or nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from registry.admin.ground import failing_plainly, output_option, read_settings, utc_now
from registry.admin.progress import phases
from registry.services.restore import Restored
from registry.services.restore import restore as put_back

EPILOG = """\b
Exit codes: 0 the records are back, 1 they are not and nothing was changed, 2 nobody agreed to replace a database.

\b
Put the keys back first: they are not in a backup.

\b
Examples:
  pratique restore /backup/pratique-2026-11-29.db
  pratique restore --replace /backup/pratique-2026-11-29.db
"""


@click.command(epilog=EPILOG)
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--replace", is_flag=True, help="A SQLite database may be there; it is kept aside.")
@click.option("--yes", is_flag=True, help="Do not ask before replacing; for scripts.")
@output_option
def restore(path: Path, replace: bool, yes: bool, output: str) -> None:  # noqa: FBT001 - click gives them
    """Put the backup at PATH into an empty or absent database. No server may run on it.

    Where the history was seen to be longer than the backup's, or another, the service begins in safe mode: it admits
    nobody until an administrator takes note of what is lost (`pratique service acknowledge`).
    """
    settings = read_settings()
    if replace and not yes:
        agree(settings.shown_database_url)
    with failing_plainly(), phases() as progress:
        done = put_back(
            settings.database_url,
            settings,
            path.absolute(),
            checkpoint_file=settings.checkpoint_file,
            is_replacing=replace,
            now=utc_now(),
            progress=progress,
        )
    if output == "json":
        shown = {"aside": str(done.aside) if done.aside else None, "safe_mode": bool(done.alarms), "lost": done.alarms}
        click.echo(json.dumps({**done.manifest.to_json(), **shown}, indent=2))
        return
    show(done)


def agree(shown_url: str) -> None:
    """Have a person agree to another database taking this one's place. Raises click.UsageError."""
    warning = f"{shown_url} will be replaced; it is kept under another name beside it."
    if not is_asked_by_a_person():
        raise click.UsageError(f"{warning} Nobody can be asked here: give --yes.")
    click.echo(warning, err=True)
    if click.prompt("Type replace to go on", default="", show_default=False, err=True) != "replace":
        raise click.UsageError("That is something else. Nothing was changed.")


def is_asked_by_a_person() -> bool:
    """Tell whether there is a terminal to ask on and to read from."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def show(done: Restored) -> None:
    """Print what was put back, and what it lacks."""
    head = done.manifest.contents.head
    click.echo(f"Restored: the records of {done.manifest.taken_at}, up to entry {head.sequence}")
    if done.aside is not None:
        click.echo(f"The database that was there is now {done.aside}")
    for one in done.alarms:
        click.echo(f"Lost: entries {one['from']} to {one['to']} of the history ({one['cause']})")
    if done.alarms:
        click.echo("The service will admit nobody until `pratique service acknowledge` is given.")
    elif not done.is_compared:
        click.echo("No checkpoint was found outside: whether entries are missing cannot be said.")
