# SPDX-License-Identifier: Apache-2.0
"""Which boots cure a fault, when the fault may be older than the first word of the boot that showed it?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from registry.domain.policy import Policy
from registry.domain.policy_file import parse_policy
from registry.domain.reports import ReportedFailure
from tests.fleet import Fleet, gpu, uuid

KERNEL = "3f0c7d1e-52ab-4c8e-9a67-1b2c3d4e5f60"
"""A boot id of the form that the kernel makes."""

HANGS = """
[[rules]]
name = "hangs"
codes = ["xid_43"]
count = 3
within = "10m"
release_policy = "after_passes"
"""


def fault(fleet: Fleet, code: str, ago: float, number: int = 1) -> ReportedFailure:
    at = fleet.clock.now - timedelta(seconds=ago)
    return ReportedFailure(f"f-{code}-{ago}-{number}", code, slot=gpu(number).slot, occurred_at=at)


def run(fleet: Fleet, times: int, node: str = "node-a", **changes: Any) -> None:
    for _ in range(times):
        fleet.clock.advance(30)
        fleet.report(node, **changes)


def owners(fleet: Fleet) -> list[str]:
    return [one["owner"] for one in fleet.open_holds()]


def test_the_boot_that_shows_a_fault_does_not_cure_it_however_late_its_first_report_comes(fleet: Fleet) -> None:
    fleet.report(failures=(fault(fleet, "xid_48", ago=20),))
    run(fleet, 4)
    assert owners(fleet) == ["rule:xid_48"]
    assert "device_quarantined" in fleet.codes()

    run(fleet, 2, boot="boot-2")
    assert owners(fleet) == []
    assert fleet.decide().admitted


def test_a_later_boot_that_brings_an_older_fault_of_its_own_earns_nothing_by_itself(fleet: Fleet) -> None:
    fleet.report(failures=(fault(fleet, "xid_48", ago=20),))
    run(fleet, 1, boot="boot-2")
    # Its log came late, and tells of a moment before its first report.
    fleet.report(boot="boot-2", entries=None, failures=(fault(fleet, "xid_48", ago=15),))
    run(fleet, 4, boot="boot-2")
    assert owners(fleet) == ["rule:xid_48"]

    run(fleet, 2, boot="boot-3")
    assert owners(fleet) == []


def test_a_reset_after_the_fault_cures_it_even_if_both_are_older_than_the_first_report(fleet: Fleet) -> None:
    fleet.report(failures=(fault(fleet, "xid_48", ago=20), fault(fleet, "gpu_reset", ago=10)))
    run(fleet, 2)
    assert owners(fleet) == []


def test_a_counting_rules_hold_waits_for_another_boot_too(fleet: Fleet) -> None:
    fleet.policy = parse_policy(HANGS)
    fleet.report(failures=tuple(fault(fleet, "xid_43", ago=ago) for ago in (200, 140, 80)))
    run(fleet, 4)
    assert owners(fleet) == ["rule:hangs"]
    run(fleet, 2, boot="boot-2")
    assert owners(fleet) == []


def test_a_fault_that_waited_for_the_first_list_of_its_boot_is_of_that_boot(fleet: Fleet) -> None:
    fleet.fail("xid_48", node="node-a", slot=gpu(1).slot, occurred_at=fleet.clock.now)
    fleet.clock.advance(20)
    run(fleet, 4)
    assert owners(fleet) == ["rule:xid_48"]
    run(fleet, 2, boot="boot-2")
    assert owners(fleet) == []


def test_what_the_breaker_withheld_is_earned_back_by_another_boot_only(fleet: Fleet) -> None:
    fleet.policy = Policy(breaker_limit_min=0)
    fleet.report(failures=(fault(fleet, "xid_48", ago=20),))
    run(fleet, 4)
    assert fleet.open_holds() == []
    assert "quarantine_withheld" in fleet.codes()
    run(fleet, 2, boot="boot-2")
    assert "quarantine_withheld" not in fleet.codes()


def test_another_node_that_booted_after_the_fault_cures_what_was_moved_there(fleet: Fleet) -> None:
    fleet.report(failures=(fault(fleet, "xid_48", ago=20),))
    fleet.clock.advance(60)
    run(fleet, 1, "node-b", devices=[gpu(n) for n in range(4, 7)], instance="i-2")
    run(fleet, 2, "node-b", devices=[gpu(1), *(gpu(n) for n in range(4, 7))], instance="i-2")
    assert owners(fleet) == []


def test_another_node_that_was_up_before_the_fault_cures_nothing(fleet: Fleet) -> None:
    """No restart was seen since: that the device came there is a move, and a move is no proof."""
    run(fleet, 1, "node-b", devices=[gpu(n) for n in range(4, 7)], instance="i-2")
    fleet.clock.advance(60)
    fleet.report(failures=(fault(fleet, "xid_48", ago=20),))
    moved = {"devices": [gpu(1), *(gpu(n) for n in range(4, 7))], "instance": "i-2"}
    run(fleet, 4, "node-b", **moved)
    assert owners(fleet) == ["rule:xid_48"]
    run(fleet, 2, "node-b", boot="boot-2", **moved)
    assert owners(fleet) == []


@pytest.mark.parametrize(("boot", "held"), [(KERNEL, ["rule:xid_48"]), ("boot-1", [])])
def test_the_same_boot_under_another_name_is_known_by_the_kernels_id(fleet: Fleet, boot: str, held: list[str]) -> None:
    """A machine that is renamed was not restarted. Ids that a fleet counts itself say nothing beyond their node."""
    fleet.report(boot=boot, failures=(fault(fleet, "xid_48", ago=20),))
    fleet.clock.advance(60)
    run(fleet, 3, "node-b", boot=boot, instance="i-2")
    assert owners(fleet) == held


def test_a_persons_hold_is_earned_back_by_any_boot_that_is_newer(fleet: Fleet) -> None:
    fleet.admit()
    fleet.hold({"device": uuid(1)}, release_policy="after_passes")
    run(fleet, 3)
    assert len(fleet.open_holds()) == 1
    run(fleet, 2, boot="boot-2")
    assert fleet.open_holds() == []
