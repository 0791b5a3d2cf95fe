# SPDX-License-Identifier: Apache-2.0
"""What does `nvidia-smi -q -x` say about the GPUs of this machine?

The element names are those of the document type definitions that NVIDIA ships with the driver,
`nvsmi_device_v9.dtd` to `nvsmi_device_v13.dtd`; drivers before 430 name none.
"""

from __future__ import annotations

import re
from itertools import chain
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

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
from registry.domain.reports import Inventory, Notice

_ROOT = "nvidia_smi_log"
_END = f"</{_ROOT}>"
_VERSION = re.compile(r'<!DOCTYPE\s+nvidia_smi_log\s+SYSTEM\s+["\']([^"\'<>]{0,80})["\']')
_KNOWN_VERSION = re.compile(r"nvsmi_device_v(?:[1-9]|1[0-3])\.dtd")

_LONG_TAG = re.compile(r"<[^<>]{4096}")
"""Thousands of attributes cost more memory than the bytes they are made of; nvidia-smi makes one."""
_MAX_DEPTH = 32
_MAX_TAG = 64
_MAX_ELEMENTS = 1_000_000
"""A GPU takes about 550 elements, with a long list of clocks up to 1,000; so this is a thousand GPUs."""
_MAX_ECC_COUNTERS = 64

_TABLE = {
    "serial": ("serial",),
    "uuid": ("uuid",),
    "model": ("product_name",),
    "vbios": ("vbios_version",),
    "inforom": ("inforom_version/img_version",),
    # Until driver 510 gpu_part_number was the board's; since then it is the chip's and the board has its own.
    "part_number": ("board_part_number", "gpu_part_number"),
    "module_id": ("platformInfo/module_id", "gpu_module_id", "module_id"),
    "slot": ("pci/pci_bus_id",),
    "slot_header": ("@id",),
    "minor": ("minor_number",),
    "architecture": ("product_architecture",),
    "multigpu_board": ("multigpu_board",),
    "board_id": ("board_id",),
    "chassis_serial": ("platformInfo/chassis_serial_number",),
    "slot_number": ("platformInfo/slot_number",),
    "tray_index": ("platformInfo/tray_index",),
    "virtualization": ("gpu_virtualization_mode/virtualization_mode",),
    "recovery_action": ("gpu_recovery_action",),
    "mig_current": ("mig_mode/current_mig",),
    "ecc_mode": ("ecc_mode/current_ecc",),
    "sram_threshold_exceeded": ("ecc_errors/aggregate/sram_threshold_exceeded",),
    "retired_sbe": ("retired_pages/multiple_single_bit_retirement/retired_count",),
    "retired_dbe": ("retired_pages/double_bit_retirement/retired_count",),
    "retired_pending": ("retired_pages/pending_retirement", "retired_pages/pending_blacklist"),
    "remap_corrected": ("remapped_rows/remapped_row_corr",),
    "remap_uncorrected": ("remapped_rows/remapped_row_unc",),
    "remap_pending": ("remapped_rows/remapped_row_pending",),
    "remap_failure": ("remapped_rows/remapped_row_failure",),
    "temperature_celsius": ("temperature/gpu_temp",),
    "memory_temperature_celsius": ("temperature/memory_temp",),
    # One figure until driver 530; since then two, of which the average is not there on every part.
    "power_watts": (
        *("gpu_power_readings/instant_power_draw", "gpu_power_readings/average_power_draw"),
        *("gpu_power_readings/power_draw", "power_readings/power_draw"),
    ),
    "utilization_percent": ("utilization/gpu_util",),
}
"""Where the texts stand below `gpu`, under our names."""

_PATHS = frozenset(path for paths in _TABLE.values() for path in paths)
_BLOCKS = frozenset(path.rpartition("/")[0] for path in _PATHS) | {"ecc_errors", "ecc_errors/volatile"}
_WANTED = _PATHS | _BLOCKS | {"ecc_errors/aggregate"}
_SLICE = "mig_devices/mig_device"
_PROCESSES = ("processes", "accounted_processes")


def parse(data: bytes) -> Inventory:
    """Read the output of `nvidia-smi -q -x`.

    A document of an unknown version is read for what is found in it. One that ends well but lists fewer GPUs than it
    counts is a partial inventory; complaints in place of a document are no list. Raises PartUnreadable when the
    document is cut off, is not the only one, declares entities, or is something else.
    """
    text = decode(data)
    complaints = read_complaints(text)
    if complaints is not None:
        return complaints
    remarks = Remarks()
    document = _cut_out(text, remarks)
    reader = _Reader()
    _feed(document, reader)
    attached = read_attached(reader.heading.get("attached_gpus"))
    if not reader.gpus and attached is None:
        raise PartUnreadable(
            "the document lists no GPU and does not say how many there are; run nvidia-smi -q -x again"
        )
    heading = Heading(
        attached=attached,
        stamp=reader.heading.get("timestamp"),
        driver_version=reader.heading.get("driver_version"),
        notices=_version_notices(document),
    )
    return build_inventory((_printed(gpu) for gpu in reader.gpus), remarks, heading)


def _cut_out(text: str, remarks: Remarks) -> str:
    """Return the document alone; what stands before and after it must be remarks of the tool."""
    if re.search(r"&(?:lt|#60|#x3c);\s*(?:\?xml|!DOCTYPE|nvidia_smi_log)", text[:4096], re.IGNORECASE):
        raise PartUnreadable("the document is HTML-escaped (&lt; in place of <); send it as nvidia-smi printed it")
    start, end = text.find("<"), text.find(_END)
    if start < 0 or f"<{_ROOT}" not in text:
        raise PartUnreadable("this is not a document of nvidia-smi -q -x: it has no nvidia_smi_log element")
    if end < 0:
        raise PartUnreadable(f"the document is cut off: it does not end with {_END}; run nvidia-smi -q -x again")
    before, after = text[:start], text[end + len(_END) :]
    if f"<{_ROOT}" in after or "<?xml" in after:
        raise PartUnreadable("there are two documents in one part; send each in a report of its own")
    for line in chain(lines(before), lines(after)):
        if not remarks.take(line):
            raise PartUnreadable(f"{shown(line)} stands beside the document; send only what nvidia-smi printed")
    return text[start : end + len(_END)]


def _feed(document: str, reader: _Reader) -> None:
    if _LONG_TAG.search(document):
        raise PartUnreadable("the document holds a tag longer than nvidia-smi makes any; nothing of it was read")
    # Real documents name an external DTD, which is never fetched; entities have no place in them and are refused.
    parser = DefusedXMLParser(target=reader, forbid_dtd=False, forbid_entities=True, forbid_external=True)
    try:
        parser.feed(document)
        parser.close()
    except DefusedXmlException as error:
        raise PartUnreadable("the document declares entities, which nvidia-smi never does; nothing was read") from error
    except ParseError as error:
        raise PartUnreadable(f"the document is not well-formed XML ({error}); run nvidia-smi -q -x again") from error
    except UnicodeError as error:
        raise PartUnreadable(
            "the document holds characters that XML does not allow; run nvidia-smi -q -x again"
        ) from error


def _version_notices(document: str) -> tuple[Notice, ...]:
    found = _VERSION.search(document[:1024])
    if found is None or _KNOWN_VERSION.fullmatch(found[1]):
        return ()
    message = f"document type {shown(found[1])} is not known here; what was found in it was read"
    return (Notice("unknown_document_version", message),)


class _Gpu:
    """The wanted texts of one `gpu` element."""

    __slots__ = ("ecc_count", "gone", "mig_count", "paths", "slices")

    def __init__(self, header: str | None) -> None:
        self.paths: dict[str, str] = {} if header is None else {"@id": header}
        self.gone: str | None = None
        self.slices: list[str] = []
        self.mig_count = 0
        self.ecc_count = 0

    def put(self, path: str, text: str) -> None:
        """Keep the text if the path is wanted; the first of several stays."""
        if self.gone is None and classify(text) is Word.GONE and not path.startswith(_PROCESSES):
            self.gone = text
        if path == f"{_SLICE}/uuid":
            self.slices.append(text)
        elif path in _WANTED:
            self.paths.setdefault(path, text)
        elif path.startswith("ecc_errors/") and self.ecc_count < _MAX_ECC_COUNTERS:
            self.ecc_count += 1
            self.paths.setdefault(path, text)


class _Reader:
    """Keeps what is wanted while the document streams by, so that memory follows the GPUs and not the bytes."""

    def __init__(self) -> None:
        self.heading: dict[str, str] = {}
        self.gpus: list[_Gpu] = []
        self._open: list[str] = []
        self._paths: list[str] = []
        self._text: list[str] = []
        self._count = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Take note of an element that begins. Raises PartUnreadable for what no such document holds."""
        self._count += 1
        depth = len(self._open)
        if self._count > _MAX_ELEMENTS or depth >= _MAX_DEPTH or len(tag) > _MAX_TAG:
            raise PartUnreadable("the document is larger or deeper than nvidia-smi makes any; nothing of it was read")
        if depth == 0 and tag != _ROOT:
            raise PartUnreadable(f"this is not a document of nvidia-smi -q -x: its root element is {shown(tag)}")
        self._open.append(tag)
        self._text.clear()
        if depth < 2:
            self._paths.append("")
        else:
            above = self._paths[-1]
            self._paths.append(f"{above}/{tag}" if above else tag)
        if depth == 1 and tag == "gpu":
            self._begin_gpu(attributes.get("id"))
        elif self._in_gpu() and self._paths[-1] == _SLICE:
            self.gpus[-1].mig_count += 1

    def data(self, data: str) -> None:
        """Take a piece of text."""
        self._text.append(data)

    def end(self, tag: str) -> None:
        """Take the text of an element that ends."""
        text = "".join(self._text).strip()
        path = self._paths[-1]
        if text and len(self._open) == 2 and tag != "gpu":
            self.heading.setdefault(tag, text)
        elif text and path and self._in_gpu():
            self.gpus[-1].put(path, text)
        self._text.clear()
        self._open.pop()
        self._paths.pop()

    def close(self) -> None:
        """Nothing is left to do at the end."""

    def _in_gpu(self) -> bool:
        return len(self._open) > 1 and self._open[1] == "gpu"

    def _begin_gpu(self, header: str | None) -> None:
        if len(self.gpus) >= MAX_DEVICES:
            raise PartUnreadable(f"the document lists more than {MAX_DEVICES} GPUs, which no machine has")
        self.gpus.append(_Gpu(header))


def _printed(gpu: _Gpu) -> Printed:
    texts = {**name_texts(gpu.paths, _TABLE), "mig_devices": str(gpu.mig_count)}
    return Printed(texts=texts, gone=gpu.gone or find_gone(texts), slices=tuple(gpu.slices))
