# SPDX-License-Identifier: Apache-2.0
"""What does NVML say about the GPUs of this machine, asked directly instead of through nvidia-smi?

NVML is the library that nvidia-smi itself asks; `nvidia-ml-py` (module `pynvml`, the extra `nvml`) speaks to it. Its
answers are put into the words of nvidia-smi, so that both readers make one list.
https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from ctypes import byref
from dataclasses import dataclass
from typing import Any

from registry.collectors.nvidia_smi import Heading, build_inventory, find_gone
from registry.collectors.nvidia_smi_checks import Printed
from registry.collectors.nvidia_smi_text import MAX_DEVICES, Remarks
from registry.domain.reports import Inventory


def collect() -> Inventory | None:
    """Return the list of this machine's GPUs; None where there is no `pynvml`, no driver or no GPU to be seen.

    Then nvidia-smi is to be asked, which says what is the matter. A GPU that does not answer stays in the list.
    Raises PartUnreadable for answers that cannot be true.
    """
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        return _read(nvml)
    finally:
        _ask(nvml, _Question("nvmlShutdown"))


def _read(nvml: Any) -> Inventory | None:
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError:
        return None
    if not 0 < count <= MAX_DEVICES:
        return None
    gpus = [_look_at(nvml, index) for index in range(count)]
    driver = _ask(nvml, _Question("nvmlSystemGetDriverVersion"))
    return build_inventory(gpus, Remarks(), Heading(attached=count, driver_version=driver))


def _look_at(nvml: Any, index: int) -> Printed:
    """Ask one GPU everything. Where even its handle is refused nothing is known but that it is there."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        return Printed(texts={}, gone=_word(nvml, error.value))
    texts = {"index": str(index), **{name: _ask(nvml, question, handle) for name, question in _QUESTIONS.items()}}
    for name, (constant, form) in _FIELDS.items():
        texts[name] = _ask_field(nvml, handle, constant, form)
    texts["sram_threshold_exceeded"] = _ask_sram(nvml, handle)
    slices = _slices(nvml, handle) if texts["mig_current"] == "Enabled" else ()
    texts["mig_devices"] = str(len(slices))
    return Printed(texts=texts, gone=find_gone(texts), slices=slices)


# --- how it is asked ------------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    """Write an answer as text; older versions of `pynvml` give bytes."""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def _switch(value: object) -> str:
    """Write the first of a pair of states: what is, not what will be after a reset."""
    is_on = value[0] if isinstance(value, list | tuple) else value
    return "Enabled" if is_on else "Disabled"


def _yes(value: object) -> str:
    return "Yes" if value else "No"


@dataclass(frozen=True, slots=True)
class _Question:
    """A function of NVML with the names of the constants it takes, and how its answer is written."""

    function: str
    constants: tuple[str, ...] = ()
    form: Callable[[Any], str] = _text


def _ecc(error: str, era: str) -> _Question:
    return _Question("nvmlDeviceGetTotalEccErrors", (f"NVML_MEMORY_ERROR_TYPE_{error}", f"NVML_{era}_ECC"))


def _pages(cause: str) -> _Question:
    return _Question(
        "nvmlDeviceGetRetiredPages", (f"NVML_PAGE_RETIREMENT_CAUSE_{cause}",), lambda pages: str(len(pages))
    )


_ROWS = "nvmlDeviceGetRemappedRows"
_SRAM = "nvmlDeviceGetSramEccErrorStatus"

_QUESTIONS: Mapping[str, _Question] = {
    "serial": _Question("nvmlDeviceGetSerial"),
    "uuid": _Question("nvmlDeviceGetUUID"),
    "model": _Question("nvmlDeviceGetName"),
    "vbios": _Question("nvmlDeviceGetVbiosVersion"),
    "inforom": _Question("nvmlDeviceGetInforomImageVersion"),
    "part_number": _Question("nvmlDeviceGetBoardPartNumber"),
    "module_id": _Question("nvmlDeviceGetModuleId"),
    "slot": _Question("nvmlDeviceGetPciInfo", form=lambda pci: _text(pci.busId)),
    "minor": _Question("nvmlDeviceGetMinorNumber"),
    "multigpu_board": _Question("nvmlDeviceGetMultiGpuBoard", form=_yes),
    "board_id": _Question("nvmlDeviceGetBoardId", form=lambda number: f"{number:#x}"),
    "mig_current": _Question("nvmlDeviceGetMigMode", form=_switch),
    "ecc_mode": _Question("nvmlDeviceGetEccMode", form=_switch),
    "ecc_volatile_corrected": _ecc("CORRECTED", "VOLATILE"),
    "ecc_volatile_uncorrected": _ecc("UNCORRECTED", "VOLATILE"),
    "ecc_aggregate_corrected": _ecc("CORRECTED", "AGGREGATE"),
    "ecc_aggregate_uncorrected": _ecc("UNCORRECTED", "AGGREGATE"),
    "retired_sbe": _pages("MULTIPLE_SINGLE_BIT_ECC_ERRORS"),
    "retired_dbe": _pages("DOUBLE_BIT_ECC_ERROR"),
    "retired_pending": _Question("nvmlDeviceGetRetiredPagesPendingStatus", form=_yes),
    "remap_corrected": _Question(_ROWS, form=lambda rows: str(rows[0])),
    "remap_uncorrected": _Question(_ROWS, form=lambda rows: str(rows[1])),
    "remap_pending": _Question(_ROWS, form=lambda rows: _yes(rows[2])),
    "remap_failure": _Question(_ROWS, form=lambda rows: _yes(rows[3])),
    "temperature_celsius": _Question("nvmlDeviceGetTemperature", ("NVML_TEMPERATURE_GPU",)),
    "power_watts": _Question("nvmlDeviceGetPowerUsage", form=lambda milliwatts: f"{milliwatts / 1000:.2f}"),
    "utilization_percent": _Question("nvmlDeviceGetUtilizationRates", form=lambda rates: str(rates.gpu)),
}
"""What a GPU is asked, under the names of the texts that nvidia-smi prints."""

_RECOVERY_ACTIONS = {0: "None", 1: "Reset", 2: "Reboot", 3: "Drain P2P", 4: "Drain and Reset"}
"""`nvmlDeviceGpuRecoveryAction_t` in nvidia-smi's words; a later one is shown as its number, which asks for no less."""

_FIELDS: Mapping[str, tuple[str, Callable[[int], str]]] = {
    "recovery_action": (
        "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
        lambda number: _RECOVERY_ACTIONS.get(number, f"number {number}"),
    ),
    "memory_temperature_celsius": ("NVML_FI_DEV_MEMORY_TEMP", str),
}
"""What has no function of its own and is asked by the number of a field."""


def _ask(nvml: Any, question: _Question, *handle: object) -> str:
    """Return the answer as nvidia-smi would print it, or the words that it prints in the place of one."""
    function = getattr(nvml, question.function, None)
    constants = [getattr(nvml, name, None) for name in question.constants]
    if function is None or None in constants:
        return _ABSENT
    try:
        answer = function(*handle, *constants)
    except nvml.NVMLError as error:
        return _word(nvml, error.value)
    return question.form(answer)


def _ask_field(nvml: Any, handle: object, constant: str, form: Callable[[int], str]) -> str:
    field = getattr(nvml, constant, None)
    if field is None:
        return _ABSENT
    try:
        (answer,) = nvml.nvmlDeviceGetFieldValues(handle, [field])
    except nvml.NVMLError as error:
        return _word(nvml, error.value)
    return form(answer.value.uiVal) if answer.nvmlReturn == nvml.NVML_SUCCESS else _word(nvml, answer.nvmlReturn)


def _ask_sram(nvml: Any, handle: object) -> str:
    """Ask whether the SRAM is over its threshold; the answer comes in a structure, from driver 550 on."""
    form, function = (getattr(nvml, name, None) for name in ("c_nvmlEccSramErrorStatus_v1_t", _SRAM))
    if form is None or function is None:
        return _ABSENT
    status = form()
    try:
        function(handle, byref(status))
    except nvml.NVMLError as error:
        return _word(nvml, error.value)
    return _yes(status.bThresholdExceeded)


def _slices(nvml: Any, handle: object) -> tuple[str, ...]:
    """Name the MIG slices of a GPU. Places without a slice are skipped."""
    most = _ask(nvml, _Question("nvmlDeviceGetMaxMigDeviceCount"), handle)
    found = []
    for index in range(int(most) if most.isdecimal() else 0):
        try:
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nvml.NVMLError:
            continue
        name = _ask(nvml, _QUESTIONS["uuid"], part)
        found += [name] if name.startswith("MIG-") else []
    return tuple(found)


_ABSENT = "Function Not Found"

_WORDS: Mapping[str, str] = {
    "NVML_ERROR_NOT_SUPPORTED": "N/A",
    "NVML_ERROR_VGPU_ECC_NOT_SUPPORTED": "N/A",
    "NVML_ERROR_NO_PERMISSION": "Insufficient Permissions",
    "NVML_ERROR_TIMEOUT": "Timeout",
    "NVML_ERROR_FUNCTION_NOT_FOUND": _ABSENT,
    "NVML_ERROR_ARGUMENT_VERSION_MISMATCH": _ABSENT,
    "NVML_ERROR_DEPRECATED": "Requested functionality has been deprecated",
    "NVML_ERROR_GPU_IS_LOST": "GPU is lost",
    "NVML_ERROR_RESET_REQUIRED": "GPU requires reset",
}
"""Errors with a word of their own: https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html"""


def _word(nvml: Any, code: int) -> str:
    """Give the words that nvidia-smi prints for an error in the place of a value."""
    return next((word for name, word in _WORDS.items() if getattr(nvml, name, None) == code), "Unknown Error")
