# SPDX-License-Identifier: Apache-2.0
"""What events do the tests of the store write?"""

from __future__ import annotations

from datetime import datetime

from registry.domain.events import JSON, Actor, ActorKind, Draft, EventType, Subject, SubjectKind
from registry.store.database import Database

ALICE = Actor(ActorKind.OPERATOR, "alice")


def make_draft(*names: str, type_: EventType = EventType.NODE_REGISTERED, actor: Actor = ALICE, **data: JSON) -> Draft:
    """An event about nodes."""
    return Draft(type_, actor, tuple(Subject(SubjectKind.NODE, name) for name in names), data)


def write_events(db: Database, now: datetime, count: int) -> None:
    """Write events 1 to `count`, one transaction each: the odd ones about node-1, the even ones about node-0."""
    for number in range(1, count + 1):
        with db.write(now) as transaction:
            transaction.record(make_draft(f"node-{number % 2}", "node-all", number=number))
