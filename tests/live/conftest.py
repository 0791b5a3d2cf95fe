# SPDX-License-Identifier: Apache-2.0
"""Which servers do the live tests share? One for each engine: starting four workers takes seconds."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator

import pytest

from tests.live.server import Caller, LiveServer
from tests.postgres import Server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder takes seconds."""
    for item in items:
        if "/live/" in item.path.as_posix():
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="package", params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A running server on a freshly migrated database, on either engine."""
    folder = tmp_path_factory.mktemp("live")
    if request.param == "sqlite":
        shutil.copytree(request.getfixturevalue("sqlite_template"), folder / "database")
        url = f"sqlite:///{folder / 'database' / 'registry.db'}"
        yield from _running(LiveServer(folder, url))
        return
    cluster: Server = request.getfixturevalue("postgres")
    name = f"live_{uuid.uuid4().hex}"
    url = cluster.create_database(name, template=request.getfixturevalue("postgres_template"))
    yield from _running(LiveServer(folder, url))
    cluster.drop_database(name)


def _running(server: LiveServer) -> Iterator[LiveServer]:
    server.start()
    try:
        yield server
    finally:
        server.kill()  # a good end takes seconds, and has tests of its own
    assert "Traceback" not in server.log(), server.log()


@pytest.fixture(scope="package")
def operator(server: LiveServer) -> Caller:
    """An operator of that server."""
    return server.caller("operator", "alice")


@pytest.fixture(scope="package")
def auditor(server: LiveServer) -> Caller:
    """An auditor of that server."""
    return server.caller("auditor", "vera")
