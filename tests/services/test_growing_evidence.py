# SPDX-License-Identifier: Apache-2.0
"""When is a fault that is told again news? When a burst has grown, or a counter has risen, since it was told before."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from registry.domain.reports import CheckResult, CheckStatus
from registry.domain.rules import Rule
from registry.services.history import list_events
from tests.fleet import EVERYTHING, Fleet, passing
from tests.services.test_kernel_evidence import SLOT, XID, counts, keep_out, line, owners, read, release_all

HANGS = Rule("hangs", count=3, within_seconds=600, codes=("xid_43",))


def test_an_undated_line_that_comes_again_after_a_release_holds_again(fleet: Fleet) -> None:
    fleet.admit()
    read(fleet, line())
    release_all(fleet)
    for _ in range(2):
        read(fleet, line())
    assert fleet.decide().admitted

    for _ in range(2):
        read(fleet, line(count=2))

    assert {"device_quarantined", "check_failing"} <= set(fleet.codes())
    assert counts(fleet) == [("xid_79", 2)]


def test_an_undated_line_that_only_counts_more_is_no_unchanged_report(fleet: Fleet) -> None:
    fleet.admit()
    fleet.policy = replace(fleet.policy, rules=(HANGS,))
    for count in (1, 1, 2, 2):
        fleet.clock.advance(31)
        fleet.report(failures=(line("xid_43", count=count),))
        assert owners(fleet) == []

    fleet.clock.advance(31)
    fleet.report(failures=(line("xid_43", count=3),))

    assert (owners(fleet), counts(fleet)) == (["rule:hangs"], [("xid_43", 3)])


def test_a_burst_that_goes_on_after_a_long_rest_is_counted_by_what_is_new(fleet: Fleet) -> None:
    fleet.admit()
    fleet.policy = replace(fleet.policy, rules=(HANGS,))
    fleet.clock.advance(31)
    fleet.report(failures=(line("xid_43"),))
    fleet.clock.advance(7200)
    for count in (2, 3):
        fleet.clock.advance(31)
        fleet.report(failures=(line("xid_43", count=count),))
    assert owners(fleet) == []

    fleet.clock.advance(31)
    fleet.report(failures=(line("xid_43", count=4),))

    assert owners(fleet) == ["rule:hangs"]


@pytest.mark.parametrize(("apart", "fired"), [(10_000, False), (60, True)])
def test_lines_without_dates_are_as_far_apart_as_the_time_since_boot_says(
    fleet: Fleet, apart: int, fired: bool
) -> None:
    fleet.admit()
    fleet.policy = replace(fleet.policy, rules=(HANGS,))
    first, last = 10_000 * 1_000_000, (10_000 + 2 * apart) * 1_000_000
    fleet.clock.advance(31)

    fleet.report(failures=(line("xid_43", count=3, uptime_microseconds=first, last_uptime_microseconds=last),))

    assert owners(fleet) == (["rule:hangs"] if fired else [])


def test_what_outlasts_maintenance_is_news_each_time_it_grows(fleet: Fleet) -> None:
    fleet.admit()
    until = fleet.clock.now + timedelta(minutes=1)
    keep_out(fleet, until)
    read(fleet, line())
    fleet.clock.advance(60)
    read(fleet, line())
    assert owners(fleet) == []
    for count in (2, 3):
        read(fleet, line(count=count))
        assert owners(fleet) == ["rule:xid_79"]
        release_all(fleet)
        read(fleet, line(count=count))
        assert owners(fleet) == []
    assert counts(fleet) == [("xid_79", 1), ("xid_79", 2)]


# --- counters -------------------------------------------------------------------------------------------------------


def ecc(fleet: Fleet, count: int | None) -> None:
    """A report whose `gpu.ecc` fails over a counter that stands there."""
    fleet.clock.advance(31)
    failing = CheckResult("gpu.ecc", CheckStatus.FAIL, SLOT, "gpu.ecc.dbe", count=count)
    fleet.report(checks=(*passing("gpu.row_remap", XID), failing))


def test_a_counter_that_rises_after_a_release_is_news_and_one_that_stands_is_none(fleet: Fleet) -> None:
    fleet.admit()
    ecc(fleet, 1)
    assert owners(fleet) == ["rule:gpu.ecc.dbe"]
    release_all(fleet)
    for _ in range(3):
        ecc(fleet, 1)
    assert owners(fleet) == []

    ecc(fleet, 5)
    ecc(fleet, 5)

    assert owners(fleet) == ["rule:gpu.ecc.dbe", "rule:repeat_offender"]
    assert counts(fleet) == [("gpu.ecc.dbe", 2)]


def test_a_check_without_a_counter_is_no_news_while_it_fails(fleet: Fleet) -> None:
    fleet.admit()
    ecc(fleet, None)
    release_all(fleet)
    for _ in range(3):
        ecc(fleet, None)
    assert owners(fleet) == []
    told = [one for one in list_events(fleet.db, {}, EVERYTHING).items if one["type"] == "failure.recorded"]
    assert len(told) == 1
