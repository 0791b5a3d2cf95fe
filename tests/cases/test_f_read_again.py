# SPDX-License-Identifier: Apache-2.0
"""Group F of the public reports: a log that is read for a week, and faults of programs that a fleet may count."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from registry.config import Settings
from tests.cases.conftest import GAP_SECONDS, World, codes, one_engine, restarted, taken
from tests.cases.kernel import CARDS, XID, at, bring_up, failures, look, owners, release_all, xid

OFF_BUS = "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
REAL = "RLW_SRC_TRACK Nonfatal XC1 i0 Link 10 (0x00000001 0x00000000)"


# --- C57: the same line for a week -----------------------------------------------------------------------------------


def syslog(when: datetime, message: str) -> str:
    return f"{when:%b %e %H:%M:%S} node-a kernel: {message}"


@pytest.mark.parametrize("write", [at, syslog], ids=["journal", "syslog"])
@pytest.mark.parametrize("boot", ["boot-of-node-a", "boot-2"], ids=["same boot", "rebooted"])
def test_a_line_that_is_read_for_a_week_speaks_once(
    world: World, write: Callable[[datetime, str], str], boot: str
) -> None:
    """C57."""
    bring_up(world)
    line = write(world.clock.now, xid(79, 2, OFF_BUS))
    for _ in range(2):
        assert "device_quarantined" in codes(look(world, line)["admission"])
        world.clock.advance(86_400)
    release_all(world)

    for _ in range(5):
        for _ in range(2):
            decision = look(world, line, boot_id=boot)["admission"]
        assert codes(decision) == []
        world.clock.advance(86_400)

    (failure,) = failures(world)
    assert failure["count"] == 1
    assert len(world.events("failure.recorded")) == len(world.events("quarantine.opened")) == 1
    later = write(world.clock.now, xid(79, 2, OFF_BUS))
    assert "device_quarantined" in codes(look(world, line, later, boot_id=boot)["admission"])


@one_engine
@pytest.mark.parametrize("code", [None, "xid_79"])
def test_what_an_agent_still_holds_against_a_device_ends_with_a_persons_release(world: World, code: str | None) -> None:
    """C57: an agent tells the line once, and fails the check until the next boot."""
    bring_up(world)
    moment = world.clock.now.isoformat()
    line = {"failure_id": "line-1", "code": "xid_79", "slot": CARDS[1]["slot"], "occurred_at": moment}
    line["evidence"] = {"source": "kernel_log"}
    failing = [{"name": XID, "status": "fail", "device": CARDS[1]["slot"], **({"code": code} if code else {})}]

    def report(*told: dict[str, Any]) -> dict[str, Any]:
        world.clock.advance(GAP_SECONDS)
        answer: dict[str, Any] = world.report("node-a", CARDS, checks=failing, failures=list(told))
        return answer

    again = [line] if code else []
    assert "check_failing" in codes(report(*again)["admission"])  # of an agent, before its line has come
    for _ in range(2):
        assert {"device_quarantined", "check_failing"} <= set(codes(report(line)["admission"]))
    release_all(world)
    assert report(*again)["pass"]["have"] == 1
    assert report(*again)["admission"]["admitted"] is True
    assert len(world.events("quarantine.opened")) == 1


@one_engine
def test_a_line_that_somebody_told_before_the_log_did_fails_the_check_all_the_same(world: World) -> None:
    bring_up(world)
    moment = world.clock.now
    world.fault("xid_145", device=CARDS[1]["serial"])
    for _ in range(2):
        decision = look(world, at(moment, xid(145, 2, REAL)))["admission"]
    assert "check_failing" in codes(decision)


@one_engine
def test_a_line_that_was_withdrawn_fails_no_check(world: World) -> None:
    """C57."""
    bring_up(world)
    line = at(world.clock.now, xid(48, 2))
    look(world, line)
    (failure,) = failures(world)
    taken(world.operator.post(f"/v1/failures/{failure['id']}/withdraw", json={"reason": "a test"}))
    release_all(world)
    for _ in range(2):
        decision = look(world, line)["admission"]
    assert decision["admitted"] is True


@one_engine
def test_a_line_from_maintenance_is_no_verdict_afterwards(world: World) -> None:
    """C77."""
    bring_up(world)
    body = {"until": (world.clock.now + timedelta(hours=1)).isoformat(), "reason": "driver"}
    taken(world.operator.post("/v1/nodes/node-a/maintenance", json=body))
    line = at(world.clock.advance(60), xid(48, 2))
    look(world, line)
    world.clock.advance(60)
    taken(world.operator.post("/v1/nodes/node-a/maintenance", json={**body, "until": world.clock.now.isoformat()}))

    for _ in range(2):
        decision = look(world, line)["admission"]

    assert [one["muted"] for one in failures(world)] == ["maintenance"]
    assert (decision["admitted"], owners(world)) == (True, [])


# --- C60: what programs do -------------------------------------------------------------------------------------------

HANGS = """
[[rules]]
name = "hangs"
codes = ["xid_43"]
count = 3
within = "10m"
"""


@one_engine
def test_a_fleet_counts_hangs_within_a_window_by_its_policy_file(world: World, settings: Settings) -> None:
    """C60."""
    bring_up(world)
    began = world.clock.now
    lines = [at(began + timedelta(minutes=n), xid(43, 2, "pid=1, name=trainer, Ch 8")) for n in (0, 30, 34, 38)]
    world.clock.advance(3000)
    look(world, *lines)
    assert (failures(world)[0]["count"], owners(world)) == (4, [])

    with restarted(world, settings, HANGS) as counting:
        look(counting, *lines)
        assert owners(counting) == []  # what was judged is not judged again
        began = world.clock.now
        more = [at(began + timedelta(minutes=n), xid(43, 3, "pid=1, name=trainer, Ch 8")) for n in (1, 2, 3)]
        world.clock.advance(600)
        look(counting, *lines, *more[:2])
        assert owners(counting) == []
        decision = look(counting, *lines, *more)["admission"]
        assert owners(counting) == ["rule:hangs"]
    assert [one["device"]["serial"] for one in decision["reasons"] if "device" in one] == [CARDS[2]["serial"]]


@one_engine
def test_another_table_judges_what_comes_and_rewrites_nothing(world: World, settings: Settings) -> None:
    """C60."""
    bring_up(world)
    first = at(world.clock.now, xid(31, 2))
    look(world, first)

    with restarted(world, settings, '[effects]\nxid_31 = "quarantine"\nxid_48 = "record"\n') as strict:
        assert look(strict, first)["admission"]["admitted"] is True
        mild = at(world.clock.now, xid(48, 1))
        assert look(strict, first, mild)["admission"]["admitted"] is True
        look(strict, first, mild, at(world.clock.now, xid(31, 3)))
        assert owners(strict) == ["rule:xid_31"]
        effects = [(one["code"], one["serial"], one["effect"]) for one in failures(strict)]

    assert effects == [
        ("xid_31", CARDS[1]["serial"], "record"),
        ("xid_48", CARDS[0]["serial"], "record"),
        ("xid_31", CARDS[2]["serial"], "quarantine"),
    ]


@one_engine
@pytest.mark.parametrize("number", [13, 31, 43, 45, 94])
def test_what_programs_cause_is_recorded_and_holds_nothing(world: World, number: int) -> None:
    """C60."""
    bring_up(world)
    began = world.clock.now
    lines = [at(began + timedelta(minutes=3 * n), xid(number, 2, "pid=4711, name=trainer, ch")) for n in range(3)]
    world.clock.advance(600)

    for upto in (1, 3, 3):
        answer = look(world, *lines[:upto])

    (failure,) = failures(world)
    assert (failure["count"], failure["effect"]) == (3, "record")
    assert (failure["evidence"]["pid"], failure["evidence"]["process"]) == ("4711", "trainer")
    assert owners(world) == []
    assert answer["admission"]["admitted"] is True
