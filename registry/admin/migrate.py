# SPDX-License-Identifier: Apache-2.0
"""How does a database come to be, and up to date? Schema, guards and keys, as often as one likes."""

from __future__ import annotations

import json

import click

from registry.admin.ground import failing_plainly, output_option, read_settings, utc_now
from registry.config import Settings
from registry.services import keys
from registry.store import grants, migrations
from registry.store.database import open_database


@click.command(
    epilog="""\b
Examples:
  pratique migrate
  PRATIQUE_DATABASE_URL=postgresql://owner@db/pratique pratique migrate --grant-to pratique
"""
)
@click.option("--grant-to", metavar="ROLE", help="PostgreSQL: the role that servers run as, which owns nothing.")
@output_option
def migrate(grant_to: str | None, output: str) -> None:
    """Make the database and the keys, or bring them up to date. Doing it again changes nothing."""
    settings = read_settings()
    if grant_to is not None and not settings.is_postgresql:
        raise click.UsageError("--grant-to is for PostgreSQL: SQLite knows no roles.")
    applied = bring_up_to_date(settings)
    if grant_to is not None:
        with failing_plainly():
            grants.grant_to(settings.database_url, grant_to)
    if output == "json":
        click.echo(json.dumps({"applied": applied}, indent=2))
        return
    for name in applied:
        click.echo(f"applied {name}")
    if grant_to is not None:
        click.echo(f"{grant_to} may serve it, and change nothing in its history.")
    click.echo("The database is up to date.")


def bring_up_to_date(settings: Settings) -> list[str]:
    """Make what is missing of keys, schema and guards; return the names of the migrations that were applied.

    Raises click.ClickException with a sentence for whatever stands against it.
    """
    with failing_plainly():
        database = open_database(settings.database_url)
        try:
            keys.ensure_keys(settings, is_bound=keys.is_bound(database))
            applied = migrations.migrate(settings.database_url)
            keys.check_fingerprints(database, settings, utc_now())
        finally:
            database.close_all()
    return applied
