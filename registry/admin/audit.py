# SPDX-License-Identifier: Apache-2.0
"""Was anything in the history changed, taken out or put in? Every entry is hashed again to know."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from registry.admin.ground import open_any, output_option, read_settings
from registry.services import audit as auditing


@click.group()
def audit() -> None:
    """Prove that nothing was taken out of the history."""


@audit.command(
    epilog="""\b
Exit codes: 0 the chain holds, 1 it is broken; the first bad entry is named.

\b
A chain alone does not show that it was rewritten from some entry on, or that its end was cut off:
for that, compare the head with one that was kept elsewhere.
"""
)
@output_option
def verify(output: str) -> None:
    """Recompute every hash and every column of the history from its first entry to its head."""
    with open_any(read_settings()) as database, progress_bar() as advance:
        found = auditing.verify(database, progress=advance)
    if output == "json":
        click.echo(json.dumps(found, indent=2))
    elif found["ok"]:
        click.echo(f"The chain holds: {found['entries']} entries, head {found['head_sequence']} {found['head_hash']}")
    else:
        click.echo(f"The chain is broken at entry {found['bad']}: {found['reason']}")
    if not found["ok"]:
        raise SystemExit(1)


@contextmanager
def progress_bar() -> Iterator[Callable[[int], None] | None]:
    """Show how far the work is, on a terminal only: in a log a bar is noise."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("verifying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("verifying", total=None)
        yield lambda done: bar.update(task, completed=done)
