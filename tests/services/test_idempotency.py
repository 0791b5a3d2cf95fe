# SPDX-License-Identifier: Apache-2.0
"""Is a change made once per key, whatever happens between?"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest

from registry.domain.errors import IdempotencyInProgress, IdempotencyKeyReused
from registry.services.idempotency import KEPT, run_once
from registry.store.database import Database
from registry.store.history import page_events
from tests.store.drafts import make_draft

NOTHING = timedelta()


class Work:
    """A use case with a transaction of its own that counts how often it ran."""

    def __init__(self, db: Database, now: datetime) -> None:
        self.db, self.now, self.count, self.fails = db, now, 0, False

    def __call__(self) -> tuple[int, dict[str, Any]]:
        with self.db.write(self.now) as transaction:
            transaction.record(make_draft("node-a"))
            self.count += 1
            if self.fails:
                raise KeyError
        return 201, {"count": self.count, "b": 1.5, "a": "é"}


@pytest.fixture
def work(db: Database, now: datetime) -> Work:
    return Work(db, now)


def ask(
    work: Work, *, key: str = "k", digest: str = "d", who: str = "t", route: str = "r", after: timedelta = NOTHING
) -> Any:
    return run_once(
        work.db, token_id=who, route=route, key=key, digest=digest, now=work.now + after, work=work
    )  # fmt: skip


def test_the_first_answer_is_replayed(work: Work) -> None:
    first = ask(work)
    second = ask(work, after=KEPT - timedelta(seconds=1))

    assert first == (201, {"count": 1, "b": 1.5, "a": "é"}, False)
    assert second == (*first[:2], True)
    assert list(second[1]) == ["count", "b", "a"]
    with work.db.read() as snapshot:
        assert len(page_events(snapshot)) == work.count == 1


def test_another_body_under_the_same_key_is_refused(work: Work) -> None:
    ask(work)

    with pytest.raises(IdempotencyKeyReused):
        ask(work, digest="another")
    assert work.count == 1


def test_a_key_is_one_tokens_on_one_route(work: Work) -> None:
    answers = [ask(work), ask(work, who="other"), ask(work, route="other"), ask(work, key="other")]

    assert [answer[2] for answer in answers] == [False] * 4
    assert work.count == 4


def test_what_fails_leaves_nothing_and_may_be_tried_again(work: Work) -> None:
    work.fails = True
    with pytest.raises(KeyError):
        ask(work)
    with work.db.read() as snapshot:
        assert page_events(snapshot) == []

    work.fails = False
    assert ask(work)[2] is False


def test_after_a_day_the_key_is_forgotten(work: Work) -> None:
    ask(work)

    assert ask(work, digest="another", after=KEPT)[2] is False


def test_a_request_beside_the_first_is_told_to_wait(work: Work, db: Database, now: datetime) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow() -> tuple[int, dict[str, Any]]:
        entered.set()
        leave.wait(10)
        return 200, {}

    def first() -> None:
        run_once(db, token_id="t", route="r", key="k", digest="d", now=now, work=slow)
        db.close()

    thread = threading.Thread(target=first)
    thread.start()
    entered.wait(10)
    with pytest.raises(IdempotencyInProgress):
        ask(work)
    leave.set()
    thread.join()

    assert ask(work) == (200, {}, True)
