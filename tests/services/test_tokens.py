# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S608 - every piece of SQL here is a constant of this file
"""Is a token shown once, known by its hash only, bound to its node, and worthless the moment it is revoked?"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest

from registry.domain.errors import InvalidField, NotFound, NotOpen, Unauthenticated
from registry.domain.events import Actor, ActorKind
from registry.domain.joining import JoinTerms
from registry.domain.roles import Role
from registry.services.tokens import authenticate, checksum_of, create_token, list_tokens, revoke_token
from registry.store.database import Database
from registry.store.history import page_events

PEPPER = b"pepper" * 8
SYSTEM = Actor(ActorKind.SYSTEM, "pratique")


def make_token(
    db: Database, now: datetime, role: Role = Role.OPERATOR, name: str = "alice", node: str | None = None
) -> tuple[str, str]:
    terms = JoinTerms("gpu-*", 3, now + timedelta(days=1)) if role is Role.JOIN else None
    view, secret = create_token(db, role=role, name=name, node=node, terms=terms, pepper=PEPPER, actor=SYSTEM, now=now)
    return view.id, secret


@pytest.mark.parametrize("role", Role)
def test_a_token_says_who_asks(db: Database, now: datetime, role: Role) -> None:
    node = "node-a" if role is Role.NODE else None
    token_id, secret = make_token(db, now, role, "alice", node)

    caller = authenticate(db, secret, PEPPER)

    assert (caller.token_id, caller.role, caller.name, caller.node) == (token_id, role, "alice", node)
    assert re.fullmatch(rf"prq_{role}_[A-Za-z0-9_-]{{43}}[0-9A-Za-z]{{6}}", secret)


def test_the_secret_is_kept_nowhere(db: Database, now: datetime) -> None:
    _, secret = make_token(db, now, Role.NODE, "n", "node-a")

    with db.read() as snapshot:
        stored = repr([snapshot.all(f"SELECT * FROM {table}") for table in ("token", "event", "event_subject")])
        nodes = snapshot.all("SELECT * FROM node")
    assert secret not in stored
    assert secret[-49:-6] not in stored
    assert nodes == []


def test_making_and_revoking_are_events_of_the_token_and_its_node(db: Database, now: datetime) -> None:
    token_id, _ = make_token(db, now, Role.NODE, "n", "node-a")
    revoke_token(db, token_id, SYSTEM, now)

    with db.read() as snapshot:
        events = page_events(snapshot)
    assert [event.type for event in events] == ["token.created", "token.revoked"]
    assert [[(one.kind, one.id) for one, _ in event.subjects] for event in events] == [
        [("token", token_id), ("node", "node-a")]
    ] * 2
    assert events[0].data == {"name": "n", "node": "node-a", "role": "node", "token": token_id}


def test_a_revoked_token_stops_working_at_once_and_is_revoked_once(db: Database, now: datetime) -> None:
    token_id, secret = make_token(db, now)
    _, other = make_token(db, now)

    revoke_token(db, token_id, SYSTEM, now)

    with pytest.raises(Unauthenticated, match="revoked"):
        authenticate(db, secret, PEPPER)
    assert authenticate(db, other, PEPPER).name == "alice"
    with pytest.raises(NotOpen):
        revoke_token(db, token_id, SYSTEM, now)
    with pytest.raises(NotFound):
        revoke_token(db, "nobody", SYSTEM, now)


def test_another_pepper_knows_nobody(db: Database, now: datetime) -> None:
    _, secret = make_token(db, now)

    with pytest.raises(Unauthenticated):
        authenticate(db, secret, b"salt" * 8)


def test_what_is_no_token_is_refused_before_the_database_is_asked(
    db: Database, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = make_token(db, now)
    last = "0" if secret[-1] != "0" else "1"
    body = "prq_captain_" + "a" * 43
    monkeypatch.setattr(db, "read", lambda: pytest.fail("the database was asked"))

    for wrong in (
        "",
        "prq_",
        secret[:-1],
        secret[:-1] + last,
        secret + "\n",
        secret + "x",
        body + checksum_of(body),
        "é",
    ):
        with pytest.raises(Unauthenticated):
            authenticate(db, wrong, PEPPER)


def test_a_well_formed_token_that_was_never_made_is_refused(db: Database) -> None:
    body = "prq_admin_" + "a" * 43

    with pytest.raises(Unauthenticated):
        authenticate(db, body + checksum_of(body), PEPPER)


@pytest.mark.parametrize(
    ("role", "name", "node", "pointers"),
    [
        (Role.NODE, "n", None, ["/node"]),
        (Role.OPERATOR, "n", "node-a", ["/node"]),
        (Role.NODE, "", "a/b", ["/name", "/node"]),
        (Role.NODE, "n", "node-a\n", ["/node"]),
        (Role.NODE, "n", "x" * 254, ["/node"]),
        (Role.ADMIN, " n", None, ["/name"]),
        (Role.ADMIN, "n" * 129, None, ["/name"]),
        (Role.ADMIN, "n\x00", None, ["/name"]),
        (Role.ADMIN, "\ud800", None, ["/name"]),
    ],
)
def test_a_token_without_sense_is_not_made(
    db: Database, now: datetime, role: Role, name: str, node: str | None, pointers: list[str]
) -> None:
    with pytest.raises(InvalidField) as caught:
        make_token(db, now, role, name, node)

    assert [error.pointer for error in caught.value.errors] == pointers
    assert list_tokens(db) == []


def test_tokens_are_listed_newest_first_without_secrets(db: Database, now: datetime) -> None:
    first, _ = make_token(db, now)
    second, secret = make_token(db, now + timedelta(seconds=1), Role.NODE, "n", "node-a")
    revoke_token(db, second, SYSTEM, now + timedelta(seconds=2))

    found = [view.to_json() for view in list_tokens(db)]

    assert [one["id"] for one in found] == [second, first]
    assert found[0] == {
        "id": second,
        "role": "node",
        "name": "n",
        "node": "node-a",
        "created_at": "2026-11-29T12:00:01.000000Z",
        "created_by": "system:pratique",
        "revoked_at": "2026-11-29T12:00:02.000000Z",
        **dict.fromkeys(
            ("provider_id", "profile", "joined_with", "pattern", "uses", "used", "expires_at"),
        ),
    }
    assert secret not in repr(found)
