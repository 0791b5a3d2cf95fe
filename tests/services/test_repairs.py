# SPDX-License-Identifier: Apache-2.0
"""Is the least that fits planned, begun within the budget, carried out by one, and never because it was wanted once?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from registry.domain.errors import NotFound, NotOpen
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus
from registry.domain.tolerances import Tolerance
from registry.services import repairs
from registry.services.capacity import survey
from registry.services.condition_changes import escalate
from registry.services.history import list_events
from registry.services.nodes import retire_node, set_maintenance
from registry.services.repair_planning import tend
from registry.store import repairs as store
from registry.store.alarms import Alarm, end_all, insert_alarm
from registry.store.database import open_database
from tests.fleet import ALICE, CLEAN_GPU, EVERYTHING, Fleet, gpu, passing, serial, uuid

SOON = (
    Tolerance("gpu.ecc", tolerance_seconds=0),
    Tolerance("gpu.count", tolerance_seconds=0),
    Tolerance("dcgm.diag", tolerance_seconds=0),
    Tolerance("lab.disk", tolerance_seconds=0),
    Tolerance("condition.kernel_deadlock", tolerance_seconds=0),
)
EAGER = Policy(conditions=SOON, condition_clear_seconds=0)


@pytest.fixture
def eager(fleet: Fleet) -> Fleet:
    """A fleet whose policy has no patience, so that what fails is a failure at once."""
    fleet.policy = EAGER
    return fleet


def failing(*devices: str | None, name: str = "gpu.ecc", code: str | None = None) -> tuple[CheckResult, ...]:
    clean = passing(*(one for one in CLEAN_GPU if one != name))
    return (*clean, *(CheckResult(name, CheckStatus.FAIL, one, code) for one in devices or (None,)))


def world(number: int, **changes: Any) -> dict[str, Any]:
    """What node `number` reports: four GPUs of its own."""
    return {
        "node": f"node-{number}",
        "instance": f"i-{number}",
        "devices": [gpu(4 * number + at, at=at) for at in range(4)],
        **changes,
    }


def work(fleet: Fleet) -> None:
    """What the worker does in one of its rounds."""
    escalate(fleet.db, policy=fleet.policy, now=fleet.clock.now)
    tend(fleet.db, policy=fleet.policy, now=fleet.clock.now)


def listed(fleet: Fleet, **filters: str) -> list[dict[str, Any]]:
    return repairs.list_repairs(fleet.db, filters, EVERYTHING).items


def brief(fleet: Fleet) -> list[tuple[str, str]]:
    return [(one["action"], one["state"]) for one in listed(fleet)]


def events(fleet: Fleet) -> list[str]:
    found = list_events(fleet.db, {}, EVERYTHING).items
    return [one["type"] for one in found if one["type"].startswith(("repair", "detector"))]


def claim(fleet: Fleet, order_id: str, holder: str = "robot-1", token: int | None = None) -> dict[str, Any]:
    return repairs.claim_repair(
        fleet.db, order_id, holder=holder, token=token, actor=ALICE, policy=fleet.policy, now=fleet.clock.now
    )


def complete(fleet: Fleet, order_id: str, holder: str = "robot-1", *, done: bool = True, **how: Any) -> dict[str, Any]:
    return repairs.complete_repair(
        fleet.db, order_id, is_done=done, holder=holder, actor=ALICE, now=fleet.clock.now, **how
    )


def stand_still(fleet: Fleet, seconds: int, **report: Any) -> None:
    """Let time go by while a node reports."""
    for left in range(seconds, 0, -90):
        fleet.clock.advance(min(90, left))
        fleet.report(**report)


def test_the_time_of_a_node_is_told_as_under_repair_while_somebody_repairs_it(eager: Fleet) -> None:
    def states() -> set[str]:
        found = survey(eager.db, ["node-a"], policy=eager.policy, now=eager.clock.now)
        return {str(place.state) for _, place in found}

    eager.report(checks=failing(uuid(0)))
    work(eager)
    work(eager)
    assert states() == {"failing"}

    (order,) = listed(eager)
    claim(eager, order["id"])
    assert states() == {"under_repair"}
    complete(eager, order["id"])
    assert states() == {"failing"}


# --- planning ---------------------------------------------------------------------------------------------------------


def test_a_failure_plans_the_least_that_fits_and_lets_it_begin(eager: Fleet) -> None:
    eager.report(checks=failing(uuid(0)))
    work(eager)
    work(eager)

    (found,) = listed(eager)
    assert (found["action"], found["state"], found["condition"]) == ("reset_gpu", "ready", "gpu.ecc")
    assert (found["node"], found["provider_id"]) == ("node-a", "i-1")
    assert (found["device"]["serial"], found["device"]["slot"]) == (serial(0), "0000:10:00.0")
    assert events(eager) == ["repair.planned", "repair.readied"]
    planned = list_events(eager.db, {"type": "repair.planned"}, EVERYTHING).items[0]
    assert {one["kind"] for one in planned["subjects"]} == {"repair", "device", "board", "node"}
    assert (planned["actor"]["kind"], planned["data"]["serial"]) == ("system", serial(0))


def test_what_is_well_again_is_neither_planned_nor_begun_nor_claimed_while_it_proves_so(eager: Fleet) -> None:
    eager.policy = replace(EAGER, condition_clear_seconds=300)
    for number in range(2):
        eager.report(**world(number), checks=failing(uuid(4 * number)))
    work(eager)
    begun = {one["node"]: one for one in listed(eager, state="ready")}
    assert begun
    eager.clock.advance(30)
    for number in range(2):
        eager.report(**world(number))
    eager.report(**world(2), checks=failing(uuid(8)))
    eager.clock.advance(30)
    eager.report(**world(2))
    work(eager)

    for order in begun.values():
        with pytest.raises(NotOpen, match="the check is well again"):
            claim(eager, order["id"])
    assert "repair.claimed" not in events(eager)
    assert [one["node"] for one in listed(eager) if one["node"] == "node-2"] == []


def test_a_problem_and_what_nobody_can_look_at_plan_nothing(fleet: Fleet) -> None:
    fleet.report(checks=failing(uuid(0)))
    unknown = CheckResult("gpu.xid", CheckStatus.UNKNOWN)
    fleet.report("node-b", instance="i-b", devices=[gpu(9)], checks=(*passing("gpu.ecc", "gpu.row_remap"), unknown))
    work(fleet)

    assert listed(fleet) == []


def test_a_node_that_lists_more_than_its_profile_says_is_not_repaired(eager: Fleet) -> None:
    eager.report(devices=[gpu(number) for number in range(5)])
    work(eager)
    assert listed(eager) == []

    eager.clock.advance(30)
    eager.report(devices=[gpu(number) for number in range(3)])
    work(eager)
    assert brief(eager) == [("reboot_node", "ready")]


def test_a_heavier_repair_of_the_node_takes_the_place_of_a_milder_one(eager: Fleet) -> None:
    eager.report(checks=failing(uuid(0)))
    work(eager)
    eager.clock.advance(30)
    deadlock = CheckResult("condition.kernel_deadlock", CheckStatus.FAIL)
    eager.report(checks=(*failing(uuid(0)), deadlock))
    work(eager)

    assert brief(eager) == [("reset_gpu", "cancelled"), ("reboot_node", "ready")]
    assert listed(eager)[0]["outcome"] == "superseded"


def test_graver_news_of_the_same_hardware_raises_the_action_and_better_ones_do_not_lower_it(eager: Fleet) -> None:
    eager.report(checks=failing(uuid(0)))
    work(eager)
    eager.clock.advance(30)
    diag = CheckResult("dcgm.diag", CheckStatus.FAIL, uuid(0))
    eager.report(checks=(*failing(uuid(0)), diag))
    work(eager)
    open_ = [one["action"] for one in listed(eager) if one["state"] in ("planned", "ready")]
    assert open_ == ["replace_node"]

    eager.clock.advance(30)
    eager.report(checks=(*passing(*CLEAN_GPU), diag))
    work(eager)
    assert [one["action"] for one in listed(eager) if one["state"] in ("planned", "ready")] == ["replace_node"]


# --- the ladder -------------------------------------------------------------------------------------------------------


def test_the_same_fault_again_after_an_action_is_met_with_the_next_step(eager: Fleet) -> None:
    bad = {"checks": failing(uuid(0))}
    eager.report(**bad)
    for action in ("reset_gpu", "reboot_node", "replace_node"):
        work(eager)
        found = listed(eager)[-1]
        assert (found["action"], found["state"]) == (action, "ready")
        claim(eager, found["id"])
        complete(eager, found["id"])
        stand_still(eager, 300, **bad)
        work(eager)
        assert len(listed(eager, state="ready") + listed(eager, state="planned")) == 0
        stand_still(eager, 630, **bad)
    work(eager)
    assert listed(eager)[-1]["action"] == "return_device"


def test_a_board_that_comes_back_under_another_name_goes_on_where_it_was(eager: Fleet) -> None:
    eager.policy = replace(EAGER, repair_trusted_checks=("gpu.ecc",))
    eager.report(checks=failing(uuid(0)))
    work(eager)
    (order,) = listed(eager)
    assert order["action"] == "replace_node"
    claim(eager, order["id"])
    complete(eager, order["id"])
    eager.clock.advance(2000)

    eager.report("node-z", instance="i-z", devices=[gpu(0), gpu(11), gpu(12), gpu(13)], checks=failing(uuid(0)))
    work(eager)

    assert (listed(eager)[-1]["node"], listed(eager)[-1]["action"]) == ("node-z", "return_device")


def test_giving_hardware_away_holds_it_at_the_claim(eager: Fleet) -> None:
    eager.policy = replace(EAGER, repair_trusted_checks=("gpu.ecc",))
    eager.report(checks=failing(uuid(0)))
    work(eager)
    assert eager.open_holds() == []

    claim(eager, listed(eager)[0]["id"])

    (hold,) = eager.open_holds()
    assert (hold["owner"], hold["release_policy"]) == ("rule:repair.replace_node", "manual")
    assert serial(0) in [one["value"] for one in hold["identifiers"]]
    claim(eager, listed(eager)[0]["id"], token=1)
    assert len(eager.open_holds()) == 1


def test_a_node_replaced_for_a_missing_device_holds_that_device(eager: Fleet) -> None:
    eager.admit()
    short = {"devices": [gpu(number) for number in range(3)]}
    eager.report(**short)
    work(eager)
    claim(eager, listed(eager)[0]["id"])
    complete(eager, listed(eager)[0]["id"])
    stand_still(eager, 1000, **short)
    work(eager)
    assert listed(eager)[-1]["action"] == "replace_node"

    claim(eager, listed(eager)[-1]["id"])

    assert [one["identifiers"][0]["value"] for one in eager.open_holds()] == [serial(3)]


# --- nothing old ------------------------------------------------------------------------------------------------------


def test_an_order_whose_node_came_back_by_itself_is_cancelled_and_says_so(eager: Fleet) -> None:
    eager.report(checks=failing(uuid(0)))
    work(eager)
    eager.clock.advance(30)
    eager.report()

    with pytest.raises(NotOpen, match="failure no more"):
        claim(eager, listed(eager)[0]["id"])
    work(eager)
    (found,) = listed(eager)
    assert (found["state"], found["outcome"]) == ("cancelled", "recovered")
    assert "gpu.ecc is a failure no more" in found["detail"]
    assert events(eager)[-1] == "repair.cancelled"


def test_an_order_for_a_machine_that_is_gone_is_cancelled(eager: Fleet) -> None:
    eager.report(checks=failing(uuid(0)))
    eager.report("node-b", instance="i-b", devices=[gpu(9)], checks=failing(uuid(9)))
    work(eager)
    eager.clock.advance(30)
    eager.report(instance="i-2", boot="boot-2", devices=[gpu(number) for number in range(20, 24)])
    retire_node(eager.db, "node-b", reason=None, actor=ALICE, policy=eager.policy, now=eager.clock.now)
    work(eager)

    assert {one["outcome"] for one in listed(eager)} == {"gone"}


def test_a_restart_fires_nothing_old_and_plans_nothing_twice(eager: Fleet, database_url: str) -> None:
    eager.report(checks=failing(uuid(0)))
    work(eager)
    before = events(eager)

    eager.db = open_database(database_url)
    work(eager)
    assert events(eager) == before

    eager.clock.advance(86400)
    eager.report()
    work(eager)
    assert [one["outcome"] for one in listed(eager)] == ["recovered"]
    eager.db.close_all()


def test_what_a_person_cancelled_is_not_planned_again_while_it_stands(eager: Fleet) -> None:
    eager.report(checks=failing(uuid(0)))
    work(eager)
    eager.clock.advance(30)
    order = listed(eager)[0]["id"]
    repairs.cancel_repair(eager.db, order, reason="mine", actor=ALICE, now=eager.clock.now)
    eager.report(checks=failing(uuid(0)))
    work(eager)
    assert [one["outcome"] for one in listed(eager)] == ["by_person"]
    with pytest.raises(NotOpen):
        repairs.cancel_repair(eager.db, order, reason="mine", actor=ALICE, now=eager.clock.now)

    eager.report()
    eager.clock.advance(30)
    eager.report()
    work(eager)
    eager.clock.advance(30)
    eager.report(checks=failing(uuid(0)))
    work(eager)
    assert [one["state"] for one in listed(eager)] == ["cancelled", "ready"]


# --- leases -----------------------------------------------------------------------------------------------------------


def test_one_at_a_time_has_it_and_only_the_token_renews(eager: Fleet) -> None:
    eager.report(checks=failing(uuid(0)))
    work(eager)
    order = listed(eager)[0]["id"]
    first = claim(eager, order)
    assert (first["state"], first["token"], first["claimed_by"]) == ("claimed", 1, "operator:alice/robot-1")

    for holder, token in (("robot-2", None), ("robot-1", None), ("robot-2", 1), ("robot-1", 2)):
        with pytest.raises(NotOpen):
            claim(eager, order, holder, token)
    eager.clock.advance(60)
    eager.report(checks=failing(uuid(0)))
    again = claim(eager, order, token=1)
    assert (again["token"], again["claimed_at"]) == (1, first["claimed_at"])
    assert again["lease_until"] > first["lease_until"]


def test_a_claim_that_ran_out_goes_to_another_and_the_late_word_is_refused(eager: Fleet) -> None:
    eager.report(checks=failing(uuid(0)))
    work(eager)
    order = listed(eager)[0]["id"]
    claim(eager, order)
    stand_still(eager, eager.policy.repair_lease_seconds, checks=failing(uuid(0)))
    taken = claim(eager, order, "robot-2")
    assert taken["token"] == 2

    for how in ({}, {"token": 1}):
        with pytest.raises(NotOpen):
            complete(eager, order, "robot-1", **how)
    assert complete(eager, order, "robot-2", token=2)["state"] == "done"


def test_a_late_word_counts_while_nobody_else_has_claimed(eager: Fleet) -> None:
    eager.report(checks=failing(uuid(0)))
    work(eager)
    order = listed(eager)[0]["id"]
    claim(eager, order)
    stand_still(eager, eager.policy.repair_lease_seconds, checks=failing(uuid(0)))
    work(eager)
    assert (listed(eager)[0]["state"], events(eager)[-1]) == ("ready", "repair.lapsed")

    assert complete(eager, order, token=1)["state"] == "done"


def test_a_claim_after_one_that_ran_out_is_refused_too_when_nothing_is_wrong_any_more(eager: Fleet) -> None:
    eager.report(checks=failing(uuid(0)))
    work(eager)
    order = listed(eager)[0]["id"]
    claim(eager, order)
    stand_still(eager, eager.policy.repair_lease_seconds)

    with pytest.raises(NotOpen, match="failure no more"):
        claim(eager, order, "robot-2")


def test_an_order_that_is_always_claimed_in_vain_fails_and_is_no_step_towards_giving_hardware_away(
    eager: Fleet,
) -> None:
    bad = {"checks": failing(uuid(0))}
    eager.report(**bad)
    work(eager)
    order = listed(eager)[0]["id"]
    for _ in range(eager.policy.repair_attempts):
        claim(eager, order)
        stand_still(eager, eager.policy.repair_lease_seconds, **bad)
        work(eager)

    assert (listed(eager)[0]["state"], listed(eager)[0]["outcome"]) == ("failed", "given_up")
    with pytest.raises(NotOpen):
        complete(eager, order, token=3)
    stand_still(eager, eager.policy.repair_settle_seconds, **bad)
    work(eager)
    assert brief(eager) == [("reset_gpu", "failed"), ("reset_gpu", "ready")]


# --- the budget -------------------------------------------------------------------------------------------------------


def bad_fleet(fleet: Fleet, count: int, *, apart: int = 700, **changes: Any) -> None:
    """Nodes of which each turns bad long after the one before, so that no check is suspected."""
    for number in range(count):
        fleet.report(**world(number, **changes, checks=failing(uuid(4 * number))))
        fleet.clock.advance(apart)


def test_no_more_begin_than_the_budget_allows_and_the_rest_say_what_they_wait_for(eager: Fleet) -> None:
    eager.policy = replace(EAGER, repair_fleet_nodes=2, repair_fleet_percent=100, repair_profile_percent=100)
    eager.policy = replace(eager.policy, repair_zone_percent=100)
    bad_fleet(eager, 4)
    work(eager)

    assert [one["state"] for one in listed(eager)] == ["ready", "ready", "planned", "planned"]
    assert listed(eager)[2]["waits_for"] == "2 of 4 nodes of the fleet are disturbed, and the limit is 2"
    told = repairs.show_budget(eager.db, policy=eager.policy, now=eager.clock.now)
    assert told["fleet"] == {"disturbed": 2, "nodes": 4, "limit": 2}
    assert told["hour"] == {"begun": 2, "limit": 20}


def test_a_done_repair_counts_until_its_node_is_back_or_had_its_time(eager: Fleet) -> None:
    eager.policy = replace(EAGER, repair_fleet_nodes=1)
    bad_fleet(eager, 3)
    work(eager)
    first, second, third = (one["id"] for one in listed(eager))
    claim(eager, first)
    complete(eager, first)
    work(eager)
    assert [one["state"] for one in listed(eager)] == ["done", "planned", "planned"]

    for _ in range(2):
        eager.clock.advance(31)
        eager.report(**world(0, boot="boot-2"))
        eager.report(**world(2, checks=failing(uuid(8))))
    work(eager)
    assert [one["state"] for one in listed(eager)] == ["done", "ready", "planned"]
    assert listed(eager)[0]["settled_at"] is not None
    claim(eager, second)
    complete(eager, second, done=False, reason="no console")
    eager.clock.advance(eager.policy.repair_settle_seconds)
    work(eager)
    assert [(one["id"], one["state"]) for one in listed(eager)][2] == (third, "ready")


def test_the_switch_takes_back_what_nobody_has_claimed_and_leaves_the_rest(eager: Fleet) -> None:
    eager.policy = replace(EAGER, repair_fleet_nodes=2, repair_fleet_percent=100)
    eager.policy = replace(eager.policy, repair_profile_percent=100, repair_zone_percent=100)
    bad_fleet(eager, 2)
    work(eager)
    claimed, free = (one["id"] for one in listed(eager))
    claim(eager, claimed)
    act: dict[str, Any] = {"actor": ALICE, "policy": eager.policy}
    told = repairs.stop_repairs(eager.db, reason="storm", now=eager.clock.now, **act)
    assert told["stopped"]["reason"] == "storm"
    with pytest.raises(NotOpen, match="storm"):
        claim(eager, free)
    with pytest.raises(NotOpen):
        repairs.stop_repairs(eager.db, reason="storm", now=eager.clock.now, **act)
    work(eager)
    assert [one["state"] for one in listed(eager)] == ["claimed", "planned"]
    assert listed(eager)[1]["waits_for"] == "repairs are switched off by operator:alice: storm"
    assert complete(eager, claimed)["state"] == "done"

    repairs.resume_repairs(eager.db, reason="over", now=eager.clock.now, **act)
    work(eager)
    assert listed(eager)[1]["state"] == "ready"
    with pytest.raises(NotOpen):
        repairs.resume_repairs(eager.db, reason="over", now=eager.clock.now, **act)
    assert [one for one in events(eager) if one.startswith("repairs")] == ["repairs.stopped", "repairs.resumed"]
    assert "repair.deferred" in events(eager)


def test_when_the_limit_becomes_smaller_what_nobody_has_claimed_waits_again_the_newest_first(eager: Fleet) -> None:
    wide = replace(EAGER, repair_fleet_percent=100, repair_profile_percent=100, repair_zone_percent=100)
    eager.policy = replace(wide, repair_hour_nodes=4)
    bad_fleet(eager, 4)
    work(eager)
    claim(eager, listed(eager)[2]["id"])
    assert [one["state"] for one in listed(eager)] == ["ready", "ready", "claimed", "ready"]

    eager.policy = replace(wide, repair_hour_nodes=2)  # nothing begins by this, so nothing is taken back for it
    work(eager)
    assert [one["state"] for one in listed(eager)] == ["ready", "ready", "claimed", "ready"]
    eager.policy = replace(wide, repair_fleet_nodes=2)
    work(eager)
    assert [one["state"] for one in listed(eager)] == ["ready", "planned", "claimed", "planned"]
    assert events(eager).count("repair.deferred") == 2
    eager.policy = replace(wide, repair_fleet_nodes=1)
    work(eager)
    assert [one["state"] for one in listed(eager)] == ["planned", "planned", "claimed", "planned"]
    told = repairs.show_budget(eager.db, policy=eager.policy, now=eager.clock.now)
    assert told["fleet"] == {"disturbed": 1, "nodes": 4, "limit": 1}


def test_a_check_that_turns_many_nodes_bad_at_once_is_suspected_until_a_person_says_go_on(eager: Fleet) -> None:
    eager.policy = replace(EAGER, detector_nodes=2, detector_percent=0)
    eager.report(**world(9, checks=failing(name="lab.disk")))
    bad_fleet(eager, 3, apart=60)
    work(eager)

    assert events(eager).count("detector.suspected") == 1
    by_state = {(one["condition"], one["state"]) for one in listed(eager)}
    assert by_state == {("gpu.ecc", "planned"), ("lab.disk", "ready")}
    assert "gpu.ecc" in listed(eager, condition="gpu.ecc")[0]["waits_for"]
    told = repairs.show_budget(eager.db, policy=eager.policy, now=eager.clock.now)
    assert [(one["condition"], one["nodes"]) for one in told["suspected"]] == [("gpu.ecc", 3)]

    act: dict[str, Any] = {"actor": ALICE, "policy": eager.policy, "now": eager.clock.now}
    repairs.resume_repairs(eager.db, reason="it is right", condition="gpu.ecc", **act)
    claim(eager, listed(eager, condition="lab.disk")[0]["id"])
    complete(eager, listed(eager, condition="lab.disk")[0]["id"])
    eager.clock.advance(eager.policy.repair_settle_seconds)
    for number in range(3):
        eager.report(**world(number, checks=failing(uuid(4 * number))))
    work(eager)
    assert [one["state"] for one in listed(eager, condition="gpu.ecc")] == ["ready", "planned", "planned"]
    assert events(eager).count("detector.suspected") == 1
    with pytest.raises(NotOpen):
        repairs.resume_repairs(eager.db, reason="again", condition="gpu.ecc", **act)


def test_a_node_in_maintenance_is_left_alone(eager: Fleet) -> None:
    eager.report(checks=failing(uuid(0)))
    work(eager)
    until = eager.clock.now.replace(hour=20)
    act: dict[str, Any] = {"reason": "firmware", "actor": ALICE, "policy": eager.policy, "now": eager.clock.now}
    set_maintenance(eager.db, "node-a", until=until, **act)
    with pytest.raises(NotOpen, match="maintenance"):
        claim(eager, listed(eager)[0]["id"])
    work(eager)

    assert (listed(eager)[0]["state"], listed(eager)[0]["waits_for"]) == ("planned", "the node is in maintenance")


def test_in_safe_mode_and_where_the_policy_says_so_nothing_begins(eager: Fleet) -> None:
    eager.report(checks=failing(uuid(0)))
    work(eager)
    order = listed(eager)[0]["id"]
    allowed, eager.policy = eager.policy, replace(EAGER, repair_enabled=False)
    with pytest.raises(NotOpen, match="by the policy"):
        claim(eager, order)
    work(eager)
    assert listed(eager)[0]["waits_for"] == "repairs are switched off by the policy"

    eager.policy = allowed
    with eager.db.write(eager.clock.now) as tx:
        insert_alarm(tx, Alarm("ab" * 32, "ends_early", 1, 2, eager.clock.now))
    work(eager)
    assert listed(eager)[0]["waits_for"] == "the service is in safe mode: its records may be old"
    with eager.db.write(eager.clock.now) as tx:
        end_all(tx, by="admin", reason="noted")
    work(eager)
    assert listed(eager)[0]["state"] == "ready"


def test_two_repairs_of_one_node_do_not_run_into_each_other(eager: Fleet) -> None:
    eager.report(checks=failing(uuid(0), uuid(1)))
    work(eager)
    first, second = (one["id"] for one in listed(eager))
    claim(eager, first)
    claim(eager, second)  # resets of two devices
    deadlock = CheckResult("condition.kernel_deadlock", CheckStatus.FAIL)
    eager.clock.advance(30)
    eager.report(checks=(*failing(uuid(0), uuid(1)), deadlock))
    work(eager)

    assert (listed(eager)[2]["action"], listed(eager)[2]["waits_for"]) == (
        "reboot_node",
        "another repair of this node is under way",
    )


def test_what_is_not_there_is_not_found(fleet: Fleet) -> None:
    with pytest.raises(NotFound):
        repairs.show_repair(fleet.db, "nothing")


def test_a_fleet_that_is_well_is_not_locked(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.admit()
    monkeypatch.setattr(type(fleet.db), "write", pytest.fail)

    tend(fleet.db, policy=fleet.policy, now=fleet.clock.now)

    with fleet.db.read() as snapshot:
        assert store.count_by_state(snapshot) == {}
