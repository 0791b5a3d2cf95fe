# SPDX-License-Identifier: Apache-2.0
"""Are a node's times put on the server's clock, and left alone where nothing speaks against them?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from registry.domain.clocks import late_by, slow_by
from registry.domain.policy import Policy
from registry.domain.reports import ReportedFailure
from tests.clock import NOON

NOTHING = timedelta(0)
TOLERATED = timedelta(seconds=Policy().future_tolerance_seconds)


@pytest.mark.parametrize("ahead", [timedelta(hours=7), timedelta(hours=-7), timedelta(days=-20_000)])
def test_a_wrong_clock_is_measured_by_the_moment_of_sending(ahead: timedelta) -> None:
    assert slow_by(NOON + ahead, Policy(), NOON) == -ahead


@pytest.mark.parametrize("ahead", [TOLERATED, NOTHING, -TOLERATED])
def test_what_a_message_needs_for_its_way_is_no_difference(ahead: timedelta) -> None:
    assert slow_by(NOON + ahead, Policy(), NOON) == NOTHING
    assert slow_by(None, Policy(), NOON) == NOTHING


@pytest.mark.parametrize("ahead", [NOTHING, timedelta(hours=7)])
def test_what_an_earlier_boot_saw_came_before_the_one_that_runs(ahead: timedelta) -> None:
    first, last = NOON + ahead, NOON + ahead + timedelta(seconds=3)
    burst = ReportedFailure("f", "xid_94", occurred_at=first, last_at=last, count=2)
    single = ReportedFailure("f", "xid_94", occurred_at=first)

    assert last + late_by(burst, NOON) < NOON
    assert first + late_by(single, NOON) < NOON


def test_what_is_dated_as_it_should_be_or_not_at_all_stays() -> None:
    early = ReportedFailure("f", "xid_94", occurred_at=NOON - timedelta(seconds=1))

    assert late_by(early, NOON) == NOTHING
    assert late_by(ReportedFailure("f", "xid_94"), NOON) == NOTHING
    assert late_by(ReportedFailure("f", "xid_94", occurred_at=NOON), None) == NOTHING
