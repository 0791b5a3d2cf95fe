# SPDX-License-Identifier: Apache-2.0
"""Do conditions follow the checks of a node, survive whatever restarts, and escalate in time without anybody asking?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus
from registry.domain.tolerances import Tolerance
from registry.services.condition_changes import RECORDS_MAX, escalate
from registry.services.history import list_events
from registry.services.life import beat
from registry.services.nodes import retire_node, set_maintenance, show_node
from registry.store import conditions as store
from registry.store import nodes, repairs
from registry.store.database import open_database
from tests.fleet import ALICE, CLEAN_GPU, EVERYTHING, Fleet, gpu, passing, serial, uuid

PERIOD, LONGEST = 30, 90


def failing(
    *devices: str | None, name: str = "gpu.ecc", code: str | None = None, message: str | None = None
) -> tuple[CheckResult, ...]:
    """All checks clean but one, which fails on these devices, or on the node."""
    clean = passing(*(one for one in CLEAN_GPU if one != name))
    return (*clean, *(CheckResult(name, CheckStatus.FAIL, one, code, message) for one in devices or (None,)))


def unknown(name: str = "gpu.ecc") -> tuple[CheckResult, ...]:
    return (*passing(*(one for one in CLEAN_GPU if one != name)), CheckResult(name, CheckStatus.UNKNOWN))


def go_on(fleet: Fleet, seconds: int, **report: Any) -> None:
    """Report for so long, often enough not to be silent; the last report comes at the end."""
    for left in range(seconds, 0, -LONGEST):
        fleet.clock.advance(min(LONGEST, left))
        fleet.report(**report)


def shown(fleet: Fleet, node: str = "node-a") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = show_node(fleet.db, node, policy=fleet.policy, now=fleet.clock.now)["conditions"]
    return found


def brief(fleet: Fleet, node: str = "node-a") -> list[tuple[str, str, str | None]]:
    """Name, status and serial of the conditions that stand."""
    return [(one["name"], one["status"], one.get("device", {}).get("serial")) for one in shown(fleet, node)]


def events(fleet: Fleet) -> list[tuple[str, str]]:
    found = list_events(fleet.db, {}, EVERYTHING).items
    return [
        (one["type"].partition(".")[2], one["data"]["condition"])
        for one in found
        if one["type"].startswith("condition.")
    ]


def work(fleet: Fleet, *, afresh: bool = False) -> None:
    """What the worker does in one of its rounds."""
    escalate(fleet.db, policy=fleet.policy, now=fleet.clock.now, afresh=afresh)


def test_a_failing_check_holds_at_once_and_drains_after_its_tolerance(fleet: Fleet) -> None:
    fleet.admit()
    fleet.report(checks=failing(uuid(2), code="gpu.pcie", message="width x4"))

    (problem,) = shown(fleet)
    assert (fleet.codes()[0], str(fleet.decide().disposition)) == ("check_failing", "hold")
    assert (problem["name"], problem["status"], problem["tolerance_seconds"]) == ("gpu.ecc", "problem", 600)
    assert (problem["reason"], problem["message"]) == ("gpu.pcie", "width x4")
    assert problem["device"]["serial"] == serial(2)

    go_on(fleet, 570, checks=failing(uuid(2), code="gpu.pcie"))
    assert str(fleet.decide().disposition) == "hold"
    go_on(fleet, 30, checks=failing(uuid(2), code="gpu.pcie"))

    decision = fleet.decide()
    assert str(decision.disposition) == "drain"
    reasons = [one for one in decision.reasons if one.code == "condition_failure"]
    assert [(one.check, one.device and one.device.serial) for one in reasons] == [("gpu.ecc", serial(2))]
    assert shown(fleet)[0]["failure_at"] == problem["failure_at"]


def test_each_device_has_its_own_condition(fleet: Fleet) -> None:
    fleet.report(checks=failing(uuid(0)))
    fleet.clock.advance(PERIOD)
    fleet.report(checks=failing(serial(0), "0000:11:00.0"))

    first, second = shown(fleet)
    assert brief(fleet) == [("gpu.ecc", "problem", serial(0)), ("gpu.ecc", "problem", serial(1))]
    assert first["since"] < second["since"]


def test_a_reported_condition_of_the_cluster_is_one_like_any_other(fleet: Fleet) -> None:
    fleet.report(checks=failing(name="condition.kernel_deadlock"))

    assert [(one["name"], one["tolerance_seconds"]) for one in shown(fleet)] == [("condition.kernel_deadlock", 1800)]


def test_the_same_report_again_moves_no_timer_and_writes_no_row_of_a_condition(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.report(checks=failing(uuid(0), message="11 errors"))
    before = shown(fleet)
    monkeypatch.setattr(store, "save_record", pytest.fail)
    monkeypatch.setattr(store, "forget_record", pytest.fail)

    fleet.clock.advance(PERIOD)
    fleet.report(checks=failing(uuid(0), message="12 errors"))
    fleet.clock.advance(PERIOD)
    fleet.report(checks=failing(uuid(0), code="gpu.pcie", message="13 errors"))

    (after,) = shown(fleet)
    assert (after["since"], after["failure_at"]) == (before[0]["since"], before[0]["failure_at"])
    assert (after["reason"], after["message"]) == ("gpu.pcie", "13 errors")


def test_of_a_node_that_is_well_nothing_is_asked(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.admit()
    monkeypatch.setattr(store, "records_of", pytest.fail)
    monkeypatch.setattr(store, "left_out", pytest.fail)

    fleet.clock.advance(PERIOD)
    fleet.report()

    assert fleet.decide().admitted


# --- time goes on by itself -------------------------------------------------------------------------------------------


def test_the_worker_tells_of_each_step_once_and_no_answer_waits_for_it(fleet: Fleet) -> None:
    fleet.report(checks=failing(uuid(0)))
    go_on(fleet, 600, checks=failing(uuid(0)))
    assert brief(fleet) == [("gpu.ecc", "failure", serial(0))]
    assert events(fleet) == [("opened", "gpu.ecc")]

    work(fleet)
    work(fleet)
    assert events(fleet) == [("opened", "gpu.ecc"), ("failed", "gpu.ecc")]

    go_on(fleet, 300)
    assert brief(fleet) == [("gpu.ecc", "failure", serial(0))]
    go_on(fleet, LONGEST)
    assert brief(fleet) == []
    work(fleet)
    work(fleet)
    assert events(fleet)[2:] == [("cleared", "gpu.ecc")]


def test_the_event_names_device_board_and_node_and_when_it_came_about(fleet: Fleet) -> None:
    begun = fleet.clock.now
    fleet.report(checks=failing(uuid(0), code="gpu.pcie"))
    go_on(fleet, 630, checks=failing(uuid(0), code="gpu.pcie"))
    work(fleet)

    (event,) = list_events(fleet.db, {"type": "condition.failed"}, EVERYTHING).items
    assert {one["kind"] for one in event["subjects"]} == {"device", "board", "node"}
    assert event["actor"]["kind"] == "system"
    data = event["data"]
    assert (data["node"], data["serial"], data["slot"]) == ("node-a", serial(0), "0000:10:00.0")
    assert (data["condition"], data["status"], data["reason"]) == ("gpu.ecc", "failure", "gpu.pcie")
    assert (data["since"][:19], data["at"][:19]) == (f"{begun:%Y-%m-%dT%H:%M:%S}", "2026-11-29T12:10:00")


def test_a_restart_in_the_midst_moves_no_timer_and_tells_nothing_twice(fleet: Fleet, database_url: str) -> None:
    fleet.report(checks=failing(uuid(0)))
    go_on(fleet, 300, checks=failing(uuid(0)))
    before = shown(fleet)
    told = events(fleet)

    fleet.db = open_database(database_url)
    work(fleet)
    assert (shown(fleet), events(fleet)) == (before, told)
    go_on(fleet, 300, checks=failing(uuid(0)))
    work(fleet)

    assert brief(fleet) == [("gpu.ecc", "failure", serial(0))]
    assert events(fleet) == [("opened", "gpu.ecc"), ("failed", "gpu.ecc")]
    fleet.db.close_all()


def test_unknown_is_told_after_its_own_tolerance_and_is_never_a_failure(fleet: Fleet) -> None:
    fleet.report(checks=unknown())
    go_on(fleet, 1770, checks=unknown())
    work(fleet)
    assert events(fleet) == []

    go_on(fleet, 3600, checks=unknown())
    work(fleet)

    assert brief(fleet) == [("gpu.ecc", "unknown", None)]
    assert str(fleet.decide().disposition) == "hold"
    assert events(fleet) == [("opened", "gpu.ecc")]


def test_the_tolerance_of_a_condition_is_the_policys(fleet: Fleet) -> None:
    fleet.policy = Policy(conditions=(Tolerance("gpu.ecc", tolerance_seconds=60), Tolerance("gpu.xid", never=True)))
    checks = tuple(CheckResult(name, CheckStatus.FAIL) for name in ("gpu.ecc", "gpu.xid"))
    fleet.report(checks=checks)
    go_on(fleet, 60, checks=checks)

    assert [(name, status) for name, status, _ in brief(fleet)] == [("gpu.ecc", "failure"), ("gpu.xid", "problem")]


def test_another_policy_is_told_by_a_worker_that_begins_afresh(fleet: Fleet) -> None:
    fleet.policy = Policy(conditions=(Tolerance("gpu.ecc", never=True),))
    fleet.report(checks=failing(uuid(0)))
    go_on(fleet, 120, checks=failing(uuid(0)))
    work(fleet)
    assert events(fleet) == [("opened", "gpu.ecc")]

    fleet.policy = Policy(condition_accelerated_seconds=60)
    assert brief(fleet) == [("gpu.ecc", "failure", serial(0))]
    work(fleet, afresh=True)

    assert events(fleet) == [("opened", "gpu.ecc"), ("failed", "gpu.ecc")]


# --- what is left out -------------------------------------------------------------------------------------------------


def test_a_node_that_is_silent_is_unknown_and_its_timer_stands_still(fleet: Fleet) -> None:
    fleet.report(checks=failing(uuid(0)))
    go_on(fleet, 300, checks=failing(uuid(0)))

    fleet.clock.advance(7200)
    work(fleet)
    assert brief(fleet) == [("gpu.ecc", "unknown", serial(0))]
    assert str(fleet.decide().disposition) == "hold"

    fleet.report(checks=failing(uuid(0)))
    assert brief(fleet) == [("gpu.ecc", "problem", serial(0))]
    # 300 s were seen, and the 120 s after them in which a node may be late.
    go_on(fleet, 150, checks=failing(uuid(0)))
    assert brief(fleet) == [("gpu.ecc", "problem", serial(0))]
    go_on(fleet, 30, checks=failing(uuid(0)))
    assert brief(fleet) == [("gpu.ecc", "failure", serial(0))]


def test_a_silence_that_no_worker_saw_counts_as_little(fleet: Fleet) -> None:
    fleet.report(checks=failing(uuid(0)))
    fleet.clock.advance(7200)
    fleet.report(checks=failing(uuid(0)))

    (found,) = shown(fleet)
    assert (found["status"], found["since"][:19]) == ("problem", "2026-11-29T12:00:00")


def test_our_own_outage_uses_up_no_tolerance(fleet: Fleet) -> None:
    beat(fleet.db, fleet.clock.now, fleet.policy)
    fleet.report(checks=failing(uuid(0)))
    fleet.clock.advance(3600)
    beat(fleet.db, fleet.clock.now, fleet.policy)

    fleet.report(checks=failing(uuid(0)))
    work(fleet)
    assert brief(fleet) == [("gpu.ecc", "problem", serial(0))]
    assert events(fleet) == [("opened", "gpu.ecc")]

    go_on(fleet, 570, checks=failing(uuid(0)))
    assert brief(fleet)[0][1] == "problem"
    go_on(fleet, 30, checks=failing(uuid(0)))
    work(fleet)
    assert events(fleet) == [("opened", "gpu.ecc"), ("failed", "gpu.ecc")]


def test_maintenance_uses_up_no_tolerance_and_what_still_fails_afterwards_goes_on(fleet: Fleet) -> None:
    fleet.report(checks=failing(uuid(0)))
    for until in (fleet.clock.now.replace(hour=20), fleet.clock.now.replace(hour=11)):
        act: dict[str, Any] = {"reason": "firmware", "actor": ALICE, "policy": fleet.policy, "now": fleet.clock.now}
        set_maintenance(fleet.db, "node-a", until=until, **act)
        go_on(fleet, 1200 if until.hour == 20 else 570, checks=failing(uuid(0)))
        work(fleet)
        assert events(fleet) == [("opened", "gpu.ecc")]
    go_on(fleet, 30, checks=failing(uuid(0)))
    work(fleet)

    assert events(fleet) == [("opened", "gpu.ecc"), ("failed", "gpu.ecc")]


# --- lives, boots, devices --------------------------------------------------------------------------------------------


def test_a_replaced_instance_starts_clean(fleet: Fleet) -> None:
    fleet.report(checks=failing(uuid(0)))
    go_on(fleet, 600, checks=failing(uuid(0)))
    fleet.clock.advance(PERIOD)

    fleet.report(instance="i-2", boot="boot-2", devices=[gpu(number) for number in range(10, 14)])

    assert brief(fleet) == []
    assert events(fleet) == [("opened", "gpu.ecc"), ("cleared", "gpu.ecc")]
    (cleared,) = list_events(fleet.db, {"type": "condition.cleared"}, EVERYTHING).items
    assert cleared["data"]["why"] == "instance_replaced"


def test_a_reboot_does_not_end_a_failure_until_it_was_seen_well(fleet: Fleet) -> None:
    fleet.report(checks=failing(uuid(0)))
    go_on(fleet, 600, checks=failing(uuid(0)))
    fleet.clock.advance(PERIOD)

    fleet.report(boot="boot-2", checks=passing("gpu.xid"))
    assert brief(fleet) == [("gpu.ecc", "failure", serial(0))]
    fleet.clock.advance(PERIOD)
    fleet.report(boot="boot-2")
    assert brief(fleet) == [("gpu.ecc", "failure", serial(0))]
    go_on(fleet, 300, boot="boot-2")
    assert brief(fleet) == []


def test_a_board_put_in_the_place_of_a_bad_one_starts_clean(fleet: Fleet) -> None:
    fleet.report(checks=failing(uuid(0)))
    go_on(fleet, 600, checks=failing(uuid(0)))
    fleet.clock.advance(PERIOD)

    fleet.report(devices=[gpu(9, at=0), gpu(1), gpu(2), gpu(3)], checks=failing(uuid(9)))

    assert brief(fleet) == [("gpu.ecc", "problem", serial(9))]
    (cleared,) = list_events(fleet.db, {"type": "condition.cleared"}, EVERYTHING).items
    assert (cleared["data"]["why"], cleared["data"]["serial"]) == ("device_gone", serial(0))


def test_a_device_that_vanished_is_not_well_for_it(fleet: Fleet) -> None:
    fleet.report(checks=failing(uuid(0)))
    go_on(fleet, 600, checks=failing(uuid(0)))
    go_on(fleet, 600, devices=[gpu(1), gpu(2), gpu(3)])

    assert ("gpu.ecc", "failure", serial(0)) in brief(fleet)


def test_retiring_a_node_ends_its_conditions(fleet: Fleet) -> None:
    fleet.report(checks=failing(uuid(0)))
    retire_node(fleet.db, "node-a", reason=None, actor=ALICE, policy=fleet.policy, now=fleet.clock.now)

    assert events(fleet) == [("opened", "gpu.ecc"), ("cleared", "gpu.ecc")]
    assert shown(fleet) == []


def test_a_device_that_is_listed_later_goes_on_where_its_name_began(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(0)], checks=failing(serial(3)))
    fleet.clock.advance(PERIOD)
    fleet.report(checks=failing(serial(3)))

    (found,) = [one for one in shown(fleet) if one["name"] == "gpu.ecc"]
    assert found["device"]["id"] is not None
    assert found["since"][:19] == "2026-11-29T12:00:00"


# --- flapping, bounds -------------------------------------------------------------------------------------------------


def test_a_check_that_comes_and_goes_blocks_though_it_is_well(fleet: Fleet) -> None:
    for _ in range(3):
        go_on(fleet, 30, checks=failing(uuid(0)))
        go_on(fleet, 120)
    fleet.clock.advance(PERIOD)
    fleet.report()

    (reason,) = fleet.decide().reasons
    assert (str(reason.code), reason.check) == ("check_failing", "gpu.ecc.flapping")
    assert brief(fleet) == [("gpu.ecc.flapping", "problem", serial(0))]
    assert events(fleet) == [("opened", "gpu.ecc"), ("opened", "gpu.ecc.flapping")]
    go_on(fleet, 3600)
    work(fleet)

    assert fleet.decide().admitted
    assert events(fleet)[2:] == [("cleared", "gpu.ecc"), ("cleared", "gpu.ecc.flapping")]


def test_a_relapse_keeps_its_first_since(fleet: Fleet) -> None:
    go_on(fleet, 30, checks=failing(uuid(0)))
    go_on(fleet, 90)
    assert brief(fleet) == []
    go_on(fleet, 30, checks=failing(uuid(0)))

    assert shown(fleet)[0]["since"][:19] == "2026-11-29T12:00:30"


def test_a_node_gone_wild_fills_no_table(fleet: Fleet) -> None:
    wild = tuple(CheckResult(f"lab.check_{number}", CheckStatus.FAIL) for number in range(RECORDS_MAX + 50))
    fleet.report(checks=wild)

    with fleet.db.read() as snapshot:
        state = nodes.find_state_by_name(snapshot, "node-a")
        assert state is not None
        assert len(store.records_of(snapshot, state.instance_id)) == RECORDS_MAX


def test_what_is_over_leaves_no_row(fleet: Fleet) -> None:
    fleet.report(checks=failing(uuid(0)))
    go_on(fleet, 30)
    fleet.clock.advance(4000)
    work(fleet)
    go_on(fleet, 600)
    work(fleet)
    fleet.clock.advance(4000)
    work(fleet)

    with fleet.db.read() as snapshot:
        assert snapshot.all("SELECT * FROM node_condition") == []


def test_failures_and_what_turned_bad_are_found_over_the_fleet(fleet: Fleet) -> None:
    other: dict[str, Any] = {"instance": "i-b", "devices": [gpu(number) for number in range(4, 8)]}
    fleet.report(checks=failing(uuid(0)))
    fleet.report("node-c", instance="i-c", devices=[gpu(number) for number in range(8, 12)])
    go_on(fleet, 600, checks=failing(uuid(0)))
    fleet.report("node-b", checks=failing(uuid(4)), **other)
    work(fleet)

    with fleet.db.read() as snapshot:
        (failed,) = store.list_failed(snapshot)
        node_a, node_b = (nodes.find_node(snapshot, name) for name in ("node-a", "node-b"))
        assert node_a is not None
        assert node_b is not None
        assert (failed.node_id, failed.name, failed.failed_at) == (node_a.id, "gpu.ecc", fleet.clock.now)
        for seconds, turned in ((601, {node_a.id, node_b.id}), (1, {node_b.id})):
            turns = repairs.list_turns(snapshot, fleet.clock.now - timedelta(seconds=seconds))
            assert {one.node_id for one in turns if one.condition == "gpu.ecc"} == turned
