# SPDX-License-Identifier: Apache-2.0
"""Group L of the public reports: machines change under a name, people put nodes back, worse news comes later."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.cases.conftest import GAP_SECONDS, World, card, codes, one_engine, taken

FIRST = [card(n) for n in range(1, 5)]
SECOND = [card(n) for n in range(11, 15)]
THIRD = [card(21), card(22), card(23), card(2, slot=card(24)["slot"])]


def live(world: World, node: str, life: str, devices: list[dict[str, Any]], times: int = 2) -> dict[str, Any]:
    """Report so often from one life of a node, a gap apart; returns the last decision."""
    for _ in range(times):
        world.clock.advance(GAP_SECONDS)
        decision = world.report(node, devices, provider_id=life, boot_id=f"boot-{life}")["admission"]
    return dict(decision)


def test_a_hold_follows_the_device_and_not_the_name(world: World) -> None:
    """C97."""
    world.expect(4)
    assert live(world, "node-a", "i-01", FIRST)["admitted"] is True
    assert world.hold({"device": card(2)["serial"]}).status_code == 201
    assert codes(live(world, "node-a", "i-01", FIRST, 1)) == ["device_quarantined"]

    first = live(world, "node-a", "i-02", SECOND, 1)
    assert (codes(first), first["passes"]["have"]) == (["passes_insufficient"], 1)
    assert live(world, "node-a", "i-02", SECOND, 1)["admitted"] is True
    assert codes(live(world, "node-b", "i-03", THIRD)) == ["device_quarantined"]


def test_the_old_life_of_a_node_is_not_taken_back(world: World) -> None:
    """C97."""
    world.expect(4)
    live(world, "node-a", "i-01", FIRST)
    live(world, "node-a", "i-02", SECOND)
    late = world.post("node-a", FIRST, provider_id="i-01", boot_id="boot-i-01")
    assert (late.status_code, late.json["code"]) == (409, "instance_superseded")
    assert world.decision()["admitted"] is True
    assert {one["serial"] for one in world.on()} == {one["serial"] for one in SECOND}


def test_a_returned_board_in_a_new_instance_keeps_its_history(world: World) -> None:
    """C97, C105."""
    world.expect(4)
    live(world, "node-a", "i-01", FIRST)
    world.fault("xid_79", node="node-a", slot=card(2)["slot"])
    live(world, "node-a", "i-02", SECOND)
    assert world.decision()["admitted"] is True
    answer = live(world, "node-c", "i-07", THIRD)
    assert codes(answer) == ["device_quarantined"]
    assert answer["reasons"][0]["device"]["serial"] == card(2)["serial"]
    told = taken(world.operator.get(f"/v1/devices/{card(2)['serial']}/history"))["items"]
    assert {"node-a", "node-c"} <= {one["data"].get("node") for one in told}


@pytest.mark.parametrize("times", [1, 2])
def test_a_bulk_release_refuses_the_node_with_a_held_device_again_and_again(world: World, times: int) -> None:
    """C100."""
    world.expect(4)
    names = [f"node-{n}" for n in range(5)]
    for at, name in enumerate(names):
        live(world, name, f"i-{at}", [card(10 * at + n, slot=card(n)["slot"]) for n in range(4)], 1)
    world.hold(*({"node": name} for name in names))
    world.hold({"device": card(21)["serial"]})
    body = {"targets": [{"node": name} for name in names], "reason": "back to work"}
    for _ in range(times):
        items = taken(world.operator.post("/v1/quarantines/release", json=body))["items"]
    assert items[2]["outcome"] == "refused"
    assert card(21)["serial"] in items[2]["message"]
    assert {one["outcome"] for one in items if one is not items[2]} == ({"released"} if times == 1 else {"not_held"})
    assert {"device_quarantined", "node_quarantined"} <= set(codes(world.decision("node-2")))


def test_after_every_release_by_hand_lists_states_and_history_agree(world: World) -> None:
    """C101."""
    world.expect(4)
    live(world, "node-a", "i-01", FIRST)
    for round_ in range(1, 4):
        item = world.hold({"device": card(2)["serial"]}).json["items"][0]
        assert item["outcome"] == "opened"
        assert counts(world) == (1, 1, round_, round_ - 1)
        released = world.operator.post(
            f"/v1/quarantines/{item['quarantine']['id']}/release", json={"reason": "reseated"}
        )
        assert released.status_code == 200
        assert counts(world) == (0, 0, round_, round_)
        live(world, "node-a", "i-01", FIRST)
        assert world.decision()["admitted"] is True


def counts(world: World) -> tuple[int, int, int, int]:
    """Open holds, held devices, and the openings and releases in the history."""
    open_ = taken(world.operator.get("/v1/quarantines", query_string={"state": "open"}))["items"]
    events = [one["type"] for one in world.events("quarantine.opened", "quarantine.released")]
    return (
        len(open_),
        len(world.devices(state="quarantined")),
        events.count("quarantine.opened"),
        events.count("quarantine.released"),
    )


@one_engine
@pytest.mark.parametrize(("first", "worse"), [("xid_13", "xid_64"), ("xid_63", "xid_64"), ("xid_38", "xid_79")])
def test_worse_news_raises_and_the_withdrawal_of_the_milder_does_not_lower(
    world: World, first: str, worse: str
) -> None:
    """C102."""
    world.expect(4)
    live(world, "node-a", "i-01", FIRST)
    mild = world.fault(first, device=card(2)["serial"])
    world.fault(worse, device=card(2)["serial"])
    withdrawn = world.operator.post(f"/v1/failures/{mild['id']}/withdraw", json={"reason": "a test"})
    assert withdrawn.status_code == 200
    live(world, "node-a", "i-01", FIRST)
    decision = world.decision()
    assert codes(decision) == ["device_quarantined"]
    owners = {one["owner"] for one in taken(world.operator.get("/v1/quarantines?state=open"))["items"]}
    assert f"rule:{worse}" in owners


def test_a_replaced_machine_leaves_its_reason_behind_and_waits_for_passes(world: World) -> None:
    """C105."""
    world.expect(4)
    live(world, "node-a", "i-01", FIRST)
    world.hold({"device": card(2)["serial"]}, drain=True)
    assert world.decision()["disposition"] == "drain"
    decision = live(world, "node-a", "i-02", SECOND, 1)
    assert (decision["disposition"], codes(decision)) == ("hold", ["passes_insufficient"])
    shown = taken(world.operator.get(f"/v1/devices/{card(2)['serial']}"))
    assert (shown["state"], shown["node"]) == ("quarantined", None)


@one_engine
def test_a_drain_is_said_and_nothing_is_evicted(world: World) -> None:
    """C106."""
    world.expect(4)
    live(world, "node-a", "i-01", FIRST)
    world.hold({"node": "node-a"}, drain=True)
    for _ in range(3):
        decision = live(world, "node-a", "i-01", FIRST, 1)
        assert (decision["admitted"], decision["disposition"]) == (False, "drain")
    assert world.show()["state"] == "draining"
    preview = taken(world.operator.post("/v1/admissions", json={"candidates": [{"node": "node-a"}]}))["items"]
    assert preview[0]["disposition"] == "drain"


def test_a_short_node_is_refused_excused_until_a_date_and_refused_again(world: World) -> None:
    """C107."""
    world.expect(4)
    three = FIRST[:3]
    live(world, "node-a", "i-01", FIRST)
    assert "device_missing" in codes(live(world, "node-a", "i-01", three))
    until = world.clock.now + timedelta(seconds=4 * GAP_SECONDS)
    body = {"kind": "gpu", "count": 3, "until": until.isoformat(), "reason": "the spare comes on Friday"}
    assert world.operator.post("/v1/nodes/node-a/waivers", json=body).status_code in {200, 201}
    assert live(world, "node-a", "i-01", three, 3)["admitted"] is True
    assert "device_missing" in codes(live(world, "node-a", "i-01", three, 1))
    granted = world.events("waiver.granted")
    assert [(one["actor"]["kind"], one["data"]["count"]) for one in granted] == [("operator", 3)]


@one_engine
@pytest.mark.parametrize(
    "code", ["gpu.requires_reset", "gpu.unknown_device", "gpu.nvml_unknown", "words_nobody_has_seen"]
)
def test_every_text_of_a_family_keeps_the_device_out_and_an_unknown_one_is_kept(world: World, code: str) -> None:
    """C108."""
    world.expect(4)
    live(world, "node-a", "i-01", FIRST)
    world.fault(code, device=card(2)["serial"])
    decision = world.decision()
    assert decision["admitted"] is False
    assert ("device_quarantined" in codes(decision)) is (code != "words_nobody_has_seen")
    shown = taken(world.operator.get("/v1/failures"))["items"]
    assert [(one["code"], one["serial"]) for one in shown] == [(code, card(2)["serial"])]
