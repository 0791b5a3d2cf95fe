# SPDX-License-Identifier: Apache-2.0
"""How are the records kept elsewhere? As one file with its description beside it, made while the service runs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from registry.admin.ground import failing_plainly, open_any, output_option, read_settings, utc_now
from registry.admin.progress import phases
from registry.services.backup import take_backup, verify_backup
from registry.services.manifest import Manifest, place_of

EPILOG = """\b
Exit codes: 0 the backup is there and whole, 1 it is not.

\b
The keys are not in it: keep them too, elsewhere.

\b
Examples:
  pratique backup /backup/pratique-2026-11-29.db
  pratique backup --verify /backup/pratique-2026-11-29.db
"""


@click.command(epilog=EPILOG)
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--verify", is_flag=True, help="Take none: check the one at PATH, its whole history included.")
@output_option
def backup(path: Path, verify: bool, output: str) -> None:  # noqa: FBT001 - click gives it
    """Write the records as they are at one moment to the new file PATH, and what it holds to PATH.json.

    The server may run. What is written was checked; nothing is overwritten. Of PostgreSQL it is a dump by `pg_dump`.
    """
    path = path.absolute()
    if verify:
        with failing_plainly(), phases() as progress:
            made = verify_backup(path, progress)
    else:
        with open_any(read_settings()) as database, phases() as progress:
            made = take_backup(database, path, now=utc_now(), progress=progress)
    if output == "json":
        click.echo(json.dumps({"path": str(path), **made.to_json()}, indent=2))
        return
    show(path, made, "holds" if verify else "is made")


def show(path: Path, made: Manifest, what: str) -> None:
    """Print what a backup holds."""
    head = made.contents.head
    click.echo(f"The backup {what}: {path}, {made.bytes:,} bytes, described in {place_of(path).name}")
    click.echo(f"It is of {made.taken_at} and ends at entry {head.sequence}, {head.hash}")
