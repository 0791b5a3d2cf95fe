# SPDX-License-Identifier: Apache-2.0
"""What does NVIDIA itself say should be done about a code, and is a policy milder or stronger than that? Data first.

For Xids these are the buckets of immediate action in NVIDIA's Xid catalogue, for DCGM errors the severities of DCGM
4.6. Both speak of one fault seen once, so a policy has reasons to differ; it should know where it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from registry.domain.failures import Effect

XID_SOURCE = "https://docs.nvidia.com/deploy/xid-errors/"
DCGM_SOURCE = "https://github.com/NVIDIA/DCGM/blob/master/dcgmlib/src/dcgm_errors.c"

MEANT: Mapping[str, Effect] = MappingProxyType(
    {
        # Xid: what to do at once
        "IGNORE": Effect.RECORD,
        "RESTART_APP": Effect.RECORD,
        "CHECK_UVM": Effect.HOLD,
        "CHECK_MECHANICALS": Effect.HOLD,
        "UPDATE_SWFW": Effect.HOLD,
        "WORKFLOW_XID_45": Effect.RECORD,
        "WORKFLOW_XID_48": Effect.QUARANTINE,
        "WORKFLOW_NVLINK_ERR": Effect.HOLD,
        "WORKFLOW_NVLINK5_ERR": Effect.HOLD,
        "XID_154": Effect.RECORD,
        "RESET_GPU": Effect.QUARANTINE,
        "RESTART_BM": Effect.QUARANTINE,
        "RESTART_VM": Effect.QUARANTINE,
        "CONTACT_SUPPORT": Effect.PERMANENT,
        # DCGM: how bad it is
        "MONITOR": Effect.RECORD,
        "CONFIG": Effect.RECORD,
        "TRIAGE": Effect.HOLD,
        "RESET": Effect.QUARANTINE,
        "ISOLATE": Effect.PERMANENT,
    }
)
"""The effect that says the same as a word of NVIDIA's. What ends with a reset or a boot is a quarantine, what no reset
is said to end is permanent, what asks somebody to look is a hold."""

XID_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "IGNORE": "14 37 38 43 44 63 66 67 92 93 106 107 108 121 137 141 152 153 157 160 161",
        "RESTART_APP": (
            "8 11 13 25 31 32 39 40 41 60 68 69 70 71 72 75 76 77 80 82 83 84 85 86 88 89 94 96 97 98 99 100 101 102 "
            "103 104 105 126 127 128 129 130 131 132 133 134 135 139"
        ),
        "CHECK_UVM": "159",
        "CHECK_MECHANICALS": "54",
        "UPDATE_SWFW": "78",
        "WORKFLOW_XID_45": "45",
        "WORKFLOW_XID_48": "48",
        "WORKFLOW_NVLINK_ERR": "74",
        "WORKFLOW_NVLINK5_ERR": "144 145 146 147 148 149 150",
        "XID_154": "154",
        "RESET_GPU": "46 62 64 95 109 110 119 120 136 140 143 155 156 158",
        "RESTART_BM": "79",
        "RESTART_VM": "151",
        "CONTACT_SUPPORT": "142",
    }
)
"""The Xids of each bucket of immediate action."""

DCGM_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "ISOLATE": (
            "VOLATILE_DBE_DETECTED RETIRED_PAGES_LIMIT RETIRED_PAGES_DBE_LIMIT FAULTY_MEMORY CUDA_DBE MEMORY_MISMATCH "
            "L1TAG_MISCOMPARE SBE_VIOLATION DBE_VIOLATION SBE_THRESHOLD_VIOLATION DBE_THRESHOLD_VIOLATION NAN_VALUE "
            "SRAM_THRESHOLD NVLINK_ERROR_THRESHOLD NVLINK_CRC_ERROR_THRESHOLD NVLINK_ERROR_CRITICAL "
            "NVSWITCH_NVLINK_DOWN BROKEN_P2P_NVLINK_MEMORY_DEVICE BROKEN_P2P_NVLINK_WRITER_DEVICE "
            "NVLINK_EFFECTIVE_BER_THRESHOLD NVLINK_SYMBOL_BER_THRESHOLD NVSWITCH_FATAL_ERROR FIELD_VIOLATION "
            "BROKEN_P2P_MEMORY_DEVICE BROKEN_P2P_WRITER_DEVICE FALLEN_OFF_BUS GPU_RECOVERY_REBOOT PCI_REPLAY_RATE "
            "PCIE_H_REPLAY_VIOLATION PCIE_REPLAY_VIOLATION PCIE_REPLAY_THRESHOLD_VIOLATION "
            "BROKEN_P2P_PCIE_MEMORY_DEVICE BROKEN_P2P_PCIE_WRITER_DEVICE FIELD_THRESHOLD_TS FIELD_THRESHOLD_TS_DBL "
            "FIELD_VIOLATION_DBL FIELD_THRESHOLD_DBL EUD_TEST_FAILED NVML_LIB_BAD IMEX_UNHEALTHY UNCONTAINED_ERROR "
            "SXID_ERROR"
        ),
        "RESET": (
            "PENDING_PAGE_RETIREMENTS ROW_REMAP_FAILURE DBE_PENDING_PAGE_RETIREMENTS UNCORRECTABLE_ROW_REMAP "
            "PENDING_ROW_REMAP GPU_RECOVERY_RESET GPU_RECOVERY_DRAIN_P2P GPU_RECOVERY_DRAIN_RESET NCCL_ERROR "
            "GRAPHICS_PROCESSES"
        ),
        "TRIAGE": (
            "UNCORRECTABLE_ROW_REMAP_LIMIT NVLINK_DOWN GPU_EXPECTED_NVLINKS_UP NVSWITCH_EXPECTED_NVLINKS_UP "
            "CORRUPT_INFOROM LOW_BANDWIDTH HIGH_LATENCY PCIE_GENERATION TARGET_POWER UNSUPPORTED_FIELD_TYPE INTERNAL "
            "CANNOT_GET_STAT DCGM_API PAUSE_RESUME_FAILED STRESS_LEVEL MEMORY_BANDWIDTH GFLOPS_THRESHOLD_VIOLATION "
            "CUDA_UNBOUND CUDA_DEVICE CUDA_CONTEXT EUD_BINARY_PERMISSIONS EUD_NON_ROOT_USER EUD_SPAWN_FAILURE "
            "EUD_TIMEOUT EUD_ZOMBIE EUD_NON_ZERO_EXIT_CODE CANNOT_OPEN_LIB MEMORY_ALLOC API_FAIL API_FAIL_GPU "
            "MEMORY_ALLOC_HOST HAD_TO_RESTORE_STATE BINARY_PERMISSIONS RETEST_REQUESTED XID_ERROR"
        ),
        "MONITOR": (
            "VOLATILE_SBE_DETECTED ECC_PENDING NO_MEMORY_CLOCKS FABRIC_PROBE_STATE NVSWITCH_NON_FATAL_ERROR "
            "NVSWITCH_DOWN CLOCKS_EVENT_VIOLATION NO_GRAPHICS_CLOCKS POWER_UNREADABLE CLOCKS_EVENT_POWER "
            "CLOCKS_EVENT_THERMAL THERMAL_VIOLATIONS THERMAL_VIOLATIONS_TS TEMP_VIOLATION HOSTENGINE_CONN FIELD_QUERY "
            "CANNOT_GET_FIELD_TAG CANNOT_SET_WATCHES FIELD_THRESHOLD GPU_OP_MODE CUDA_API CUDA_FM_NOT_INITIALIZED "
            "NVML_API TOO_MANY_ERRORS CONTAINED_ERROR"
        ),
        "CONFIG": (
            "ECC_DISABLED ECC_UNSUPPORTED PCIE_WIDTH ENFORCED_POWER_LIMIT DENYLISTED_DRIVER TEST_DISABLED "
            "CONCURRENT_GPUS EMPTY_GPU_LIST FILE_CREATE_PERMISSIONS TEST_SKIPPED BAD_CUDA_ENV "
            "FABRIC_MANAGER_TRAINING_ERROR NO_ACCESS_TO_FILE DEVICE_COUNT_MISMATCH PERSISTENCE_MODE ABORTED "
            "L1TAG_UNSUPPORTED"
        ),
    }
)
"""The DCGM errors of each severity, without `DCGM_FR_`. Those of no known severity are left out."""

VENDOR: Mapping[str, str] = MappingProxyType(
    {
        **{f"xid_{number}": word for word, numbers in XID_WORDS.items() for number in numbers.split()},
        **{f"dcgm_{name.lower()}": word for word, names in DCGM_WORDS.items() for name in names.split()},
    }
)
"""NVIDIA's word for each code that has one."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A code whose effect is not what NVIDIA's word says."""

    code: str
    effect: Effect
    word: str
    meant: Effect
    source: str

    @property
    def is_milder(self) -> bool:
        """True when the policy does less than the word says."""
        return self.effect.rank < self.meant.rank


def differences_of(effects: Mapping[str, Effect]) -> list[Difference]:
    """Return every code of which an effect is milder or stronger than NVIDIA's word, in the order of the tables."""
    return [
        Difference(code, effects[code], word, MEANT[word], XID_SOURCE if code.startswith("xid_") else DCGM_SOURCE)
        for code, word in VENDOR.items()
        if code in effects and effects[code] is not MEANT[word]
    ]
