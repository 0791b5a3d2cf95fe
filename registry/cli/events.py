# SPDX-License-Identifier: Apache-2.0
"""How does an auditor take the whole history away?"""

from __future__ import annotations

import sys
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

PROGRESS_EVERY = 1000
"""Events between two steps of the bar: drawing it more often would cost more than the export."""


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
    first = after or 0
    # A bar between the lines of a terminal helps nobody.
    is_piped = not sys.stdout.isatty() and sys.stderr.isatty()
    bar = progress("exporting", count_after(session, first)) if is_piped else nullcontext(lambda _done: None)
    with bar as advance:
        for done, line in enumerate(session.client.lines("events", "export", params={"after": str(first)}), start=1):
            click.echo(line)
            if done % PROGRESS_EVERY == 0:
                advance(done)


def count_after(session: Session, sequence: int) -> int:
    """Count the events after a number, as of now. Raises ClientError."""
    (*_, newest) = [0, *(one["sequence"] for one in session.client.items("events", params={"order": "desc"}, limit=1))]
    return max(0, int(newest) - sequence)
