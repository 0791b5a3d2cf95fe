# SPDX-License-Identifier: Apache-2.0
"""Group O of the public reports, and what belongs to it: years left out, one fault told often, news from before."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import pytest

from registry.config import Settings
from tests.cases.conftest import GAP_SECONDS, World, one_engine, restarted, taken
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
)

B1, B2 = "5b0c7d1e-43f2-4b1a-9c55-0f6a2d8e7b31", "c2a4e6f8-1357-4242-8642-9f8e7d6c5b4a"


# --- C117: no year ---------------------------------------------------------------------------------------------------

NEW_YEAR = datetime(2027, 1, 1, 0, 0, 5, tzinfo=UTC)


@one_engine
@pytest.mark.parametrize(
    ("received", "stamp", "then"),
    [
        (NEW_YEAR, "Dec 31 23:59:58", "2026-12-31T23:59:58.000000Z"),
        (NEW_YEAR, "Jan  1 00:00:03", "2027-01-01T00:00:03.000000Z"),
        (datetime(2028, 3, 1, tzinfo=UTC), "Feb 29 12:00:00", "2028-02-29T12:00:00.000000Z"),
    ],
)
def test_a_line_without_a_year_is_of_the_newest_that_is_not_to_come(
    world: World, received: datetime, stamp: str, then: str
) -> None:
    """C117."""
    world.clock.now = received - timedelta(seconds=3 * GAP_SECONDS)
    bring_up(world)

    look(world, f"{stamp} node-a kernel: {xid(48, 2)}")

    assert world.clock.now == received
    (failure,) = failures(world)
    assert failure["occurred_at"] == then
    assert failure["evidence"]["time"] == "zone_assumed_utc"


@one_engine
@pytest.mark.parametrize("stamp", ["Feb 29 12:00:00", "Feb 30 12:00:00", "Nov 31 12:00:00", "Jan  1 25:00:00"])
def test_a_date_that_cannot_be_is_the_receipt_and_says_so(world: World, stamp: str) -> None:
    """C117."""
    world.clock.now = datetime(2027, 6, 1, tzinfo=UTC)
    bring_up(world)

    for _ in range(2):
        look(world, f"{stamp} node-a kernel: {xid(48, 2)}")

    (failure,) = failures(world)
    received = f"{world.clock.now - timedelta(seconds=GAP_SECONDS):%Y-%m-%dT%H:%M:%S.%fZ}"
    assert (failure["occurred_at"], failure["recorded_at"], failure["last_at"]) == (None, received, received)
    assert (failure["evidence"]["time"], failure["evidence"]["stamp"]) == ("impossible_date", stamp)
    assert (failure["count"], owners(world)) == (1, ["rule:xid_48"])


# --- C119: the same event many times ---------------------------------------------------------------------------------

SEEN = (1108.0, 1843.0, 2501.0)
BOOTED = datetime(2026, 11, 29, 11, 0, tzinfo=UTC)


@pytest.mark.parametrize("stamp", ["dated", "since boot", "since boot, told when"])
@pytest.mark.parametrize("sends", ["the whole log", "what is new"])
def test_a_fault_that_is_seen_again_and_again_is_one_with_a_count_and_a_last_time(
    world: World, stamp: str, sends: str
) -> None:
    """C119."""
    world.clock.now = BOOTED
    bring_up(world)
    parts = {"proc_stat": f"btime {int(BOOTED.timestamp())}\n".encode()} if stamp.endswith("when") else {}
    lines: list[str] = []
    for seconds in SEEN:
        world.clock.now = BOOTED + timedelta(seconds=seconds + 5)
        when = BOOTED + timedelta(seconds=seconds)
        line = at(when, xid(79, 2)) if stamp == "dated" else since_boot(seconds, xid(79, 2))
        lines = [*lines, line] if sends == "the whole log" else [line]
        for _ in range(2):
            world.clock.advance(GAP_SECONDS)
            world.report_raw(kernel_log=log(since_boot(1), *lines), **parts)

    (failure,) = failures(world)
    assert (failure["code"], failure["count"]) == ("xid_79", 3)
    if stamp != "since boot":
        assert failure["occurred_at"] == f"{BOOTED + timedelta(seconds=SEEN[0]):%Y-%m-%dT%H:%M:%S.%fZ}"
        assert failure["last_at"] == f"{BOOTED + timedelta(seconds=SEEN[-1]):%Y-%m-%dT%H:%M:%S.%fZ}"
    assert owners(world) == ["rule:xid_79"]
    assert len(world.events("failure.recorded")) == 1


def test_one_message_with_a_log_in_many_hands_is_one_message(world: World) -> None:
    """C119."""
    bring_up(world)
    text = log(since_boot(1), at(world.clock.now, xid(79, 2)))
    node = world.node("node-a")
    world.clock.advance(GAP_SECONDS)

    def send(order: list[dict[str, Any]]) -> dict[str, Any]:
        fields = {"report_id": "the-same", "boot_id": "boot-of-node-a", "provider_id": "i-of-node-a"}
        body = {**fields, "profile": "cases", "covers": '["gpu"]', "devices": json.dumps(order)}
        data = {**body, "kernel_log": (BytesIO(text), "log")}
        return taken(node.post("/v1/nodes/node-a/reports", data=data, content_type="multipart/form-data"))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: send(CARDS), range(20)))

    assert [one["replayed"] for one in answers].count(False) == 1
    assert len({json.dumps(one["pass"]) for one in answers}) == 1
    (failure,) = failures(world)
    assert (failure["count"], owners(world)) == (1, ["rule:xid_79"])
    assert len(world.events("failure.recorded")) == len(world.events("quarantine.opened")) == 1


@one_engine
def test_a_reordered_list_beside_the_same_log_is_nothing_new(world: World) -> None:
    """C119."""
    bring_up(world)
    line = at(world.clock.now, xid(43, 2))
    look(world, line)
    before = world.events()
    for shift in range(1, 4):
        answer = look(world, line, cards=[*CARDS[shift:], *CARDS[:shift]])
        assert answer["admission"]["admitted"] is True
    assert world.events() == before


@one_engine
def test_healthy_after_unhealthy_counts_and_unhealthy_after_that_too(world: World) -> None:
    """C119."""
    bring_up(world)
    admitted = [look(world, at(world.clock.now, xid(119, 2)))["admission"]["admitted"]]
    admitted += [look(world, boot_id="boot-2")["admission"]["admitted"] for _ in range(2)]
    world.clock.advance(1)
    admitted.append(look(world, at(world.clock.now, xid(119, 2)), boot_id="boot-2")["admission"]["admitted"])
    admitted += [look(world, boot_id="boot-3")["admission"]["admitted"] for _ in range(2)]

    assert admitted == [False, False, True, False, False, False]
    assert owners(world) == ["rule:repeat_offender"]
    told = [one["data"]["to"] for one in world.events("check.changed") if one["data"]["check"] == XID]
    assert told == ["fail", "fail"]


# --- C120: from before the reboot ------------------------------------------------------------------------------------


def journal(when: datetime, boot: str, message: str) -> str:
    """A line as `journalctl -k -o json` prints it."""
    micros = str(int(when.timestamp() * 1_000_000))
    said = {"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "MESSAGE": message}
    return json.dumps({**said, "_BOOT_ID": boot.replace("-", ""), "__REALTIME_TIMESTAMP": micros})


Shows = Callable[[World, datetime, str], dict[str, Any]]


def late_report(world: World, then: datetime, message: str) -> dict[str, Any]:
    """The report of the boot before, which had to wait."""
    return look(world, at(then, message), boot_id=B1)


def journal_of_both(world: World, then: datetime, message: str) -> dict[str, Any]:
    """A journal that goes back to the boot before."""
    world.clock.advance(GAP_SECONDS)
    text = log(journal(then, B1, message), journal(world.clock.now, B2, "eth0: link becomes ready"))
    return world.report_raw(kernel_log=text, fields={"boot_id": B2})


def syslog_of_both(world: World, then: datetime, message: str) -> dict[str, Any]:
    """A file in which the kernel's first line stands between the boots."""
    return look(world, at(then, message), at(then + timedelta(seconds=5), FIRST), boot_id=B2)


def before_the_boot_time(world: World, then: datetime, message: str) -> dict[str, Any]:
    """A file without that line, from a node that says when it booted."""
    world.clock.advance(GAP_SECONDS)
    stat = f"btime {int(then.timestamp()) + 90}\n".encode()
    return world.report_raw(kernel_log=log(at(then, message)), proc_stat=stat, fields={"boot_id": B2})


@pytest.mark.parametrize("shows", [late_report, journal_of_both, syslog_of_both, before_the_boot_time])
@pytest.mark.parametrize(("number", "stands"), [(119, True), (48, True), (63, True), (64, False), (79, False)])
def test_news_of_the_boot_before_undoes_only_what_a_boot_does_not_cure(
    world: World, shows: Shows, number: int, stands: bool
) -> None:
    """C120."""
    bring_up(world, boot_id=B1)
    then = world.clock.now
    world.clock.advance(120)
    for _ in range(2):
        look(world, boot_id=B2)
    assert world.decision()["admitted"] is True

    shows(world, then, xid(number, 2))

    assert world.decision()["admitted"] is stands
    assert owners(world) == ([] if stands else [f"rule:xid_{number}"])
    told = taken(world.operator.get(f"/v1/devices/{CARDS[1]['serial']}/history"))["items"]
    assert [one["data"]["code"] for one in told if one["type"] == "failure.recorded"] == [f"xid_{number}"]
    (failure,) = failures(world)
    assert failure["occurred_at"].startswith(f"{then:%Y-%m-%dT%H:%M:%S}")


# --- C103: nothing waits for a restart of the service ----------------------------------------------------------------


def test_a_restart_of_the_service_replays_nothing(world: World, settings: Settings) -> None:
    """C103."""
    bring_up(world)
    lines = [at(world.clock.now, xid(48, 2)), at(world.clock.now, xid(119, 2))]
    look(world, *lines)
    assert owners(world) == ["rule:xid_119", "rule:xid_48"]
    release_all(world)
    for _ in range(2):
        look(world, boot_id="boot-2")
    before = world.events()
    assert world.decision()["admitted"] is True

    with restarted(world, settings) as again:
        assert again.decision()["admitted"] is True
        assert look(again, boot_id="boot-2")["admission"]["admitted"] is True
        assert look(again, *lines, boot_id="boot-2")["admission"]["admitted"] is True
        assert again.events() == before
        assert owners(again) == []
