# SPDX-License-Identifier: Apache-2.0
"""Are events found again, page by page, by every filter?"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from registry.domain.events import Actor, ActorKind, EventType
from registry.store.database import Database
from registry.store.history import page_events, stream_events
from tests.store.drafts import ALICE, make_draft, write_events

MALLORY = Actor(ActorKind.OPERATOR, 'mal"l%ory_é')


@pytest.fixture
def written(db: Database, now: datetime) -> Database:
    """Events 1 to 10 about nodes; 11 and 12 a minute later, of other types and by other actors."""
    write_events(db, now, 10)
    with db.write(now + timedelta(minutes=1)) as transaction:
        transaction.record(make_draft("node-1", type_=EventType.NODE_BOOTED, actor=MALLORY))
        transaction.record(make_draft("node-2", type_=EventType.NODE_RETIRED, actor=Actor(ActorKind.NODE, "alice")))
    return db


def find(db: Database, **filters: object) -> list[int]:
    with db.read() as snapshot:
        return [event.sequence for event in page_events(snapshot, **filters)]  # type: ignore[arg-type]


def test_pages_follow_each_other_in_both_directions(written: Database) -> None:
    assert find(written, limit=5) == [1, 2, 3, 4, 5]
    assert find(written, limit=5, after=5) == [6, 7, 8, 9, 10]
    assert find(written, limit=5, after=10) == [11, 12]
    assert find(written, limit=5, newest_first=True) == [12, 11, 10, 9, 8]
    assert find(written, limit=20, newest_first=True, before=4) == [3, 2, 1]


def test_histories_of_several_subjects_are_merged_and_an_event_stands_once(written: Database) -> None:
    zero, one, everybody = (("node", f"node-{name}") for name in ("0", "1", "all"))

    assert find(written, subjects=[zero]) == [2, 4, 6, 8, 10]
    assert find(written, subjects=[zero, one], limit=4) == [1, 2, 3, 4]
    assert find(written, subjects=[one, zero, everybody, one], limit=4, newest_first=True) == [11, 10, 9, 8]
    assert find(written, subjects=[one], after=3, before=9) == [5, 7]
    assert find(written, subjects=[("device", "node-1")]) == find(written, subjects=[]) == []


def test_events_are_found_by_type_actor_and_time(written: Database, now: datetime) -> None:
    minute = timedelta(minutes=1)

    assert find(written, types=["node.booted"]) == [11]
    assert find(written, types=["node.retired", "node.booted"], newest_first=True) == [12, 11]
    assert find(written, types=["node.booted"], subjects=[("node", "node-2")]) == []
    assert find(written, types=["no.such"]) == []
    assert find(written, actor=MALLORY) == [11]
    assert find(written, actor=ALICE, limit=2) == [1, 2]
    assert find(written, actor=Actor(ActorKind.NODE, "alice")) == [12]
    assert find(written, actor=Actor(ActorKind.OPERATOR, "ali")) == []
    assert find(written, since=now + minute) == [11, 12]
    assert find(written, since=now, until=now + minute, after=8) == [9, 10]


def test_the_whole_history_streams_as_it_is_stored(written: Database) -> None:
    with written.read() as snapshot:
        events = list(stream_events(snapshot))
        rest = [event.sequence for event in stream_events(snapshot, after=10)]
        assert events == page_events(snapshot, limit=1000)

    assert rest == [11, 12]
    assert events[10].to_json()["actor"] == {"kind": "operator", "name": MALLORY.name}
    assert events[10].to_json()["subjects"] == [{"id": "node-1", "kind": "node", "ordinal": 6}]
