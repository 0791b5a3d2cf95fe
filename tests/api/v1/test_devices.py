# SPDX-License-Identifier: Apache-2.0
"""Is a device found by any of its names, with all that happened to it?"""

from __future__ import annotations

import pytest

from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit, gpu, send
from tests.clock import Clock


@pytest.fixture(autouse=True)
def fleet(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)


def test_a_device_is_found_by_id_serial_and_uuid(auditor: Asker) -> None:
    by_serial = auditor.get(f"/v1/devices/{SERIALS[0]}").json

    assert by_serial["serial"] == SERIALS[0]
    assert by_serial["state"] == "in_service"
    assert auditor.get(f"/v1/devices/{by_serial['id']}").json == by_serial
    assert auditor.get(f"/v1/devices/{gpu(SERIALS[0])['uuid']}").json == by_serial


@pytest.mark.parametrize("ref", ["nobody", "MIG-GPU-x/1/0", "a%2Fhistory"])
def test_an_unknown_device_is_not_found(auditor: Asker, ref: str) -> None:
    response = auditor.get(f"/v1/devices/{ref}")

    assert (response.status_code, response.json["code"]) == (404, "not_found")


def test_one_serial_of_two_units_is_ambiguous_and_its_history_is_merged(
    operator: Asker, node: Asker, auditor: Asker, clock: Clock
) -> None:
    operator.put("/v1/profiles/tiny", json={"gpu": {"count": 2}, "required_checks": ["gpu.count"]})
    clock.advance(31)
    board = [{**gpu(SERIALS[0], 0x20), "serial": "1654000000009"}, {**gpu(SERIALS[1], 0x21), "serial": "1654000000009"}]
    for at, one in enumerate(board):
        one["uuid"] = f"GPU-00000000-0000-0000-0009-00000000000{at}"
    send(node, devices=board, checks=[])

    shown = auditor.get("/v1/devices/1654000000009")
    history = auditor.get("/v1/devices/1654000000009/history")

    assert (shown.status_code, shown.json["code"]) == (409, "device_ambiguous")
    assert len(shown.json["candidates"]) == 2
    assert [event["type"] for event in history.json["items"]].count("device.registered") == 2


def test_devices_are_listed_and_filtered(auditor: Asker) -> None:
    listed = auditor.get("/v1/devices").json["items"]

    assert sorted(one["serial"] for one in listed) == list(SERIALS)
    assert [one["serial"] for one in auditor.get(f"/v1/devices?serial={SERIALS[1]}").json["items"]] == [SERIALS[1]]
    assert auditor.get("/v1/devices?kind=efa").json["items"] == []
    assert auditor.get("/v1/devices?colour=red").status_code == 422


def test_a_devices_history_is_told_oldest_first(auditor: Asker) -> None:
    events = auditor.get(f"/v1/devices/{SERIALS[0]}/history").json["items"]

    assert [event["type"] for event in events][:2] == ["device.registered", "device.attached"]
    assert events == sorted(events, key=lambda event: event["sequence"])
    assert all(
        {"sequence", "at", "type", "actor", "subjects", "data", "prev_hash", "hash"} <= event.keys() for event in events
    )
