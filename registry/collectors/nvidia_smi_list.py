# SPDX-License-Identifier: Apache-2.0
"""Which GPUs does `nvidia-smi -L` list, and which places could it not reach?"""

from __future__ import annotations

import re

from registry.collectors.nvidia_smi import Heading, build_inventory, find_gone, read_complaints
from registry.collectors.nvidia_smi_checks import RESPONDING, Printed
from registry.collectors.nvidia_smi_text import MAX_DEVICES, MAX_TEXT, Remarks, decode, lines, shown
from registry.domain.errors import PartUnreadable
from registry.domain.reports import Inventory

_GPU = re.compile(r"GPU (\d{1,5}): (.+?) \((?:S/N: ([^()]+?)(?:, |\) \())?UUID: ([^()]+)\)")
_SLICE = re.compile(r"\s+MIG \S.*?: \(UUID: (MIG-[^()\s]+)\)")


def parse(data: bytes) -> Inventory:
    """Read the output of `nvidia-smi -L`: model, UUID and MIG slices of each GPU, no slots.

    A GPU that could not be reached is an entry with a slot only; its index is given to nobody. Where none could be,
    it is no list. Raises PartUnreadable for any line that is none of this, so that a list cut off in a line is refused.
    """
    text = decode(data)
    complaints = read_complaints(text)
    if complaints is not None:
        return complaints
    remarks = Remarks()
    gpus: dict[str, tuple[dict[str, str], list[str]]] = {}
    for line in lines(text):
        if remarks.take(line):
            continue
        _take(line.rstrip(), gpus)
    printed = [Printed(texts, find_gone(texts), tuple(slices)) for texts, slices in gpus.values()]
    return build_inventory(printed, remarks, Heading(), asked=frozenset({RESPONDING}))


def _take(line: str, gpus: dict[str, tuple[dict[str, str], list[str]]]) -> None:
    bounded = line[: 3 * MAX_TEXT]
    if gpus and (found := _SLICE.fullmatch(bounded)):
        next(reversed(gpus.values()))[1].append(found[1])
        return
    found = _GPU.fullmatch(bounded)
    if found is None:
        raise PartUnreadable(f"{shown(line)} is no line of nvidia-smi -L; send its whole output, and nothing else")
    index, model, serial, uuid = found.groups()
    if index in gpus:
        raise PartUnreadable(f"GPU {index} is listed twice: send the output of one run of nvidia-smi -L only")
    if len(gpus) >= MAX_DEVICES:
        raise PartUnreadable(f"the list has more than {MAX_DEVICES} GPUs, which no machine has")
    texts = {"index": index, "model": model, "uuid": uuid}
    gpus[index] = ({**texts, "serial": serial} if serial else texts, [])
