# SPDX-License-Identifier: Apache-2.0
"""What does `nvidia-smi --query-gpu=… --format=csv` say about the GPUs of this machine?

The columns are those of `nvidia-smi --help-query-gpu`, https://docs.nvidia.com/deploy/nvidia-smi/. Case, surrounding
blanks and a unit in brackets (`temperature.gpu [C]`) make no difference. One of serial, uuid and bus id is needed.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from registry.collectors.nvidia_smi import (
    Heading,
    build_inventory,
    find_gone,
    read_attached,
    read_complaints,
    without_list,
)
from registry.collectors.nvidia_smi_checks import ALL_CHECKS, ECC, RECOVERY_ACTION, ROW_REMAP, Printed
from registry.collectors.nvidia_smi_text import MAX_DEVICES, MAX_TEXT, Remarks, decode, lines, shown
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckStatus, Inventory, Notice

_COLUMNS = {
    "index": "index",
    "name": "model",
    "gpu_name": "model",
    "serial": "serial",
    "gpu_serial": "serial",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "pci.bus_id": "slot",
    "gpu_bus_id": "slot",
    "gpu_bus.id": "slot",
    "vbios_version": "vbios",
    "inforom.img": "inforom",
    "inforom.image": "inforom",
    "board_part_number": "part_number",
    "module_id": "module_id",
    "platform.module_id": "module_id",
    "platform.chassis_serial_number": "chassis_serial",
    "platform.slot_number": "slot_number",
    "platform.tray_index": "tray_index",
    "driver_version": "driver_version",
    "timestamp": "timestamp",
    "count": "count",
    "gpu_recovery_action": "recovery_action",
    "mig.mode.current": "mig_current",
    "ecc.mode.current": "ecc_mode",
    "ecc.errors.corrected.volatile.total": "ecc_volatile_corrected",
    "ecc.errors.corrected.aggregate.total": "ecc_aggregate_corrected",
    "ecc.errors.uncorrected.volatile.total": "ecc_volatile_uncorrected",
    "ecc.errors.uncorrected.aggregate.total": "ecc_aggregate_uncorrected",
    "ecc.errors.uncorrected.aggregate.sram.thresholdexceeded": "sram_threshold_exceeded",
    "retired_pages.single_bit_ecc.count": "retired_sbe",
    "retired_pages.sbe": "retired_sbe",
    "retired_pages.double_bit.count": "retired_dbe",
    "retired_pages.dbe": "retired_dbe",
    "retired_pages.pending": "retired_pending",
    "remapped_rows.correctable": "remap_corrected",
    "remapped_rows.uncorrectable": "remap_uncorrected",
    "remapped_rows.pending": "remap_pending",
    "remapped_rows.failure": "remap_failure",
    "temperature.gpu": "temperature_celsius",
    "temperature.memory": "memory_temperature_celsius",
    "power.draw": "power_watts",
    "utilization.gpu": "utilization_percent",
}
"""Header, in lower case and without its unit, to our name."""

_NEEDED = ("serial", "uuid", "slot")
_UNREAD = re.compile(
    r"(?:pci|pcie|power|enforced\.power|module|clocks|clocks_event_reasons(?:_counters)?|clocks_throttle_reasons|memory"
    r"|utilization|encoder|ecc|retired_pages|remapped_rows|temperature|mig|gsp|c2c|protected_memory|fabric|platform"
    r"|inforom|gom|fan|accounting|driver_model|dramencryption|power_smoothing|gpu\.base|bbx|vgpu_driver_capability"
    r"|vgpu_device_capability)[._].+"
    r"|display_(?:mode|attached|active)|persistence_mode|addressing_mode|compute_(?:mode|cap)|pstate|hostname"
    r"|edpp_multiplier|kmd_version|cuda_version|minor_number|memory"
)
"""Columns that nvidia-smi has and that are not read here."""

_UNIT = re.compile(r"\s*\[[^\]]*\]$")
_EXPONENT = re.compile(r"[+-]?\d+(?:[.,]\d+)?[eE][+-]?\d+")
_MAX_COLUMNS = 1000
_MAX_UNKNOWN = 50
_FLAGS = frozenset({"remap_pending", "remap_failure", "retired_pending"})


def parse(data: bytes) -> Inventory:
    """Read the output of `nvidia-smi --query-gpu=… --format=csv`, with or without `nounits`, not `noheader`.

    A table without a row, and complaints in place of one, are no list. A header that nobody knows is named in the
    warnings. Only the checks whose columns are there are derived. Raises
    PartUnreadable when there is no header line or no column that identifies, when a row has another number of fields
    than the header, when a serial went through a spreadsheet, and when it is something else.
    """
    text = decode(data)
    complaints = read_complaints(text)
    if complaints is not None:
        return complaints
    remarks = Remarks()
    rows = _rows(text, remarks)
    head = next(rows, [])
    headers = _read_headers(head)
    columns = [_COLUMNS.get(header) for header in headers]
    _check_columns(columns, headers)
    printed: list[Printed] = []
    for row in rows:
        if len(printed) >= MAX_DEVICES:
            raise PartUnreadable(f"the table has more than {MAX_DEVICES} GPUs, which no machine has")
        if row == head:
            raise PartUnreadable("there are two tables in one part; send each in a report of its own")
        printed.append(_read_row(row, columns))
    if not printed and not remarks.unreachable:
        raise PartUnreadable("the table has a header and no GPU; see to the driver and run nvidia-smi again")
    _check_last(text, columns[-1], printed)
    first = printed[0].texts if printed else {}
    heading = Heading(
        attached=read_attached(first.get("count")), stamp=first.get("timestamp"), notices=_unknown(headers, columns)
    )
    inventory = _without_half_looks(build_inventory(printed, remarks, heading, _asked(columns)), columns)
    return inventory if printed else without_list(inventory)


def _rows(text: str, remarks: Remarks) -> Iterator[list[str]]:
    """Return the rows of the table; remarks of the tool are taken aside."""
    table = csv.reader((line for line in lines(text) if not remarks.take(line)), skipinitialspace=True, strict=True)
    try:
        yield from table
    except csv.Error as error:
        raise PartUnreadable(
            f"line {table.line_num} of the table is not CSV ({error}); send what nvidia-smi printed"
        ) from error


def _read_headers(row: Sequence[str]) -> list[str]:
    if len(row) > _MAX_COLUMNS or any(len(header) > MAX_TEXT for header in row):
        raise PartUnreadable("the first line is longer than any header of nvidia-smi; send what nvidia-smi printed")
    return [_UNIT.sub("", header.strip()).strip().casefold() for header in row]


def _check_columns(columns: Sequence[str | None], headers: Sequence[str]) -> None:
    if not any(columns):
        raise PartUnreadable(
            f"there is no header line of nvidia-smi --query-gpu ({shown(', '.join(headers))} is none); "
            "send the table with its header, and with serial, uuid or pci.bus_id in it"
        )
    if not set(_NEEDED) & set(columns):
        raise PartUnreadable(
            "no column says which GPU is meant; query at least one of serial, uuid and pci.bus_id "
            "(gpu_serial, gpu_uuid and gpu_bus_id are read too)"
        )
    if "retired_pages.address" in headers:
        raise PartUnreadable("this lists retired pages, not GPUs; send the output of nvidia-smi --query-gpu")


def _read_row(row: Sequence[str], columns: Sequence[str | None]) -> Printed:
    if len(row) != len(columns):
        raise PartUnreadable(
            f"the row {shown(', '.join(row))} has {len(row)} fields where the header has {len(columns)}; "
            "it is cut off or not from the same table"
        )
    texts: dict[str, str] = {}
    for name, field in zip(columns, row, strict=True):
        text = field.strip()
        if name is not None and text and texts.setdefault(name, text) != text:
            raise PartUnreadable(
                f"two columns for {name} differ: {shown(texts[name])} and {shown(text)}; send one of them"
            )
    if _EXPONENT.fullmatch(texts.get("serial", "")):
        raise PartUnreadable(
            f"the serial {shown(texts['serial'])} is in exponent form: a spreadsheet has changed it; "
            "send what nvidia-smi printed"
        )
    # Whoever did not ask for the life-long counter still has an answer about this boot.
    if "ecc_aggregate_uncorrected" not in columns:
        texts["ecc_aggregate_uncorrected"] = "N/A"
    # Columns that are not read tell of a lost GPU as well.
    fields = {f"field {at}": field for at, field in enumerate(row)}
    return Printed(texts=texts, gone=find_gone({**texts, **fields}))


def _check_last(text: str, column: str | None, printed: Sequence[Printed]) -> None:
    """Refuse a table that stops within its last field, where half an identifier would name another GPU."""
    if text.endswith(("\n", "\r")) or column not in _NEEDED or len(printed) < 2:
        return
    lengths = [len(gpu.texts.get(column, "")) for gpu in printed]
    if lengths[-1] < min(lengths[:-1]):
        raise PartUnreadable(f"the table stops within the last {column}: it is cut off; run nvidia-smi again")


def _asked(columns: Sequence[str | None]) -> frozenset[str]:
    names = set(columns)
    has = {
        ECC: bool({"ecc_volatile_uncorrected", "sram_threshold_exceeded"} & names),
        ROW_REMAP: bool(_FLAGS & names),
        RECOVERY_ACTION: "recovery_action" in names,
    }
    return ALL_CHECKS - {check for check, is_there in has.items() if not is_there}


def _without_half_looks(inventory: Inventory, columns: Sequence[str | None]) -> Inventory:
    """Leave out a check that is unknown only because a column was not asked for."""
    half = {ROW_REMAP: not set(columns) >= _FLAGS, ECC: "ecc_volatile_uncorrected" not in columns}
    checks = [one for one in inventory.checks if not (half.get(one.name) and one.status is CheckStatus.UNKNOWN)]
    return replace(inventory, checks=tuple(checks))


def _unknown(headers: Sequence[str], columns: Sequence[str | None]) -> tuple[Notice, ...]:
    names = [
        name for name, column in zip(headers, columns, strict=True) if column is None and not _UNREAD.fullmatch(name)
    ]
    notices = [Notice("unknown_header", f"the column {shown(name)} is not known and was not read") for name in names]
    if len(notices) > _MAX_UNKNOWN:
        notices[_MAX_UNKNOWN:] = [Notice("unknown_header", f"{len(notices) - _MAX_UNKNOWN} more columns are not known")]
    return tuple(notices)
