# SPDX-License-Identifier: Apache-2.0
"""What does `nvidia-smi -q` say about the GPUs of this machine?

The text is a tree by indentation, four blanks a level, with `key : value` lines and headings without a value. It has
no end mark, so a text that stops early is known by its count of GPUs and by the last one's list of processes.
"""

from __future__ import annotations

import re

from registry.collectors.nvidia_smi import (
    Heading,
    build_inventory,
    find_gone,
    name_texts,
    read_attached,
    read_complaints,
)
from registry.collectors.nvidia_smi_checks import Printed, Word, classify
from registry.collectors.nvidia_smi_text import MAX_DEVICES, Remarks, decode, lines, shown
from registry.domain.errors import PartUnreadable
from registry.domain.reports import Inventory

_BANNER = re.compile(r"=+\s*NVSMI LOG\s*=+")
_GPU = re.compile(r"GPU (\S+)\s*")
_SEPARATOR = " : "
_INDENT = 4
_MAX_KEY = 100
_MAX_LEVEL = 8
_MAX_KEYS = 5000
"""Different lines of one GPU outside its list of processes; drivers print about 250."""

_TABLE = {
    "serial": ("serial_number",),
    "uuid": ("gpu_uuid",),
    "model": ("product_name",),
    "vbios": ("vbios_version",),
    "inforom": ("inforom_version/image_version",),
    # Until driver 510 the GPU part number was the board's; since then it is the chip's and the board has its own.
    "part_number": ("board_part_number", "gpu_part_number"),
    "module_id": ("platform_info/module_id", "gpu_module_id", "module_id"),
    "slot": ("pci/bus_id",),
    "slot_header": ("@id",),
    "minor": ("minor_number",),
    "architecture": ("product_architecture",),
    "multigpu_board": ("multigpu_board",),
    "board_id": ("board_id",),
    "chassis_serial": ("platform_info/chassis_serial_number",),
    "slot_number": ("platform_info/slot_number",),
    "tray_index": ("platform_info/tray_index",),
    "virtualization": ("gpu_virtualization_mode/virtualization_mode",),
    "recovery_action": ("gpu_recovery_action",),
    "mig_current": ("mig_mode/current",),
    "ecc_mode": ("ecc_mode/current",),
    "sram_threshold_exceeded": ("ecc_errors/aggregate/sram_threshold_exceeded",),
    "retired_sbe": ("retired_pages/single_bit_ecc",),
    "retired_dbe": ("retired_pages/double_bit_ecc",),
    "retired_pending": ("retired_pages/pending_page_blacklist", "retired_pages/pending_page_retirement"),
    "remap_corrected": ("remapped_rows/correctable_error",),
    "remap_uncorrected": ("remapped_rows/uncorrectable_error",),
    "remap_pending": ("remapped_rows/pending",),
    "remap_failure": ("remapped_rows/remapping_failure_occurred",),
    "temperature_celsius": ("temperature/gpu_current_temp",),
    "memory_temperature_celsius": ("temperature/memory_current_temp",),
    # One figure until driver 530; since then two, of which the average is not there on every part.
    "power_watts": (
        *("gpu_power_readings/instantaneous_power_draw", "gpu_power_readings/average_power_draw"),
        *("gpu_power_readings/power_draw", "power_readings/power_draw"),
    ),
    "utilization_percent": ("utilization/gpu",),
}
"""Where the texts stand below a GPU, under our names; keys in lower case with low lines for blanks."""

_SLICE = "mig_device"
_PROCESSES = ("processes", "compute_processes", "accounted_processes")


def parse(data: bytes) -> Inventory:
    """Read the output of `nvidia-smi -q`. Complaints in place of it are no list.

    Raises PartUnreadable when it holds fewer GPUs than it counts or stops within one, when it is not the only one,
    and when it is something else.
    """
    text = decode(data)
    complaints = read_complaints(text)
    if complaints is not None:
        return complaints
    reader = _Reader()
    for line in lines(text):
        reader.take(line)
    reader.check_whole()
    heading = Heading(
        attached=read_attached(reader.heading.get("attached_gpus")),
        stamp=reader.heading.get("timestamp"),
        driver_version=reader.heading.get("driver_version"),
    )
    inventory = build_inventory((_printed(gpu) for gpu in reader.gpus), reader.remarks, heading)
    if inventory.is_partial:
        counted = _counted(len(inventory.entries), inventory.attached or 0)
        raise PartUnreadable(f"{counted}: it is cut off; run nvidia-smi -q again")
    return inventory


class _Gpu:
    """The lines of one GPU as paths and texts."""

    __slots__ = ("_open", "gone", "has_processes", "mig_count", "paths", "slices")

    def __init__(self, header: str) -> None:
        self.paths: dict[str, str] = {"@id": header}
        self.gone: str | None = None
        self.has_processes = False
        self.mig_count = 0
        self.slices: list[str] = []
        self._open: list[str] = []

    def put(self, level: int, key: str, text: str | None) -> None:
        """Take one line. `level` counts from 0; a heading has no text."""
        del self._open[level:]
        self._open.append(key)
        if self._open[0] in _PROCESSES:
            self.has_processes = True
            return
        if self._open[0] == _SLICE:
            self._put_slice(level, key, text)
            return
        if not text:
            return
        if self.gone is None and classify(text) is Word.GONE:
            self.gone = text
        if len(self.paths) >= _MAX_KEYS:
            raise PartUnreadable("one GPU has more lines than nvidia-smi prints; send what nvidia-smi -q printed")
        self.paths.setdefault("/".join(self._open), text)

    def _put_slice(self, level: int, key: str, text: str | None) -> None:
        if level == 0 and text is None:
            self.mig_count += 1
        elif text and key.endswith("uuid") and text.startswith("MIG-"):
            self.slices.append(text)


class _Reader:
    """Takes the text line by line."""

    def __init__(self) -> None:
        self.heading: dict[str, str] = {}
        self.gpus: list[_Gpu] = []
        self.remarks = Remarks()
        self._has_banner = False

    def take(self, line: str) -> None:
        """Take one line. Raises PartUnreadable for a second document and for a line that is no part of one."""
        if not line or line.isspace():
            return
        if line.startswith(" "):
            self._take_indented(line)
        elif _BANNER.fullmatch(line.strip()):
            if self._has_banner:
                raise PartUnreadable("there are two documents in one part; send each in a report of its own")
            self._has_banner = True
        elif found := _GPU.fullmatch(line):
            if len(self.gpus) >= MAX_DEVICES:
                raise PartUnreadable(f"the text lists more than {MAX_DEVICES} GPUs, which no machine has")
            self.gpus.append(_Gpu(found[1]))
        elif not self.remarks.take(line):
            self._take_heading(line)

    def check_whole(self) -> None:
        """Raise PartUnreadable unless the text has its heading, no more GPUs than that says, and the last one's end."""
        attached = read_attached(self.heading.get("attached_gpus"))
        if not self._has_banner or attached is None:
            raise PartUnreadable(
                "this is not the whole output of nvidia-smi -q: its heading or 'Attached GPUs' is missing"
            )
        if len(self.gpus) > attached:
            raise PartUnreadable(f"{_counted(len(self.gpus), attached)}: there are two documents in one part; send one")
        if self.gpus and not self.gpus[-1].has_processes:
            raise PartUnreadable("the text stops within its last GPU: it is cut off; run nvidia-smi -q again")

    def _take_indented(self, line: str) -> None:
        if not self.gpus:
            raise PartUnreadable(f"{shown(line)} stands before the first GPU; send what nvidia-smi -q printed")
        indent = len(line) - len(line.lstrip(" "))
        key, text = _split(line)
        self.gpus[-1].put(min(max(indent // _INDENT - 1, 0), _MAX_LEVEL), key, text)

    def _take_heading(self, line: str) -> None:
        key, text = _split(line)
        if text is None or self.gpus or not self._has_banner:
            raise PartUnreadable(f"{shown(line)} is no line of nvidia-smi -q; send what it printed, and nothing else")
        if self.heading.setdefault(key, text) != text:
            raise PartUnreadable("there are two documents in one part; send each in a report of its own")


def _counted(found: int, attached: int) -> str:
    return f"the text holds {found} GPUs where 'Attached GPUs' says {attached}"


def _split(line: str) -> tuple[str, str | None]:
    """Return the key in our spelling and its text; a heading has none."""
    key, separator, text = f"{line.rstrip()} ".partition(_SEPARATOR)
    return _name(key[: 2 * _MAX_KEY]), text.strip() if separator else None


def _name(key: str) -> str:
    return key.strip()[:_MAX_KEY].casefold().replace(" ", "_").replace("-", "")


def _printed(gpu: _Gpu) -> Printed:
    texts = {**name_texts(gpu.paths, _TABLE), "mig_devices": str(gpu.mig_count)}
    return Printed(texts=texts, gone=gpu.gone or find_gone(texts), slices=tuple(gpu.slices))
