# SPDX-License-Identifier: Apache-2.0
"""Group C of the public reports: which place is meant, when its address is written in another way?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cases.conftest import World, card, codes, one_engine
from tests.collectors.documents import csv_document, q_document, xml_document
from tests.collectors.machines import change, h100_gpus
from tests.project import ROOT

CORPUS = Path(os.environ.get("PRATIQUE_CORPUS", ROOT.parent / "shared" / "corpus"))
AZURE = CORPUS / "azhpc-diagnostics" / "nvidia-smi-q.0689b69.out"
DOMAINS = ("1", "2", "3", "4", "b", "c", "d", "e")


@one_engine
@pytest.mark.parametrize(
    "written", ["0000:2a:00.0", "00000000:2A:00.0", "0000:2A:00", "2a:00.0", "2a:00", "0000000000000000:2a:00.0"]
)
def test_a_fault_finds_its_gpu_however_the_address_is_padded(world: World, written: str) -> None:
    """C30."""
    world.expect(8)
    gpus = h100_gpus(8)
    world.report_raw(nvidia_smi_xml=xml_document(gpus))

    failure = world.fault("xid_79", node="node-a", slot=written)

    assert failure["serial"] == gpus[1].serial
    assert failure["slot"] == "0000:2a:00.0"
    (reason,) = [one for one in world.decision()["reasons"] if one["code"] == "device_quarantined"]
    assert reason["device"]["serial"] == gpus[1].serial


@one_engine
@pytest.mark.parametrize("listed", ["00000000:07:00.0", "0000:07:00.0", "07:00.0", "0000:07:00"])
@pytest.mark.parametrize("named", ["00000000:07:00.0", "0000:07:00.0", "07:00.0"])
def test_a_check_finds_its_gpu_however_the_address_is_padded(world: World, listed: str, named: str) -> None:
    """C30."""
    world.expect(1, "gpu.ecc")
    check = {"name": "gpu.ecc", "status": "fail", "device": named, "message": "3 uncorrected"}

    decision = world.report("node-a", [card(1, slot=listed)], checks=[check])["admission"]

    (reason,) = [one for one in decision["reasons"] if one["code"] == "check_failing"]
    assert reason["device"]["serial"] == card(1)["serial"]
    assert world.on()[0]["slot"] == "0000:07:00.0"


@pytest.mark.skipif(not AZURE.is_file(), reason="the captures are not here")
def test_a_public_list_of_gpus_that_only_the_domain_tells_apart_is_four_places(world: World) -> None:
    """C32."""
    world.expect(4)
    world.report_raw(nvidia_smi_q=AZURE.read_bytes())

    failure = world.fault("xid_79", node="node-a", slot="0003:00:00")

    assert [device["slot"] for device in world.on()] == [f"000{at}:00:00.0" for at in (1, 2, 3, 4)]
    assert failure["serial"] == "1561320029356"


@one_engine
@pytest.mark.parametrize("written", ["000B:00:00", "000b:00:00.0", "0000000B:00:00.0", "B:00:00.0"])
def test_the_domain_says_which_of_eight_gpus_is_meant(world: World, written: str) -> None:
    """C32."""
    world.expect(8)
    cards = [card(at, slot=f"{domain.upper():0>8}:00:00.0") for at, domain in enumerate(DOMAINS)]
    world.admit("node-a", cards)

    failure = world.fault("xid_79", node="node-a", slot=written)

    assert [device["slot"] for device in world.on()] == [f"{domain:0>4}:00:00.0" for domain in DOMAINS]
    assert failure["serial"] == cards[4]["serial"]
    held = [device["serial"] for device in world.devices() if device["state"] == "quarantined"]
    assert held == [cards[4]["serial"]]


@one_engine
@pytest.mark.parametrize("domains", [("0008", "0009", "0018", "0019"), ("0000", "10000", "100000", "abcdef01")])
def test_long_domains_are_not_cut(world: World, domains: tuple[str, ...]) -> None:
    """C32."""
    world.expect(4)
    cards = [card(at, slot=f"{domain.upper():0>8}:06:00.0") for at, domain in enumerate(domains)]
    world.report("node-a", cards)

    for at, domain in enumerate(domains):
        assert world.fault("xid_31", node="node-a", slot=f"{domain}:06:00.0")["serial"] == cards[at]["serial"]
    assert {device["slot"] for device in world.on()} == {f"{domain}:06:00.0" for domain in domains}


def test_a_fault_without_a_domain_is_not_given_to_a_neighbours_domain(world: World) -> None:
    """C32."""
    world.expect(8)
    world.admit("node-a", [card(at, slot=f"{domain:0>4}:00:00.0") for at, domain in enumerate(DOMAINS)])

    failure = world.fault("xid_79", node="node-a", slot="00:00.0")

    assert failure["device"] is None
    assert failure["slot"] == "0000:00:00.0"
    assert "fault_unattached" in codes(world.decision())
    assert {device["state"] for device in world.devices()} == {"in_service"}


@one_engine
@pytest.mark.parametrize("written", ["0000:3b.00.0", "0000:3b:00", "3b:00.0", "0000.3b.00.0", "0000:3B:00:0"])
def test_a_readable_address_has_one_form(world: World, written: str) -> None:
    """C34."""
    world.expect(8)
    gpus = change(h100_gpus(8), 2, slot=written)
    world.report("by-json", [card(1, slot=written)])
    makers = {"nvidia_smi_xml": xml_document, "nvidia_smi_csv": csv_document, "nvidia_smi_q": q_document}
    for name, make in makers.items():
        world.report_raw(name, **{name: make(gpus)})

        assert "0000:3b:00.0" in {device["slot"] for device in world.on(name)}
    assert world.on("by-json")[0]["slot"] == "0000:3b:00.0"
    assert world.fault("xid_31", node="by-json", slot=written)["serial"] == card(1)["serial"]


@one_engine
@pytest.mark.parametrize(
    "garbage",
    ["0000:zz:00.0", "0000:3b:00.9", "0000:3b", "3b", "0000:3b:40.0", "fffffffff:3b:00.0", "GPU 3", ":3b:00.0"],
)
def test_what_is_no_address_is_refused_and_shown(world: World, garbage: str) -> None:
    """C34."""
    world.expect(8)
    gpus = change(h100_gpus(8), 2, slot=garbage)
    fault = {"failure_id": "f-1", "code": "xid_79", "node": "node-a", "slot": garbage}

    answers = [
        world.post("node-a", [card(1, slot=garbage)]),
        world.post_raw("node-a", nvidia_smi_xml=xml_document(gpus)),
        world.post_raw("node-a", nvidia_smi_csv=csv_document(gpus)),
        world.operator.post("/v1/failures", json={**fault, "occurred_at": "2026-11-29T12:00:00Z"}),
    ]

    assert [answer.status_code for answer in answers] == [422] * 4
    assert all(garbage in answer.text for answer in answers), [answer.text for answer in answers]
    assert world.operator.get("/v1/nodes/node-a").status_code == 404


def test_a_fault_of_a_gpu_off_the_bus_is_tied_to_who_was_last_in_its_place(world: World) -> None:
    """C30."""
    world.expect(2)
    cards = [card(1), card(2)]
    world.admit("node-a", cards)
    world.report("node-a", cards[1:])
    world.clock.advance(300)

    failure = world.fault("xid_79", node="node-a", slot="0000:11:00")
    other = world.fault("xid_79", node="node-a", slot="0000:77:00")

    assert failure["serial"] == cards[0]["serial"]
    assert world.operator.get(f"/v1/devices/{cards[0]['serial']}").json["state"] == "quarantined"
    assert (other["device"], other["attached"]) == (None, False)
    found = codes(world.decision())
    assert "fault_unattached" in found
    assert found.index("device_quarantined") < found.index("fault_unattached")


def test_a_fault_told_late_belongs_to_who_was_in_the_place_then(world: World) -> None:
    """C32."""
    world.expect(1)
    old, new = card(1), card(9, slot=card(1)["slot"])
    world.report("node-a", [old])
    seen_at = world.clock.advance(60)
    world.clock.advance(60)
    world.report("node-a", [new])
    world.clock.advance(60)

    then = world.fault("xid_79", node="node-a", slot=old["slot"], occurred_at=seen_at.isoformat())
    now = world.fault("xid_31", node="node-a", slot=old["slot"])

    assert (then["serial"], now["serial"]) == (old["serial"], new["serial"])
    assert "device_quarantined" not in codes(world.decision())
    world.report("node-b", [old])
    assert "device_quarantined" in codes(world.decision("node-b"))


def test_a_fault_that_comes_before_the_first_list_waits_for_it(world: World) -> None:
    """C32."""
    world.expect(1)
    world.report("node-a", checks=[])
    early = world.fault("xid_79", node="node-a", slot="00000000:11:00.0")

    blocked = codes(world.decision())
    world.report("node-a", [card(1)])

    assert (early["device"], "fault_unattached" in blocked) == (None, True)
    (failure,) = world.operator.get("/v1/failures").json["items"]
    assert failure["serial"] == card(1)["serial"]
    assert codes(world.decision())[0] == "device_quarantined"
    assert "fault_unattached" not in codes(world.decision())
