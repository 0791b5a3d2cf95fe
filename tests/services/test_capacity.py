# SPDX-License-Identifier: Apache-2.0
"""Is the time of every node counted as the decision about it was, and none where nobody looked?"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from registry.domain.capacity import CapacityState
from registry.services import capacity, leasing, nodes
from registry.services.capacity import look, survey
from registry.services.leasing import LeaseLost
from registry.store import tallies
from registry.store.database import Database, open_database
from tests.clock import NOON
from tests.fleet import ALICE, Fleet, gpu, serial

MINUTE = 60


def seen(fleet: Fleet) -> bool:
    """Take the lease and look."""
    lease = leasing.take(fleet.db, "background", "tests", now=fleet.clock.now, seconds=3600)
    assert lease is not None
    return look(fleet.db, lease, policy=fleet.policy, now=fleet.clock.now)


def spent(db: Database, now: datetime, seconds: int = 3600) -> dict[str, tuple[float, float]]:
    """Node-seconds and device-seconds by `state/cause`, of the window that ends now."""
    with db.read() as snapshot:
        found = tallies.sum_capacity(snapshot, now, seconds)
    return {
        f"{place.state}/{place.cause}" if place.cause else str(place.state): (one.nodes / 1e6, one.devices / 1e6)
        for place, one in found.items()
    }


def looked(db: Database, now: datetime, seconds: int = 3600) -> float:
    with db.read() as snapshot:
        return tallies.sum_seen(snapshot, now, seconds) / 1e6


def admit(fleet: Fleet, name: str, first: int) -> None:
    fleet.admit(name, devices=[gpu(first + at, at=at) for at in range(4)], instance=f"i-{name}")


def test_each_node_is_where_the_decision_puts_it(fleet: Fleet) -> None:
    for number, name in enumerate(("good", "held", "worked-on", "short")):
        admit(fleet, name, 10 * number)
    fleet.fail("xid_79", node="held", device=serial(10))
    nodes.set_maintenance(
        fleet.db,
        "worked-on",
        until=NOON + timedelta(days=1),
        reason="firmware",
        actor=ALICE,
        policy=fleet.policy,
        now=fleet.clock.now,
    )
    assert seen(fleet)
    fleet.clock.advance(MINUTE)
    fleet.report("good", [gpu(at) for at in range(4)], instance="i-good")
    fleet.report("short", [gpu(30 + at, at=at) for at in range(3)], instance="i-short")
    assert seen(fleet)

    assert spent(fleet.db, fleet.clock.now) == {
        "available": (MINUTE, 4 * MINUTE),
        "quarantined/hardware": (MINUTE, 4 * MINUTE),
        "under_repair/platform": (MINUTE, 4 * MINUTE),
        # One of four is missing, and owned nevertheless.
        "failing/hardware": (MINUTE, 4 * MINUTE),
    }
    assert looked(fleet.db, fleet.clock.now) == MINUTE


def test_a_node_that_waits_does_so_for_what_reset_its_passes(fleet: Fleet) -> None:
    fleet.report("new", [gpu(at) for at in range(4)], instance="i-new")
    fleet.report("hit", [gpu(10 + at, at=at) for at in range(4)], instance="i-hit")
    fleet.fail("efa.link", node="hit")
    seen(fleet)
    fleet.clock.advance(MINUTE)
    seen(fleet)

    found = spent(fleet.db, fleet.clock.now)
    assert found["waiting_for_passes/platform"] == (MINUTE, 4 * MINUTE)
    assert len(found) == 2


def test_it_is_looked_once_a_minute_whoever_asks_and_how_often(fleet: Fleet) -> None:
    admit(fleet, "good", 0)
    looks = 0
    for _ in range(60):
        looks += seen(fleet)
        fleet.clock.advance(10)

    assert looks == 10
    assert looked(fleet.db, fleet.clock.now) == 9 * MINUTE


@pytest.mark.parametrize(("away", "counted"), [(150, 150), (151, 0), (86_400, 0)])
def test_time_in_which_nobody_looked_is_not_guessed(fleet: Fleet, away: int, counted: int) -> None:
    admit(fleet, "good", 0)
    seen(fleet)
    fleet.clock.advance(away)
    seen(fleet)
    fleet.clock.advance(MINUTE)
    seen(fleet)

    assert looked(fleet.db, fleet.clock.now, 86_400) == counted + MINUTE


def test_a_clock_that_was_set_back_does_not_end_the_looking(fleet: Fleet) -> None:
    admit(fleet, "good", 0)
    seen(fleet)
    fleet.clock.advance(-3600)
    assert seen(fleet)
    fleet.clock.advance(MINUTE)
    assert seen(fleet)
    assert looked(fleet.db, fleet.clock.now) == MINUTE


def test_a_retired_node_is_not_owned(fleet: Fleet) -> None:
    admit(fleet, "good", 0)
    nodes.retire_node(fleet.db, "good", reason=None, actor=ALICE, policy=fleet.policy, now=fleet.clock.now)
    seen(fleet)
    fleet.clock.advance(MINUTE)
    seen(fleet)

    assert spent(fleet.db, fleet.clock.now) == {}
    assert looked(fleet.db, fleet.clock.now) == MINUTE


def test_who_lost_the_lease_counts_nothing(fleet: Fleet) -> None:
    admit(fleet, "good", 0)
    seen(fleet)
    lease = leasing.take(fleet.db, "background", "tests", now=fleet.clock.now, seconds=3600)
    assert lease is not None
    leasing.give_back(fleet.db, lease, now=fleet.clock.now)
    assert leasing.take(fleet.db, "background", "another", now=fleet.clock.now) is not None
    fleet.clock.advance(MINUTE)

    with pytest.raises(LeaseLost):
        look(fleet.db, lease, policy=fleet.policy, now=fleet.clock.now)
    assert spent(fleet.db, fleet.clock.now) == {}


def test_of_two_that_look_at_once_one_counts(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    admit(fleet, "good", 0)
    seen(fleet)
    fleet.clock.advance(MINUTE)

    def slowly(*given: Any, **more: Any) -> Any:
        monkeypatch.setattr(capacity, "survey", survey)
        seen(fleet)  # another process, which is faster
        return survey(*given, **more)

    monkeypatch.setattr(capacity, "survey", slowly)
    seen(fleet)

    assert spent(fleet.db, fleet.clock.now) == {"available": (MINUTE, 4 * MINUTE)}


def test_a_restart_goes_on_counting(fleet: Fleet, database_url: str) -> None:
    admit(fleet, "good", 0)
    seen(fleet)
    fleet.db.close_all()
    fleet.db = open_database(database_url)
    fleet.clock.advance(MINUTE)
    seen(fleet)

    assert spent(fleet.db, fleet.clock.now) == {"available": (MINUTE, 4 * MINUTE)}
    fleet.db.close_all()


def test_of_a_large_fleet_a_part_stands_for_the_whole(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        admit(fleet, f"n-{number}", 10 * number)
    monkeypatch.setattr(capacity, "NODES_MAX", 2)
    monkeypatch.setattr(capacity, "AT_ONCE", 1)
    with fleet.db.read() as snapshot:
        names = tallies.list_owned(snapshot)
    judged = []
    for minute in range(3):
        now = fleet.clock.now + timedelta(minutes=minute)
        found = survey(fleet.db, names, policy=fleet.policy, now=now)
        judged.append(sum(one.nodes for one in found.values()))

    # Every node is looked at once in three minutes, and stands for three.
    assert sorted(judged) == [3, 6, 6]


def test_old_sums_are_forgotten_and_the_month_is_not(fleet: Fleet) -> None:
    admit(fleet, "good", 0)
    seen(fleet)
    fleet.clock.advance(MINUTE)
    seen(fleet)
    fleet.clock.advance(3 * 86_400)
    seen(fleet)

    with fleet.db.read() as snapshot:
        widths = {row[0] for row in snapshot.all("SELECT width FROM capacity_tally")}
    assert widths == {tallies.HOUR}
    assert looked(fleet.db, fleet.clock.now, 30 * 86_400) == MINUTE


def test_a_silent_node_is_stale_and_nobody_knows_why(fleet: Fleet) -> None:
    admit(fleet, "good", 0)
    fleet.clock.advance(fleet.policy.report_stale_seconds + 1)
    found = survey(fleet.db, ["good"], policy=fleet.policy, now=fleet.clock.now)

    assert [(profile, str(place.state), str(place.cause)) for profile, place in found] == [
        ("g5.12xlarge", CapacityState.STALE, "unknown")
    ]
