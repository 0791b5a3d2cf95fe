# SPDX-License-Identifier: Apache-2.0
"""Group F of the public reports: what the kernel log says, who wrote it, when, and what its silence is worth."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from registry.config import Settings
from tests.cases.conftest import GAP_SECONDS, World, card, codes, one_engine, restarted, taken
from tests.cases.kernel import (
    CARDS,
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
from tests.collectors.dcgm import health
from tests.collectors.documents import xml_document
from tests.collectors.machines import h100_gpus

OFF_BUS = "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
INJECTED = "RLW_SRC_TRACK Nonfatal XC1 i{} Link 10 (0x00000001 0x00000000)"


# --- C52: the device that cannot be asked for its name any more ------------------------------------------------------


@pytest.mark.parametrize("cards", [None, CARDS, [CARDS[0], *CARDS[2:]]], ids=["no list", "listed", "gone"])
def test_a_gpu_off_the_bus_is_known_by_where_it_was(world: World, cards: list[dict[str, Any]] | None) -> None:
    """C52."""
    bring_up(world)
    line = at(world.clock.advance(300), xid(79, 2, OFF_BUS))

    decision = look(world, line, cards=cards)["admission"]

    (failure,) = failures(world)
    assert (failure["code"], failure["serial"], failure["attached"]) == ("xid_79", CARDS[1]["serial"], True)
    (held,) = [one for one in decision["reasons"] if one["code"] == "device_quarantined"]
    assert held["device"]["serial"] == CARDS[1]["serial"]
    assert [one["serial"] for one in world.devices(state="quarantined")] == [CARDS[1]["serial"]]


@one_engine
def test_an_xid_of_a_place_never_seen_is_kept_and_blocks_the_node(world: World) -> None:
    """C52."""
    bring_up(world)
    line = at(world.clock.now, xid(79, 40, OFF_BUS))

    for _ in range(3):
        decision = look(world, line)["admission"]

    (failure,) = failures(world)
    assert (failure["attached"], failure["serial"], failure["slot"]) == (False, None, card(40)["slot"])
    assert "fault_unattached" in codes(decision)
    assert owners(world) == []


@one_engine
def test_an_xid_that_comes_before_any_list_waits_for_it(world: World) -> None:
    """C52."""
    world.expect(4, XID)
    line = since_boot(12.5, xid(79, 2, OFF_BUS))
    assert "fault_unattached" in codes(look(world, line, cards=None)["admission"])

    decision = look(world, line)["admission"]

    assert [one["serial"] for one in failures(world)] == [CARDS[1]["serial"]]
    assert "device_quarantined" in codes(decision)
    assert "fault_unattached" not in codes(decision)


# --- C54: whoever wrote it -------------------------------------------------------------------------------------------


@one_engine
def test_an_injected_error_is_recorded_as_such_and_holds_nothing(world: World) -> None:
    """C54."""
    bring_up(world)

    answer = look(world, at(world.clock.now, xid(145, 2, INJECTED.format(1))))

    (failure,) = failures(world)
    assert (failure["code"], failure["muted"], failure["effect"]) == ("xid_145", "injected", "record")
    assert failure["evidence"]["injected"] is True
    assert owners(world) == []
    assert answer["admission"]["admitted"] is True
    real = look(world, at(world.clock.now, xid(145, 2, INJECTED.format(0))))["admission"]
    assert real["admitted"] is False


@one_engine
@pytest.mark.parametrize(
    "forged",
    [
        "2026-11-29T12:00:00.000000+00:00 node-a bash[77]: {}",
        "2026-11-29T12:00:00.000000+00:00 node-a bash: {}",
        "2026-11-29T12:00:00.000000+00:00 node-a kernel: bash[77]: {}",
        "Nov 29 12:00:00 node-a bash[77]: {}",
        "[   77.000001] bash[77]: {}",
        "[   77.000001] kernel: {}",
        "12,900,77000001,-;{}",
        "<12>[   77.000001] {}",
        "user  :warn  : [   77.000001] {}",
        "4,900,77000001,-;my{}",
    ],
)
def test_a_line_that_a_program_wrote_is_no_xid(world: World, forged: str) -> None:
    """C54."""
    bring_up(world)

    answer = look(world, forged.format(xid(79, 2, OFF_BUS)))

    assert failures(world) == []
    assert (answer["pass"]["counted"], answer["admission"]["admitted"]) == (True, True)


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
        decision = look(world, at(moment, xid(145, 2, INJECTED.format(0))))["admission"]
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


# --- C58: time since boot --------------------------------------------------------------------------------------------

RAW = "4,900,227986636,-;NVRM: Xid (PCI:{}): 119, pid=1, name=x, Timeout"


@one_engine
def test_without_a_boot_time_the_time_is_unknown_and_says_so(world: World) -> None:
    """C58."""
    bring_up(world)

    look(world, RAW.format(str(card(2)["slot"])[:-2]))

    (failure,) = failures(world)
    assert failure["occurred_at"] is None
    assert failure["recorded_at"].startswith(f"{world.clock.now:%Y-%m-%dT%H:%M:%S}")
    assert failure["last_at"] == failure["recorded_at"]
    assert failure["evidence"] == {
        **failure["evidence"],
        "time": "boot_time_unknown",
        "uptime_microseconds": 227_986_636,
    }
    assert failure["count"] == 1


@one_engine
def test_a_boot_time_makes_a_date_of_the_time_since(world: World) -> None:
    """C58."""
    world.clock.now = datetime(2026, 1, 1, 0, 3, tzinfo=UTC)
    bring_up(world)
    booted = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    line = log(RAW.format(str(card(2)["slot"])[:-2]))

    for wavers in (0, 1, 0):
        world.clock.advance(GAP_SECONDS)
        stat = f"cpu  1 2 3 4\nintr 5 6\nbtime {booted + wavers}\nprocesses 7\n".encode()
        world.report_raw(kernel_log=line, proc_stat=stat)

    (failure,) = failures(world)
    assert failure["occurred_at"] == "2026-01-01T00:03:47.986636Z"
    assert (failure["count"], failure["evidence"].get("time")) == (1, None)
    assert len(world.events("quarantine.opened")) == 1


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


# --- C62: silence ----------------------------------------------------------------------------------------------------


def test_a_node_without_a_log_is_seen_to_have_none(world: World) -> None:
    """C62."""
    world.expect(8)
    documents = [xml_document(h100_gpus(8), stamp=f"Wed Sep  2 08:{n:02d}:30 2026") for n in range(3)]
    for document in documents[:2]:
        world.clock.advance(GAP_SECONDS)
        answer = world.report_raw(nvidia_smi_xml=document, dcgm_health=health("Healthy"))
    assert answer["admission"]["admitted"] is True
    checks = {one["name"]: one for one in world.show()["checks"]}
    assert XID not in checks
    assert checks["dcgm.health"]["at"].startswith(f"{world.clock.now:%Y-%m-%dT%H:%M:%S}")

    seen = checks["dcgm.health"]["at"]
    world.clock.advance(GAP_SECONDS)
    world.report_raw(nvidia_smi_xml=documents[2], kernel_log=log(since_boot(1)), fields={"run_id": "run-3"})

    checks = {one["name"]: one for one in world.show()["checks"]}
    assert checks["dcgm.health"]["at"] == seen < checks[XID]["at"] == checks["gpu.ecc"]["at"]
    assert checks["dcgm.health"]["run_id"] != checks[XID]["run_id"] == "run-3"


def test_a_profile_may_demand_the_kernel_log_for_a_pass(world: World) -> None:
    """C62."""
    world.expect(8, XID)
    for minute in range(3):
        world.clock.advance(GAP_SECONDS)
        document = xml_document(h100_gpus(8), stamp=f"Wed Sep  2 08:{minute:02d}:30 2026")
        answer = world.report_raw(nvidia_smi_xml=document, dcgm_health=health("Healthy"))
        assert (answer["pass"]["because"], answer["pass"]["have"]) == ("check_missing", 0)
        assert XID in str(answer["pass"])
    assert codes(answer["admission"]) == ["passes_insufficient"]


@one_engine
@pytest.mark.parametrize("text", ["", "\n", "Nov 29 12:00:00 node-a sshd[3]: a session was opened\n"])
def test_a_log_without_a_word_of_the_kernel_is_no_pass(world: World, text: str) -> None:
    """C62."""
    world.expect(4, XID)
    world.report("node-a", CARDS)

    response = world.post_raw(kernel_log=text.encode())

    if response.status_code == 200:
        assert response.json["pass"]["counted"] is False
        assert xid_check(world)["status"] == "unknown"
    else:
        assert (response.status_code, response.json["code"]) == (422, "part_unreadable")


# --- C63: noted, and failed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restart", ["boot", "reset"])
@pytest.mark.parametrize(("number", "ends"), [(63, True), (64, False)])
def test_a_noted_remap_ends_with_a_reset_and_passes_and_a_failed_one_with_a_person(
    world: World, number: int, ends: bool, restart: str
) -> None:
    """C63."""
    bring_up(world)
    line = at(world.clock.now, xid(number, 2, "pid=1, name=x, Row Remapper"))
    for _ in range(3):
        assert "device_quarantined" in codes(look(world, line)["admission"])
    assert owners(world) == [f"rule:xid_{number}"]

    boot = {"boot_id": "boot-2"} if restart == "boot" else {}
    if restart == "reset":
        world.clock.advance(1)
        world.fault("gpu_reset", device=CARDS[1]["serial"])
    lines = [line] if restart == "reset" else []  # the log of this boot shows it still
    admitted = [look(world, *lines, **boot)["admission"]["admitted"] for _ in range(2)]

    assert admitted == [False, ends]
    assert owners(world) == ([] if ends else ["rule:xid_64"])
    if not ends:
        release_all(world)
        for _ in range(2):
            decision = look(world, *lines, **boot)["admission"]
        assert decision["admitted"] is True
