# SPDX-License-Identifier: Apache-2.0
"""Which error does DCGM mean by a number, a name or a sentence, and whose fault is it?

Numbers, names, severities and sentences are those of `dcgmlib/dcgm_errors.h` (DCGM 4.6, whose list only ever grew):
https://github.com/NVIDIA/DCGM/blob/master/dcgmlib/dcgm_errors.h
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from registry.domain.failures import CATALOGUE, Cause, Effect

NAMES: tuple[str, ...] = tuple(
    """
    OK UNKNOWN UNRECOGNIZED PCI_REPLAY_RATE VOLATILE_DBE_DETECTED VOLATILE_SBE_DETECTED PENDING_PAGE_RETIREMENTS
    RETIRED_PAGES_LIMIT RETIRED_PAGES_DBE_LIMIT CORRUPT_INFOROM CLOCKS_EVENT_THERMAL POWER_UNREADABLE
    CLOCKS_EVENT_POWER NVLINK_ERROR_THRESHOLD NVLINK_DOWN NVSWITCH_FATAL_ERROR NVSWITCH_NON_FATAL_ERROR NVSWITCH_DOWN
    NO_ACCESS_TO_FILE NVML_API DEVICE_COUNT_MISMATCH BAD_PARAMETER CANNOT_OPEN_LIB DENYLISTED_DRIVER NVML_LIB_BAD
    GRAPHICS_PROCESSES HOSTENGINE_CONN FIELD_QUERY BAD_CUDA_ENV PERSISTENCE_MODE LOW_BANDWIDTH HIGH_LATENCY
    CANNOT_GET_FIELD_TAG FIELD_VIOLATION FIELD_THRESHOLD FIELD_VIOLATION_DBL FIELD_THRESHOLD_DBL
    UNSUPPORTED_FIELD_TYPE FIELD_THRESHOLD_TS FIELD_THRESHOLD_TS_DBL THERMAL_VIOLATIONS THERMAL_VIOLATIONS_TS
    TEMP_VIOLATION CLOCKS_EVENT_VIOLATION INTERNAL PCIE_GENERATION PCIE_WIDTH ABORTED TEST_DISABLED CANNOT_GET_STAT
    STRESS_LEVEL CUDA_API FAULTY_MEMORY CANNOT_SET_WATCHES CUDA_UNBOUND ECC_DISABLED MEMORY_ALLOC CUDA_DBE
    MEMORY_MISMATCH CUDA_DEVICE ECC_UNSUPPORTED ECC_PENDING MEMORY_BANDWIDTH TARGET_POWER API_FAIL API_FAIL_GPU
    CUDA_CONTEXT DCGM_API CONCURRENT_GPUS TOO_MANY_ERRORS NVLINK_CRC_ERROR_THRESHOLD NVLINK_ERROR_CRITICAL
    ENFORCED_POWER_LIMIT MEMORY_ALLOC_HOST GPU_OP_MODE NO_MEMORY_CLOCKS NO_GRAPHICS_CLOCKS HAD_TO_RESTORE_STATE
    L1TAG_UNSUPPORTED L1TAG_MISCOMPARE ROW_REMAP_FAILURE UNCONTAINED_ERROR EMPTY_GPU_LIST DBE_PENDING_PAGE_RETIREMENTS
    UNCORRECTABLE_ROW_REMAP PENDING_ROW_REMAP BROKEN_P2P_MEMORY_DEVICE BROKEN_P2P_WRITER_DEVICE NVSWITCH_NVLINK_DOWN
    EUD_BINARY_PERMISSIONS EUD_NON_ROOT_USER EUD_SPAWN_FAILURE EUD_TIMEOUT EUD_ZOMBIE EUD_NON_ZERO_EXIT_CODE
    EUD_TEST_FAILED FILE_CREATE_PERMISSIONS PAUSE_RESUME_FAILED PCIE_H_REPLAY_VIOLATION GPU_EXPECTED_NVLINKS_UP
    NVSWITCH_EXPECTED_NVLINKS_UP XID_ERROR SBE_VIOLATION DBE_VIOLATION PCIE_REPLAY_VIOLATION SBE_THRESHOLD_VIOLATION
    DBE_THRESHOLD_VIOLATION PCIE_REPLAY_THRESHOLD_VIOLATION CUDA_FM_NOT_INITIALIZED SXID_ERROR
    GFLOPS_THRESHOLD_VIOLATION NAN_VALUE FABRIC_MANAGER_TRAINING_ERROR BROKEN_P2P_PCIE_MEMORY_DEVICE
    BROKEN_P2P_PCIE_WRITER_DEVICE BROKEN_P2P_NVLINK_MEMORY_DEVICE BROKEN_P2P_NVLINK_WRITER_DEVICE TEST_SKIPPED
    SRAM_THRESHOLD NVLINK_EFFECTIVE_BER_THRESHOLD FALLEN_OFF_BUS NVLINK_SYMBOL_BER_THRESHOLD IMEX_UNHEALTHY
    FABRIC_PROBE_STATE BINARY_PERMISSIONS GPU_RECOVERY_RESET GPU_RECOVERY_REBOOT GPU_RECOVERY_DRAIN_P2P
    GPU_RECOVERY_DRAIN_RESET NCCL_ERROR RETEST_REQUESTED CONTAINED_ERROR UNCORRECTABLE_ROW_REMAP_LIMIT
    """.split()  # noqa: SIM905 - a hundred and thirty quoted words are harder to compare with the source
)
"""Every error, its number being its place; without the `DCGM_FR_` in front."""

_OLD_NAMES = {
    "CLOCK_THROTTLE_THERMAL": "CLOCKS_EVENT_THERMAL",
    "CLOCK_THROTTLE_POWER": "CLOCKS_EVENT_POWER",
    "THROTTLING_VIOLATION": "CLOCKS_EVENT_VIOLATION",
    "BLACKLISTED_DRIVER": "DENYLISTED_DRIVER",
}
"""What DCGM 3 called four of them."""

_SENTENCES: Mapping[str, str] = {
    "volatile double-bit ecc error": "VOLATILE_DBE_DETECTED",
    "single-bit ecc error": "VOLATILE_SBE_DETECTED",
    "pending retired page": "PENDING_PAGE_RETIREMENTS",
    "pending page retirements together with a dbe": "DBE_PENDING_PAGE_RETIREMENTS",
    "retired pages due to dbes": "RETIRED_PAGES_DBE_LIMIT",
    "or more retired pages have been detected": "RETIRED_PAGES_LIMIT",
    "row remapping failed": "ROW_REMAP_FAILURE",
    "rows were remapped": "UNCORRECTABLE_ROW_REMAP",
    "row remappings are pending": "PENDING_ROW_REMAP",
    "uncontained error": "UNCONTAINED_ERROR",
    "corrupt inforom": "CORRUPT_INFOROM",
    "pcie replays per minute": "PCI_REPLAY_RATE",
    "nvlinks are up out of the expected": "GPU_EXPECTED_NVLINKS_UP",
    "nvlink errors found occuring per second": "NVLINK_CRC_ERROR_THRESHOLD",
    "nvlink which exceeds threshold": "NVLINK_ERROR_THRESHOLD",
    "nvlink (should be 0)": "NVLINK_ERROR_CRITICAL",
    "detected fatal errors on nvswitch": "NVSWITCH_FATAL_ERROR",
    "detected nonfatal errors on nvswitch": "NVSWITCH_NON_FATAL_ERROR",
    "detected fatal nvswitch sxid": "SXID_ERROR",
    "due to thermal violation": "CLOCKS_EVENT_THERMAL",
    "due to power violation": "CLOCKS_EVENT_POWER",
    "cannot reliably read the power usage": "POWER_UNREADABLE",
    "fallen off the bus": "FALLEN_OFF_BUS",
}
"""Words, in lower case, by which a sentence of a health watch is known: a watch prints no numbers."""

_NVLINK_DOWN = re.compile(r"gpu \d+'s nvlink link \d+ is currently down")


class Severity(IntEnum):
    """How bad DCGM says an error is: `dcgmErrorSeverity_t`."""

    NONE = 0
    MONITOR = 1
    ISOLATE = 2
    UNKNOWN = 3
    TRIAGE = 4
    CONFIG = 5
    RESET = 6


class Grade(StrEnum):
    """Whose fault an error is."""

    FAULT = "fault"
    """The device's, as far as anybody can tell."""
    WATCH = "watch"
    """Nobody's yet: the device can work, and is to be watched."""
    SETTING = "setting"
    """The node's: a setting, the same on every device of every node that was set up so."""
    TOOL = "tool"
    """The diagnostic's own: it could not look, and has seen nothing."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """One warning of DCGM. `name` is None for an error that it did not name, `severity` for one it did not grade."""

    text: str
    name: str | None = None
    severity: int | None = None
    category: int | None = None

    @property
    def own_code(self) -> str | None:
        """Our code of the very error that DCGM named."""
        return None if self.name is None else f"dcgm_{self.name.lower()}"


def name_error(said: object) -> str | None:
    """Return the name of an error given by number, as a number or a text, or by name; None for one that is not known.

    What is named and not in the list is a newer error: it keeps its name.
    """
    if isinstance(said, str):
        text = said.strip().upper().removeprefix("DCGM_FR_")
        if not text.isdecimal():
            text = _OLD_NAMES.get(text, text)
            return text if re.fullmatch(r"[A-Z][A-Z0-9_]{1,50}", text) else None
        said = int(text[:9])
    if isinstance(said, int) and not isinstance(said, bool) and 0 <= said < len(NAMES):
        return NAMES[said]
    return None


def names_in(sentence: str) -> tuple[str, ...]:
    """Return the errors that a sentence of a health watch speaks of, in the order of our list."""
    text = sentence.casefold()
    found = [name for words, name in _SENTENCES.items() if words in text]
    return tuple(dict.fromkeys([*found, *(["NVLINK_DOWN"] if _NVLINK_DOWN.search(text) else [])]))


def grade(complaint: Complaint) -> Grade:
    """Say whose fault it is. DCGM's own grading decides, where there is one; an error without any is a fault."""
    if complaint.severity == Severity.CONFIG:
        return Grade.SETTING
    if complaint.severity == Severity.MONITOR:
        return Grade.WATCH
    if complaint.severity in (Severity.ISOLATE, Severity.RESET, None):
        return Grade.FAULT
    row = CATALOGUE.get(complaint.own_code or "")
    # The catalogue keeps as a mere record of the platform what says only that the tool itself failed.
    is_tool = row is not None and row.cause is Cause.PLATFORM and row.effect is Effect.RECORD
    return Grade.TOOL if is_tool else Grade.FAULT


def code_of(complaint: Complaint) -> str:
    """Give the code of a fault.

    An error that DCGM grades worse here than its list does, or that it does not name, is a failed diagnostic.
    """
    row = CATALOGUE.get(complaint.own_code or "")
    is_understated = row is not None and not row.effect.is_blocking and complaint.severity is not None
    if complaint.own_code is None or complaint.name in ("OK", None) or is_understated:
        return "gpu.diag_failed"
    return complaint.own_code


def holds_node(complaint: Complaint) -> bool:
    """Tell whether a setting or a remark keeps the whole node from its work, though it is no device's fault."""
    row = CATALOGUE.get(complaint.own_code or "")
    return row is not None and row.cause is Cause.PLATFORM and row.effect.is_blocking
