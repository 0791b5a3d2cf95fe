# SPDX-License-Identifier: Apache-2.0
"""Group F of the public reports: what the kernel log says, who wrote it, when, and what its silence is worth."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cases.conftest import GAP_SECONDS, World, card, codes, one_engine
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
