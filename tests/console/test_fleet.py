# SPDX-License-Identifier: Apache-2.0
"""Does the fleet page say what stands, in words, and explain what is not there?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from flask import Flask

from api.console import fleet as fleet_page
from api.context import standing
from registry.domain.capacity import CapacityState, Place
from registry.domain.failures import Cause
from registry.services import repairs
from registry.store import tallies
from tests.clock import Clock
from tests.console.visitor import Visitor, words_of
from tests.fleet import ALICE, Fleet, gpu, serial


@pytest.fixture
def fleet(app: Flask, clock: Clock) -> Fleet:
    """Nodes and operators against the records that the page shows."""
    stands = standing(app)
    return Fleet(stands.database, clock, stands.policy)


def test_an_empty_fleet_explains_itself(auditor: Visitor) -> None:
    told = auditor.page("/console/")

    for sentence in (
        "No held device turned up under another name this week.",
        "No device is known yet.",
        "Every node that should report does.",
        "Nobody has looked at the nodes yet.",
        "There is no trend yet.",
        "Nothing is in quarantine.",
        "Nothing has failed in the last month.",
        "No GPU is known yet.",
        "not measured yet",
    ):
        assert sentence in told


def test_it_begins_with_what_somebody_has_to_look_at(operator: Visitor, fleet: Fleet) -> None:
    fleet.admit("node-a")
    fleet.admit("node-b", devices=[gpu(10 + at, at=at) for at in range(4)], instance="i-2")
    fleet.hold({"device": serial(1)}, cause="smoke & <fire>")

    shown = operator.get("/console/")
    told = words_of(shown)

    assert "4 of 8 GPUs may take work; 1 in quarantine , 0 in conflict , 0 silent" in told
    assert "smoke &amp; &lt;fire&gt;" in shown.text
    assert 'href="/console/queue?cause=smoke%20%26%20%3Cfire%3E"' in shown.text
    assert "available 4 GPUs, 1 nodes" in told


def test_a_repeat_offender_stands_first_with_where_it_failed_and_where_it_was_refused(
    operator: Visitor, fleet: Fleet
) -> None:
    fleet.admit("node-a")
    fleet.fail("xid_79", node="node-a", device=serial(2))
    fleet.clock.advance(3600)
    fleet.report("node-b", [gpu(12, at=0), gpu(2, at=1), gpu(13, at=2), gpu(14, at=3)], instance="i-b")

    told = operator.page("/console/")

    assert f"GPU {serial(2)} node-a node-b 2026-11-29 13:00:30 UTC (0 s ago) still there" in told


def test_silent_nodes_and_stopped_repairs_are_said(operator: Visitor, fleet: Fleet) -> None:
    fleet.report("node-a")
    fleet.clock.advance(600)
    repairs.stop_repairs(
        fleet.db, reason="Cooling is being worked on", actor=ALICE, policy=fleet.policy, now=fleet.clock.now
    )

    told = operator.page("/console/")

    assert "node-a heard 10 min ago" in told
    assert "Repairs are stopped by operator:alice" in told
    assert "Cooling is being worked on" in told


def test_the_trend_is_a_picture_with_its_numbers_beside_it(operator: Visitor, fleet: Fleet) -> None:
    for hours, held in ((3, 0), (2, 8), (1, 4)):
        at = fleet.clock.now - timedelta(hours=hours)
        seen = {
            ("p", Place(CapacityState.AVAILABLE, None)): tallies.Capacity(2, 16 - held),
            ("p", Place(CapacityState.QUARANTINED, Cause.HARDWARE)): tallies.Capacity(0, held),
        }
        with fleet.db.write(at) as tx:
            tallies.add_capacity(tx, seen, 60_000_000)

    told = operator.page("/console/")

    assert "at most 8 GPUs; now out of work 4 GPUs, of these in quarantine 4 GPUs" in told
    assert "2026-11-29 10:00:00 UTC 8 8" in told


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (None, None),
        (0.25, "25\u00a0% of the room for failure is left"),
        (0.0, "0\u00a0% of the room for failure is left"),
        (-1.5, "the room for failure is used up 2.5 times over"),
    ],
)
def test_the_room_for_failure_is_said_whatever_is_left_of_it(left: float | None, said: str | None) -> None:
    assert fleet_page._room(left) == said


def test_a_part_of_the_page_can_be_fetched_anew(operator: Visitor) -> None:
    again = operator.get("/console/", headers={"HX-Request": "true"})

    assert again.status_code == 200
    assert 'id="lead"' in again.text


def test_the_search_box_goes_to_a_single_hit_and_lists_several(
    operator: Visitor, fleet: Fleet, visit: Callable[..., Visitor]
) -> None:
    fleet.report("node-a", instance="aws:///az/i-0a")
    fleet.report("node b-2".replace(" ", ""), [gpu(20 + at, at=at) for at in range(4)], instance="aws:///az/i-0b")
    fleet.hold({"device": serial(1)}, ticket="OPS/1?")

    def goes(text: str) -> str:
        return operator.get("/console/search", query_string={"q": text}).headers.get("Location", "")

    assert goes(serial(1)).startswith("/console/devices/")
    assert goes("node-a") == goes("i-0a") == "/console/nodes/node-a"
    assert goes("OPS/1?") == "/console/queue?ticket=OPS%2F1%3F"
    assert goes("node") == ""
    assert "2 found for node" in operator.page("/console/search?q=node")
