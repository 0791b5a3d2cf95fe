# SPDX-License-Identifier: Apache-2.0
"""Do messages arrive, once where that can be, when the clock leaps, the disk is full, or a receiver answers nonsense?"""

from __future__ import annotations

import pytest

from registry.domain.errors import StoreUnavailable
from registry.domain.webhooks import SCHEDULE_SECONDS
from registry.services import courier
from registry.services.sending import Answer
from registry.store.database import Database
from tests.clock import Clock
from tests.services.messages import Post

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
