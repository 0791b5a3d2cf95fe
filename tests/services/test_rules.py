# SPDX-License-Identifier: Apache-2.0
"""What do the counting rules hold: those that are built in, and those of a fleet's own file?"""

from __future__ import annotations

from typing import Any

import pytest

from registry.domain.policy import Policy
from registry.domain.policy_file import parse_policy
from registry.domain.reports import ReportedFailure
from registry.services.failure_pages import list_failures
from registry.services.failures import withdraw_failure
from tests.fleet import ALICE, EVERYTHING, Fleet, gpu, uuid

COUNTING = """
[[rules]]
name = "hangs"
codes = ["xid_43"]
count = 3
within = "10m"
release_policy = "after_passes"
"""


def owners(fleet: Fleet) -> list[tuple[str, str]]:
    return sorted((one["owner"], one["release_policy"]) for one in fleet.open_holds())


def cure(fleet: Fleet, boot: str) -> None:
    """A boot and two clean runs."""
    for _ in range(2):
        fleet.clock.advance(30)
        fleet.report(boot=boot)


def hang(fleet: Fleet, device: str = uuid(1), **where: Any) -> dict[str, Any]:
    return fleet.fail("xid_43", device=device, occurred_at=fleet.clock.advance(60), **where)


# --- a rule of one's own ---------------------------------------------------------------------------------------------


def test_by_default_an_application_fault_is_recorded_and_counted_and_holds_nothing(fleet: Fleet) -> None:
    """C60."""
    fleet.admit()
    for _ in range(12):
        hang(fleet)
        fleet.report()
    assert fleet.decide().admitted
    (failure,) = list_failures(fleet.db, {}, EVERYTHING).items
    assert (failure["count"], failure["effect"]) == (12, "record")


def test_a_rule_holds_at_the_count_within_the_window_and_not_before(fleet: Fleet) -> None:
    """C60."""
    fleet.admit()
    fleet.policy = parse_policy(COUNTING)
    hang(fleet)
    fleet.clock.advance(700)
    hang(fleet)
    hang(fleet, device=uuid(2))
    hang(fleet)
    assert owners(fleet) == []
    hang(fleet)
    assert owners(fleet) == [("rule:hangs", "after_passes")]
    (hold,) = fleet.open_holds()
    assert hold["reason"].startswith("3 or more sights within 10m: ")
    assert len(hold["evidence"]["failures"]) == 1
    cure(fleet, "boot-2")
    assert owners(fleet) == []


def test_a_burst_of_a_log_is_as_many_sights_as_it_says(fleet: Fleet) -> None:
    fleet.admit()
    fleet.policy = parse_policy(COUNTING)
    began = fleet.clock.now
    burst = ReportedFailure("line-1", "xid_43", slot=gpu(1).slot, occurred_at=began, count=2, last_at=began)
    fleet.report(failures=(burst,))
    assert owners(fleet) == []
    ended = fleet.clock.advance(60)
    more = ReportedFailure("line-1", "xid_43", slot=gpu(1).slot, occurred_at=began, count=3, last_at=ended)
    for _ in range(2):
        fleet.report(failures=(more,))
    assert owners(fleet) == [("rule:hangs", "after_passes")]
    assert [one["count"] for one in list_failures(fleet.db, {}, EVERYTHING).items] == [3]


def test_what_a_person_released_or_withdrew_counts_no_more(fleet: Fleet) -> None:
    fleet.admit()
    fleet.policy = parse_policy(COUNTING)
    for _ in range(3):
        hang(fleet)
    fleet.release(fleet.open_holds()[0]["id"])
    hang(fleet)
    assert owners(fleet) == []
    hang(fleet)
    withdraw_failure(
        fleet.db, list_failures(fleet.db, {}, EVERYTHING).items[0]["id"], reason="x", actor=ALICE, now=fleet.clock.now
    )
    hang(fleet)
    assert owners(fleet) == []


def test_another_table_rewrites_no_verdict_and_judges_what_comes(fleet: Fleet) -> None:
    """C60."""
    fleet.admit()
    fleet.fail("xid_31", device=uuid(1), occurred_at=fleet.clock.now)
    fleet.policy = parse_policy('[effects]\nxid_31 = "quarantine"\n')
    assert fleet.decide().admitted
    assert [one["effect"] for one in list_failures(fleet.db, {}, EVERYTHING).items] == ["record"]
    fleet.fail("xid_31", device=uuid(1), occurred_at=fleet.clock.advance(5))
    assert owners(fleet) == [("rule:xid_31", "after_passes")]
    assert sorted(one["effect"] for one in list_failures(fleet.db, {}, EVERYTHING).items) == ["quarantine", "record"]


def test_heavier_news_under_a_stricter_table_raises_the_hold_and_milder_never_lowers_it(fleet: Fleet) -> None:
    """C102."""
    fleet.admit()
    fleet.fail("xid_48", device=uuid(1))
    fleet.policy = parse_policy('[effects]\nxid_48 = "permanent"\n')
    fleet.fail("xid_48", device=uuid(1), occurred_at=fleet.clock.advance(5))
    assert owners(fleet) == [("rule:xid_48", "manual")]
    fleet.policy = Policy()
    fleet.fail("xid_48", device=uuid(1), occurred_at=fleet.clock.advance(5))
    assert owners(fleet) == [("rule:xid_48", "manual")]


# --- the rules that are built in -------------------------------------------------------------------------------------


def test_what_fails_again_after_it_was_cured_waits_for_a_person(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail("xid_48", device=uuid(1))
    cure(fleet, "boot-2")
    assert owners(fleet) == []
    fleet.clock.advance(86_400)
    fleet.fail("xid_63", device=uuid(1))
    assert owners(fleet) == [("rule:repeat_offender", "manual"), ("rule:xid_63", "after_passes")]
    cure(fleet, "boot-3")
    assert owners(fleet) == [("rule:repeat_offender", "manual")]


def test_four_weeks_later_it_is_a_fault_like_the_first(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail("xid_48", device=uuid(1))
    cure(fleet, "boot-2")
    fleet.clock.advance(29 * 86_400)
    fleet.report(boot="boot-2")
    fleet.fail("xid_48", device=uuid(1))
    assert owners(fleet) == [("rule:xid_48", "after_passes")]


@pytest.mark.parametrize("code", ["xid_13", "xid_38"])
def test_repetition_of_what_opens_no_hold_is_no_offence(fleet: Fleet, code: str) -> None:
    fleet.admit()
    for boot in ("boot-2", "boot-3", "boot-4"):
        fleet.fail(code, device=uuid(1), occurred_at=fleet.clock.now)
        cure(fleet, boot)
    assert owners(fleet) == []


def test_what_fails_on_two_nodes_is_the_device(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail("xid_38", device=uuid(1))
    fleet.clock.advance(60)
    fleet.report("node-b", [gpu(1)], instance="i-2", profile="g5.xlarge")
    assert owners(fleet) == []
    fleet.fail("xid_38", device=uuid(1), occurred_at=fleet.clock.advance(5))
    assert owners(fleet) == [("rule:follows_the_device", "manual")]


def test_four_devices_that_fail_together_are_the_machine(fleet: Fleet) -> None:
    fleet.admit()
    for number in range(3):
        fleet.fail("xid_38", device=uuid(number))
    assert owners(fleet) == []
    fleet.fail("xid_64", device=uuid(3))
    assert owners(fleet) == [("rule:fails_together", "manual"), ("rule:xid_64", "manual")]
    assert {"device_quarantined", "node_quarantined"} <= set(fleet.codes())


def test_test_faults_are_recorded_and_hold_nothing(fleet: Fleet) -> None:
    """C54."""
    fleet.admit()
    item = fleet.fail("xid_79", device=uuid(1), evidence={"injected": True})
    assert (item["failure"]["muted"], item["failure"]["effect"]) == ("injected", "record")
    assert fleet.decide().admitted
    fleet.fail("xid_79", device=uuid(1))
    assert owners(fleet) == [("rule:xid_79", "manual")]
