# SPDX-License-Identifier: Apache-2.0
"""How often is the database asked for one report or decision? Not once for each device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from registry.domain.reports import DeviceEntry
from registry.store.snapshots import Snapshot
from tests.fleet import Fleet, efa, gpu

DEVICES = (4, 12)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Count the statements of what is done."""

    def count(work: Callable[[], object]) -> int:
        statements: list[str] = []
        execute = Snapshot.execute

        def noting(self: Snapshot, sql: str, params: object = ()) -> object:
            statements.append(sql)
            return execute(self, sql, params)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(Snapshot, "execute", noting)
            work()
        return len(statements)

    return count


def bring_up(fleet: Fleet, node: str, count: int, first: int) -> list[DeviceEntry]:
    devices = [*(gpu(first + at, at=at) for at in range(count)), *(efa(first + at, at=at) for at in range(count))]
    for _ in range(3):
        fleet.report(node, devices)
        fleet.clock.advance(31)
    return devices


def test_an_admission_asks_once(fleet: Fleet, asked: Callable[[Callable[[], object]], int]) -> None:
    bring_up(fleet, "node-a", 4, 100)

    assert asked(lambda: fleet.decide("node-a")) == 1


def test_a_report_that_says_the_same_asks_once_and_writes_once(
    fleet: Fleet, asked: Callable[[Callable[[], object]], int]
) -> None:
    devices = bring_up(fleet, "node-a", 4, 100)

    assert asked(lambda: fleet.report("node-a", devices)) == 2


def test_a_report_with_news_of_one_device_asks_no_more_for_more_devices(
    fleet: Fleet, asked: Callable[[Callable[[], object]], int]
) -> None:
    counts = []
    for node, count in (("node-a", DEVICES[0]), ("node-b", DEVICES[1])):
        devices = bring_up(fleet, node, count, 100 + 50 * len(counts))
        changed = [replace(devices[0], asset_tag="rack-9"), *devices[1:]]
        counts.append(asked(lambda: fleet.report(node, changed)))  # noqa: B023

    assert counts[1] - counts[0] < DEVICES[1] - DEVICES[0]
