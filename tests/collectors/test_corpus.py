# SPDX-License-Identifier: Apache-2.0
"""Are public captures of nvidia-smi read as a separate reader read them?

The captures are not part of this project; the test runs where they are kept beside it, or where PRATIQUE_CORPUS says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from registry.collectors import nvidia_smi_csv, nvidia_smi_list, nvidia_smi_q, nvidia_smi_xml
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckStatus, DeviceEntry, Inventory

ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("PRATIQUE_CORPUS", ROOT.parent / "shared" / "corpus"))
pytestmark = pytest.mark.skipif(not (CORPUS / "EXPECTED.json").is_file(), reason="the captures are not here")

SAME_NAME = (
    *("ecc_volatile_corrected", "ecc_volatile_uncorrected", "ecc_aggregate_corrected", "ecc_aggregate_uncorrected"),
    *("ecc_mode", "retired_sbe", "retired_dbe", "retired_pending", "remap_corrected", "remap_uncorrected"),
    *("remap_pending", "remap_failure", "recovery_action", "mig_current", "mig_devices", "chassis_serial", "board_id"),
    *("multigpu_board", "architecture", "virtualization", "tray_index", "slot_number", "minor", "index"),
)
OTHER_NAME = {"temp_gpu_c": "temperature_celsius", "temp_memory_c": "memory_temperature_celsius"}

# The answer file counts "MIG Device" headings as one; the capture shows five slices.
CORRECTIONS: dict[str, dict[str, Any]] = {
    "nvidia_gpu_exporter/split/linux-x86_64__nvidia-h200-mig__590.48.01.q.idle.txt": {"mig_devices": 5},
}


def documents() -> dict[str, Any]:
    path = CORPUS / "EXPECTED.json"
    return json.loads(path.read_text()) if path.is_file() else {}


EXPECTED = documents()


def parser_for(name: str) -> Callable[[bytes], Inventory]:
    if name.endswith(".xml"):
        return nvidia_smi_xml.parse
    return nvidia_smi_csv.parse if name.endswith(".csv") else nvidia_smi_q.parse


def plain(text: str | None) -> str | None:
    return None if text is None or text.strip("[]").upper() == "N/A" else text


def seen(entry: DeviceEntry) -> dict[str, Any]:
    return {
        "serial": plain(entry.serial),
        "uuid": plain(entry.uuid),
        "pci_bus_id": entry.slot,
        "name": entry.model,
        "vbios": entry.firmware.get("vbios"),
        "module_id": entry.module_id,
    }


def differences(name: str, entry: DeviceEntry, expected: dict[str, Any]) -> list[str]:
    expected = {**expected, **CORRECTIONS.get(name, {})}
    found = seen(entry)
    found |= {key: entry.readings.get(key) for key in SAME_NAME if key in expected}
    found |= {key: entry.readings.get(ours) for key, ours in OTHER_NAME.items() if key in expected}
    if expected.get("board_part_number") is not None:
        found["board_part_number"] = entry.part_number
    wanted = {key: expected.get(key) for key in found}
    if wanted["module_id"] is not None:
        wanted["module_id"] = str(wanted["module_id"])
    return [f"{key}: {value!r} is not {wanted[key]!r}" for key, value in found.items() if value != wanted[key]]


@pytest.mark.parametrize("name", [name for name, answer in EXPECTED.items() if "reject" not in answer])
def test_every_field_is_read_as_the_answers_say(name: str) -> None:
    answer = EXPECTED[name].get("document", EXPECTED[name])

    inventory = parser_for(name)((CORPUS / name).read_bytes())

    assert len(inventory.entries) == len(answer["devices"])
    assert inventory.warnings == ()
    for entry, expected in zip(inventory.entries, answer["devices"], strict=True):
        assert differences(name, entry, expected) == []
        assert plain(entry.readings.get("driver_version")) == answer["driver_version"]
    if not name.endswith(".csv"):
        assert inventory.attached == answer["attached_gpus"]
        assert inventory.stamp == answer["timestamp_text"]


@pytest.mark.parametrize("name", [name for name, answer in EXPECTED.items() if "reject" in answer])
def test_what_the_answers_refuse_is_refused(name: str) -> None:
    with pytest.raises(PartUnreadable, match="entities"):
        parser_for(name)((CORPUS / name).read_bytes())


def test_the_lists_of_the_same_captures_are_read() -> None:
    for path in sorted((CORPUS / "nvidia_gpu_exporter" / "split").glob("*.L.txt")):
        inventory = nvidia_smi_list.parse(path.read_bytes())

        assert len(inventory.entries) == 1
        assert len(inventory.entries[0].slices) == (5 if "-mig" in path.name else 0)


def statuses(name: str) -> dict[tuple[str | None, str], CheckStatus]:
    inventory = parser_for(name)((CORPUS / name).read_bytes())
    return {(check.device, check.name): check.status for check in inventory.checks}


def test_the_derived_faults_are_found_where_they_were_put() -> None:
    third, fourth = "0000:75:00.0", "0000:86:00.0"
    pending = statuses("derived/h100-gpu3-remap-pending.xml")
    failure = statuses("derived/h100-gpu3-remap-failure.xml")
    lost = statuses("derived/h100-gpu4-lost-identity-kept.xml")

    assert [key for key, status in pending.items() if status is not CheckStatus.PASS] == [(third, "gpu.row_remap")]
    assert failure[third, "gpu.row_remap"] is CheckStatus.FAIL
    assert lost[fourth, "gpu.responding"] is CheckStatus.FAIL
    assert lost[fourth, "gpu.ecc"] is CheckStatus.UNKNOWN
    assert {status for (slot, _), status in lost.items() if slot != fourth} == {CheckStatus.PASS}


def test_the_trailing_warning_is_a_failure_of_its_gpu() -> None:
    name = "derived/h100-trailing-inforom-warning.xml"

    (failure,) = nvidia_smi_xml.parse((CORPUS / name).read_bytes()).failures

    assert (failure.code, failure.slot) == ("gpu.inforom", "0000:86:00.0")


def test_the_first_gpu_that_cannot_be_reached_keeps_its_index_to_itself() -> None:
    inventory = nvidia_smi_list.parse((CORPUS / "derived" / "smi-L-first-gpu-unreachable.txt").read_bytes())

    assert [entry.slot for entry in inventory.entries] == ["0000:18:00.0", None, None, None]
    assert [entry.readings.get("index") for entry in inventory.entries] == [None, 1, 2, 3]
    assert [check.status for check in inventory.checks] == [CheckStatus.FAIL, *[CheckStatus.PASS] * 3]


def test_no_healthy_capture_fails_a_check() -> None:
    for name, answer in EXPECTED.items():
        if name.startswith("derived/") or "reject" in answer:
            continue
        assert CheckStatus.FAIL not in statuses(name).values(), name
