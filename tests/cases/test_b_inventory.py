# SPDX-License-Identifier: Apache-2.0
"""Group B of the public reports: habits of inventories that lose zeros, serials, records, authors or history."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from registry.domain.roles import Role
from registry.store import migrations
from registry.store.migrations import migrate
from tests.api.conftest import Asker
from tests.cases.conftest import World, card, codes, one_engine
from tests.collectors.documents import csv_document, xml_document
from tests.collectors.machines import h100_gpus

SHORT = "12345"


def two_makers(world: World) -> list[dict[str, Any]]:
    """Report two cards of two vendors with one serial; return the devices."""
    world.expect(2)
    world.report("node-a", [card(1, serial=SHORT, uuid=None, vendor="p"), card(2, serial=SHORT, uuid=None, vendor="q")])
    return world.devices(order="asc")


def test_one_serial_of_two_makers_is_two_devices_and_a_bare_look_up_takes_neither(world: World) -> None:
    """C20."""
    devices = two_makers(world)

    response = world.operator.get(f"/v1/devices/{SHORT}")
    fault = world.operator.post(
        "/v1/failures",
        json={"failure_id": "f", "code": "xid_79", "device": SHORT, "occurred_at": "2026-11-29T12:00:00Z"},
    )
    hold = world.hold({"device": SHORT})

    assert sorted(device["vendor"] for device in devices) == ["p", "q"]
    assert (response.status_code, response.json["code"]) == (409, "device_ambiguous")
    assert {one["id"] for one in response.json["candidates"]} == {device["id"] for device in devices}
    assert fault.json["items"][0]["code"] == "device_ambiguous"
    assert (hold.status_code, hold.json["items"][0]["code"]) == (422, "device_ambiguous")
    assert len(world.devices(serial=SHORT)) == 2


@one_engine
@pytest.mark.parametrize(("vendor", "held"), [("q", {"q"}), (None, {"p", "q"}), ("r", set())])
def test_a_serial_is_held_for_the_maker_that_is_named(world: World, vendor: str | None, held: set[str]) -> None:
    """C20."""
    two_makers(world)
    identifier = {"kind": "gpu", "type": "serial", "value": SHORT} | ({"vendor": vendor} if vendor else {})

    assert world.hold({"identifier": identifier}).status_code == 201

    assert {device["vendor"] for device in world.devices() if device["state"] == "quarantined"} == held


@one_engine
@pytest.mark.parametrize("serial", ["0322218049033", "0000000000001", "00012", "007"])
def test_a_serial_keeps_its_zeros_on_every_way_in_and_out(world: World, serial: str) -> None:
    """C21."""
    world.expect(1)
    (gpu,) = h100_gpus(1, serial=lambda _: serial)

    world.report("by-json", [card(1, serial=serial, uuid=gpu.uuid)])
    world.report_raw("by-xml", nvidia_smi_xml=xml_document([gpu]))
    world.report_raw("by-csv", nvidia_smi_csv=csv_document([gpu]))

    assert [world.on(name)[0]["serial"] for name in ("by-json", "by-xml", "by-csv")] == [serial] * 3
    assert [device["serial"] for device in world.devices()] == [serial]
    assert world.operator.get(f"/v1/devices/{serial}").json["serial"] == serial
    lines = world.operator.get("/v1/events/export").text.splitlines()
    told = [json.loads(line)["data"]["serial"] for line in lines if '"type":"device.' in line]
    assert set(told) == {serial}


@one_engine
@pytest.mark.parametrize("number", [322218049033, 1.65e12, 0, True])
def test_a_serial_that_is_a_number_is_refused(world: World, number: Any) -> None:
    """C21."""
    world.expect(1)

    response = world.post("node-a", [card(1, serial=number)])

    assert response.status_code == 422
    assert response.json["errors"][0]["pointer"] == "/devices/0/serial"
    assert world.devices() == []


@one_engine
@pytest.mark.parametrize("text", ["1.65E+12", "1.65e+12", "1,65E+12", "1.65032E+12"])
def test_a_serial_that_a_spreadsheet_rounded_names_nobody(world: World, text: str) -> None:
    """C21."""
    world.expect(2)
    table = f'serial,pci.bus_id,uuid\n"{text}",0000:3b:00.0,{card(1)["uuid"]}\n'

    by_csv = world.post_raw("node-a", nvidia_smi_csv=table.encode())
    world.report("node-b", [card(1, serial=text), card(2, serial=text)])

    assert (by_csv.status_code, by_csv.json["code"]) == (422, "part_unreadable")
    assert text in by_csv.json["detail"]
    assert {device["serial"] for device in world.devices()} == {None}
    assert len({device["board"] for device in world.devices()}) == 2


def test_a_new_asset_tag_is_a_change_of_the_same_device(world: World) -> None:
    """C23."""
    world.expect(1)
    world.report("node-a", [card(1, asset_tag="T1")])
    world.report("node-a", [card(1, asset_tag="T2")])
    world.report("node-b", [card(1, asset_tag="T2", uuid=None)])

    (device,) = world.devices()
    (changed,) = world.events("device.changed")
    assert device["asset_tag"] == "T2"
    assert (changed["data"]["before"], changed["data"]["after"]) == ({"asset_tag": "T1"}, {"asset_tag": "T2"})
    assert changed["data"]["serial"] == device["serial"]


@one_engine
@pytest.mark.parametrize(
    ("header", "others"),
    [
        ("serial", "uuid, pci.bus_id"),
        ("gpu_serial", "gpu_uuid, gpu_bus_id"),
        ("Serial", "UUID, Pci.Bus_Id"),
        (" serial ", " uuid ,pci.bus_id "),
        ("serial [x]", "GPU_UUID [x], PCI.BUS_ID [x]"),
    ],
)
def test_a_column_is_read_under_each_of_its_names(world: World, header: str, others: str) -> None:
    """C24."""
    world.expect(1)
    gpu = card(1)

    answer = world.report_raw(
        nvidia_smi_csv=f"{header}, {others}\n{gpu['serial']}, {gpu['uuid']}, 00000000:11:00.0\n".encode()
    )

    (shown,) = world.on()
    assert (shown["serial"], shown["uuid"], shown["slot"]) == (gpu["serial"], gpu["uuid"], gpu["slot"])
    assert answer["warnings"] == []


@one_engine
@pytest.mark.parametrize("header", ["Serial Number", "serial_number", "S/N", "sérial"])
def test_a_column_that_nobody_knows_is_named_and_not_dropped_in_silence(world: World, header: str) -> None:
    """C24."""
    world.expect(1)
    gpu = card(1)

    answer = world.report_raw(nvidia_smi_csv=f"{header}, uuid\n{gpu['serial']}, {gpu['uuid']}\n".encode())
    alone = world.post_raw("node-b", nvidia_smi_csv=f"{header}, name\n{gpu['serial']}, H100\n".encode())

    (warning,) = answer["warnings"]
    assert warning["code"] == "unknown_header"
    assert header.casefold() in warning["message"]
    assert world.on()[0]["serial"] is None
    assert (alone.status_code, alone.json["code"]) == (422, "part_unreadable")


def test_one_gpu_written_in_several_ways_is_one(world: World) -> None:
    """C25."""
    world.expect(1)
    uuid = "GPU-aaaa0001-bbbb-cccc-dddd-eeee00000001"
    for slot in ("00000000:3B:00.0", "0000:3b:00.0", "3b:00.0", "0000:3b:00", " 0000:3B:00.0 "):
        for spelled in (uuid, uuid.upper(), uuid.lower(), uuid[4:], uuid[4:].replace("-", "")):
            world.report("node-a", [card(1, serial=None, uuid=spelled, slot=slot)])
        world.report("node-a", [card(1, serial=None, uuid=None, slot=slot)])

    (device,) = world.devices()
    assert (device["uuid"], device["slot"]) == (uuid, "0000:3b:00.0")
    assert world.operator.get(f"/v1/devices/{uuid.upper()}").json["id"] == device["id"]
    assert world.events("device.moved", "device.vanished") == []


def test_one_adapter_written_in_several_ways_is_one(world: World) -> None:
    """C25."""
    world.expect(1, efas=1)
    for mac in ("02:AB:CD:00:00:01", "02-ab-cd-00-00-01", "02abcd000001", "02ab.cd00.0001"):
        for slot in ("00000000:50:00.0", "0000:50:00.0", "50:00.0"):
            efa = {"kind": "efa", "vendor": "amazon", "slot": slot, "mac": mac, "name": "rdmap80s0"}
            world.report("node-a", [card(1), efa], covers=["gpu", "efa"])

    (adapter,) = world.devices(kind="efa")
    printed = world.operator.get(f"/v1/devices/{adapter['id']}").json["identifiers"]
    assert [one["value"] for one in printed if one["type"] == "mac"] == ["02:ab:cd:00:00:01"]


def test_every_entry_names_its_own_author_under_load(world: World, app: Flask, token: Callable[..., str]) -> None:
    """C26."""
    users = {f"u{number}": token(Role.OPERATOR, name=f"u{number}") for number in range(1, 7)}
    reader = users.pop("u6")

    def work(number: int) -> list[int]:
        name = f"u{number % 5 + 1}"
        mine, theirs = Asker(app.test_client(), users[name]), Asker(app.test_client(), reader)
        target = {"identifier": {"kind": "gpu", "type": "serial", "value": f"165{number:010d}"}}
        opened = mine.post("/v1/quarantines", json={"targets": [target], "reason": name})
        read = theirs.get("/v1/quarantines")
        hold = opened.json["items"][0]["quarantine"]["id"]
        closed = mine.post(f"/v1/quarantines/{hold}/release", json={"reason": name})
        return [opened.status_code, read.status_code, closed.status_code]

    with ThreadPoolExecutor(10) as pool:
        statuses = list(pool.map(work, range(50)))

    assert statuses == [[201, 200, 200]] * 50
    events = world.events("quarantine.opened", "quarantine.released")
    assert Counter(event["actor"]["name"] for event in events) == dict.fromkeys(users, 20)
    assert "u6" not in {event["actor"]["name"] for event in world.events()}
    assert all(event["data"]["reason"] == event["actor"]["name"] for event in events)
    assert world.operator.get("/v1/audit/verify").json["ok"] is True


def test_bringing_a_database_up_to_date_keeps_every_entry(world: World, database_url: str) -> None:
    """C28."""
    world.expect(1)
    world.admit("node-a", [card(1)])
    world.hold({"device": card(1)["serial"]})
    before = world.events()

    migrate(database_url)

    after = world.events()
    assert [one["hash"] for one in after] == [one["hash"] for one in before]
    assert codes(world.decision()) == ["device_quarantined"]


def test_a_newer_release_keeps_every_entry_and_the_older_one_then_refuses_to_start(
    world: World, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C28."""
    world.expect(1)
    world.admit("node-a", [card(1)])
    before = world.events()
    newer = tmp_path / "newer"
    shutil.copytree(migrations._directory(), newer)
    step = "ALTER TABLE event ADD COLUMN colour TEXT"
    (newer / "9999_a_colour.py").write_text(f"def up(migrator, db):\n    db.execute_sql({step!r})\n")

    with monkeypatch.context() as installed:
        installed.setattr(migrations, "_directory", lambda: newer)
        assert migrate(database_url) == ["9999_a_colour"]

    assert [one["hash"] for one in world.events()] == [one["hash"] for one in before]
    assert world.operator.get("/v1/audit/verify").json["ok"] is True
    with pytest.raises(migrations.NotReady, match="newer than this program"):
        migrate(database_url)


def test_two_hundred_releases_are_two_hundred_entries(world: World) -> None:
    """C29."""
    targets = [{"identifier": {"kind": "gpu", "type": "serial", "value": f"165{number:010d}"}} for number in range(200)]
    holds = [item["quarantine"]["id"] for item in world.hold(*targets).json["items"]]

    for hold in holds:
        assert world.operator.post(f"/v1/quarantines/{hold}/release", json={"reason": "tested"}).status_code == 200

    events = world.events()
    released = [event for event in events if event["type"] == "quarantine.released"]
    assert [subject_of(event) for event in released] == holds
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert world.operator.get("/v1/audit/verify").json["ok"] is True


def subject_of(event: dict[str, Any]) -> str:
    """The quarantine that an event is about."""
    return next(one["id"] for one in event["subjects"] if one["kind"] == "quarantine")
