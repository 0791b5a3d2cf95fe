# SPDX-License-Identifier: Apache-2.0
"""What earns a hold its end without a person, and what does a release of many let through?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from registry.domain.actors import Actor, ActorKind
from registry.domain.reports import CheckResult, CheckStatus, ReportedFailure
from registry.services.history import list_events
from registry.services.quarantine import release_targets, show_quarantine
from tests.fleet import ALICE, CLEAN_GPU, EVERYTHING, Fleet, gpu, passing, serial, uuid

TWINS = [gpu(n, serial=serial(50), model="NVIDIA GB200") for n in (1, 2)]
OTHERS = [gpu(n) for n in range(4, 8)]


def run(fleet: Fleet, times: int, node: str = "node-a", **changes: Any) -> None:
    """Send so many reports, a gap apart."""
    for _ in range(times):
        fleet.clock.advance(30)
        fleet.report(node, **changes)


def held_by_rule(fleet: Fleet, code: str = "xid_48") -> str:
    """Admit node-a, then let GPU 1 fail; returns the hold."""
    fleet.admit()
    fleet.clock.advance(30)
    fleet.fail(code, device=uuid(1), occurred_at=fleet.clock.now)
    (hold,) = fleet.open_holds()
    return str(hold["id"])


def state(fleet: Fleet, hold: str) -> str:
    return str(show_quarantine(fleet.db, hold, now=fleet.clock.now)["state"])


# --- after passes ----------------------------------------------------------------------------------------------------


def test_passes_alone_release_nothing(fleet: Fleet) -> None:
    hold = held_by_rule(fleet)
    run(fleet, 5)
    assert state(fleet, hold) == "open"
    assert fleet.codes() == ["device_quarantined"]


def test_a_boot_and_two_clean_runs_release_and_keep_the_passes_that_earned_it(fleet: Fleet) -> None:
    """C63, the milder half."""
    hold = held_by_rule(fleet, "xid_63")
    run(fleet, 1, boot="boot-2")
    assert state(fleet, hold) == "open"
    run(fleet, 1, boot="boot-2")
    assert state(fleet, hold) == "released"
    assert fleet.decide().admitted
    told = list_events(fleet.db, {"type": "quarantine.released"}, EVERYTHING).items
    assert [one["actor"]["kind"] for one in told] == ["system"]


@pytest.mark.parametrize("restart", ["gpu_reset", "driver_loaded"])
@pytest.mark.parametrize("by_device", [True, False])
def test_a_reset_or_a_driver_load_is_a_restart_too(fleet: Fleet, restart: str, by_device: bool) -> None:
    hold = held_by_rule(fleet)
    fleet.clock.advance(10)
    if by_device:
        where: dict[str, Any] = {"device": uuid(1)}
    else:
        where = {"node": "node-a"} if restart == "driver_loaded" else {"node": "node-a", "slot": gpu(1).slot}
    item = fleet.fail(restart, occurred_at=fleet.clock.now, **where)
    assert item["failure"]["effect"] == "record"
    run(fleet, 1)
    assert state(fleet, hold) == "open"
    run(fleet, 1)
    assert state(fleet, hold) == "released"
    assert fleet.decide().admitted


def test_a_reset_of_another_device_is_none_of_this_one(fleet: Fleet) -> None:
    hold = held_by_rule(fleet)
    fleet.clock.advance(10)
    fleet.fail("gpu_reset", device=uuid(2), occurred_at=fleet.clock.now)
    run(fleet, 3)
    assert state(fleet, hold) == "open"


def test_a_restart_before_the_fault_cures_nothing(fleet: Fleet) -> None:
    before = fleet.clock.now
    hold = held_by_rule(fleet)
    fleet.fail("gpu_reset", device=uuid(1), occurred_at=before)
    run(fleet, 3)
    assert state(fleet, hold) == "open"


def test_a_restart_that_a_fast_clock_dates_after_the_fault_is_still_before_it(fleet: Fleet) -> None:
    before = fleet.clock.now
    hold = held_by_rule(fleet)
    fleet.clock.advance(10)
    fast = timedelta(hours=7)
    load = ReportedFailure("load", "driver_loaded", occurred_at=before + fast)
    fleet.report(failures=(load,), sent_at=fleet.clock.now + fast)
    run(fleet, 3)
    assert state(fleet, hold) == "open"


def test_a_restart_of_a_boot_that_is_over_is_none_after_a_fault_of_the_running_one(fleet: Fleet) -> None:
    """It waited, and was dated by a fast clock."""
    fleet.report(boot="boot-0")
    hold = held_by_rule(fleet)
    fleet.clock.advance(10)
    fast = fleet.clock.now + timedelta(hours=7)
    load = ReportedFailure("load", "driver_loaded", occurred_at=fast)
    fleet.report(boot="boot-0", failures=(load,), sent_at=fast)
    run(fleet, 3)
    assert state(fleet, hold) == "open"


def test_a_new_fault_puts_what_was_earned_back_to_zero(fleet: Fleet) -> None:
    hold = held_by_rule(fleet)
    run(fleet, 1, boot="boot-2")
    fleet.fail("xid_48", device=uuid(1), occurred_at=fleet.clock.now)
    run(fleet, 3, boot="boot-2")
    assert state(fleet, hold) == "open"
    run(fleet, 2, boot="boot-3")
    assert state(fleet, hold) == "released"


def test_an_old_line_after_the_restart_takes_nothing_away(fleet: Fleet) -> None:
    hold = held_by_rule(fleet)
    occurred = fleet.clock.now
    run(fleet, 1, boot="boot-2")
    fleet.fail("xid_48", device=uuid(1), occurred_at=occurred)
    run(fleet, 1, boot="boot-2")
    assert state(fleet, hold) == "released"


@pytest.mark.parametrize("status", [CheckStatus.UNKNOWN, CheckStatus.SKIPPED, CheckStatus.FAIL])
def test_runs_that_are_not_clean_earn_nothing(fleet: Fleet, status: CheckStatus) -> None:
    hold = held_by_rule(fleet)
    checks = (*passing(*CLEAN_GPU[1:]), CheckResult("gpu.ecc", status))
    run(fleet, 4, boot="boot-2", checks=checks)
    assert state(fleet, hold) == "open"


def test_the_runs_must_cover_the_device_on_whichever_node(fleet: Fleet) -> None:
    hold = held_by_rule(fleet)
    run(fleet, 4, boot="boot-2", devices=[gpu(0), gpu(2), gpu(3), gpu(9, at=1)])
    assert state(fleet, hold) == "open"
    moved = [*OTHERS[:3], gpu(1, at=7)]
    run(fleet, 1, "node-b", instance="i-9", boot="boot-b", devices=moved)
    assert "device_quarantined" in fleet.codes("node-b")
    run(fleet, 1, "node-b", instance="i-9", boot="boot-b", devices=moved)
    assert state(fleet, hold) == "released"
    assert fleet.decide("node-b").admitted


@pytest.mark.parametrize("code", ["xid_64", "xid_79", "gpu.row_remap.failed"])
def test_what_outlives_a_boot_waits_for_a_person(fleet: Fleet, code: str) -> None:
    """C63, the graver half."""
    hold = held_by_rule(fleet, code)
    run(fleet, 4, boot="boot-2")
    assert fleet.codes() == ["device_quarantined"]
    assert fleet.release(hold)["state"] == "released"


def test_a_persons_own_hold_may_end_after_passes_too(fleet: Fleet) -> None:
    fleet.admit()
    hold = fleet.hold({"device": serial(1)}, release_policy="after_passes")[0]["quarantine"]["id"]
    run(fleet, 2)
    assert state(fleet, hold) == "open"
    run(fleet, 2, boot="boot-2")
    assert state(fleet, hold) == "released"


def test_a_hold_that_waits_for_an_identifier_ends_after_passes_of_what_shows_it(fleet: Fleet) -> None:
    target = {"identifier": {"kind": "gpu", "type": "serial", "value": serial(1)}}
    hold = fleet.hold(target, release_policy="after_passes")[0]["quarantine"]["id"]
    run(fleet, 1)
    assert fleet.codes() == ["device_quarantined", "passes_insufficient"]
    run(fleet, 1)
    assert state(fleet, hold) == "released"


# --- many at once ----------------------------------------------------------------------------------------------------


def free(fleet: Fleet, *targets: dict[str, Any], role: str = "operator", dry_run: bool = False) -> list[dict[str, Any]]:
    return release_targets(
        fleet.db,
        targets,
        reason="back to work",
        actor=ALICE,
        role=role,
        now=fleet.clock.now,
        dry_run=dry_run,
    )


def test_a_release_of_many_tells_each_outcome(fleet: Fleet) -> None:
    fleet.report()
    fleet.hold({"device": serial(1)})
    forever = fleet.hold({"device": serial(3)}, permanent=True)[0]["quarantine"]["id"]
    asked = ({"device": serial(1)}, {"device": serial(2)}, {"device": serial(3)}, {"device": "1699999999999"})
    dry = free(fleet, *asked, dry_run=True)
    assert len(fleet.open_holds()) == 2
    items = free(fleet, *asked)
    for one in (dry, items):
        assert [item["outcome"] for item in one] == ["released", "not_held", "refused", "refused"]
        assert [item.get("code") for item in one] == [None, None, "forbidden", "not_found"]
    assert [one["id"] for one in fleet.open_holds()] == [forever]
    assert [one["outcome"] for one in free(fleet, {"device": serial(3)}, role="admin")] == ["released"]


def test_every_owners_hold_on_a_target_is_released(fleet: Fleet) -> None:
    fleet.report()
    fleet.hold({"device": serial(1)})
    fleet.hold({"device": serial(1)}, by=Actor(ActorKind.OPERATOR, "bob"))
    fleet.fail("xid_79", device=uuid(1))
    (item,) = free(fleet, {"device": uuid(1)})
    assert len(item["quarantines"]) == 3
    assert fleet.open_holds() == []


def test_a_node_is_refused_while_a_device_on_it_is_held_and_not_named(fleet: Fleet) -> None:
    """C100: a batch of nodes, one of which carries the bad card."""
    names = [f"node-{n}" for n in range(5)]
    for at, name in enumerate(names):
        fleet.report(name, instance=f"i-{at}", devices=[gpu(10 * at + n, at=n) for n in range(1, 5)])
        fleet.hold({"node": name})
    fleet.hold({"device": serial(21)})
    asked = [{"node": name} for name in names]
    items = free(fleet, *asked)
    assert [one["outcome"] for one in items] == ["released", "released", "refused", "released", "released"]
    assert serial(21) in items[2]["message"]
    assert "device_quarantined" in fleet.codes("node-2")
    assert "node_quarantined" in fleet.codes("node-2")
    named = free(fleet, {"node": "node-2"}, {"device": serial(21)})
    assert [one["outcome"] for one in named] == ["released", "released"]
    assert fleet.codes("node-2") == ["passes_insufficient"]


@pytest.mark.parametrize("first", ["node", "device"])
def test_a_device_that_is_named_and_may_not_be_released_keeps_its_node_held(fleet: Fleet, first: str) -> None:
    fleet.report()
    fleet.hold({"node": "node-a"})
    fleet.hold({"device": serial(1)}, permanent=True)
    asked = [{"node": "node-a"}, {"device": serial(1)}]
    items = free(fleet, *(asked if first == "node" else reversed(asked)))
    assert {one["outcome"] for one in items if "device" in one["target"]} == {"refused"}
    assert "device_quarantined" in fleet.codes()


def test_a_board_is_released_by_the_name_of_any_of_its_units(fleet: Fleet) -> None:
    fleet.report(devices=TWINS)
    fleet.hold({"device": serial(50)})
    assert [one["outcome"] for one in free(fleet, {"device": uuid(2)})] == ["released"]
    assert fleet.open_holds() == []


def test_an_identifier_that_waits_is_released_as_it_was_held(fleet: Fleet) -> None:
    target = {"identifier": {"kind": "gpu", "type": "serial", "value": serial(1)}}
    fleet.hold(target)
    assert [one["outcome"] for one in free(fleet, target)] == ["released"]
    fleet.admit()
    assert fleet.decide().admitted


def test_a_release_of_a_node_held_by_name_or_instance_frees_both(fleet: Fleet) -> None:
    fleet.report()
    fleet.hold({"node": "node-a"})
    fleet.hold({"node": "node-a"}, match="name")
    assert fleet.codes().count("node_quarantined") == 2
    (item,) = free(fleet, {"node": "node-a"})
    assert (item["outcome"], len(item["quarantines"])) == ("released", 2)
    assert "node_quarantined" not in fleet.codes()
