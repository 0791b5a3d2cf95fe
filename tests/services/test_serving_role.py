# SPDX-License-Identifier: Apache-2.0
"""Can a role that owns nothing do all that a server does, and nothing to the history but add to it?"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from registry.config import Settings
from registry.domain.actors import Actor, ActorKind
from registry.domain.roles import Role
from registry.domain.safe_mode import Head
from registry.services import audit, keys, leasing, life, safe_mode, sweep, tokens
from registry.services.backup import take_backup
from registry.store.database import open_database
from registry.store.grants import grant_to
from registry.store.migrations import NotReady, migrate, refuse_to_serve
from registry.store.server_facts import describe
from tests.clock import Clock
from tests.fleet import Fleet, gpu
from tests.postgres import Server, find_programs

ROOT = Actor(ActorKind.OPERATOR, "root")


@dataclass
class Roles:
    """A database with its owner, and the role that serves it."""

    owner: str
    server: str
    name: str


@pytest.fixture(scope="module")
def roles(postgres: Server) -> Iterator[Roles]:
    """One database for all of them."""
    mark = uuid.uuid4().hex
    owner, server, database = f"owner_{mark}", f"server_{mark}", f"roles_{mark}"
    postgres.create_database(database)
    with psycopg.connect(postgres.url(database), autocommit=True) as admin:
        for role in (owner, server):
            admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        admin.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(database), sql.Identifier(owner)))
    address = postgres.url(database)
    made = Roles(address.replace("postgres@", f"{owner}@"), address.replace("postgres@", f"{server}@"), server)
    migrate(made.owner)
    grant_to(made.owner, server)
    yield made
    postgres.drop_database(database)
    with psycopg.connect(postgres.url(), autocommit=True) as admin:
        for role in (owner, server):
            admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_everything_a_server_does_works(roles: Roles) -> None:
    db = open_database(roles.server)
    clock = Clock()
    fleet = Fleet(db, clock)
    settings = Settings(database_url=roles.server, data_dir=None, secret_key="5" * 64, signing_key="a" * 64)  # type: ignore[arg-type]
    refuse_to_serve(db)
    keys.check_fingerprints(db, settings, clock.now)
    tokens.create_token(db, role=Role.OPERATOR, name="alice", pepper=b"5" * 32, actor=ROOT, now=clock.now)
    life.beat(db, clock.now, fleet.policy)
    lease = leasing.take(db, leasing.BACKGROUND, "me", now=clock.now)
    assert lease is not None

    assert fleet.admit()["admission"]["admitted"]
    hold = fleet.hold({"node": "node-a"}, expires_at=clock.now + timedelta(minutes=1), release_policy="at_expiry")
    fleet.fail("xid_79", device="1650000000000")
    fleet.report("node-a", [gpu(0), gpu(1), gpu(2), gpu(9, at=3)])
    clock.advance(120)
    life.beat(db, clock.now, fleet.policy)
    leasing.under(db, lease, lambda: sweep.sweep(db, now=clock.now), now=clock.now)
    safe_mode.assess(db, [Head(10_000, "f" * 64)], now=clock.now)
    safe_mode.acknowledge(db, reason="seen", actor=ROOT, now=clock.now)

    assert hold[0]["quarantine"]["id"] not in {one["id"] for one in fleet.open_holds()}
    assert audit.verify(db)["ok"]
    with db.read() as snapshot:
        assert not describe(snapshot).may_lift_guards
    db.close_all()


def test_it_can_make_a_backup(roles: Roles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{find_programs()}:{os.environ['PATH']}")
    db = open_database(roles.server)

    take_backup(db, tmp_path / "backup", now=Clock().now, progress=lambda *_: None)
    db.close_all()

    assert (tmp_path / "backup").exists()


REFUSED = [
    *(
        f"{act} {table}{rest}"
        for table, column in (("event", "body"), ("event_subject", "id"), ("identifier", "value"))
        for act, rest in (("UPDATE", f" SET {column} = 'x'"), ("DELETE FROM", ""), ("TRUNCATE", " CASCADE"))
    ),
    *(f"DROP TRIGGER {table}_no_update ON {table}" for table in ("event", "event_subject", "identifier")),
    "ALTER TABLE event DISABLE TRIGGER ALL",
    "DROP TABLE event CASCADE",
    "DROP FUNCTION event_refuse() CASCADE",
    "CREATE OR REPLACE FUNCTION event_refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TRIGGER mine BEFORE INSERT ON event EXECUTE FUNCTION event_refuse()",
    "SET session_replication_role = replica",
    "DELETE FROM schema_migration",
]


@pytest.mark.parametrize("statement", REFUSED)
def test_the_database_refuses_it_to_touch_what_is_there(roles: Roles, statement: str) -> None:
    with psycopg.connect(roles.server) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement)


def test_granting_again_changes_nothing_and_nobody_is_granted_what_cannot_be(roles: Roles) -> None:
    grant_to(roles.owner, roles.name)

    with pytest.raises(NotReady, match="no role nobody-knows"):
        grant_to(roles.owner, "nobody-knows")
    with pytest.raises(NotReady, match="owns the tables"):
        grant_to(roles.owner, "postgres")
