# SPDX-License-Identifier: Apache-2.0
"""Does a raw kernel log speak once, at its own time, and no longer than what it tells of lasts?"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from registry.config import Settings
from tests.api.conftest import Asker
from tests.cases.conftest import GAP_SECONDS, World, codes, restarted
from tests.cases.kernel import (
    CARDS,
    FIRST,
    XID,
    at,
    bring_up,
    failures,
    log,
    look,
    owners,
    release_all,
    since_boot,
    xid,
    xid_check,
)
from tests.clock import Clock
from tests.collectors.documents import xml_document
from tests.collectors.machines import change, h100_gpus

GPUS = h100_gpus()

HANGS = '[[rules]]\nname = "hangs"\ncodes = ["xid_43"]\ncount = 3\nwithin = "10m"\n'


@pytest.fixture
def engine() -> str:
    """One engine is enough here: what is read is judged, not how it is kept."""
    return "sqlite"


@pytest.fixture
def world(operator: Asker, asker: Callable[..., Asker], clock: Clock) -> World:
    return World(operator, asker, clock)


@pytest.mark.parametrize("is_dated", [True, False])
def test_a_line_and_its_check_are_one_fault(world: World, is_dated: bool) -> None:
    bring_up(world)
    line = at(world.clock.now, xid(79, 2)) if is_dated else since_boot(55, xid(79, 2))

    for _ in range(3):
        looked_at = world.clock.now + timedelta(seconds=GAP_SECONDS - 15)
        look(world, line, finished_at=looked_at.isoformat())

    assert [(one["code"], one["count"]) for one in failures(world)] == [("xid_79", 1)]
    assert len(world.events("failure.recorded")) == 1


def test_a_late_log_of_the_boot_before_is_one_fault(world: World) -> None:
    bring_up(world)
    for _ in range(2):
        look(world, boot_id="boot-2")

    look(world, at(world.clock.now, xid(64, 2)), cards=None)

    assert [(one["code"], one["count"], one["attached"]) for one in failures(world)] == [("xid_64", 1, True)]


def test_a_check_that_somebody_reports_with_a_code_still_counts(world: World) -> None:
    bring_up(world)
    failing = [{"name": XID, "status": "fail", "device": CARDS[1]["serial"], "code": "xid_79"}]
    for _ in range(2):
        look(world, checks=json.dumps(failing))
    assert [(one["code"], one["count"]) for one in failures(world)] == [("xid_79", 1)]
    assert owners(world) == ["rule:xid_79"]


def test_a_muted_line_that_is_read_after_maintenance_is_no_second_fault(world: World) -> None:
    bring_up(world)
    body = {"until": world.clock.now.replace(hour=23).isoformat(), "reason": "driver"}
    world.operator.post("/v1/nodes/node-a/maintenance", json=body)
    line = since_boot(55, xid(79, 2))
    look(world, line)
    world.clock.advance(1)
    world.operator.post("/v1/nodes/node-a/maintenance", json={**body, "until": world.clock.now.isoformat()})

    for _ in range(2):
        decision = look(world, line)["admission"]

    assert [(one["muted"], one["count"]) for one in failures(world)] == [("maintenance", 1)]
    assert (decision["admitted"], owners(world)) == (True, [])


def test_a_look_in_between_that_could_not_be_made_opens_no_released_hold(world: World) -> None:
    bring_up(world)
    line = since_boot(812.1, xid(79, 2))
    look(world, line)
    release_all(world)
    unknown = [{"name": XID, "status": "unknown"}]
    world.clock.advance(31)
    world.report("node-a", CARDS, checks=unknown)

    look(world, line)

    assert owners(world) == []
    assert [one["count"] for one in failures(world)] == [1]


def test_a_later_line_of_plain_dmesg_is_news_after_a_release(world: World) -> None:
    bring_up(world)
    first, later = since_boot(812.1, xid(79, 2)), since_boot(900, xid(79, 2))
    look(world, first)
    release_all(world)
    for _ in range(2):
        assert look(world, first)["pass"]["counted"]

    decision = look(world, first, later)["admission"]

    assert {"device_quarantined", "check_failing"} <= set(codes(decision))
    assert [one["count"] for one in failures(world)] == [2]
    for _ in range(2):
        look(world, boot_id="boot-2")
    assert owners(world) == ["rule:xid_79"]


def test_lines_of_plain_dmesg_are_counted_in_a_window_as_they_come(world: World, settings: Settings) -> None:
    bring_up(world)
    lines = [since_boot(800 + 60 * n, xid(43, 2)) for n in range(4)]
    with restarted(world, settings, HANGS) as counting:
        held = []
        for upto in range(1, 4):
            look(counting, *lines[:upto])
            held.append(owners(counting))
    assert held == [[], [], ["rule:hangs"]]


@pytest.mark.parametrize(("apart", "held"), [(10_000, []), (200, ["rule:hangs"])])
def test_hangs_hours_apart_by_the_time_since_boot_are_not_within_ten_minutes(
    world: World, settings: Settings, apart: int, held: list[str]
) -> None:
    bring_up(world)
    with restarted(world, settings, HANGS) as counting:
        look(counting, *(since_boot(10_000 + n * apart, xid(43, 2)) for n in range(3)))
        assert owners(counting) == held


# --- when the boot began --------------------------------------------------------------------------------------------

KMSG = f"4,900,227986636,-;{xid(119, 2, 'pid=1, name=x, Timeout')}\n".encode()
BOOTED = "2026-01-01T00:00:00Z"


def told(world: World, **fields: Any) -> dict[str, Any]:
    world.report_raw(kernel_log=log(FIRST) + KMSG, fields=fields)
    (failure,) = failures(world)
    return failure


def test_the_time_of_the_boot_makes_a_date_of_the_time_since(world: World) -> None:
    """C58."""
    bring_up(world)
    failure = told(world, booted_at=BOOTED, boot_id="boot-2")
    assert failure["occurred_at"] == "2026-01-01T00:03:47.986636Z"
    assert "time" not in failure["evidence"]


def test_without_it_the_time_is_unknown_and_says_so(world: World) -> None:
    """C58."""
    bring_up(world)
    failure = told(world)
    assert failure["occurred_at"] is None
    assert failure["evidence"]["time"] == "boot_time_unknown"


def test_it_is_finer_than_what_proc_stat_says(world: World) -> None:
    bring_up(world)
    fields = {"booted_at": "2026-01-01T00:00:00.250000Z"}
    world.report_raw(kernel_log=KMSG, proc_stat=b"btime 1767225600\n", fields=fields)
    assert [one["occurred_at"] for one in failures(world)] == ["2026-01-01T00:03:48.236636Z"]


def test_a_report_as_json_may_say_it_too(world: World) -> None:
    bring_up(world)
    world.report("node-a", CARDS, booted_at=BOOTED)
    response = world.post("node-a", CARDS, booted_at="yesterday")
    assert (response.status_code, response.json["errors"][0]["pointer"]) == (422, "/booted_at")


# --- what is over ---------------------------------------------------------------------------------------------------


def test_a_line_of_the_boot_before_that_is_read_again_undoes_nothing(world: World) -> None:
    """C120."""
    bring_up(world)
    line = at(world.clock.now, xid(119, 2))
    look(world, line)
    for _ in range(2):
        look(world, boot_id="boot-2")

    answer = look(world, line, boot_id="boot-2")

    assert (answer["pass"]["have"], answer["admission"]["admitted"]) == (2, True)
    assert xid_check(world)["status"] == "pass"
    assert [one["message"] for one in xid_check(world)["findings"]] == [
        "the kernel log still shows xid_119: it is of an earlier boot"
    ]


def test_memory_errors_that_rise_after_a_release_are_news(world: World) -> None:
    world.expect(len(GPUS), "gpu.ecc")

    def report(volatile: int) -> None:
        world.clock.advance(31)
        gpus = change(GPUS, 1, ecc=("0", str(volatile), "0", str(volatile)))
        world.report_raw(nvidia_smi_xml=xml_document(gpus, stamp=f"{world.clock.now:%a %b %d %H:%M:%S %Y}"))

    report(1)
    assert owners(world) == ["rule:gpu.ecc.dbe"]
    release_all(world)
    report(1)
    assert owners(world) == []

    report(5)

    assert "rule:gpu.ecc.dbe" in owners(world)
    assert [one["count"] for one in failures(world)] == [2]
