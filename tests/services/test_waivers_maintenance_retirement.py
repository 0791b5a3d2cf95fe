# SPDX-License-Identifier: Apache-2.0
"""What can an operator do about a node: excuse it, keep it out, let it go; and what ends each of them?"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from registry.domain.errors import InvalidField, NotFound
from registry.services.history import node_history
from registry.services.nodes import grant_waiver, retire_node, set_maintenance, show_node
from registry.services.sweep import sweep
from tests.fleet import ALICE, EVERYTHING, Fleet, gpu, serial

THREE = [gpu(0), gpu(2), gpu(3)]


def waive(fleet: Fleet, count: int, *, until: datetime | None = None, seconds: float = 3600, kind: str = "gpu") -> Any:
    return grant_waiver(
        fleet.db,
        "node-a",
        kind=kind,
        count=count,
        until=until or fleet.clock.now + timedelta(seconds=seconds),
        reason="the spare comes on Friday",
        actor=ALICE,
        now=fleet.clock.now,
    )


def maintain(fleet: Fleet, seconds: float) -> dict[str, Any]:
    until = fleet.clock.now + timedelta(seconds=seconds)
    return set_maintenance(
        fleet.db, "node-a", until=until, reason="a new fan", actor=ALICE, policy=fleet.policy, now=fleet.clock.now
    )


def retire(fleet: Fleet, node: str = "node-a") -> dict[str, Any]:
    return retire_node(fleet.db, node, reason="sold", actor=ALICE, policy=fleet.policy, now=fleet.clock.now)


def happened(fleet: Fleet, *types: str) -> list[str]:
    told = node_history(fleet.db, "node-a", {}, EVERYTHING).items
    return [one["type"] for one in told if one["type"] in types]


def state(fleet: Fleet) -> str:
    return str(show_node(fleet.db, "node-a", policy=fleet.policy, now=fleet.clock.now)["state"])


# --- waivers ---------------------------------------------------------------------------------------------------------


def test_a_waiver_admits_a_short_node_until_its_end(fleet: Fleet) -> None:
    """C107."""
    fleet.admit()
    fleet.clock.advance(30)
    fleet.report(devices=THREE)
    assert "device_missing" in fleet.codes()
    granted = waive(fleet, 3, seconds=300)
    assert (granted["count"], granted["granted_by"], granted["ended_at"]) == (3, "operator:alice", None)
    fleet.clock.advance(30)
    fleet.admit(devices=THREE)
    assert fleet.decide().admitted
    for _ in range(9):
        fleet.clock.advance(30)
        fleet.report(devices=THREE)
    assert fleet.codes() == ["device_missing", "check_failing", "passes_insufficient"]
    sweep(fleet.db, now=fleet.clock.now)
    sweep(fleet.db, now=fleet.clock.now)
    assert happened(fleet, "waiver.granted", "waiver.ended") == ["waiver.granted", "waiver.ended"]


def test_a_waiver_is_over_at_its_time_before_anybody_reports_or_sweeps(fleet: Fleet) -> None:
    waive_after_report(fleet)
    fleet.clock.advance(40)
    assert fleet.codes() == ["device_missing"]


def waive_after_report(fleet: Fleet) -> None:
    fleet.report(devices=THREE)
    waive(fleet, 3, seconds=60)
    fleet.clock.advance(1)
    fleet.admit(devices=THREE)
    assert fleet.decide().admitted


def test_a_waiver_ends_when_it_is_set_to_the_past(fleet: Fleet) -> None:
    waive_after_report(fleet)
    ended = waive(fleet, 3, until=fleet.clock.now - timedelta(seconds=1))
    assert ended["ended_at"] is not None
    assert fleet.codes() == ["device_missing"]
    with pytest.raises(InvalidField):
        waive(fleet, 3, until=fleet.clock.now)


def test_a_waiver_says_how_many_and_more_are_unexpected(fleet: Fleet) -> None:
    waive_after_report(fleet)
    fleet.report()
    assert "device_unexpected" in fleet.codes()
    waive(fleet, 4)
    fleet.clock.advance(30)
    fleet.admit()
    assert fleet.decide().admitted
    assert happened(fleet, "waiver.granted", "waiver.ended") == ["waiver.granted", "waiver.ended", "waiver.granted"]


def test_a_waiver_excuses_no_fault_and_no_hold(fleet: Fleet) -> None:
    waive_after_report(fleet)
    fleet.hold({"device": serial(2)})
    assert fleet.codes() == ["device_quarantined"]


def test_a_waiver_of_none_admits_a_node_without_devices(fleet: Fleet) -> None:
    none = {"devices": [], "covers": frozenset({"gpu"})}
    fleet.report(**none)
    waive(fleet, 0)
    fleet.admit(**none)
    assert fleet.decide().admitted


def test_a_waiver_belongs_to_one_node_that_exists(fleet: Fleet) -> None:
    with pytest.raises(NotFound):
        waive(fleet, 3)
    fleet.report(devices=THREE)
    waive(fleet, 3)
    fleet.report("node-b", instance="i-b", devices=[gpu(n) for n in range(4, 7)])
    assert "device_missing" in fleet.codes("node-b")


# --- maintenance -----------------------------------------------------------------------------------------------------


def test_maintenance_keeps_a_node_out_until_its_time(fleet: Fleet) -> None:
    fleet.admit()
    assert maintain(fleet, 90)["state"] == "maintenance"
    for _ in range(3):
        assert fleet.codes() == ["maintenance"]
        fleet.clock.advance(30)
        fleet.report()
    assert fleet.decide().admitted
    sweep(fleet.db, now=fleet.clock.now)
    assert happened(fleet, "maintenance.started", "maintenance.ended") == ["maintenance.started", "maintenance.ended"]
    assert state(fleet) == "admitted"


def test_maintenance_ends_when_it_is_set_to_the_past(fleet: Fleet) -> None:
    fleet.admit()
    maintain(fleet, 3600)
    assert maintain(fleet, 0)["state"] == "admitted"
    assert fleet.decide().admitted
    before = fleet.decide().sequence
    maintain(fleet, -5)
    assert fleet.decide().sequence == before


def test_maintenance_is_prolonged_and_told_with_its_end(fleet: Fleet) -> None:
    fleet.admit()
    maintain(fleet, 60)
    maintain(fleet, 600)
    (reason,) = fleet.decide().reasons
    assert reason.until == fleet.clock.now + timedelta(seconds=600)
    assert "a new fan" in reason.message


def test_maintenance_neither_takes_nor_gives_passes(fleet: Fleet) -> None:
    fleet.report()
    maintain(fleet, 3600)
    fleet.clock.advance(30)
    assert fleet.report()["pass"]["have"] == 2
    with pytest.raises(NotFound):
        set_maintenance(
            fleet.db, "b", until=fleet.clock.now, reason="x", actor=ALICE, policy=fleet.policy, now=fleet.clock.now
        )


# --- retirement ------------------------------------------------------------------------------------------------------


def test_a_retired_node_is_unknown_and_its_devices_are_free_to_appear_elsewhere(fleet: Fleet) -> None:
    fleet.admit()
    assert retire(fleet)["state"] == "retired"
    assert fleet.codes() == ["node_unknown"]
    fleet.admit("node-b", instance="i-b")
    assert fleet.decide("node-b").admitted


def test_a_later_report_revives_a_retired_node_from_zero(fleet: Fleet) -> None:
    fleet.admit()
    retire(fleet)
    fleet.clock.advance(30)
    answer = fleet.report()
    assert (answer["pass"]["counted"], answer["pass"]["have"]) == (True, 1)
    fleet.clock.advance(30)
    assert fleet.report()["admission"]["admitted"] is True
    assert happened(fleet, "node.registered", "node.retired") == ["node.registered", "node.retired", "node.registered"]


def test_retiring_twice_is_once(fleet: Fleet) -> None:
    fleet.admit()
    retire(fleet)
    before = fleet.decide().sequence
    retire(fleet)
    assert fleet.decide().sequence == before
    with pytest.raises(NotFound):
        retire(fleet, "never")


def test_a_hold_outlives_the_retirement_of_the_node_that_carried_the_device(fleet: Fleet) -> None:
    fleet.admit()
    fleet.hold({"device": serial(1)}, {"node": "node-a"})
    retire(fleet)
    fleet.admit("node-b", instance="i-b")
    assert fleet.codes("node-b") == ["device_quarantined"]
    fleet.report(devices=[gpu(n) for n in range(4, 8)])
    assert "node_quarantined" in fleet.codes()


def test_a_node_in_maintenance_that_is_retired_is_shown_as_retired(fleet: Fleet) -> None:
    fleet.admit()
    maintain(fleet, 3600)
    retire(fleet)
    assert state(fleet) == "retired"
