# SPDX-License-Identifier: Apache-2.0
"""How does an auditor take the whole history away?"""

from __future__ import annotations

import sys
from contextlib import nullcontext

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.lists import filtered, limited, ordered, show_history
from registry.cli.progress import is_terminal, progress

EPILOG = """\b
Examples:
  pratique events list --type quarantine.opened --order desc
  pratique events export > history.ndjson
  pratique events export --after 48121 >> history.ndjson
"""

FORMATS = {"ndjson": "application/x-ndjson", "csv": "text/csv"}

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
@click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), default="ndjson", show_default=True, help="How it is written."
)
@speaks_http
def export(session: Session, after: int | None, form: str) -> None:
    """Write every event to standard output, one a line, oldest first. --output changes nothing here.

    One that broke off goes on with --after and the sequence of the last whole line.
    """
    first = after or 0
    # A bar between the lines of a terminal helps nobody.
    is_piped = is_terminal() and not sys.stdout.isatty()
    bar = progress("exporting", count_after(session, first)) if is_piped else nullcontext(lambda _done: None)
    with bar as advance:
        lines = session.client.lines("events", "export", params={"after": str(first)}, accept=FORMATS[form])
        for done, line in enumerate(lines, start=1):
            sys.stdout.write(f"{line}\n")  # click would flush each line
            if done % PROGRESS_EVERY == 0:
                advance(done)


def count_after(session: Session, sequence: int) -> int:
    """Count the events after a number, as of now. Raises ClientError."""
    (*_, newest) = [0, *(one["sequence"] for one in session.client.items("events", params={"order": "desc"}, limit=1))]
    return max(0, int(newest) - sequence)
