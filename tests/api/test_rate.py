# SPDX-License-Identifier: Apache-2.0
"""Does a bucket let through its rate, save up a little, and forget whom it need not remember?"""

from __future__ import annotations

import pytest

from api import rate
from api.rate import TokenBucket
from tests.clock import Clock


def test_a_rate_of_zero_lets_everything_through(clock: Clock) -> None:
    bucket = TokenBucket(0)

    assert [bucket.take("a", clock()) for _ in range(1000)] == [0] * 1000


def test_each_key_has_a_bucket_that_fills_up_again(clock: Clock) -> None:
    bucket = TokenBucket(2)

    assert [bucket.take("a", clock()) for _ in range(3)] == [0, 0, 1]
    assert bucket.take("b", clock()) == 0
    clock.advance(1)
    assert [bucket.take("a", clock()) for _ in range(3)] == [0, 0, 1]


def test_all_processes_together_let_the_rate_through(clock: Clock) -> None:
    buckets = [TokenBucket(8, workers=4) for _ in range(4)]

    def taken() -> int:
        return sum(bucket.take("a", clock()) == 0 for bucket in buckets for _ in range(20))

    assert taken() == 8
    clock.advance(1)
    assert taken() == 8


def test_a_clock_set_back_takes_nothing_away(clock: Clock) -> None:
    bucket = TokenBucket(2)
    bucket.take("a", clock())

    clock.advance(-3600)

    assert bucket.take("a", clock()) == 0


def test_full_buckets_are_forgotten(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate, "BUCKETS_MAX", 10)
    bucket = TokenBucket(1)

    for number in range(100):
        clock.advance(2)
        bucket.take(str(number), clock())

    assert len(bucket._buckets) <= 10
