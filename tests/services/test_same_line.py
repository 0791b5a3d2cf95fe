# SPDX-License-Identifier: Apache-2.0
"""Is a line of a log one sight, however often it is read and whatever time dmesg makes of it?"""

from __future__ import annotations

from datetime import timedelta

from registry.domain.reports import ReportedFailure
from tests.clock import NOON
from tests.fleet import CLEAN_GPU, Fleet, gpu, passing


def read(fleet: Fleet, *, late: float, count: int = 1, lasted: float = 0.0) -> None:
    """A report with a burst of Xid 43 that began a minute after the test; `late` is how dmesg errs."""
    first = NOON + timedelta(seconds=60 + late)
    last = first + timedelta(seconds=lasted)
    fault = ReportedFailure(
        f"log-{late}-{count}", "xid_43", slot=gpu(1).slot, occurred_at=first, last_at=last, count=count
    )
    fleet.clock.advance(30)
    fleet.report(devices=[gpu(1)], checks=passing(*CLEAN_GPU), failures=(fault,))


def counted(fleet: Fleet) -> int:
    with fleet.db.read() as snapshot:
        ((count,),) = snapshot.all("SELECT count FROM failure")
    return int(count)


def test_a_line_whose_time_wavers_is_counted_once(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1)], checks=passing(*CLEAN_GPU))
    fleet.clock.advance(120)

    for late in (0.0, 0.4, -0.7, 1.1):
        read(fleet, late=late)

    assert counted(fleet) == 1


def test_a_burst_that_goes_on_counts_only_what_is_new(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1)], checks=passing(*CLEAN_GPU))
    fleet.clock.advance(600)

    read(fleet, late=0.0, count=3, lasted=100)
    read(fleet, late=0.5, count=4, lasted=300)

    assert counted(fleet) == 4


def read_line(fleet: Fleet, uptime: float, *, is_told: bool = True) -> None:
    """A report with one line of Xid 43; only with `is_told` does its reader tell how long after the boot it was."""
    at = NOON + timedelta(seconds=uptime)
    evidence = {"uptime_microseconds": int(uptime * 1_000_000)} if is_told else None
    fault = ReportedFailure(
        f"line-{uptime}-{is_told}", "xid_43", slot=gpu(1).slot, occurred_at=at, last_at=at, evidence=evidence
    )
    fleet.clock.advance(30)
    fleet.report(devices=[gpu(1)], checks=passing(*CLEAN_GPU), failures=(fault,))


def test_lines_of_known_times_since_boot_are_told_apart_however_near_they_are(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1)], checks=passing(*CLEAN_GPU))
    fleet.clock.advance(120)

    for uptime in (60.0, 60.4, 59.9, 60.4):
        read_line(fleet, uptime)

    assert counted(fleet) == 3


def test_a_line_beside_one_whose_time_since_boot_nobody_told_may_be_the_same(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1)], checks=passing(*CLEAN_GPU))
    fleet.clock.advance(120)

    read_line(fleet, 60.0, is_told=False)
    read_line(fleet, 60.4)

    assert counted(fleet) == 1
