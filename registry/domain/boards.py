# SPDX-License-Identifier: Apache-2.0
"""Which models put several GPUs on one board, so that several UUIDs under one serial are nothing strange?"""

from __future__ import annotations

import re

from registry.domain.reports import DeviceEntry

MULTI_UNIT_MODELS: dict[tuple[str, ...], int] = {
    # "Physical GPUs per board" in https://docs.nvidia.com/vgpu/latest/grid-vgpu-user-guide/ (virtual GPU types).
    ("m10",): 4,
    ("m60",): 2,
    ("a16",): 4,
    # The same table in the guide for GRID vGPU 4.1, DU-06920-001.
    ("grid", "k1"): 4,
    ("grid", "k2"): 2,
    # https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/tesla-product-literature/TeslaK80-datasheet.pdf
    ("tesla", "k10"): 2,
    ("tesla", "k80"): 2,
    # One superchip board has two GPUs, and both print its serial: https://www.nvidia.com/en-us/data-center/gb200-nvl72/
    ("gb200",): 2,
    ("gb300",): 2,
    # One module of two dies, each a GPU to the driver: https://rocm.docs.amd.com/en/latest/reference/gpu-arch/mi250.html
    ("mi250",): 2,
    ("mi250x",): 2,
}
"""Words of a model's name, in order, and how many GPUs one board of it carries."""


def board_carries_several(model: str | None) -> bool:
    """Return True when the model is known to put several GPUs on one board, however the maker's name is written."""
    words = tuple(re.findall(r"[a-z0-9]+", (model or "").lower()))
    return any(words[at : at + len(wanted)] == wanted for wanted in MULTI_UNIT_MODELS for at in range(len(words)))


def entry_says_several(entry: DeviceEntry) -> bool:
    """Return True when the entry's model says so, or nvidia-smi's own flag. Its No is no answer: GB200 prints it."""
    return str(entry.readings.get("multigpu_board", "")).strip().lower() in {"yes", "true"} or board_carries_several(
        entry.model
    )
