# SPDX-License-Identifier: Apache-2.0
"""Which EFAs are on the PCI bus (`lspci -Dnnvvv`), and which devices have fallen off it?

lspci knows no GPU's identity, so it lists EFAs only; a GPU is spoken of when it no longer answers. The "Device Serial
Number" capability names no board: one value stands on eleven functions of some switches. A serial in the vital product
data does, and stands on every function of its card: https://github.com/pciutils/pciutils/blob/master/ls-vpd.c
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from registry.collectors.nvidia_smi_text import shown
from registry.collectors.rdma import (
    DRIVER,
    LINK_CHECK,
    check_end,
    check_entries,
    check_value,
    efa_entry,
    is_efa,
    lines,
    read_text,
)
from registry.collectors.running import Runner
from registry.domain.errors import PartUnreadable
from registry.domain.identity import normalise_slot
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Inventory, Kind

_TOOL = "lspci -Dnnvvv"
_MAX_FUNCTIONS = 16_384

_HEADER = re.compile(r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]) (.*)")
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]|\bDevice ([0-9a-f]{4}):([0-9a-f]{4})\b")
_EFA_WORDS = re.compile(r": Amazon\.com, Inc\. (?:Elastic Fabric Adapter|Device (efa[0-9a-f])\b)")
"""What a vendor and product id become without `-nn`, with the id list of pciutils or before it knew the product."""
_GPU_CLASS = re.compile(r"(?:VGA compatible controller|3D controller)\b|\[030[02]\]")
_NVIDIA = re.compile(r"\[10de:[0-9a-f]{4}\]|: NVIDIA Corporation\b|\bDevice 10de:")
_ALL_ONES = re.compile(r"\(rev ff\)")
_NO_HEADER = "!!! Unknown header type"
_DRIVER = re.compile(r"\s+Kernel driver in use: (\S+)")
_SERIAL = re.compile(r"\s+\[SN\] Serial number: (.*)")
_REMARK = re.compile(r"(?:pcilib|lspci): |[0-9a-f]{2,3}: [0-9a-f]{2}\b")
"""Warnings of the tool, and the bytes that `-x` adds."""


@dataclass(slots=True)
class _Function:
    """One PCI function: its heading, and what of the lines below it is of use."""

    slot: str
    heading: str
    driver: str | None = None
    serial: str | None = None
    is_gone: bool = False


def collect(root: Path, run: Runner) -> Inventory:  # noqa: ARG001 - all collectors are called alike
    """Run the tool and read it. Raises ToolMissing, ToolFailed, PartUnreadable."""
    return parse(run(["lspci", "-Dnnvvv"]))


def parse(data: bytes) -> Inventory:
    """Return the EFAs on the bus. Output without `-D`, `-nn` or `-vvv` is read too and says less.

    An EFA that no longer answers fails `efa.link`, a GPU `gpu.responding`; nothing is said of those that do. What shows
    functions of NVIDIA alone was asked for those (`-d 10de:`), and is no list of EFAs. Raises PartUnreadable.
    """
    text = read_text(data, _TOOL)
    if "\n\t" in text:
        check_end(text, _TOOL)
    functions = _read_functions(text)
    efas = [function for function in functions if _is_efa(function)]
    entries = tuple(_entry(function) for function in efas)
    check_entries(entries, _TOOL)
    gone = [_gone(LINK_CHECK, "efa.link_down", function) for function in efas if function.is_gone]
    gone += [
        _gone("gpu.responding", "gpu.fallen_off_bus", function)
        for function in functions
        if function.is_gone and _NVIDIA.search(function.heading) and _GPU_CLASS.search(function.heading)
    ]
    is_list = not all(_NVIDIA.search(function.heading) for function in functions)
    return Inventory(kind=Kind.EFA, entries=entries, checks=tuple(gone), is_list=is_list)


def _read_functions(text: str) -> list[_Function]:
    functions: dict[str, _Function] = {}
    for function, line in _by_function(text):
        if functions.setdefault(function.slot, function) is not function:
            raise PartUnreadable(f"the slot {function.slot} is listed twice; send the output of one run of lspci")
        if len(functions) > _MAX_FUNCTIONS:
            raise PartUnreadable(f"the output lists more than {_MAX_FUNCTIONS} functions; send one run of lspci")
        _add_line(function, line)
    if not functions:
        raise PartUnreadable(f"no PCI function is listed; send what `{_TOOL}` printed")
    return list(functions.values())


def _by_function(text: str) -> Iterator[tuple[_Function, str]]:
    """Return each line with the function it belongs to, the heading included."""
    function = None
    for line in lines(text, _TOOL):
        found = _HEADER.fullmatch(line)
        slot = normalise_slot(found[1]) if found else None
        if found and slot is not None:
            function = _Function(slot, found[2])
        elif not line[0].isspace() and not _REMARK.match(line):
            raise PartUnreadable(f"lspci prints no such line: {shown(line)}; send what `{_TOOL}` printed")
        if function is not None:
            yield function, line


def _add_line(function: _Function, line: str) -> None:
    driver, serial = _DRIVER.fullmatch(line), _SERIAL.fullmatch(line)
    function.driver = driver[1] if driver else function.driver
    function.serial = serial[1].strip() if serial else function.serial
    if line.strip().startswith(_NO_HEADER) or _ALL_ONES.search(line):
        function.is_gone = True


def _is_efa(function: _Function) -> bool:
    vendor, product = _ids(function.heading)
    return is_efa(vendor, product, function.driver) or _EFA_WORDS.search(function.heading) is not None


def _ids(heading: str) -> tuple[int | None, int | None]:
    """Return vendor and product; the last pair in brackets, because a name may hold brackets too."""
    found = list(_IDS.finditer(heading))
    if not found:
        return None, None
    vendor, product = (text for text in found[-1].groups() if text)
    return int(vendor, 16), int(product, 16)


def _entry(function: _Function) -> DeviceEntry:
    _, product = _ids(function.heading)
    words = _EFA_WORDS.search(function.heading)
    if product is None and words is not None and words[1]:
        product = int(words[1], 16)
    serial = check_value("serial", function.serial, _TOOL) if function.serial else None
    entry = efa_entry(None, function.slot, product, serial=serial)
    return replace(entry, readings={"driver": DRIVER} if function.driver == DRIVER else {})


def _gone(check: str, code: str, function: _Function) -> CheckResult:
    message = f"{function.slot} does not answer on the PCI bus: lspci reads only ones from it"
    return CheckResult(check, CheckStatus.FAIL, device=function.slot, code=code, message=message)
