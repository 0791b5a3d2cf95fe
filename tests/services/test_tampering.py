# SPDX-License-Identifier: Apache-2.0
"""Is everything found that somebody changed who has all rights but the key, and is nothing found that nobody did?"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random

import pytest

from registry.domain.events import Draft, EventType
from registry.services.audit import Held, verify
from registry.store.database import Database
from registry.store.migrations import check_guards
from tests.forgery import FORGERIES, forge
from tests.services.signed import KEY, make_settings, sign, write_many
from tests.store.drafts import ALICE


@pytest.fixture
def held(db: Database, now: datetime, tmp_path: Path) -> Held:
    """Two checkpoints kept elsewhere, of a history that goes on after them."""
    settings = make_settings(tmp_path)
    kept = []
    for count in (300, 40):
        write_many(db, now, count)
        kept.append(sign(db, now, settings))
    write_many(db, now, 10)
    return Held(tuple(kept))


def test_a_history_that_nobody_touched_raises_no_alarm(db: Database, held: Held) -> None:
    found = verify(db, held=held, key=KEY)

    assert (found["ok"], found["entries"], found["checkpoints"], found["next"]) == (True, 352, 4, None)


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_forgery_is_found_and_its_place_is_named(db: Database, now: datetime, held: Held, kind: str) -> None:
    covered = held.checkpoints[-1].sequence

    forge(db, now, FORGERIES[kind], covered, Random(kind))

    assert check_guards(db) == []
    found = verify(db, held=held, key=KEY)
    assert not found["ok"]
    assert 1 <= found["bad"] <= covered + 1, found
    assert found["reason"]


def test_in_parts_every_forgery_is_found_too(db: Database, now: datetime, held: Held) -> None:
    forge(db, now, FORGERIES["an entry is edited and all is made to fit"], 300, Random(1))

    found = verify(db, held=held, key=KEY, after=200, limit=150)

    assert (found["ok"], found["bad"]) == (False, 201)
    assert "something from 201 to 300 was changed" in found["reason"]


def test_without_a_held_checkpoint_a_well_made_rewrite_is_not_found(db: Database, now: datetime, held: Held) -> None:
    """Not promised, and said so: the reason to keep checkpoints elsewhere."""
    forge(db, now, FORGERIES["everything is written anew"], 300, Random(1))

    assert verify(db, key=KEY)["ok"]


@pytest.mark.parametrize(
    ("more", "bad", "reason"), [(0, 1, "is of other entries"), (1, 22, "signature")], ids=["genuine", "forged"]
)
def test_a_checkpoint_in_a_history_that_was_written_anew_shows_it(
    db: Database, now: datetime, tmp_path: Path, more: int, bad: int, reason: str
) -> None:
    write_many(db, now, 20)
    signed = sign(db, now, make_settings(tmp_path))
    forge(db, now, FORGERIES["an entry is edited and all is made to fit"], 20, Random(1))
    write_many(db, now, more)
    with db.write(now) as transaction:
        claimed = replace(signed, sequence=transaction.sequence())
        transaction.record(Draft(EventType.CHECKPOINT_SIGNED, ALICE, (), claimed.to_json()))

    found = verify(db, key=KEY)

    assert (found["ok"], found["bad"]) == (False, bad)
    assert reason in found["reason"]


def test_a_kept_subtree_that_was_edited_shows(db: Database, now: datetime, held: Held) -> None:
    forge(db, now, lambda tx, *_: tx.execute("UPDATE subtree SET hash = ?", ("a" * 64,)), 0, Random(1))

    found = verify(db, held=held, key=KEY)

    assert not found["ok"]
    assert "subtree of level 8 up to 256" in found["reason"]


def test_a_kept_subtree_of_entries_that_are_not_there_shows(db: Database, now: datetime, held: Held) -> None:
    forge(db, now, lambda tx, *_: tx.execute("INSERT INTO subtree VALUES (512, 8, 'a')"), 0, Random(1))

    found = verify(db, held=held, key=KEY)

    assert (found["ok"], found["bad"]) == (False, 353)


def test_a_history_is_verified_in_parts_that_go_on_from_one_another(db: Database, held: Held) -> None:
    after, entries, agreed = 0, 0, 0
    while True:
        found = verify(db, held=held, key=KEY, after=after, limit=100)
        assert found["ok"]
        entries, agreed = entries + found["entries"], agreed + found["checkpoints"]
        if found["next"] is None:
            break
        after = found["next"]

    assert (after, entries, agreed) == (300, 352, 4)
