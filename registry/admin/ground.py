# SPDX-License-Identifier: Apache-2.0
"""What does every command of the server's host stand on? Settings, the database, the clock, and one way to fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import click

from registry.config import ConfigError, Settings
from registry.domain.actors import Actor, ActorKind
from registry.domain.errors import PratiqueError
from registry.services import keys
from registry.store.database import Database, open_database
from registry.store.migrations import NotReady, pending, refuse_to_serve

SYSTEM = Actor(ActorKind.SYSTEM, "pratique")
"""Who acts when somebody on the server's host does."""


output_option = click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", help="For people, or for programs."
)
"""Gives a command the option `--output`."""


def utc_now() -> datetime:
    """Read the clock: once for each command."""
    return datetime.now(UTC)


def read_settings() -> Settings:
    """Read every setting. Raises click.UsageError that names all that is wrong at once."""
    try:
        return Settings.from_env(os.environ)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


@contextmanager
def failing_plainly() -> Iterator[None]:
    """Turn a fact that stops a command into one sentence and exit code 1."""
    try:
        yield
    except NotReady as error:
        raise click.ClickException("\n".join(error.sentences)) from error
    except PratiqueError as error:
        named = "".join(f"\n  {one.pointer}: {one.detail}" for one in error.errors)
        noted = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        raise click.ClickException(f"{error.detail}{named}{noted}") from error


@contextmanager
def open_ready(settings: Settings) -> Iterator[Database]:
    """Open a database that may be served, for one command.

    Raises click.ClickException unless schema, guards and keys are those this program needs.
    """
    with open_any(settings) as database:
        refuse_to_serve(database)
        keys.check_fingerprints(database, settings, utc_now())
        yield database


@contextmanager
def open_any(settings: Settings) -> Iterator[Database]:
    """Open a database whose schema is this program's, whatever else may be wrong with it: to look into it.

    Raises click.ClickException when there is none.
    """
    with failing_plainly():
        database = open_database(settings.database_url)
        if database.path is not None and not database.path.exists():
            raise NotReady([f"There is no database at {database.path}. Run `pratique migrate`."])
        try:
            if lacking := pending(database):
                raise NotReady([f"The database lacks {', '.join(lacking)}. Run `pratique migrate`."])
            yield database
        finally:
            database.close_all()
