# SPDX-License-Identifier: Apache-2.0
"""Is a line of the kernel log one sight, whoever reads it: the agent, who dates it, or a script, who may not?"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from registry.domain.reports import ReportedFailure
from registry.services.failures import withdraw_failure
from tests.clock import NOON
from tests.fleet import ALICE, CLEAN_GPU, Fleet, gpu, passing

AT = NOON + timedelta(seconds=60)
CODE = "xid_63"


def read(
    fleet: Fleet,
    by: str,
    *uptimes: int,
    at: datetime | None = None,
    count: int = 1,
    boot: str | None = None,
    number: int = 1,
    **evidence: object,
) -> None:
    """A report with the lines of these times since boot; a reader that dates them gives `at`."""
    fault = ReportedFailure(
        f"{by}-{uptimes}" if by == "agent" else f"{by}-{uptimes[0]}-{number}-{boot}",
        CODE,
        slot=gpu(number).slot,
        occurred_at=at,
        evidence={
            "source": "kernel_log",
            "uptime_microseconds": uptimes[0],
            **({"last_uptime_microseconds": uptimes[1]} if len(uptimes) > 1 else {}),
            **evidence,
        },
        count=count,
    )
    fleet.clock.advance(30)
    more = {"boot": boot} if boot else {}
    fleet.report(devices=[gpu(1), gpu(2)], checks=passing(*CLEAN_GPU), failures=(fault,), **more)


def on_record(fleet: Fleet) -> list[tuple[str, int]]:
    with fleet.db.read() as snapshot:
        return [
            (str(state), int(count)) for state, count in snapshot.all("SELECT state, count FROM failure ORDER BY id")
        ]


@pytest.fixture(autouse=True)
def node(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1), gpu(2)], checks=passing(*CLEAN_GPU))
    fleet.clock.advance(120)


@pytest.mark.parametrize("readers", [("agent", "script"), ("script", "agent")])
def test_a_line_that_two_readers_tell_is_counted_once(fleet: Fleet, readers: tuple[str, str]) -> None:
    for by in (*readers, *readers):
        read(fleet, by, 5_000_000, at=AT if by == "agent" else None)

    assert on_record(fleet) == [("active", 1)]


def test_a_line_that_is_read_again_does_not_undo_a_release(fleet: Fleet) -> None:
    read(fleet, "agent", 5_000_000, at=AT)
    (hold,) = fleet.open_holds()
    fleet.clock.advance(60)
    fleet.release(hold["id"])

    read(fleet, "script", 5_000_000)

    assert fleet.open_holds() == []


def test_a_line_that_was_withdrawn_stays_so(fleet: Fleet) -> None:
    read(fleet, "agent", 5_000_000, at=AT)
    with fleet.db.read() as snapshot:
        ((id_,),) = snapshot.all("SELECT id FROM failure")
    withdraw_failure(fleet.db, str(id_), reason="a test", actor=ALICE, now=fleet.clock.now)

    read(fleet, "script", 5_000_000)

    assert on_record(fleet) == [("withdrawn", 1)]


def test_a_burst_counts_only_the_lines_that_nobody_told(fleet: Fleet) -> None:
    read(fleet, "agent", 5_000_000, at=AT)
    read(fleet, "script", 5_000_000, 9_000_000, count=3)
    read(fleet, "agent", 9_000_000, at=AT + timedelta(seconds=4))
    assert on_record(fleet) == [("active", 3)]

    read(fleet, "agent", 11_000_000, at=AT + timedelta(seconds=6))
    read(fleet, "script", 5_000_000, 11_000_000, count=4)
    read(fleet, "script", 5_000_000, 12_000_000, count=5)
    read(fleet, "agent", 12_000_000, at=AT + timedelta(seconds=7))

    assert on_record(fleet) == [("active", 5)]


def test_another_line_device_or_boot_is_another_sight(fleet: Fleet) -> None:
    read(fleet, "agent", 5_000_000, at=AT)
    read(fleet, "script", 5_000_001, count=1)
    assert on_record(fleet) == [("active", 2)]

    read(fleet, "script", 5_000_000, number=2)
    read(fleet, "script", 5_000_000, boot="boot-later")

    assert on_record(fleet) == [("active", 2), ("active", 1), ("active", 1)]


def burst(fleet: Fleet, seconds: range, *, is_dated: bool) -> None:
    """What a log tells that holds a line for each of these seconds since boot, and has forgotten those before."""
    first, last = seconds[0], seconds[-1]
    fault = ReportedFailure(
        f"log-{first}",
        CODE,
        slot=gpu(1).slot,
        occurred_at=NOON + timedelta(seconds=first) if is_dated else None,
        last_at=NOON + timedelta(seconds=last) if is_dated else None,
        evidence={"source": "kernel_log"}
        if is_dated
        else {
            "source": "kernel_log",
            "uptime_microseconds": first * 1_000_000,
            "last_uptime_microseconds": last * 1_000_000,
        },
        count=len(seconds),
    )
    fleet.clock.now = max(fleet.clock.now, NOON + timedelta(seconds=last))
    fleet.clock.advance(30)
    fleet.report(devices=[gpu(1), gpu(2)], checks=passing(*CLEAN_GPU), failures=(fault,))


@pytest.mark.parametrize("is_dated", [True, False], ids=["dated", "since boot"])
def test_a_burst_whose_beginning_the_log_forgets_is_not_counted_anew(fleet: Fleet, is_dated: bool) -> None:
    for at in range(8):
        burst(fleet, range(100 + 10 * at, 500 + 10 * at), is_dated=is_dated)

    ((_, count),) = on_record(fleet)
    assert 450 <= count <= 490, "470 lines in all"


def test_lines_that_were_told_one_by_one_are_not_counted_again_when_they_are_told_together(fleet: Fleet) -> None:
    """C119."""
    seconds = (1108, 1843, 2501)
    read(fleet, "script", seconds[0] * 1_000_000)
    read(fleet, "script", seconds[1] * 1_000_000)
    for _ in range(2):
        read(fleet, "script", seconds[0] * 1_000_000, seconds[2] * 1_000_000, count=3)

    assert on_record(fleet) == [("active", 3)]
