# SPDX-License-Identifier: Apache-2.0
"""How does a row ask the application without a server? On records of its own, with a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from flask import Flask

from api.app import create_app
from api.context import standing
from registry.config import Settings
from registry.domain.joining import JoinTerms
from registry.domain.roles import Role
from registry.services import tokens
from tests.api.conftest import PEPPER, SYSTEM, Asker
from tests.clock import Clock
from tests.scorecard.ground import folder, records

SIGNING_KEY = "ab" * 32


@dataclass(frozen=True, slots=True)
class Application:
    """The application and its clock."""

    app: Flask
    clock: Clock

    def secret(self, role: Role, *, name: str | None = None, node: str | None = None, names: str = "*") -> str:
        """Make a token and return what its bearer shows."""
        terms = JoinTerms(names, 10, self.clock() + timedelta(days=1)) if role is Role.JOIN else None
        return tokens.create_token(
            standing(self.app).database,
            role=role,
            name=name or f"{role}-1",
            node=node,
            terms=terms,
            pepper=PEPPER.encode(),
            actor=SYSTEM,
            now=self.clock(),
        )[1]

    def asker(self, secret: str | None) -> Asker:
        """Somebody who bears this."""
        return Asker(self.app.test_client(), secret)


@contextmanager
def application(engine: str) -> Iterator[Application]:
    """The application on freshly migrated records."""
    with records(engine) as url, folder() as here:
        settings = Settings(
            database_url=url, data_dir=here, secret_key=PEPPER, signing_key=SIGNING_KEY, pass_gap_seconds=30
        )
        clock = Clock()
        made = create_app(settings, clock=clock)
        try:
            yield Application(made, clock)
        finally:
            standing(made).database.close_all()
