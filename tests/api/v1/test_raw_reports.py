# SPDX-License-Identifier: Apache-2.0
"""Does a public capture, posted as it was printed, become the devices that a separate reader saw in it?

The captures are not part of this project; the test runs where they are kept beside it, or where PRATIQUE_CORPUS says.
"""

from __future__ import annotations

import json
import os
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Asker
from tests.project import ROOT

CORPUS = Path(os.environ.get("PRATIQUE_CORPUS", ROOT.parent / "shared" / "corpus"))
EXPECTED: dict[str, Any] = (
    json.loads((CORPUS / "EXPECTED.json").read_text()) if (CORPUS / "EXPECTED.json").is_file() else {}
)
READABLE = sorted(name for name, expected in EXPECTED.items() if expected.get("devices"))


def part_of(name: str) -> str:
    if name.endswith(".xml"):
        return "nvidia_smi_xml"
    return "nvidia_smi_csv" if name.endswith(".csv") else "nvidia_smi_q"


@pytest.fixture
def engine() -> str:
    """One engine is enough here: what is read is judged, not how it is kept."""
    return "sqlite"


@pytest.mark.parametrize("name", READABLE)
def test_a_capture_becomes_its_devices(node: Asker, operator: Asker, name: str) -> None:
    fields = {"report_id": "r-1", "boot_id": "b-1", "provider_id": "i-1", "profile": "whatever", "covers": '["gpu"]'}
    part = {part_of(name): (BytesIO((CORPUS / name).read_bytes()), "capture")}

    response = node.post("/v1/nodes/node-a/reports", data={**fields, **part}, content_type="multipart/form-data")

    expected = EXPECTED[name]["devices"]
    if len({device["pci_bus_id"] for device in expected}) < len(expected):
        assert response.json["code"] == "slot_repeated"
        return
    assert response.status_code == 200, response.text
    shown = operator.get("/v1/nodes/node-a").json["devices"]
    assert [device["slot"] for device in shown] == sorted(device["pci_bus_id"] for device in expected)
    serials = {device["serial"] for device in expected if device["serial_usable"]}
    assert {device["serial"] for device in shown if device["serial"]} == serials
