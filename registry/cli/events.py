# SPDX-License-Identifier: Apache-2.0
"""How does an auditor take the whole history away?"""

from __future__ import annotations

import click

from registry.cli.connection import Session, speaks_http

EPILOG = """\b
Examples:
  pratique events export > history.ndjson
  pratique events export --after 48121 >> history.ndjson
"""


@click.group(epilog=EPILOG)
def events() -> None:
    """The whole history."""


@events.command(epilog=EPILOG)
@click.option("--after", type=click.IntRange(min=0), help="Only events with a higher number than this.")
@speaks_http
def export(session: Session, after: int | None) -> None:
    """Write every event to standard output, one JSON document a line, oldest first. --output changes nothing here."""
    params = {"after": str(after)} if after is not None else None
    for line in session.client.lines("events", "export", params=params):
        click.echo(line)
