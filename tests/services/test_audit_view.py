# SPDX-License-Identifier: Apache-2.0
"""Does an auditor find who did what, see how far it is signed, and get the history verified piece by piece?"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from registry.config import Settings
from registry.domain.errors import InvalidField
from registry.domain.events import hash_of
from registry.services import audit, audit_view
from registry.services.audit_view import Verified, read_signed, search_events, summary_of, verify_on
from registry.services.checkpoints import sign
from registry.store.database import Transaction
from tests.fleet import EVERYTHING, Fleet, uuid
from tests.forgery import forge


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(database_url=database_url, data_dir=tmp_path, secret_key="x" * 32, signing_key="ab" * 32)


def found(fleet: Fleet, **filters: str) -> list[dict[str, Any]]:
    return search_events(fleet.db, filters, EVERYTHING).items


def story(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail("xid_79", device=uuid(1))
    fleet.hold({"device": uuid(2)}, reason="it smells")


def verified(fleet: Fleet, key: str | None = None, after: int = 0) -> list[Verified]:
    """All pieces of one verification."""
    pieces = [verify_on(fleet.db, key=key, began=after, after=after)]
    while pieces[-1].next is not None:
        last = pieces[-1]
        pieces.append(verify_on(fleet.db, key=key, began=last.began, after=last.next or 0, vouched=last.vouched))
    return pieces


def test_each_event_comes_with_its_body_as_it_was_hashed(fleet: Fleet) -> None:
    story(fleet)
    items = found(fleet)
    assert len(items) > 10
    assert all(hash_of(one["prev_hash"], one["body"]) == one["hash"] for one in items)
    (mine,) = found(fleet, actor="operator:alice", type="quarantine.opened")
    assert mine["summary"] == "it smells"


def test_it_is_searched_by_actor_device_type_and_time(fleet: Fleet) -> None:
    story(fleet)
    assert {one["type"] for one in found(fleet, type="quarantine.opened")} == {"quarantine.opened"}
    assert {one["actor"]["name"] for one in found(fleet, actor="rule:xid_79")} == {"xid_79"}
    about = found(fleet, device=uuid(2), type="quarantine.opened")
    assert [one["data"]["reason"] for one in about] == ["it smells"]
    now = fleet.clock.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert found(fleet, since=now)
    assert all(one["at"] < now for one in found(fleet, until=now))
    with pytest.raises(InvalidField):
        found(fleet, actor="somebody")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"reason": "a", "code": "b"}, "a"),
        ({"reason": None, "why": "c"}, "c"),
        ({"code": "xid_79"}, "xid_79"),
        ({"boot": "b"}, ""),
    ],
)
def test_an_event_is_said_by_its_most_telling_word(data: dict[str, Any], words: str) -> None:
    assert summary_of(data) == words


def test_how_far_it_is_signed_is_known_before_and_after_the_first_checkpoint(fleet: Fleet, settings: Settings) -> None:
    story(fleet)
    before = read_signed(fleet.db, key=None, now=fleet.clock.now)
    assert (before.checkpoint, before.age_seconds, before.uncovered) == (None, None, before.head)
    signed = sign(fleet.db, settings, now=fleet.clock.now)
    fleet.clock.advance(90)
    fleet.hold({"device": uuid(3)})
    after = read_signed(fleet.db, key=audit.own_key(settings), now=fleet.clock.now)
    assert after.checkpoint is not None
    assert (after.checkpoint["sequence"], after.age_seconds, after.is_own_key) == (signed.sequence, 90.0, True)
    assert after.uncovered == after.head - signed.sequence - 1
    assert read_signed(fleet.db, key="00" * 32, now=fleet.clock.now).is_own_key is False


def test_the_whole_history_is_verified_in_pieces(
    fleet: Fleet, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    story(fleet)
    sign(fleet.db, settings, now=fleet.clock.now)
    fleet.hold({"device": uuid(3)})
    monkeypatch.setattr(audit_view, "SLICE", 7)
    pieces = verified(fleet, audit.own_key(settings))
    assert len(pieces) > 2
    last = pieces[-1]
    assert (last.bad, last.reached, last.vouched, last.share) == (None, last.head, 1, 1.0)
    assert [one.reached for one in pieces] == sorted({one.reached for one in pieces})
    assert all(one.share < 1 for one in pieces[:-1])


def test_since_a_checkpoint_only_what_came_after_is_looked_at(fleet: Fleet, settings: Settings) -> None:
    story(fleet)
    signed = sign(fleet.db, settings, now=fleet.clock.now)
    (piece,) = verified(fleet, audit.own_key(settings), after=signed.sequence)
    assert (piece.began, piece.bad, piece.vouched) == (signed.sequence, None, 1)
    assert piece.reached == piece.head == signed.sequence + 1


def edit_the_ninth(tx: Transaction, *_: object) -> None:
    """Change one word of one entry."""
    tx.execute("UPDATE event SET body = replace(body, 'node', 'nude') WHERE sequence = 9")


def test_the_first_entry_that_was_edited_is_named_and_ends_it(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    story(fleet)
    forge(fleet.db, fleet.clock.now, edit_the_ninth, 9, Random(1))
    monkeypatch.setattr(audit_view, "SLICE", 5)
    last = verified(fleet)[-1]
    assert (last.bad, last.next, last.reached) == (9, None, 8)
    assert last.reason


def test_beyond_the_head_there_is_nothing_to_verify(fleet: Fleet) -> None:
    story(fleet)
    with pytest.raises(InvalidField):
        verify_on(fleet.db, key=None, began=0, after=10_000)
