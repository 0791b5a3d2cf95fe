# SPDX-License-Identifier: Apache-2.0
"""How does an auditor take the whole history away?"""

from __future__ import annotations

from contextlib import nullcontext

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.lists import filtered, limited, ordered, show_history
from registry.cli.progress import progress

EPILOG = """\b
Examples:
  pratique events list --type quarantine.opened --order desc
  pratique events export > history.ndjson
  pratique events export --after 48121 >> history.ndjson
"""


@click.group(epilog=EPILOG)
def events() -> None:
    """The whole history."""


@events.command("list", epilog=EPILOG)
@filtered("type", "actor", "device", "node", "since", "until")
@ordered
@limited
@speaks_http
def list_(session: Session, order: str, limit: int, **filters: str | None) -> None:
    """Print the events that these filters leave, an actor as kind:name, times as 2026-01-31T12:00:00Z."""
    show_history(session, ("events",), order=order, limit=limit, filters=filters)


@events.command(epilog=EPILOG)
@click.option("--after", type=click.IntRange(min=0), help="Only events with a higher number than this.")
@speaks_http
def export(session: Session, after: int | None) -> None:
    """Write every event to standard output, one JSON document a line, oldest first. --output changes nothing here."""
    params = {"after": str(after)} if after is not None else None
    for line in session.client.lines("events", "export", params=params):
        click.echo(line)
