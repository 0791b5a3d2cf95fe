# SPDX-License-Identifier: Apache-2.0
"""Does our own absence make nobody stale, and only that?"""

from __future__ import annotations

from datetime import datetime, timedelta

from registry.domain.policy import Policy
from registry.domain.staleness import Outage, is_stale, silence_seconds
from registry.services.life import beat, outages, silence
from registry.store.database import Database
from registry.store.history import page_events

POLICY = Policy()


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def test_a_new_database_has_no_outage(db: Database, now: datetime) -> None:
    assert beat(db, now, POLICY) is None

    with db.read() as snapshot:
        assert outages(snapshot, now - timedelta(days=1)) == ()
        assert page_events(snapshot) == []


def test_signs_up_to_the_gap_are_no_outage_and_a_longer_one_is(db: Database, now: datetime) -> None:
    later = now + seconds(30)
    back = later + seconds(31)
    assert [beat(db, now, POLICY), beat(db, later, POLICY)] == [None, None]

    assert beat(db, back, POLICY) == Outage(later, back)
    assert beat(db, back, POLICY) is None

    with db.read() as snapshot:
        (event,) = page_events(snapshot)
        assert outages(snapshot, now) == (Outage(later, back),)
        assert outages(snapshot, back) == ()
    assert event.type == "service.resumed"
    assert event.data == {"from": "2026-11-29T12:00:30.000000Z", "to": "2026-11-29T12:01:01.000000Z", "seconds": 31}


def test_the_silence_of_a_node_leaves_outages_out(db: Database, now: datetime) -> None:
    beat(db, now, POLICY)
    beat(db, now + seconds(1000), POLICY)

    with db.read() as snapshot:
        assert silence(snapshot, now - seconds(10), now + seconds(1005)) == 15
        assert silence(snapshot, now + seconds(1000), now + seconds(1005)) == 5


def test_a_clock_that_was_set_back_does_not_unsay_a_sign(db: Database, now: datetime) -> None:
    beat(db, now, POLICY)
    beat(db, now - seconds(100), POLICY)

    assert beat(db, now + seconds(20), POLICY) is None


def test_silence_with_outages_that_overlap_begin_before_or_end_after(now: datetime) -> None:
    overlapping = (Outage(now + seconds(20), now + seconds(40)), Outage(now + seconds(10), now + seconds(30)))

    assert silence_seconds(now, now + seconds(100), ()) == 100
    assert silence_seconds(now, now + seconds(100), overlapping) == 70
    assert silence_seconds(now, now + seconds(35), overlapping) == 10
    assert silence_seconds(now + seconds(25), now + seconds(100), overlapping) == 60
    assert silence_seconds(now, now - seconds(5), overlapping) == 0


def test_a_silence_is_too_long_beyond_the_limit_and_when_nobody_was_ever_heard() -> None:
    limit = float(Policy().report_stale_seconds)

    assert [is_stale(silence, Policy()) for silence in (0.0, limit, limit + 0.1, None)] == [False, False, True, True]
