# SPDX-License-Identifier: Apache-2.0
"""How is the application asked in tests? Through Flask's client, on a migrated database, with a token of each role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from api.app import create_app
from api.context import standing
from registry.config import Settings
from registry.domain.actors import Actor, ActorKind
from registry.domain.joining import JoinTerms
from registry.domain.roles import Role
from registry.services import tokens
from tests.clock import Clock

PEPPER = "pepper-of-the-tests-0123456789abcdef"
SYSTEM = Actor(ActorKind.SYSTEM, "tests")


class Asker:
    """A client with a token: `asker.get("/v1/nodes")` answers status and JSON as Flask's test client does."""

    def __init__(self, client: FlaskClient, token: str | None) -> None:
        self._client = client
        self._token = token
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(self, method: str, path: str, **options: Any) -> TestResponse:
        """Send a request; `{secret}` in the path is this client's token."""
        headers = {**self.headers, **options.pop("headers", {})}
        path = path.replace("{secret}", self._token or "none")
        return self._client.open(path, method=method, headers=headers, **options)

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.ask("GET", path, **options)

    def post(self, path: str, **options: Any) -> TestResponse:
        return self.ask("POST", path, **options)

    def put(self, path: str, **options: Any) -> TestResponse:
        return self.ask("PUT", path, **options)

    def delete(self, path: str, **options: Any) -> TestResponse:
        return self.ask("DELETE", path, **options)


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """The settings that the application is made with; a test may replace some."""
    return Settings(
        database_url=database_url, data_dir=tmp_path, secret_key=PEPPER, signing_key="ab" * 32, pass_gap_seconds=30
    )


@pytest.fixture
def app(settings: Settings, clock: Clock) -> Iterator[Flask]:
    """The application on a database of its own, whose time the test tells."""
    made = create_app(settings, clock=clock)
    made.testing = True
    yield made
    standing(made).database.close_all()


@pytest.fixture
def token(app: Flask, clock: Clock) -> Callable[..., str]:
    """Make a token of a role and return its secret."""

    def make(role: Role, *, name: str | None = None, node: str | None = None) -> str:
        _, secret = tokens.create_token(
            standing(app).database,
            role=role,
            name=name or f"{role}-1",
            node=node,
            terms=JoinTerms("*", 10, clock() + timedelta(days=1)) if role is Role.JOIN else None,
            pepper=PEPPER.encode(),
            actor=SYSTEM,
            now=clock(),
        )
        return secret

    return make


@pytest.fixture
def anonymous(app: Flask) -> Asker:
    """Somebody without a token."""
    return Asker(app.test_client(), None)


@pytest.fixture
def operator(app: Flask, token: Callable[..., str]) -> Asker:
    return Asker(app.test_client(), token(Role.OPERATOR, name="alice"))


@pytest.fixture
def auditor(app: Flask, token: Callable[..., str]) -> Asker:
    return Asker(app.test_client(), token(Role.AUDITOR))


@pytest.fixture
def admin(app: Flask, token: Callable[..., str]) -> Asker:
    return Asker(app.test_client(), token(Role.ADMIN))


@pytest.fixture
def node(app: Flask, token: Callable[..., str]) -> Asker:
    """The node `node-a`."""
    return Asker(app.test_client(), token(Role.NODE, node="node-a"))


@pytest.fixture
def asker(app: Flask, token: Callable[..., str]) -> Callable[..., Asker]:
    """Make an asker of a role."""

    def make(role: Role, *, node: str | None = None) -> Asker:
        return Asker(app.test_client(), token(role, node=node))

    return make
