# SPDX-License-Identifier: Apache-2.0
"""Is this host fit to serve? Everything that can be seen without changing anything, in one table."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import timedelta

import click

from registry.admin.findings import (
    Finding,
    State,
    look_at_clock_steps,
    look_at_disk,
    look_at_engine,
    look_at_history,
    look_at_keys,
    look_at_safe_mode,
    look_at_schema,
)
from registry.admin.ground import output_option, read_settings, utc_now
from registry.admin.outside import look_at_checkpoints
from registry.config import Settings
from registry.domain.errors import StoreUnavailable
from registry.domain.times import rfc3339
from registry.store import migrations
from registry.store.database import Database, open_database

EPILOG = """\b
Exit codes: 0 nothing failed (warnings may stand), 1 something did.

\b
Examples:
  pratique doctor
  pratique doctor --output json | jq -r '.checks[] | select(.state != "ok") | .name'
"""

COLOURS = {State.OK: "green", State.WARN: "yellow", State.FAIL: "red", State.SKIPPED: None}


@click.command(epilog=EPILOG)
@output_option
def doctor(output: str) -> None:
    """Look at the database, its disk, clock, guards and keys, and say what is wrong. Changes nothing."""
    settings = read_settings()
    now, begun = utc_now(), time.monotonic()
    findings = list(examine(settings))
    passed = timedelta(seconds=time.monotonic() - begun)
    findings.append(look_at_clock_steps(utc_now() - now, passed))
    is_fit = all(one.state is not State.FAIL for one in findings)
    if output == "json":
        shown = {"ok": is_fit, "at": rfc3339(now), "database": settings.shown_database_url}
        click.echo(json.dumps({**shown, "checks": [one.to_json() for one in findings]}, indent=2))
    else:
        print_findings(findings)
    if not is_fit:
        raise SystemExit(1)


def examine(settings: Settings) -> Iterator[Finding]:
    """Look at everything, in the order in which one thing rests on the other."""
    database = open_database(settings.database_url)
    try:
        if database.path is None:
            yield Finding("disk", State.SKIPPED, "the records are on another host")
            yield Finding("fsync", State.SKIPPED, "the records are on another host")
        elif not database.path.exists():
            found = f"there is no database at {database.path}"
            yield Finding("database", State.FAIL, found, "Run `pratique migrate`.")
            return
        else:
            yield from look_at_disk(database.path.parent)
        yield from examine_records(database, settings)
    finally:
        database.close()


def examine_records(database: Database, settings: Settings) -> Iterator[Finding]:
    """Look into the database. One that cannot answer is a finding too."""
    try:
        with database.read() as snapshot:
            yield from look_at_engine(snapshot)
        yield from look_at_schema(database)
        if migrations.pending(database):
            return
        with database.read() as snapshot:
            yield look_at_keys(settings, snapshot)
            longest = timedelta(seconds=settings.policy.outage_gap_seconds)
            yield from look_at_history(snapshot, utc_now, longest)
            yield from look_at_checkpoints(settings, snapshot, utc_now())
            yield look_at_safe_mode(settings, snapshot)
    except StoreUnavailable as error:
        found = "; ".join((error.detail, *getattr(error, "__notes__", ())))
        yield Finding("database", State.FAIL, found, "Start it, or see to its address and file.")


def print_findings(findings: list[Finding]) -> None:
    """Print one line for each finding, and below it what to do."""
    width = max(len(one.name) for one in findings)
    for one in findings:
        state = click.style(f"{one.state:<7}", fg=COLOURS[one.state])
        click.echo(f"{state}  {one.name:<{width}}  {one.found}")
        if one.remedy:
            click.echo(f"{'':<7}  {'':<{width}}  {one.remedy}")
