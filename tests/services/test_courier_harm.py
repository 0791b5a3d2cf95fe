# SPDX-License-Identifier: Apache-2.0
"""Do messages arrive, once if they can, when the clock leaps, the disk is full, or a receiver answers nonsense?"""

from __future__ import annotations

import pytest

from registry.domain.errors import NotOpen, StoreUnavailable
from registry.domain.webhooks import SCHEDULE_SECONDS
from registry.services import courier, webhook_views, webhooks
from registry.services.sending import Answer
from registry.store import webhooks as store
from registry.store.database import Database
from registry.store.webhooks import Totals, read_totals
from tests.clock import Clock
from tests.fleet import ALICE
from tests.services.messages import PEPPER, Post

DAY = 86_400.0


@pytest.fixture
def post(db: Database, clock: Clock) -> Post:
    return Post(db, clock)


def test_what_failed_while_the_clock_ran_ahead_does_not_wait_for_that_day(post: Post) -> None:
    one = post.subscribe()
    post.clock.advance(400 * DAY)
    happened = post.happen("node-a")
    post.receiver.judge = lambda _: 500
    post.go()
    assert post.show(one)["failing_since"] is not None

    post.clock.advance(-400 * DAY)
    post.receiver.judge = lambda _: 200
    post.go(2)

    assert post.receiver.sequences == happened


@pytest.mark.parametrize("judged", [None, 500])
def test_a_week_in_which_nobody_tried_switches_nobody_off(post: Post, judged: int | None) -> None:
    one = post.subscribe()
    happened = post.happen("node-a")
    post.receiver.judge = lambda _: judged
    post.go()

    post.clock.advance(8 * DAY)  # the server was off, or its clock leapt
    post.wait(600, step=20)
    assert post.show(one)["enabled"]
    post.receiver.judge = lambda _: 200
    post.wait(400, step=20)
    assert post.receiver.sequences == happened


def test_what_was_sent_is_not_sent_again_while_that_cannot_be_written(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = post.subscribe()
    happened = post.happen("node-a", "node-b")
    with monkeypatch.context() as full:
        full.setattr(courier, "settle", refuse)
        for _ in range(5):
            with pytest.raises(StoreUnavailable):
                post.go()

    happened += post.happen("node-a")
    post.go(2)

    assert post.receiver.sequences == happened
    shown = post.show(one)
    assert (shown["delivered"], shown["position"], shown["pending"]) == (3, happened[-1], 0)


def refuse(*_: object) -> None:
    """Write nothing: the disk is full."""
    raise StoreUnavailable("the disk is full")


@pytest.mark.parametrize(
    "text", ["Fri, 31 Dec 9999 23:59:59 -2359", "Mon, 99999999999999999999 Jan 2020 00:00:00 GMT", "\x00", "9" * 4000]
)
def test_a_receiver_that_asks_for_nonsense_is_left_alone_like_any_other(post: Post, text: str) -> None:
    post.subscribe()
    post.happen("node-a")
    post.receiver.judge = lambda _: Answer(503, text)

    post.wait(4)

    assert len(post.receiver.asked) == 1
    assert SCHEDULE_SECONDS[0] > 4


def change(post: Post, id_: str, **how: bool) -> None:
    webhooks.change_subscription(post.db, id_, **how, pepper=PEPPER, actor=ALICE, now=post.clock.now)


def totals(post: Post) -> Totals:
    with post.db.read() as snapshot:
        return read_totals(snapshot)


def test_dead_letters_that_nobody_will_ever_take_can_be_put_away(post: Post) -> None:
    one = post.subscribe()
    (event,) = post.happen("node-a")
    post.receiver.judge = lambda message: 422 if message.sequence == event else 200
    for _ in range(110):
        post.happen("node-elsewhere")
        post.wait(3600, step=3600)
    assert (post.show(one)["dead"], totals(post).dead) == (1, 1)

    change(post, one, skips=True)

    assert (post.show(one)["dead"], totals(post).dead, post.deliveries(one, state="dead")) == (0, 0, [])
    assert post.show(one)["enabled"]


def test_no_more_is_replayed_than_may_wait_beside_the_history(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "PENDING_MAX", 3)
    one = post.subscribe()
    events = post.happen(*[f"node-{number}" for number in range(5)])
    post.receiver.judge = lambda message: 422 if message.sequence in events else 200
    for _ in range(160):
        post.happen("node-elsewhere")
        post.wait(3600, step=3600)
    assert post.show(one)["dead"] == 5

    assert webhooks.replay(post.db, one, None, actor=ALICE, now=post.clock.now) == {"replayed": 3}
    assert [row["event"] for row in post.deliveries(one, state="pending")] == events[:3]
    with pytest.raises(NotOpen, match="3 deliveries that wait"):
        webhooks.replay(post.db, one, None, actor=ALICE, now=post.clock.now)

    post.receiver.judge = lambda _: 200
    post.wait(60)
    assert webhooks.replay(post.db, one, None, actor=ALICE, now=post.clock.now) == {"replayed": 2}
    post.wait(60)
    assert set(events) <= set(post.receiver.sequences)


def test_what_only_tried_the_way_is_forgotten_after_a_week(post: Post) -> None:
    one = post.subscribe()
    post.receiver.judge = lambda _: 500
    webhooks.send_ping(post.db, one, now=post.clock.now)
    post.go()
    assert [row["state"] for row in post.deliveries(one)] == ["dead"]

    post.wait(8 * DAY, step=DAY)
    assert post.deliveries(one) == []


def test_what_a_person_switched_off_is_nothing_to_wake_anybody_for(post: Post) -> None:
    one = post.subscribe()
    post.happen("node-a")
    post.receiver.judge = lambda _: 500
    post.go()
    began = post.clock.now
    assert totals(post).oldest_at == began
    change(post, one, is_enabled=False)
    assert totals(post).oldest_at is None

    change(post, one, is_enabled=True)
    post.receiver.judge = lambda _: 410  # it is the receiver that switches it off
    post.wait(10)
    assert (post.show(one)["enabled"], totals(post).oldest_at) == (False, began)


def test_one_that_is_slow_is_seen_to_be_late_although_nothing_fails(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (webhook_views, store):
        monkeypatch.setattr(module, "LATE_EVENTS", 6)
    one = post.subscribe()
    post.happen(*["node-a"] * 6)
    assert (post.show(one)["behind"], totals(post).behind) == (0, 0)
    post.happen("node-a")
    assert (post.show(one)["behind"], totals(post).behind) == (7, 7)
