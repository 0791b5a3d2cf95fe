# SPDX-License-Identifier: Apache-2.0
"""Is the table of `nvidia-smi --query-gpu` read by its headers, and only so far as they go?"""

from __future__ import annotations

import pytest

from registry.collectors.nvidia_smi_csv import parse
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckStatus, Inventory
from tests.collectors.documents import csv_document
from tests.collectors.machines import change, geforce_gpus, h100_gpus, serial_of, uuid_of, v100_gpus

ROW = "1651000000001, GPU-6e3f98df-2fca-5616-a0b6-50cd532495b2, 00000000:18:00.0"


def statuses(inventory: Inventory, at: int = 0) -> dict[str, str]:
    device = inventory.entries[at].slot
    return {check.name: check.status.value for check in inventory.checks if check.device == device}


def test_a_table_is_read_with_the_checks_its_columns_allow() -> None:
    inventory = parse(csv_document(h100_gpus()))

    first = inventory.entries[0]
    assert (first.serial, first.uuid, first.slot) == (serial_of(0, 0), uuid_of(0, 0), "0000:18:00.0")
    assert (first.model, first.firmware) == ("NVIDIA H100 80GB HBM3", {"vbios": "96.00.9F.00.04"})
    assert (first.readings["index"], first.readings["temperature_celsius"]) == (0, 31)
    assert inventory.warnings == ()
    assert statuses(inventory) == {"gpu.ecc": "pass", "gpu.row_remap": "pass", "gpu.responding": "pass"}


def test_troubled_gpus_fail_by_row() -> None:
    inventory = parse(csv_document(h100_gpus(lost={0}, pending={1}, uncorrected={2})))

    assert statuses(inventory, 0) == {"gpu.ecc": "unknown", "gpu.row_remap": "unknown", "gpu.responding": "fail"}
    assert statuses(inventory, 1)["gpu.row_remap"] == "fail"
    assert statuses(inventory, 2)["gpu.ecc"] == "fail"


def test_parts_without_rows_or_ecc_are_not_hindered() -> None:
    assert statuses(parse(csv_document(v100_gpus())))["gpu.row_remap"] == "pass"
    assert statuses(parse(csv_document(geforce_gpus())))["gpu.ecc"] == "not_applicable"


@pytest.mark.parametrize("serial", ["serial", "gpu_serial", "Serial", " serial ", "serial [x]", "GPU_SERIAL"])
@pytest.mark.parametrize("uuid", ["uuid", "gpu_uuid"])
@pytest.mark.parametrize("slot", ["pci.bus_id", "gpu_bus_id", "gpu_bus.id"])
def test_headers_have_documented_aliases(serial: str, uuid: str, slot: str) -> None:
    inventory = parse(f"{serial}, {uuid}, {slot}\n{ROW}\n".encode())

    (entry,) = inventory.entries
    assert (entry.serial, entry.slot) == ("1651000000001", "0000:18:00.0")
    assert entry.uuid == "GPU-6e3f98df-2fca-5616-a0b6-50cd532495b2"
    assert inventory.warnings == ()


def test_an_unknown_header_is_named_and_the_rest_is_read() -> None:
    inventory = parse(f"Serial Number, uuid, pci.bus_id\n{ROW}\n".encode())

    (notice,) = inventory.warnings
    assert notice.code == "unknown_header"
    assert "serial number" in notice.message
    assert inventory.entries[0].serial is None


def test_columns_of_the_tool_that_are_not_read_are_no_news() -> None:
    inventory = parse(
        f"serial, uuid, pci.bus_id, power.draw [W], clocks.max.sm [MHz]\n{ROW}, 70 W, 1980 MHz\n".encode()
    )

    assert inventory.warnings == ()


def test_leading_zeros_are_kept() -> None:
    assert parse(b"serial\n0324519000011\n").entries[0].serial == "0324519000011"


def test_only_checks_whose_columns_are_there_are_derived() -> None:
    assert statuses(parse(csv_document(h100_gpus(1), ["serial", "pci.bus_id"]))) == {"gpu.responding": "pass"}
    volatile = ["pci.bus_id", "ecc.errors.uncorrected.volatile.total"]
    assert statuses(parse(csv_document(h100_gpus(1), volatile))) == {"gpu.ecc": "pass", "gpu.responding": "pass"}


def test_half_of_the_remap_columns_can_fail_but_not_pass() -> None:
    half = ["pci.bus_id", "remapped_rows.failure"]

    assert "gpu.row_remap" not in statuses(parse(csv_document(h100_gpus(1), half)))
    assert statuses(parse(csv_document(h100_gpus(1, failed={0}), half)))["gpu.row_remap"] == "fail"


@pytest.mark.parametrize("word", ["ERR!", "[Unknown Error]", "[GPU is lost]", "[GPU requires reset]"])
def test_a_row_whose_name_cannot_be_read_is_a_gpu_that_does_not_respond(word: str) -> None:
    inventory = parse(f"name, pci.bus_id, temperature.gpu\n{word}, 00000000:18:00.0, {word}\n".encode())

    (entry,) = inventory.entries
    assert (entry.model, entry.readings["temperature_celsius"]) == (None, None)
    assert statuses(inventory) == {"gpu.responding": "fail"}


@pytest.mark.parametrize("word", ["[N/A]", "[Not Supported]", "[Insufficient Permissions]", "N/A"])
def test_a_word_in_place_of_a_value_is_nothing(word: str) -> None:
    text = f"name, pci.bus_id, temperature.memory, ecc.mode.current\n{word}, 00000000:18:00.0, {word}, {word}\n"

    inventory = parse(text.encode())

    (entry,) = inventory.entries
    assert entry.model is None
    assert entry.readings["memory_temperature_celsius"] is entry.readings["ecc_mode"] is None
    assert statuses(inventory) == {"gpu.responding": "pass"}


def test_a_bus_id_that_is_not_there_is_none() -> None:
    assert parse(b"serial, pci.bus_id\n1651000000001, [N/A]\n").entries[0].slot is None


def test_an_unreachable_gpu_and_a_warning_are_taken_out_of_the_table() -> None:
    line = b"Unable to determine the device handle for GPU 0000:18:00.0: Unknown Error\n"
    warning = b"WARNING: infoROM is corrupted at gpu 0000:2A:00.0\n"

    inventory = parse(line + csv_document(h100_gpus()[1:]) + warning)

    assert [entry.slot for entry in inventory.entries][:2] == ["0000:18:00.0", "0000:2a:00.0"]
    assert inventory.failures[0].slot == "0000:2a:00.0"
    assert [check.status for check in inventory.checks if check.name == "gpu.responding"].count(CheckStatus.FAIL) == 1


def test_the_count_column_shows_a_partial_list_and_the_first_timestamp_is_the_stamp() -> None:
    text = "timestamp, count, serial\n2026/09/02 07:15:30.001, 2, 1651000000001\n"

    inventory = parse(text.encode())

    assert inventory.is_partial
    assert inventory.stamp == "2026/09/02 07:15:30.001"


def test_windows_files_are_read() -> None:
    text = csv_document(h100_gpus())

    assert parse(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")) == parse(text)


REFUSED = {
    "empty": (b"", "empty"),
    "no header": (f"{ROW}\n".encode(), "no header line.*serial, uuid or pci.bus_id"),
    "nothing that identifies": (b"index, name\n0, NVIDIA H100\n", "serial, uuid and pci.bus_id"),
    "no gpu": (b"serial, uuid\n", "no GPU"),
    "exponent form": (b"serial, index\n1.65E+12, 0\n", "exponent form"),
    "exponent form with a comma": (b'serial, index\n"1,65E+12", 0\n', "exponent form"),
    "a short row": (b"serial, uuid, index\n1651000000001, GPU-1\n", "2 fields"),
    "cut within the last field": (csv_document(h100_gpus(), ["index", "uuid"])[:-9], "cut off"),
    "two tables": (csv_document(h100_gpus(2)) * 2, "two tables"),
    "columns that differ": (b"serial, gpu_serial\n1651000000001, 1651000000002\n", "differ"),
    "garbage bus id": (b"serial, pci.bus_id\n1651000000001, 0000:zz:00.0\n", "0000:zz:00.0"),
    "retired pages": (b"gpu_uuid, retired_pages.address\nGPU-1, 0x1\n", "retired pages"),
    "an open quote": (b'serial, uuid\n"1651000000001', "not CSV"),
    "no devices": (b"No devices were found\n", "see to the driver"),
    "endless header": (b"serial" + b",a" * 2000 + b"\n", "longer than any header"),
    "a long header": (b"serial" + b" " * 100_000 + b"x\n1\n", "longer than any header"),
    "too many rows": (b"serial\n" + b"1651000000001\n" * 1025, "more than 1024"),
}


@pytest.mark.parametrize(("data", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_it_is_refused_whole_and_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(PartUnreadable, match=reason):
        parse(data)


def test_a_table_that_a_shell_stripped_of_its_last_newline_is_read() -> None:
    text = csv_document(change(h100_gpus(2), 0, serial="1651000000009"), ["index", "serial"])

    assert len(parse(text.rstrip()).entries) == 2
