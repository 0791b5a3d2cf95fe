# SPDX-License-Identifier: Apache-2.0
"""What does the breaker let through, what becomes of a hold that it withheld, and how does it clear?"""

from __future__ import annotations

from typing import Any

import pytest

from registry.services.admission import preview
from registry.services.failures import withdraw_failure
from registry.services.gauges import read_gauges
from registry.services.history import list_events
from registry.services.nodes import retire_node
from registry.services.quarantine import release_targets
from registry.services.sweep import sweep
from tests.fleet import ALICE, CLEAN_GPU, EVERYTHING, Fleet, gpu, passing, uuid

CODE, FOREVER = "xid_48", "xid_79"


def name(number: int) -> str:
    return f"node-{number}"


def bring_up(fleet: Fleet, count: int, **changes: Any) -> None:
    """Nodes with one GPU each, GPU n on node n, each admitted. `changes` by node: profile, zone."""
    for _ in range(2):
        for number in range(count):
            look(fleet, number, **{what: of(number) for what, of in changes.items()})
        fleet.clock.advance(30)


def look(fleet: Fleet, number: int, **changes: Any) -> dict[str, Any]:
    changes = {"instance": f"i-{number}", "profile": "g5.xlarge", "checks": passing(*CLEAN_GPU), **changes}
    return fleet.report(name(number), [gpu(number)], **changes)


def held(fleet: Fleet) -> int:
    return len(fleet.open_holds())


def is_withheld(fleet: Fleet, number: int) -> bool:
    return "quarantine_withheld" in fleet.codes(name(number))


def events(fleet: Fleet, type_: str) -> list[dict[str, Any]]:
    return [one for one in list_events(fleet.db, {}, EVERYTHING).items if one["type"] == type_]


def test_a_small_fleet_may_hold_one_node_and_the_next_is_withheld(fleet: Fleet) -> None:
    bring_up(fleet, 3)
    for number in range(2):
        fleet.fail(CODE, device=uuid(number))
    assert (held(fleet), is_withheld(fleet, 0), is_withheld(fleet, 1)) == (1, False, True)
    reason = next(one for one in fleet.decide(name(1)).reasons if one.code == "quarantine_withheld")
    assert reason.device is not None
    assert reason.device.uuid == uuid(1)
    assert "1 of 3 nodes of the fleet within 10 minutes, and the limit is 1" in reason.message
    (event,) = events(fleet, "quarantine.withheld")
    assert (event["data"]["owner"], event["data"]["node"]) == ("rule:xid_48", name(1))
    assert fleet.codes(name(2)) == []
    assert read_gauges(fleet.db, policy=fleet.policy, now=fleet.clock.now).withheld == 1


def test_more_faults_on_a_node_that_is_out_cost_no_more(fleet: Fleet) -> None:
    bring_up(fleet, 3)
    fleet.fail(CODE, device=uuid(0))
    fleet.fail("xid_64", device=uuid(0))
    assert held(fleet) == 2


def test_of_codes_that_outlive_a_boot_four_nodes_get_through(fleet: Fleet) -> None:
    bring_up(fleet, 6)
    for number in range(6):
        fleet.fail(FOREVER, device=uuid(number))
    assert held(fleet) == 4
    assert [is_withheld(fleet, number) for number in range(6)] == [False] * 4 + [True] * 2


def test_the_limit_of_a_profile_and_of_a_zone_is_its_own(fleet: Fleet) -> None:
    bring_up(
        fleet,
        60,
        profile=lambda at: "g5.xlarge" if at < 45 else "g6.xlarge",
        zone=lambda at: "a" if at < 55 else "b",
    )
    for number in (45, 46):  # of 15 nodes of the profile one may go; of the fleet it would be three
        fleet.fail(CODE, device=uuid(number))
    assert (held(fleet), is_withheld(fleet, 46)) == (1, True)
    for number in (0, 1, 2):
        fleet.fail(CODE, device=uuid(number))
    assert (held(fleet), is_withheld(fleet, 2)) == (3, True)
    fleet.clock.advance(601)
    for number in (59, 10):
        fleet.fail(CODE, device=uuid(number))
    fleet.fail(CODE, device=uuid(58))
    assert is_withheld(fleet, 58)


def test_it_clears_by_itself_and_nothing_that_was_withheld_is_replayed(fleet: Fleet) -> None:
    """C103, C110: only new evidence asks again."""
    bring_up(fleet, 3)
    for number in range(2):
        fleet.fail(CODE, device=uuid(number))
    fleet.clock.advance(601)
    for number in range(3):
        look(fleet, number)
    sweep(fleet.db, now=fleet.clock.now)
    assert (held(fleet), is_withheld(fleet, 1)) == (1, True)
    fleet.fail(CODE, device=uuid(1))
    assert (held(fleet), is_withheld(fleet, 1)) == (2, False)
    fleet.fail(CODE, device=uuid(2))
    assert is_withheld(fleet, 2)


def test_retired_and_long_silent_nodes_are_no_part_of_the_fleet(fleet: Fleet) -> None:
    bring_up(fleet, 40)
    retire_node(fleet.db, name(39), reason="sold", actor=ALICE, policy=fleet.policy, now=fleet.clock.now)
    for number in range(2):
        fleet.fail(CODE, device=uuid(number))
    assert held(fleet) == 1


def test_people_hold_and_release_what_they_like(fleet: Fleet) -> None:
    bring_up(fleet, 4)
    fleet.fail(CODE, device=uuid(0))
    items = fleet.hold(*({"device": uuid(number)} for number in range(1, 4)))
    assert [one["outcome"] for one in items] == ["opened"] * 3
    for one in fleet.open_holds():
        fleet.release(one["id"])
    fleet.fail(CODE, device=uuid(1), occurred_at=fleet.clock.advance(1))
    assert is_withheld(fleet, 1)  # the release gives the breaker nothing back: the rule did hold that node


# --- what ends it ----------------------------------------------------------------------------------------------------


def withhold(fleet: Fleet, code: str = CODE) -> str:
    """Let a fault of GPU 1 be withheld, and return its id."""
    bring_up(fleet, 6)
    for number in (0, 2, 3, 4) if code == FOREVER else (0,):
        fleet.fail(code, device=uuid(number))
    failure: str = fleet.fail(code, device=uuid(1))["failure"]["id"]
    assert is_withheld(fleet, 1)
    return failure


def pass_twice(fleet: Fleet, **changes: Any) -> None:
    for _ in range(2):
        fleet.clock.advance(30)
        look(fleet, 1, **changes)


def test_clean_runs_after_a_restart_end_it_as_they_would_have_ended_the_hold(fleet: Fleet) -> None:
    withhold(fleet)
    pass_twice(fleet)
    assert fleet.codes(name(1)) == ["quarantine_withheld"]
    pass_twice(fleet, boot="boot-2")
    assert fleet.codes(name(1)) == []
    assert [one["data"]["why"] for one in events(fleet, "withholding.ended")] == [
        "2 clean runs after a restart newer than the fault"
    ]


def test_passes_end_nothing_that_waits_for_a_person(fleet: Fleet) -> None:
    withhold(fleet, FOREVER)
    pass_twice(fleet, boot="boot-2")
    assert fleet.codes(name(1)) == ["quarantine_withheld"]


def test_a_withdrawal_ends_it(fleet: Fleet) -> None:
    failure = withhold(fleet)
    withdraw_failure(fleet.db, failure, reason="a test", actor=ALICE, now=fleet.clock.now)
    assert not is_withheld(fleet, 1)


def test_a_persons_release_ends_it_and_the_old_evidence_opens_nothing_again(fleet: Fleet) -> None:
    at = fleet.clock.now
    withhold(fleet, FOREVER)
    fleet.clock.advance(601)
    (item,) = release_targets(
        fleet.db, [{"device": uuid(1)}], reason="looked at", actor=ALICE, role="operator", now=fleet.clock.now
    )
    assert item["outcome"] == "released"
    assert not is_withheld(fleet, 1)
    before = held(fleet)
    fleet.fail(FOREVER, device=uuid(1), occurred_at=at)
    assert (held(fleet), is_withheld(fleet, 1)) == (before, False)
    pass_twice(fleet)
    assert fleet.codes(name(1)) == []


def test_a_hold_by_hand_stands_beside_it_and_its_release_ends_both(fleet: Fleet) -> None:
    withhold(fleet)
    (item,) = fleet.hold({"device": uuid(1)})
    assert {"device_quarantined", "quarantine_withheld"} <= set(fleet.codes(name(1)))
    fleet.release(item["quarantine"]["id"])
    assert fleet.codes(name(1)) == ["passes_insufficient"]


def test_it_follows_the_device_to_another_node(fleet: Fleet) -> None:
    withhold(fleet, FOREVER)
    fleet.clock.advance(30)
    fleet.report("elsewhere", [gpu(1)], instance="i-new", profile="g5.xlarge")
    assert "quarantine_withheld" in fleet.codes("elsewhere")


@pytest.mark.parametrize("times", [2, 5])
def test_the_same_evidence_again_is_no_second_event(fleet: Fleet, times: int) -> None:
    withhold(fleet)
    for _ in range(times):
        fleet.clock.advance(5)
        fleet.fail(CODE, device=uuid(1))
    assert len(events(fleet, "quarantine.withheld")) == 1


def test_a_preview_of_the_hardware_alone_tells_it_too(fleet: Fleet) -> None:
    withhold(fleet)
    identifiers = [{"kind": "gpu", "type": "uuid", "value": uuid(1)}]
    for candidate in ({"identifiers": identifiers}, {"node": "new", "identifiers": identifiers}):
        (item,) = preview(fleet.db, [candidate], policy=fleet.policy, now=fleet.clock.now)
        assert [one["code"] for one in item["reasons"]] == ["quarantine_withheld"]
    here = {"node": name(1), "identifiers": identifiers}
    (item,) = preview(fleet.db, [here], policy=fleet.policy, now=fleet.clock.now)
    assert [one["code"] for one in item["reasons"]].count("quarantine_withheld") == 1
