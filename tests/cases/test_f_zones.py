# SPDX-License-Identifier: Apache-2.0
"""Group F of the public reports: stamps without a zone, of hosts whose clocks do not show UTC."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.cases.conftest import World, codes, one_engine
from tests.cases.kernel import at, bring_up, failures, look, release_all, xid

EAST, WEST = timedelta(hours=9), timedelta(hours=-5)


def human(when: datetime, message: str) -> str:
    """A line as `dmesg -T` prints it."""
    return f"[{when:%a %b %e %H:%M:%S %Y}] {message}"


def syslog(when: datetime, message: str) -> str:
    return f"{when:%b %e %H:%M:%S} node-a kernel: {message}"


@pytest.mark.parametrize("write", [human, syslog, at])
@pytest.mark.parametrize("offset", [EAST, timedelta(minutes=20)], ids=["east", "clock ahead"])
def test_a_line_that_seems_to_be_of_the_future_is_one_sight_however_often_it_is_read(
    world: World, write: object, offset: timedelta
) -> None:
    assert callable(write)
    bring_up(world)
    line = write(world.clock.now + offset, xid(79, 2))
    for _ in range(3):
        assert "device_quarantined" in codes(look(world, line)["admission"])
        world.clock.advance(1_800)
    world.clock.advance(36_000)  # what was ahead is past by now
    look(world, line)
    assert [one["count"] for one in failures(world)] == [1]

    release_all(world)
    for _ in range(2):
        decision = look(world, line)["admission"]

    assert (decision["admitted"], codes(decision)) == (True, [])
    assert [one["count"] for one in failures(world)] == [1]


@one_engine
@pytest.mark.parametrize("offset", [EAST, WEST, timedelta(0)], ids=["east", "west", "utc"])
def test_a_new_line_after_a_release_is_new_wherever_the_host_is(world: World, offset: timedelta) -> None:
    bring_up(world)
    first = human(world.clock.now + offset, xid(79, 2))
    look(world, first)
    release_all(world)
    for _ in range(2):
        decision = look(world, first)["admission"]
    assert decision["admitted"] is True

    later = human(world.clock.now + offset, xid(79, 2))

    assert "device_quarantined" in codes(look(world, first, later)["admission"])
    assert [one["count"] for one in failures(world)] == [2]


@one_engine
def test_programs_that_fail_east_of_utc_are_counted_once_each(world: World) -> None:
    bring_up(world)
    line = human(world.clock.now + EAST, xid(43, 2))

    for _ in range(4):
        look(world, line)

    assert [one["count"] for one in failures(world)] == [1]


@one_engine
def test_a_line_that_no_zone_can_make_newer_than_the_release_is_old(world: World) -> None:
    bring_up(world)
    before = world.clock.now
    look(world, at(before, xid(79, 2)))
    world.clock.advance(15 * 3_600)
    release_all(world)

    for _ in range(2):
        decision = look(world, human(before - timedelta(minutes=10), xid(79, 2)))["admission"]

    assert "device_quarantined" not in codes(decision)


@one_engine
@pytest.mark.parametrize("code", [999, 48], ids=["hold", "quarantine"])
def test_a_new_fault_west_of_utc_is_not_settled_by_what_a_person_did_before_it(world: World, code: int) -> None:
    bring_up(world)
    look(world, at(world.clock.now, xid(79, 2)))
    release_all(world)
    for _ in range(2):
        decision = look(world)["admission"]
    assert decision["admitted"] is True
    line = human(world.clock.now + WEST, xid(code, 2))

    for _ in range(3):
        decision = look(world, line)["admission"]

    assert "check_failing" in codes(decision)


@one_engine
def test_an_old_line_without_a_zone_is_settled_by_a_release_though_it_is_told_only_then(world: World) -> None:
    bring_up(world)
    before = world.clock.now
    look(world, at(before, xid(79, 2)))
    world.clock.advance(15 * 3_600)
    release_all(world)

    for _ in range(2):
        decision = look(world, human(before, xid(999, 2)))["admission"]

    assert "check_failing" not in codes(decision)
