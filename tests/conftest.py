# SPDX-License-Identifier: Apache-2.0
"""What does every test begin with? Noon, a clock that stands still, and a database of its own on either engine."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.clock import NOON, Clock
from tests.fleet import Fleet
from tests.postgres import Server

if TYPE_CHECKING:
    from registry.store.database import Database

TEMPLATE = "migrated"

# No deadline for one example: two cores are shared by all workers. On CI the same examples are tried each time.
hypothesis.settings.register_profile("suite", deadline=None, derandomize=bool(os.environ.get("CI")))
# Many more and longer stories than anybody waits for: HYPOTHESIS_PROFILE=deep.
hypothesis.settings.register_profile("deep", deadline=None, max_examples=500, stateful_step_count=60, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture
def now() -> datetime:
    """Noon of a fixed day, aware UTC."""
    return NOON


@pytest.fixture
def clock() -> Clock:
    """A clock that stands at noon until it is advanced."""
    return Clock()


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest) -> str:
    """The name of the database engine; whoever asks for it runs once on each."""
    return str(request.param)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A real PostgreSQL: one for each worker of pytest-xdist."""
    server = Server()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but a migrated SQLite database in it."""
    from registry.store.migrations import migrate  # noqa: PLC0415 - tests of other rooms need no store

    folder = tmp_path_factory.mktemp("sqlite-template")
    migrate(f"sqlite:///{folder / 'registry.db'}")
    return folder


@pytest.fixture(scope="session")
def postgres_template(postgres: Server) -> str:
    """The name of a migrated database that others are copied from."""
    from registry.store.migrations import migrate  # noqa: PLC0415 - tests of other rooms need no store

    migrate(postgres.create_database(TEMPLATE))
    return TEMPLATE


@pytest.fixture
def empty_database_url(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database with nothing in it, gone after the test."""
    if engine == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server: Server = request.getfixturevalue("postgres")
    name = f"empty_{uuid.uuid4().hex}"
    yield server.create_database(name)
    server.drop_database(name)


@pytest.fixture
def database_url(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a freshly migrated database: a copy of one that was migrated once, gone after the test."""
    if engine == "sqlite":
        # All files are copied: what was committed may still stand in the write-ahead log beside the database.
        shutil.copytree(request.getfixturevalue("sqlite_template"), tmp_path / "database")
        yield f"sqlite:///{tmp_path / 'database' / 'registry.db'}"
        return
    server: Server = request.getfixturevalue("postgres")
    name = f"test_{uuid.uuid4().hex}"
    yield server.create_database(name, template=request.getfixturevalue("postgres_template"))
    server.drop_database(name)


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    """The freshly migrated records, on either engine; closed after the test."""
    from registry.store.database import open_database  # noqa: PLC0415 - tests of other rooms need no store

    database = open_database(database_url)
    yield database
    database.close_all()


@pytest.fixture
def fleet(db: Database, clock: Clock) -> Fleet:
    """Nodes and operators against the real services, on either engine."""
    return Fleet(db, clock)
