# SPDX-License-Identifier: Apache-2.0
"""When is a fault that is told again one more sight, the same sight, or another fault?"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from registry.services.failure_pages import list_failures
from registry.services.failures import withdraw_failure
from registry.services.history import device_history
from tests.fleet import ALICE, EVERYTHING, Fleet, gpu, uuid


def told(fleet: Fleet) -> list[tuple[str, int]]:
    """Code and count of every fault on record."""
    return [(one["code"], one["count"]) for one in list_failures(fleet.db, {}, EVERYTHING).items]


def at(fleet: Fleet, seconds: int) -> datetime:
    return fleet.clock.now + timedelta(seconds=seconds)


def test_one_fault_told_under_many_ids_is_one_with_a_count_and_a_last_time(fleet: Fleet) -> None:
    """C119."""
    fleet.admit()
    start = fleet.clock.now
    items = []
    for seconds in (1108, 1843, 2501):
        fleet.clock.now = start + timedelta(seconds=seconds)
        items.append(fleet.fail("xid_79", device=uuid(1), occurred_at=fleet.clock.now))
    assert [one["outcome"] for one in items] == ["recorded"] * 3
    assert len({one["failure"]["id"] for one in items}) == 1
    assert (told(fleet), len(fleet.open_holds())) == ([("xid_79", 3)], 1)
    (failure,) = list_failures(fleet.db, {}, EVERYTHING).items
    assert failure["last_at"] > failure["occurred_at"]
    told_of = [one for one in device_history(fleet.db, uuid(1), {}, EVERYTHING).items if "observed_at" in one["data"]]
    assert [(one["type"], one["data"].get("count")) for one in told_of] == [
        ("failure.recorded", None),
        ("failure.recorded", 2),
        ("failure.recorded", 3),
    ]


def test_the_same_event_under_another_id_is_the_same_sight(fleet: Fleet) -> None:
    fleet.admit()
    first = fleet.fail("xid_79", device=uuid(1), occurred_at=fleet.clock.now)
    fleet.clock.advance(9)
    again = fleet.fail("xid_79", node="node-a", slot=gpu(1).slot, occurred_at=at(fleet, -9))
    assert (again["outcome"], again["failure"]["id"]) == ("recorded", first["failure"]["id"])
    assert told(fleet) == [("xid_79", 1)]


def test_an_id_stays_the_messages_own_when_its_fault_was_counted_elsewhere(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail("xid_48", device=uuid(1), failure_id="a")
    for _ in range(2):
        fleet.clock.advance(3)
        fleet.fail("xid_48", device=uuid(1), failure_id="b")
    assert told(fleet) == [("xid_48", 2)]
    assert fleet.fail("xid_48", device=uuid(2), failure_id="b")["outcome"] == "refused"
    assert fleet.fail("xid_79", device=uuid(1), failure_id="b")["outcome"] == "refused"


def test_older_sights_complete_the_count_and_reset_nothing(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail("xid_38", device=uuid(1), occurred_at=fleet.clock.now)
    fleet.clock.advance(30)
    fleet.admit()
    assert fleet.decide().admitted
    older = fleet.fail("xid_38", device=uuid(1), occurred_at=at(fleet, -90))
    assert older["outcome"] == "recorded"
    assert fleet.decide().admitted
    assert told(fleet) == [("xid_38", 2)]


def test_another_device_code_or_boot_is_another_fault(fleet: Fleet) -> None:
    fleet.admit()
    for code, device in (("xid_38", 1), ("xid_38", 2), ("xid_44", 1)):
        fleet.fail(code, device=uuid(device), occurred_at=fleet.clock.now)
    fleet.clock.advance(30)
    fleet.report(boot="boot-2")
    fleet.fail("xid_38", device=uuid(1), occurred_at=fleet.clock.advance(1))
    assert sorted(told(fleet)) == [("xid_38", 1), ("xid_38", 1), ("xid_38", 1), ("xid_44", 1)]


def test_what_was_withdrawn_is_not_told_again_and_a_later_sight_is_a_new_fault(fleet: Fleet) -> None:
    fleet.admit()
    when = fleet.clock.now
    item: dict[str, Any] = fleet.fail("xid_38", device=uuid(1), occurred_at=when)
    withdraw_failure(fleet.db, item["failure"]["id"], reason="a test", actor=ALICE, now=fleet.clock.advance(30))
    fleet.admit()
    again = fleet.fail("xid_38", device=uuid(1), occurred_at=when)
    assert (again["outcome"], again["failure"]["state"]) == ("recorded", "withdrawn")
    assert fleet.decide().admitted
    fleet.fail("xid_38", device=uuid(1), occurred_at=fleet.clock.advance(1))
    assert not fleet.decide().admitted
    assert len(told(fleet)) == 2
