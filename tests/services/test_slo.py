# SPDX-License-Identifier: Apache-2.0
"""Do the objectives say what nodes and jobs went through, split by whose doing it was?"""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

import pytest

from registry.domain.failures import Cause
from registry.domain.job_events import JobEventKind, Outcome, PauseReason
from registry.services import leasing
from registry.services.capacity import look
from registry.services.slo import show_objectives
from registry.store.database import to_micros
from tests.clock import NOON
from tests.fleet import Fleet, gpu, serial
from tests.services.test_jobs import STORY, K, tell, told


def shown(fleet: Fleet) -> dict[str, Any]:
    found = show_objectives(fleet.db, policy=fleet.policy, now=fleet.clock.now)
    json.dumps(found, allow_nan=False)
    return found


def objective(fleet: Fleet, name: str) -> dict[str, Any]:
    return next(one for one in shown(fleet)["objectives"] if one["name"] == name)


def watch(fleet: Fleet, minutes: int) -> None:
    """Look at the nodes every minute, which report meanwhile."""
    lease = leasing.take(fleet.db, "background", "tests", now=fleet.clock.now, seconds=100_000)
    assert lease is not None
    for _ in range(minutes):
        for name in ("node-a", "node-b"):
            fleet.report(name, [gpu(at + 10 * (name == "node-b"), at=at) for at in range(4)], instance=f"i-{name}")
        look(fleet.db, lease, policy=fleet.policy, now=fleet.clock.now)
        fleet.clock.advance(60)


def test_a_fleet_of_which_nothing_was_seen_keeps_nothing_and_breaks_nothing(fleet: Fleet) -> None:
    found = shown(fleet)

    assert [one["name"] for one in found["objectives"]] == ["availability", "interruptions", "goodput"]
    assert {one["is_met"] for one in found["objectives"]} == {None}
    assert found["capacity"]["goodput"] is None
    assert found["jobs"]["goodput"] is None
    assert found["sizes"] == []


def test_a_board_that_is_held_takes_its_node_out_and_the_objective_says_by_what(fleet: Fleet) -> None:
    watch(fleet, 3)  # the passes, and the first look, which counts nothing
    watch(fleet, 8)
    fleet.fail("xid_79", node="node-b", device=serial(10))
    watch(fleet, 10)
    found = objective(fleet, "availability")
    capacity = shown(fleet)["capacity"]

    assert found["actual"] == pytest.approx(0.75, abs=0.06)
    assert found["is_met"] is False
    assert found["by_cause"]["hardware"] == pytest.approx(0.25, abs=0.03)
    assert found["by_cause"]["user"] == 0
    assert found["alert"] == "ticket"
    assert capacity["seen_seconds"] == 20 * 60
    assert capacity["goodput"] == pytest.approx(found["actual"])
    assert sum(one["share"] for one in capacity["spent"]) == pytest.approx(1)


def test_interruptions_are_counted_against_the_platform_by_cause(fleet: Fleet) -> None:
    for number, cause in enumerate((Cause.HARDWARE, Cause.HARDWARE, Cause.PLATFORM, Cause.USER, None)):
        begin = told(K.STARTED, 0, nodes=tuple(f"n-{at}" for at in range(10)), devices=80)
        tell(fleet.db, begin, told(K.INTERRUPTED, 21_600, cause=cause), job=f"job-{number}")
    found = objective(fleet, "interruptions")

    # Five jobs of ten nodes for a quarter of a day are 12.5 node-days.
    assert found["actual"] == pytest.approx(3 * 1000 / 12.5)
    assert found["by_cause"]["hardware"] == pytest.approx(2 * 1000 / 12.5)
    assert found["by_cause"]["user"] == found["by_cause"]["unknown"] == pytest.approx(1000 / 12.5)
    assert found["is_met"] is False


def test_goodput_weighs_jobs_by_their_devices(fleet: Fleet) -> None:
    good = (told(K.STARTED, 0, devices=90), told(K.PROGRESS, 0, step=0), told(K.PROGRESS, 1000, step=10))
    bad = (told(K.STARTED, 0, devices=10), told(K.INTERRUPTED, 1000, cause=Cause.DRIVER))
    tell(fleet.db, *good, job="good")
    tell(fleet.db, *bad, job="bad")
    found, jobs = objective(fleet, "goodput"), shown(fleet)["jobs"]

    assert found["actual"] == pytest.approx(0.9)
    assert found["is_met"] is True
    assert found["by_cause"]["user"] == pytest.approx(0.1)
    assert jobs["goodput"] == pytest.approx(0.9)
    assert [(one["kind"], one["cause"], one["share"]) for one in jobs["badput"]] == [("start_up", "user", 0.1)]


def test_how_long_jobs_last_is_told_by_size_and_how_often_to_save(fleet: Fleet) -> None:
    tell(fleet.db, *STORY)
    checkpoints = [
        one
        for at in range(4)
        for one in (
            told(K.PAUSED, 1000 + at * 1000, reason=PauseReason.CHECKPOINT),
            told(K.RESUMED, 1030 + at * 1000),
        )
    ]
    large = (told(K.STARTED, 0, devices=1024), *checkpoints, told(K.ENDED, 10_000, outcome=Outcome.COMPLETED))
    tell(fleet.db, *large, job="large")
    small, big = shown(fleet)["sizes"]

    assert (small["devices_from"], small["devices_to"], small["interruptions"]) == (16, 31, 1)
    assert small["mttf_seconds"] == 3260
    assert (big["devices_from"], big["interruptions"], big["mttf_seconds"]) == (1024, 0, None)
    assert big["checkpoint_seconds"] == 30
    # One interruption in both jobs' time, on two nodes each.
    assert big["expected_mttf_seconds"] == pytest.approx(3260 + 10_000)
    assert big["checkpoint_interval_seconds"] == pytest.approx((2 * 30 * 13_260) ** 0.5)


def test_what_is_older_than_its_window_is_left_out(fleet: Fleet) -> None:
    tell(fleet.db, *STORY)
    fleet.clock.advance(31 * 86_400)

    assert objective(fleet, "goodput")["actual"] is None


def test_a_month_of_many_jobs_is_read_at_once(fleet: Fleet) -> None:
    rows = [
        (width, at, size, kind, cause, 1, 1, 1, 0)
        for width, step, count in ((300_000_000, 300, 576), (3_600_000_000, 3600, 720))
        for at in (to_micros(NOON - timedelta(seconds=number * step)) // width * width for number in range(count))
        for size in range(3, 13)
        for kind in JobEventKind
        for cause in ("hardware",)
    ]
    with fleet.db.write(NOON) as tx:
        tx.many(
            "INSERT INTO job_tally (width, at, size, kind, cause, micros, node_micros, device_micros, begun) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            [(*row[:3], "lost_progress" if row[3] == "started" else "start_up", *row[4:]) for row in rows],
        )
    start = time.perf_counter()
    shown(fleet)

    assert time.perf_counter() - start < 1
