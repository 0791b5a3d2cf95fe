# SPDX-License-Identifier: Apache-2.0
"""What does a row stand on? Records of its own on either engine, and a server on them, gone when it is done."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from registry.store.migrations import migrate
from tests.live.server import LiveServer
from tests.postgres import Server

BOTH = ("sqlite", "postgresql")
SQLITE = ("sqlite",)

DURABLE = ("listen_addresses=", "max_connections=200", "timezone=America/New_York")
"""Settings of a PostgreSQL that keeps its word: fsync and synchronous_commit are on unless somebody turns them off."""


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that is gone after the block. TMPDIR chooses the disk."""
    with tempfile.TemporaryDirectory(prefix="scorecard-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def postgresql(settings: Sequence[str] = DURABLE) -> Iterator[Server]:
    """A PostgreSQL, which commits durably unless it is told not to."""
    server = Server(settings=settings)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def records(engine: str) -> Iterator[str]:
    """The address of freshly migrated records."""
    if engine == "sqlite":
        with folder() as here:
            url = f"sqlite:///{here / 'registry.db'}"
            migrate(url)
            yield url
        return
    with postgresql() as server:
        url = server.create_database("scorecard")
        migrate(url)
        yield url


@contextmanager
def serving(url: str) -> Iterator[LiveServer]:
    """Four workers that serve these records."""
    with folder() as here:
        server = LiveServer(here, url)
        server.start()
        try:
            yield server
        finally:
            server.kill()


@contextmanager
def live(engine: str) -> Iterator[LiveServer]:
    """Four workers on freshly migrated records."""
    with records(engine) as url, serving(url) as server:
        yield server
