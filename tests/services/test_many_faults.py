# SPDX-License-Identifier: Apache-2.0
"""Does a log full of faults, most of them of places that do not exist, stop the service for everybody else?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from registry.domain.errors import InvalidField
from registry.domain.reports import CheckResult, CheckStatus, ReportedFailure
from registry.services.failure_pages import list_failures
from registry.services.reports import FAULTS_MAX
from registry.store.snapshots import Snapshot
from tests.fleet import EVERYTHING, Fleet, gpu, passing


def in_bogus_slots(fleet: Fleet, count: int) -> dict[str, Any]:
    """What a kernel log says in which so many places that nobody knows have an Xid 79."""
    at = fleet.clock.now - timedelta(seconds=1)
    slots = [f"{number:04x}:3b:00.0" for number in range(1, count + 1)]
    failures = tuple(
        ReportedFailure(f"f-{slot}-{at}", "xid_79", slot=slot, occurred_at=at, evidence={"source": "kernel_log"})
        for slot in slots
    )
    found = tuple(CheckResult("gpu.xid", CheckStatus.FAIL, device=slot, code="xid_79") for slot in slots)
    return {"failures": failures, "checks": (*passing("gpu.ecc", "gpu.row_remap"), *found)}


class Reading:
    """Counts the rows that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        real = Snapshot.all

        def counted(snapshot: Snapshot, sql: str, params: Sequence[Any] = ()) -> list[Any]:
            found = real(snapshot, sql, params)
            self.rows += len(found)
            return found

        monkeypatch.setattr(Snapshot, "all", counted)

    def of(self, fleet: Fleet, node: str, count: int) -> int:
        """How many rows a first and a second report of so many faults read together."""
        fleet.admit(node)
        before = self.rows
        for _ in range(2):
            fleet.clock.advance(30)
            fleet.report(node, **in_bogus_slots(fleet, count))
        return self.rows - before


def test_twice_as_many_faults_are_twice_the_reading_and_not_four_times(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Reading(monkeypatch)
    few, many = (reading.of(fleet, f"node-{count}", count) for count in (40, 80))
    assert many < 3 * few


def test_a_fault_of_no_known_device_is_not_one_device_more_that_fails(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    fleet.report(**in_bogus_slots(fleet, 8))
    assert fleet.open_holds() == []
    assert fleet.codes().count("fault_unattached") == 8


def test_a_fault_of_no_known_device_hides_none_of_those_that_fail_together(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    here = tuple(ReportedFailure(f"f-{n}", "xid_32", slot=gpu(n).slot, occurred_at=fleet.clock.now) for n in range(4))
    fleet.report(failures=(*in_bogus_slots(fleet, 4)["failures"], *here))
    assert [one["owner"] for one in fleet.open_holds()] == ["rule:fails_together"]


def test_a_report_of_more_faults_than_a_machine_can_have_is_refused_whole(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(30)
    with pytest.raises(InvalidField, match=f"{FAULTS_MAX + 1} faults") as refused:
        fleet.report(**in_bogus_slots(fleet, FAULTS_MAX + 1))
    assert [one.pointer for one in refused.value.errors] == ["/failures"]
    assert list_failures(fleet.db, {}, EVERYTHING).items == []
    assert fleet.decide().admitted
