# SPDX-License-Identifier: Apache-2.0
"""Group J of the public reports: EFA and other RDMA cards, from what the kernel shows to what the records say."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from registry.collectors import efa_sysfs, fi_info, ibv_devinfo
from registry.domain.reports import Inventory
from registry.services.history import list_events
from registry.services.nodes import show_node
from registry.services.profiles import set_profile
from tests.collectors.adapters import Efa, pack, write_sysfs
from tests.collectors.adapters import fi_info as fi_info_text
from tests.collectors.adapters import ibv_devinfo as ibv_text
from tests.fleet import ALICE, CLEAN_GPU, EVERYTHING, Fleet, gpu, passing

BOTH = frozenset({"gpu", "efa"})


def seen(*efas: Efa, **how: Any) -> Inventory:
    """What the tar of a machine with these adapters says."""
    with tempfile.TemporaryDirectory() as folder:
        return efa_sysfs.parse(pack(write_sysfs(Path(folder), *efas, **how)))


def expect(fleet: Fleet, efas: int) -> None:
    body = {"gpu": {"count": 2}, "efa": {"count": efas}}
    set_profile(fleet.db, "p", body, actor=ALICE, now=fleet.clock.now)


def send(fleet: Fleet, inventory: Inventory, *, node: str = "node-a", **changes: Any) -> dict[str, Any]:
    """Report GPUs of the node's own, two of them, and the adapters of this inventory."""
    gpus = [gpu(10 * ord(node[-1]) + number, at=number) for number in range(changes.pop("gpus", 2))]
    checks = (*passing(*CLEAN_GPU), *inventory.checks)
    devices = [*gpus, *inventory.entries]
    defaults = {"profile": "p", "covers": BOTH, "instance": f"i-of-{node}", "boot": f"boot-of-{node}"}
    return fleet.report(node, devices=devices, checks=checks, **{**defaults, **changes})


def admit(fleet: Fleet, inventory: Inventory, **changes: Any) -> bool:
    """Report twice, a gap apart; may the node take work?"""
    for _ in range(2):
        fleet.clock.advance(fleet.policy.pass_gap_seconds + 1)
        answer = send(fleet, inventory, **changes)
    return bool(answer["admission"]["admitted"])


def efas_on(fleet: Fleet, node: str = "node-a") -> list[dict[str, Any]]:
    shown = show_node(fleet.db, node, policy=fleet.policy, now=fleet.clock.now)
    return [device for device in shown["devices"] if device["kind"] == "efa"]


def ids(devices: Sequence[dict[str, Any]]) -> list[str]:
    return [device["id"] for device in devices]


def events(fleet: Fleet, *types: str) -> list[dict[str, Any]]:
    items = list_events(fleet.db, {}, EVERYTHING).items
    return [item for item in items if item["type"] in types]


def test_adapters_with_a_guid_of_zeros_are_told_by_their_place(fleet: Fleet) -> None:
    """C82."""
    expect(fleet, 4)
    here, there = (seen(*(Efa(number + offset) for number in range(4))) for offset in (0, 8))
    moved = zip(here.entries, there.entries, strict=True)
    there = replace(here, entries=tuple(replace(two, slot=one.slot) for one, two in moved))

    assert admit(fleet, here)
    assert admit(fleet, there, node="node-b")
    assert len({*ids(efas_on(fleet)), *ids(efas_on(fleet, "node-b"))}) == 8

    assert admit(fleet, here)
    assert len({*ids(efas_on(fleet)), *ids(efas_on(fleet, "node-b"))}) == 8


def test_an_interface_that_comes_back_in_a_new_instance_is_not_the_old_card(fleet: Fleet) -> None:
    """C82."""
    expect(fleet, 2)
    inventory = seen(Efa(0), Efa(1))
    assert admit(fleet, inventory)
    before = ids(efas_on(fleet))
    fleet.hold({"device": before[0]})
    assert not fleet.decide().admitted

    assert admit(fleet, inventory, instance="i-2", boot="boot-2")

    assert not {*before} & {*ids(efas_on(fleet))}


def test_a_renamed_device_is_the_same_and_stays_in_quarantine(fleet: Fleet) -> None:
    """C83."""
    expect(fleet, 1)
    assert admit(fleet, seen(Efa(0, name="efa_0")))
    (before,) = efas_on(fleet)
    fleet.hold({"device": before["id"]})

    send(fleet, seen(Efa(0)))

    (after,) = efas_on(fleet)
    assert (after["id"], after["slot"], after["state"]) == (before["id"], before["slot"], "quarantined")
    (changed,) = events(fleet, "device.changed")
    assert (changed["data"]["before"], changed["data"]["after"]) == ({"name": "efa_0"}, {"name": "rdmap16s27"})
    assert "device_quarantined" in fleet.codes()


@pytest.mark.parametrize("suffixes", [("-rdm",), ("-rdm", "-dgrm"), ("-rdm", "-dgrm", "")])
def test_the_entries_of_one_card_are_one_device(fleet: Fleet, suffixes: tuple[str, ...]) -> None:
    """C85."""
    expect(fleet, 2)

    send(fleet, fi_info.parse(fi_info_text(Efa(0), Efa(1), suffixes=suffixes)))

    assert [device["slot"] for device in efas_on(fleet)] == ["0000:10:1b.0", "0000:11:1b.0"]


def test_every_source_speaks_of_the_same_device(fleet: Fleet) -> None:
    """C83, C85: name, place and address of a card agree, whichever tool is asked."""
    expect(fleet, 2)
    efas = Efa(0), Efa(1)
    send(fleet, seen(*efas))
    before = ids(efas_on(fleet))

    for inventory in (
        fi_info.parse(fi_info_text(*efas)),
        ibv_devinfo.parse(ibv_text(*efas)),
        ibv_devinfo.parse(ibv_text(*(replace(efa, name=f"efa_{efa.number}") for efa in efas))),
    ):
        send(fleet, inventory)
        assert ids(efas_on(fleet)) == before


def test_two_functions_under_one_system_guid_are_two_devices() -> None:
    """C88."""
    system = "sys_image_guid:\t\t\ta088:c203:00ad:0000"
    efas = Efa(0, guid="a088:c203:00ad:0001"), Efa(1, guid="a088:c203:00ad:0002")
    text = ibv_text(*efas).decode()
    for efa in efas:
        text = text.replace(f"sys_image_guid:\t\t\t{efa.guid}", system)

    entries = ibv_devinfo.parse(text.encode()).entries

    assert [entry.node_guid for entry in entries] == [efa.guid for efa in efas]
    assert ibv_devinfo.parse(text.replace("0x1d0f", "0x02c9").encode()).entries == ()


def test_adapters_that_come_up_late_are_waited_for_and_nobody_is_broken(fleet: Fleet) -> None:
    """C89."""
    expect(fleet, 16)
    whole = [Efa(number) for number in range(16)]

    send(fleet, seen(*whole[:14]))
    assert not fleet.decide().admitted
    fleet.clock.advance(40)
    assert admit(fleet, seen(*whole))
    assert fleet.open_holds() == []
    assert events(fleet, "failure.recorded", "device.vanished") == []


def test_adapters_on_the_bus_without_a_driver_are_waited_for(fleet: Fleet, tmp_path: Path) -> None:
    """C89."""
    expect(fleet, 2)
    efas = Efa(0), Efa(1)
    early = efa_sysfs.collect(write_sysfs(tmp_path, *efas, loaded=False), lambda _: b"")

    assert not admit(fleet, early)
    assert "check_unknown" in fleet.codes()
    before = ids(efas_on(fleet))
    assert admit(fleet, seen(*efas))
    assert ids(efas_on(fleet)) == before


def test_one_of_four_for_ever_is_refused_without_a_broken_device(fleet: Fleet) -> None:
    """C89."""
    expect(fleet, 4)

    assert not admit(fleet, seen(Efa(0)))

    reasons = [one for one in fleet.decide().reasons if one.code == "device_missing"]
    assert [(one.device, one.have, one.need) for one in reasons] == [(None, 1, 4)]
    assert events(fleet, "failure.recorded") == []


def test_no_adapter_where_none_belongs_is_no_fault(fleet: Fleet) -> None:
    """C90."""
    nothing = seen()

    assert admit(fleet, nothing, profile="g5.xlarge", gpus=1)
    send(fleet, nothing, node="node-b", profile="x9.unheard-of")

    assert "profile_unknown" in fleet.codes("node-b")


def test_each_drop_of_a_link_is_an_event_and_ends_the_passes(fleet: Fleet) -> None:
    """C92."""
    expect(fleet, 2)
    up, down = seen(Efa(0), Efa(1)), seen(Efa(0), Efa(1, operstate="down", carrier="0"))
    assert admit(fleet, up)

    for _ in range(3):
        fleet.clock.advance(fleet.policy.pass_gap_seconds + 1)
        send(fleet, down)
        (reason,) = [one for one in fleet.decide().reasons if one.code == "check_failing"]
        assert (reason.check, reason.device and reason.device.slot) == ("efa.link", "0000:11:1b.0")
        fleet.clock.advance(fleet.policy.pass_gap_seconds + 1)
        send(fleet, up)
        assert "passes_insufficient" in fleet.codes()
    drops = [one for one in events(fleet, "check.changed") if one["data"].get("check") == "efa.link"]
    assert len([one for one in drops if one["data"]["to"] == "fail"]) == 3
    (flaps,) = [one for one in fleet.decide().reasons if one.code == "check_failing"]
    assert (flaps.check, flaps.device and flaps.device.slot) == ("efa.link.flapping", "0000:11:1b.0")


@pytest.mark.parametrize("empty", [seen(), seen(*(Efa(number, port=None) for number in range(8)))])
def test_an_empty_listing_where_eight_belong_is_no_pass(fleet: Fleet, empty: Inventory) -> None:
    """C92."""
    expect(fleet, 8)

    assert not admit(fleet, empty)

    assert {"passes_insufficient"} < {*fleet.codes()}


def test_counters_are_kept_and_judge_nobody(fleet: Fleet) -> None:
    """C93."""
    expect(fleet, 1)
    first, later = ({"rdma_write_bytes": "0", "retrans_pkts": text, "odd": "N/A (no PMA)"} for text in ("900", "27900"))
    assert admit(fleet, seen(Efa(counters=first)))
    assert admit(fleet, seen(Efa(counters=later)))
    assert efas_on(fleet)[0]["readings"]["retrans_pkts"] == 27900

    assert admit(fleet, seen(Efa(counters={**first, "retrans_pkts": "3", "rx_bytes": "18446744073709551615"})))

    readings = efas_on(fleet)[0]["readings"]
    assert (readings["retrans_pkts"], readings["odd"], readings["rx_bytes"]) == (3, None, 18446744073709551615)
    assert events(fleet, "failure.recorded", "passes.reset", "device.changed") == []
