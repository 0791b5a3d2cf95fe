# SPDX-License-Identifier: Apache-2.0
"""Groups N and O, as far as reports alone show them: starts, retries, reboots, looks that prove nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.cases.conftest import GAP_SECONDS, World, card, codes, one_engine, taken
from tests.collectors.documents import xml_document
from tests.collectors.machines import change, h100_gpus

CARDS = [card(n) for n in range(1, 5)]
XID = "gpu.xid"


def check(status: str, name: str = XID, **more: str) -> list[dict[str, str]]:
    return [{"name": name, "status": status, **more}]


def say(world: World, status: str | None, **fields: Any) -> dict[str, Any]:
    """Report a gap later; the kernel log check says this, or nothing."""
    world.clock.advance(GAP_SECONDS)
    checks = check(status) if status else None
    return world.report("node-a", CARDS, checks=checks, **fields)


@one_engine
@pytest.mark.parametrize("status", ["unknown", "skipped", None])
def test_a_check_that_has_not_run_since_the_start_is_no_pass(world: World, status: str | None) -> None:
    """C113, C62."""
    world.expect(4, XID)
    for _ in range(3):
        answer = say(world, status)
    assert (answer["pass"]["counted"], answer["pass"]["have"]) == (False, 0)
    assert say(world, "pass")["pass"]["have"] == 1


def test_a_detector_that_starts_anew_does_not_undo_what_stood(world: World) -> None:
    """C113."""
    world.expect(4, XID)
    for _ in range(2):
        say(world, "pass")
    assert codes(say(world, "unknown")["admission"]) == ["check_unknown"]
    assert say(world, "pass")["admission"]["admitted"] is True


@one_engine
def test_a_check_that_alternates_never_lets_a_node_in(world: World) -> None:
    """C114."""
    world.expect(4, XID)
    for _ in range(6):
        assert say(world, "fail")["admission"]["admitted"] is False
        assert say(world, "pass")["admission"]["admitted"] is False


def test_a_check_that_keeps_failing_has_failed_since_its_status_changed(world: World) -> None:
    """C114: the heartbeat moves on, the transition does not."""
    world.expect(4, XID)
    say(world, "fail")
    (first,) = [one for one in world.show()["checks"] if one["name"] == XID]
    for _ in range(4):
        say(world, "fail")
    (last,) = [one for one in world.show()["checks"] if one["name"] == XID]
    assert first["since"] == first["at"] == last["since"] < last["at"]
    assert len([one for one in world.events("check.changed") if one["data"]["check"] == XID]) == 1


def test_one_checks_pass_does_not_clear_its_neighbours_failure(world: World) -> None:
    """C114."""
    world.expect(4, XID)
    for _ in range(2):
        world.clock.advance(GAP_SECONDS)
        world.report("node-a", CARDS, checks=[*check("pass"), *check("fail", "gpu.thermal")])
    for _ in range(3):
        answer = say(world, "pass")
    assert codes(answer["admission"]) == ["check_failing"]
    assert answer["admission"]["reasons"][0]["check"] == "gpu.thermal"


@one_engine
@pytest.mark.parametrize(
    ("action", "ecc", "counts"),
    [
        ("None", ("0", "0", "0", "0"), True),
        ("None", ("ERR!", "ERR!", "ERR!", "ERR!"), False),
        ("Reset", ("0", "0", "0", "0"), False),
        ("Reboot", ("0", "0", "0", "0"), False),
        ("Drain P2P", ("0", "0", "0", "0"), False),
        ("[Unknown Error]", ("0", "0", "0", "0"), False),
    ],
)
def test_recovery_needs_no_action_asked_for_and_a_good_look(
    world: World, action: str, ecc: tuple[str, str, str, str], counts: bool
) -> None:
    """C115."""
    world.expect(8, "gpu.ecc", "gpu.row_remap")
    gpus = change(h100_gpus(8), 3, recovery_action=action, ecc=ecc)
    answer = world.report_raw(nvidia_smi_xml=xml_document(gpus))
    assert answer["pass"]["counted"] is counts


def test_a_hold_after_a_fatal_fault_ends_with_a_reset_and_two_good_looks_only(world: World) -> None:
    """C115."""
    world.expect(4, XID)
    for _ in range(2):
        say(world, "pass")
    world.fault("xid_119", device=CARDS[0]["serial"])
    for _ in range(2):
        assert "device_quarantined" in codes(say(world, "pass")["admission"])
    world.fault("gpu_reset", device=CARDS[0]["serial"])
    assert "device_quarantined" in codes(say(world, "unknown")["admission"])
    assert "device_quarantined" in codes(say(world, "pass")["admission"])
    assert say(world, "pass")["admission"]["admitted"] is True


# --- group O: the same again, and from before ------------------------------------------------------------------------


def test_one_report_sent_often_and_at_once_is_one_report(world: World) -> None:
    """C119."""
    world.expect(4)
    body = {
        "report_id": "the-same",
        "boot_id": "b1",
        "provider_id": "i-1",
        "profile": "cases",
        "covers": ["gpu"],
        "devices": CARDS,
    }
    node = world.node("node-a")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: taken(node.post("/v1/nodes/node-a/reports", json=body)), range(20)))
    assert [one["replayed"] for one in answers].count(False) == 1
    assert {one["pass"]["have"] for one in answers} == {1}
    assert {one["pass"]["counted"] for one in answers} == {True}
    assert len(world.events("pass.counted")) == 1
    other = node.post("/v1/nodes/node-a/reports", json={**body, "devices": CARDS[:3]})
    assert (other.status_code, other.json["code"]) == (422, "report_id_reused")


def test_a_reordered_list_is_the_same_list(world: World) -> None:
    """C119."""
    world.expect(4)
    world.admit("node-a", CARDS)
    before = len(world.events())
    for shift in range(1, 4):
        world.clock.advance(GAP_SECONDS)
        answer = world.report("node-a", [*CARDS[shift:], *CARDS[:shift]])
        assert answer["admission"]["admitted"] is True
    assert len(world.events()) == before


def test_one_fault_id_in_many_hands_is_one_fault(world: World) -> None:
    """C119."""
    world.expect(4)
    world.admit("node-a", CARDS)
    body = {
        "failure_id": "xid-line-1",
        "code": "xid_79",
        "device": CARDS[0]["serial"],
        "occurred_at": world.clock.now.isoformat(),
    }
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: world.operator.post("/v1/failures", json=body).json["items"][0], range(20)))
    assert sorted(one["outcome"] for one in found) == ["already_recorded"] * 19 + ["recorded"]
    assert len({one["failure"]["id"] for one in found}) == 1
    assert len(world.events("failure.recorded")) == len(world.events("quarantine.opened")) == 1


def test_healthy_after_unhealthy_is_not_swallowed(world: World) -> None:
    """C119."""
    world.expect(4, XID)
    for status in ("pass", "fail", "pass", "fail", "pass", "pass"):
        answer = say(world, status)
    assert answer["admission"]["admitted"] is True
    told = [one["data"]["to"] for one in world.events("check.changed") if one["data"]["check"] == XID]
    assert told == ["fail", "pass", "fail", "pass"]


@pytest.mark.parametrize(
    ("code", "stands"), [("xid_119", True), ("xid_48", True), ("xid_64", False), ("xid_79", False)]
)
def test_evidence_from_before_the_reboot_undoes_only_what_a_reboot_does_not_cure(
    world: World, code: str, stands: bool
) -> None:
    """C120."""
    world.expect(4)
    world.report("node-a", CARDS, boot_id="b1")
    occurred = world.clock.now.isoformat()
    for _ in range(2):
        world.clock.advance(GAP_SECONDS)
        world.report("node-a", CARDS, boot_id="b2")
    assert world.decision()["admitted"] is True
    world.fault(code, device=CARDS[0]["serial"], occurred_at=occurred)
    assert world.decision()["admitted"] is stands
    told = taken(world.operator.get(f"/v1/devices/{CARDS[0]['serial']}/history"))["items"]
    assert [one["data"]["code"] for one in told if one["type"] == "failure.recorded"] == [code]


def test_a_report_of_the_boot_before_changes_nothing_that_stands(world: World) -> None:
    """C120."""
    world.expect(4, XID)
    say(world, "pass", boot_id="b1")
    for _ in range(2):
        say(world, "pass", boot_id="b2")
    world.clock.advance(1)
    late = world.report("node-a", CARDS[:2], boot_id="b1", checks=check("fail"))
    assert (late["pass"]["because"], late["pass"]["have"]) == ("not_current", 2)
    assert late["admission"]["admitted"] is True
    assert len(world.on()) == 4
