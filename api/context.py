# SPDX-License-Identifier: Apache-2.0
"""What does a request stand on? The database, the settings, one reading of the clock, and whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from flask import Flask, current_app, g

from api.rate import TokenBucket
from registry.config import Settings
from registry.domain.actors import Actor, ActorKind
from registry.domain.policy import Policy
from registry.domain.roles import Role
from registry.domain.tracing import TraceParent
from registry.services import keys
from registry.services.tokens import Caller
from registry.store.database import Database, open_database

EXTENSION = "pratique"


@dataclass(frozen=True, slots=True)
class Standing:
    """What all requests of one process share."""

    settings: Settings
    database: Database
    policy: Policy
    pepper: bytes
    clock: Callable[[], datetime]
    bucket: TokenBucket

    @classmethod
    def on(cls, settings: Settings, clock: Callable[[], datetime], *, workers: int = 1) -> Standing:
        """Make what these settings say, for one of so many processes. Opens no connection.

        Raises NotReady when there is no pepper.
        """
        return cls(
            settings=settings,
            database=open_database(settings.database_url),
            policy=settings.policy,
            pepper=keys.load_pepper(settings),
            clock=clock,
            bucket=TokenBucket(settings.rate_limit_per_second, workers),
        )


def utc_now() -> datetime:
    """Read the clock: the only place in this package that does."""
    return datetime.now(UTC)


def standing(app: Flask | None = None) -> Standing:
    """Return what the application of this request, or the one given, stands on."""
    found = (app or current_app).extensions[EXTENSION]
    if not isinstance(found, Standing):
        raise TypeError("this application was not made by create_app")
    return found


def database() -> Database:
    """Return the database."""
    return standing().database


def policy() -> Policy:
    """Return the policy in force."""
    return standing().policy


def now() -> datetime:
    """Return the time of this request: read once, so that everything it does happened at one moment."""
    if "now" not in g:
        g.now = standing().clock()
    moment: datetime = g.now
    return moment


def caller() -> Caller:
    """Return whoever asks; only behind `auth.require`."""
    found: Caller = g.caller
    return found


def actor() -> Actor:
    """Return whoever asks as the history names them: a node by its node, everybody else by the token's name."""
    asking = caller()
    if asking.role is Role.NODE:
        return Actor(ActorKind.NODE, asking.node or asking.name)
    return Actor(ActorKind.OPERATOR, asking.name)


def request_id() -> str:
    """Return the id that this request is found by in answers and logs."""
    found: str = g.get("request_id", "unnamed")
    return found


def trace_fields() -> dict[str, str]:
    """Return what a line of the log says of the trace that this request belongs to; nothing where it names none."""
    trace: TraceParent | None = g.get("trace")
    return {"trace_id": trace.trace_id, "parent_id": trace.parent_id} if trace else {}
