# SPDX-License-Identifier: Apache-2.0
"""Is heat kept in view from report to report, whichever way a report takes?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from registry.domain.reports import CheckStatus, DeviceEntry
from registry.services import reports
from registry.store import nodes
from tests.fleet import Fleet, efa, gpu


def cards(hot: float = 60, *, at: int = 3, **changes: Any) -> list[DeviceEntry]:
    """Four GPUs at the same work, one of them as hot as is said."""
    made = []
    for number in range(4):
        readings = {"temperature_celsius": hot if number == at else 60, "power_watts": 300, **changes}
        made.append(gpu(number, readings=readings))
    return made


def stay(fleet: Fleet, devices: list[DeviceEntry], seconds: int = 300, **changes: Any) -> dict[str, Any]:
    """Report the same at the beginning and the end of a time, and once a minute between."""
    answer = fleet.report(devices=devices, **changes)
    for _ in range(seconds // 60):
        fleet.clock.advance(60)
        answer = fleet.report(devices=devices, **changes)
    return answer


def status(fleet: Fleet, name: str = "node-a") -> CheckStatus | None:
    """Where the check stands."""
    with fleet.db.read() as snapshot:
        node = nodes.find_node(snapshot, name)
        state = nodes.find_state(snapshot, node.id) if node else None
    assert state is not None
    found = state.checks.get("gpu.thermal")
    return found.status if found else None


@pytest.fixture
def full_way(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The reports that took the full way, by their ids."""
    taken: list[str] = []
    plain = reports._accept

    def noted(tx: Any, seen: Any, *rest: Any) -> Any:
        taken.append(seen.report.report_id)
        return plain(tx, seen, *rest)

    monkeypatch.setattr(reports, "_accept", noted)
    return taken


def test_heat_that_lasts_is_a_warning_and_its_end_a_pass(fleet: Fleet) -> None:
    stay(fleet, cards(75))
    warned = status(fleet)
    fleet.report(devices=cards(60))

    assert (warned, status(fleet)) == (CheckStatus.WARN, CheckStatus.PASS)


def test_a_node_with_a_hot_gpu_is_admitted_unless_heat_counts(fleet: Fleet) -> None:
    fleet.admit(devices=cards(75))
    assert stay(fleet, cards(75))["admission"]["admitted"] is True

    fleet.policy = replace(fleet.policy, heat_counts=True)
    answer = stay(fleet, cards(75), 60)

    (reason, *_) = answer["admission"]["reasons"]
    assert (reason["code"], reason["check"], reason["device"]["slot"]) == ("check_failing", "gpu.thermal", gpu(3).slot)
    assert "15 °C above the median of 3 neighbours" in reason["message"]


def test_only_a_change_of_heat_takes_the_full_way(fleet: Fleet, full_way: list[str]) -> None:
    fleet.admit(devices=cards(60))
    full_way.clear()

    for name, hot in [("same", 61), ("hot", 72), ("still", 73), ("hotter", 75)]:
        fleet.clock.advance(31)
        fleet.report(devices=cards(hot), report_id=name)
    fleet.clock.advance(300)
    for name, hot in [("lasting", 75), ("warned", 76), ("cool", 60), ("cold", 58)]:
        fleet.clock.advance(31)
        fleet.report(devices=cards(hot), report_id=name)

    assert full_way == ["hot", "hotter", "lasting", "cool"]
    assert status(fleet) is CheckStatus.PASS


def test_the_window_runs_on_when_the_list_is_taken_anew(fleet: Fleet) -> None:
    fleet.report(devices=cards(75))
    fleet.clock.advance(200)
    fleet.report(devices=[replace(one, firmware={"vbios": "96.00"}) for one in cards(75)])
    fleet.clock.advance(100)
    fleet.report(devices=[replace(one, asset_tag="rack 7") for one in reversed(cards(75))])

    assert status(fleet) is CheckStatus.WARN


def test_another_boot_begins_anew(fleet: Fleet) -> None:
    stay(fleet, cards(75))
    fleet.clock.advance(30)
    fleet.report(devices=cards(75), boot="boot-2")

    assert status(fleet) is CheckStatus.PASS


def test_readings_that_say_nothing_make_no_check(fleet: Fleet) -> None:
    fleet.admit(devices=cards(75, power_watts=None))
    fleet.admit("node-b", devices=[gpu(number) for number in range(10, 14)], instance="i-2")

    assert status(fleet) is None
    assert status(fleet, "node-b") is None


def test_gpus_of_two_models_are_told_apart_on_the_short_way_too(fleet: Fleet, full_way: list[str]) -> None:
    mixed = [replace(one, model="NVIDIA A10G") if at == 3 else one for at, one in enumerate(cards(75))]
    fleet.admit(devices=mixed)
    full_way.clear()

    stay(fleet, mixed)

    assert status(fleet) is None
    assert full_way == []


def test_a_report_of_other_devices_says_nothing_of_heat(fleet: Fleet) -> None:
    fleet.report(devices=cards(75), profile="p4d.24xlarge", covers=frozenset({"gpu"}))
    fleet.clock.advance(300)
    fleet.report(devices=[efa(0)], profile="p4d.24xlarge", covers=frozenset({"efa"}))

    assert status(fleet) is CheckStatus.PASS
