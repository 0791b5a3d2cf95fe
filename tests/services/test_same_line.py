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
