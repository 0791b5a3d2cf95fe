# SPDX-License-Identifier: Apache-2.0
"""How does a database come to be, and up to date? Schema, guards and keys, as often as one likes."""

from __future__ import annotations

import json

import click

from registry.admin.ground import failing_plainly, output_option, read_settings, utc_now
from registry.config import Settings
from registry.services import keys
from registry.store import migrations
from registry.store.database import open_database


@click.command(
    epilog="""\b
Examples:
  pratique migrate
  PRATIQUE_DATABASE_URL=postgresql://pratique@db/pratique pratique migrate
"""
)
@output_option
def migrate(output: str) -> None:
    """Make the database and the keys, or bring them up to date. Doing it again changes nothing."""
    applied = bring_up_to_date(read_settings())
    if output == "json":
        click.echo(json.dumps({"applied": applied}, indent=2))
        return
    for name in applied:
        click.echo(f"applied {name}")
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
