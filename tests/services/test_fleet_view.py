# SPDX-License-Identifier: Apache-2.0
"""Does the look at the fleet say what the records say, and does a large fleet's count say when it was made?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from registry.domain.capacity import CapacityState, Place
from registry.domain.failures import Cause
from registry.services import capacity, fleet_count, fleet_view, leasing, nodes
from registry.services.fleet_count import keep_count
from registry.services.fleet_view import FleetView, read_fleet
from registry.services.leasing import Lease, LeaseLost
from registry.store import tallies
from registry.store.database import to_micros
from tests.clock import NOON
from tests.fleet import ALICE, Fleet, gpu, serial

HOUR = 3600
DAY = 24 * HOUR


def look(fleet: Fleet) -> FleetView:
    return read_fleet(fleet.db, policy=fleet.policy, now=fleet.clock.now)


def lease_of(fleet: Fleet, holder: str = "tests") -> Lease:
    lease = leasing.take(fleet.db, "background", holder, now=fleet.clock.now, seconds=HOUR)
    assert lease is not None
    return lease


def admit(fleet: Fleet, name: str, first: int, **more: object) -> None:
    fleet.admit(name, devices=[gpu(first + at, at=at) for at in range(4)], instance=f"i-{name}", **more)


def test_of_an_empty_fleet_everything_is_nothing(fleet: Fleet) -> None:
    view = look(fleet)

    assert (view.count.devices, view.count.rates, view.count.failing) == ({}, (), ())
    assert (view.standing.places, view.hours, view.holds, view.offenders, view.silent) == ((), {}, {}, [], [])
    assert view.guards.checkpoint_at is None


def test_devices_and_nodes_are_counted_by_state(fleet: Fleet) -> None:
    admit(fleet, "node-a", 0)
    admit(fleet, "node-b", 10)
    fleet.hold({"device": serial(1)}, cause="smoke")
    fleet.hold({"device": serial(11)})

    view = look(fleet)

    assert view.count.devices == {("gpu", "in_service"): 6, ("gpu", "quarantined"): 2}
    assert view.nodes == {"reporting": 2}
    assert view.holds == {"smoke": 1, None: 1}
    assert (view.standing.gpus, view.standing.available, view.standing.is_mean) == (8, 0, False)
    assert view.standing.places == ((Place(CapacityState.QUARANTINED, Cause.UNKNOWN), 2, 8),)


def test_a_held_board_that_comes_back_under_another_name_is_a_repeat_offender(fleet: Fleet) -> None:
    admit(fleet, "node-a", 0)
    fleet.fail("xid_79", node="node-a", device=serial(2))
    fleet.clock.advance(DAY)
    fleet.report("node-b", [gpu(12, at=0), gpu(2, at=1), gpu(13, at=2), gpu(14, at=3)], instance="i-b")

    (one,) = look(fleet).offenders

    assert (one.device["serial"], one.failed_on, one.node) == (serial(2), ("node-a",), "node-b")
    assert (one.since, one.until) == (fleet.clock.now, None)


def test_one_that_stays_where_it_failed_is_none(fleet: Fleet) -> None:
    admit(fleet, "node-a", 0)
    fleet.fail("xid_79", node="node-a", device=serial(2))

    assert look(fleet).offenders == []


def test_one_that_was_released_before_it_moved_is_none(fleet: Fleet) -> None:
    admit(fleet, "node-a", 0)
    fleet.fail("xid_79", node="node-a", device=serial(2))
    fleet.release(fleet.open_holds()[0]["id"])
    fleet.clock.advance(60)
    fleet.report("node-b", [gpu(12, at=0), gpu(2, at=1), gpu(13, at=2), gpu(14, at=3)], instance="i-b")

    assert look(fleet).offenders == []


def test_one_whose_failure_was_withdrawn_or_only_recorded_is_none(fleet: Fleet) -> None:
    admit(fleet, "node-a", 0)
    fleet.fail("xid_13", node="node-a", device=serial(2))
    fleet.hold({"device": serial(2)})
    fleet.clock.advance(60)
    fleet.report("node-b", [gpu(12, at=0), gpu(2, at=1), gpu(13, at=2), gpu(14, at=3)], instance="i-b")

    assert look(fleet).offenders == []


def test_what_was_refused_is_told_for_a_week(fleet: Fleet) -> None:
    admit(fleet, "node-a", 0)
    fleet.fail("xid_79", node="node-a", device=serial(2))
    fleet.clock.advance(60)
    fleet.report("node-b", [gpu(12, at=0), gpu(2, at=1), gpu(13, at=2), gpu(14, at=3)], instance="i-b")
    fleet.clock.advance(DAY)
    fleet.report("node-b", [gpu(12, at=0), gpu(15, at=1), gpu(13, at=2), gpu(14, at=3)], instance="i-b")
    fleet.release(fleet.open_holds()[0]["id"])
    gone = fleet.clock.now

    assert [one.until for one in look(fleet).offenders] == [gone]
    fleet.clock.advance(7 * DAY)
    assert look(fleet).offenders == []


def test_silent_nodes_are_named_the_latest_first_and_the_others_are_not(fleet: Fleet) -> None:
    for at, name in enumerate(("node-a", "node-b", "node-c", "node-d")):
        fleet.report(name, [gpu(10 * at + one, at=one) for one in range(4)], instance=f"i-{name}")
        fleet.clock.advance(10)
    fleet.clock.advance(fleet.policy.report_stale_seconds)
    fleet.report("node-a", instance="i-node-a")
    nodes.retire_node(fleet.db, "node-b", reason="sold", actor=ALICE, policy=fleet.policy, now=fleet.clock.now)

    view = look(fleet)

    assert view.silent == [("node-d", NOON + timedelta(seconds=30)), ("node-c", NOON + timedelta(seconds=20))]
    assert view.nodes == {"reporting": 1, "stale": 2, "retired": 1}


def test_a_node_in_maintenance_may_be_silent(fleet: Fleet) -> None:
    fleet.report("node-a")
    until = fleet.clock.now + timedelta(days=1)
    nodes.set_maintenance(
        fleet.db, "node-a", until=until, reason="fan", actor=ALICE, policy=fleet.policy, now=fleet.clock.now
    )
    fleet.clock.advance(HOUR)

    view = look(fleet)
    assert (view.nodes, view.silent) == ({"maintenance": 1}, [])

    fleet.clock.advance(DAY)
    view = look(fleet)
    assert (view.nodes, len(view.silent)) == ({"stale": 1}, 1)


def test_what_fails_most_comes_first_and_rates_are_by_model_and_driver(fleet: Fleet) -> None:
    old = [gpu(at, at=at, firmware={"driver": "570.1"}) for at in range(4)]
    new = [gpu(10 + at, at=at, firmware={"driver": "580.2"}) for at in range(4)]
    fleet.report("node-a", old, instance="i-a")
    fleet.report("node-b", new, instance="i-b")
    fleet.clock.advance(10 * DAY)
    for code in ("xid_48", "xid_79"):
        fleet.fail(code, node="node-a", device=serial(2), occurred_at=fleet.clock.now)
    fleet.fail("xid_48", node="node-b", device=serial(11), occurred_at=fleet.clock.now)
    fleet.fail("xid_13", node="node-b", device=serial(12), occurred_at=fleet.clock.now)  # a program's own

    count = look(fleet).count

    assert [(one.device["serial"], one.failures, one.nodes) for one in count.failing] == [
        (serial(2), 2, 1),
        (serial(11), 1, 1),
    ]
    told = [(one.driver, one.devices, one.failures, round(one.per_1000_device_days, 1)) for one in count.rates]
    assert told == [("570.1", 4, 2, 50.0), ("580.2", 4, 1, 25.0)]
    assert count.window_days == pytest.approx(10, abs=0.01)


def test_what_failed_more_than_a_month_ago_is_told_no_more(fleet: Fleet) -> None:
    fleet.report("node-a")
    fleet.fail("xid_48", node="node-a", device=serial(2), occurred_at=fleet.clock.now)
    fleet.clock.advance(31 * DAY)

    count = look(fleet).count

    assert count.failing == ()
    assert [(one.failures, one.per_1000_device_days) for one in count.rates] == [(0, 0.0)]
    assert count.window_days == fleet_count.WINDOW_DAYS


def test_the_trend_gives_the_mean_of_each_hour_that_was_seen(fleet: Fleet) -> None:
    admit(fleet, "node-a", 0)
    admit(fleet, "node-b", 10)
    now = fleet.clock.now
    for minutes, held in ((0, 0), (10, 4)):
        at = now + timedelta(minutes=minutes)
        seen = {
            ("p", Place(CapacityState.AVAILABLE, None)): tallies.Capacity(2, 8 - held),
            ("p", Place(CapacityState.QUARANTINED, Cause.HARDWARE)): tallies.Capacity(0, held),
        }
        with fleet.db.write(at) as tx:
            tallies.add_capacity(tx, seen, to_micros(at) - to_micros(at - timedelta(minutes=1)))
    fleet.clock.advance(900)

    assert list(look(fleet).hours.values()) == [{"available": 6.0, "quarantined": 2.0}]


class TestLarge:
    """What is done for a fleet too large to be counted and judged while a person waits."""

    @pytest.fixture(autouse=True)
    def _every_fleet_is_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fleet_count, "AT_ONCE_MAX", 3)
        monkeypatch.setattr(fleet_view, "NODES_AT_ONCE_MAX", 0)

    def test_the_newest_count_is_told_with_its_time(self, fleet: Fleet) -> None:
        admit(fleet, "node-a", 0)
        fleet.fail("xid_48", node="node-a", device=serial(2), occurred_at=fleet.clock.now)
        before = look(fleet).count
        counted_at = fleet.clock.now
        assert keep_count(fleet.db, lease_of(fleet), now=counted_at)
        fleet.clock.advance(60)
        admit(fleet, "node-b", 10)

        count = look(fleet).count

        assert count.at == counted_at
        assert (count.devices, count.rates, count.failing) == (before.devices, before.rates, before.failing)
        assert sum(count.devices.values()) == 4

    def test_it_is_counted_every_few_minutes_and_by_whoever_has_the_lease(self, fleet: Fleet) -> None:
        admit(fleet, "node-a", 0)
        lease = lease_of(fleet)

        def counted() -> bool:
            return keep_count(fleet.db, lease, now=fleet.clock.now)

        assert counted()
        fleet.clock.advance(fleet_count.COUNT_SECONDS - 1)
        assert not counted()
        fleet.clock.advance(1)
        assert counted()
        fleet.clock.advance(-HOUR)  # a clock that was set back begins anew
        assert counted()
        leasing.give_back(fleet.db, lease, now=fleet.clock.now)
        lease_of(fleet, "another")
        fleet.clock.advance(2 * HOUR)
        with pytest.raises(LeaseLost):
            counted()

    def test_the_looks_of_the_last_minutes_say_where_the_gpus_are(self, fleet: Fleet) -> None:
        admit(fleet, "node-a", 0)
        admit(fleet, "node-b", 10)
        fleet.hold({"device": serial(1)})
        lease = lease_of(fleet)
        assert look(fleet).standing.places == ()
        for _ in range(3):
            capacity.look(fleet.db, lease, policy=fleet.policy, now=fleet.clock.now)
            fleet.clock.advance(60)
            fleet.report("node-a", [gpu(at, at=at) for at in range(4)], instance="i-node-a")
            fleet.report("node-b", [gpu(10 + at, at=at) for at in range(4)], instance="i-node-b")

        standing = look(fleet).standing

        assert (standing.is_mean, standing.nodes, standing.gpus, standing.available) == (True, 2, 8, 4)
