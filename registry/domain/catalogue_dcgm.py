# SPDX-License-Identifier: Apache-2.0
"""Which errors does DCGM name, and what is the policy for each? Data only.

Names, severities and categories are those of DCGM 4.6 (`dcgmlib/src/dcgm_errors.c`); a code here is the name in
lower case, `DCGM_FR_` replaced by `dcgm_`. The policy follows DCGM's severity, so that its own grading decides:

    ISOLATE, hardware           permanent: the vendor's tool says the device must not be used, a person answers
    ISOLATE, not proven so      quarantine
    RESET                       quarantine: ends with the reset it asks for and clean runs
    TRIAGE                      hold: somebody should look
    MONITOR, CONFIG             record; CONFIG is the node's setting and never a device's fault
    the tool itself failed      record: it has seen nothing, the check is `unknown`

Exceptions keep families together and stand in groups of their own, each with its reason. The names that begin with
`HEALTH_` are ours: health watches print sentences, and not every sentence is known.
"""

from __future__ import annotations

from collections.abc import Mapping

from registry.domain.catalogue import Group

_SOURCES = ("https://github.com/NVIDIA/DCGM/blob/master/dcgmlib/src/dcgm_errors.c",)


def _group(cause: str, severity: str, effect: str, first_action: str, titles: Mapping[str, str]) -> Group:
    codes = {f"dcgm_{name.lower()}": title for name, title in titles.items()}
    return Group(cause, severity, effect, first_action, codes, _SOURCES)


DCGM_GROUPS: tuple[Group, ...] = (
    # ISOLATE, HARDWARE_MEMORY.
    _group(
        "hardware",
        "fatal",
        "permanent",
        "return_device",
        {
            "VOLATILE_DBE_DETECTED": "Uncorrectable memory errors since the last reset",
            "RETIRED_PAGES_LIMIT": "More memory pages are retired than allowed",
            "RETIRED_PAGES_DBE_LIMIT": "More memory pages are retired for uncorrectable errors than allowed",
            "FAULTY_MEMORY": "A memory test read back other data than it wrote",
            "CUDA_DBE": "A test met an uncorrectable memory error",
            "MEMORY_MISMATCH": "Memory held other data than expected",
            "L1TAG_MISCOMPARE": "A first-level cache compared wrongly",
            "SBE_VIOLATION": "Corrected memory errors during a test",
            "DBE_VIOLATION": "Uncorrectable memory errors during a test",
            "SBE_THRESHOLD_VIOLATION": "More corrected memory errors than allowed",
            "DBE_THRESHOLD_VIOLATION": "More uncorrectable memory errors than allowed",
            "NAN_VALUE": "A computation gave a value that is no number",
            "SRAM_THRESHOLD": "On-chip memory has had more uncorrectable errors than it may",
        },
    ),
    # RESET and TRIAGE to DCGM, and the same fault as Xid 64: spare rows are used up, and no reset brings them back.
    _group(
        "hardware",
        "fatal",
        "permanent",
        "return_device",
        {
            "ROW_REMAP_FAILURE": "A memory row could not be remapped",
            "UNCORRECTABLE_ROW_REMAP_LIMIT": "More memory rows were remapped than allowed",
        },
    ),
    # ISOLATE, HARDWARE_NVLINK, HARDWARE_PCIE and HARDWARE_OTHER.
    _group(
        "hardware",
        "fatal",
        "permanent",
        "replace_node",
        {
            "FALLEN_OFF_BUS": "The GPU fell off the bus",
            "NVLINK_ERROR_THRESHOLD": "An NVLink has more errors than allowed",
            "NVLINK_CRC_ERROR_THRESHOLD": "An NVLink has more checksum errors than allowed",
            "NVLINK_ERROR_CRITICAL": "An NVLink has a critical number of errors",
            "NVLINK_EFFECTIVE_BER_THRESHOLD": "An NVLink's bit error rate after correction is too high",
            "NVLINK_SYMBOL_BER_THRESHOLD": "An NVLink's symbol error rate is too high",
            "BROKEN_P2P_NVLINK_MEMORY_DEVICE": "Data written to this GPU over NVLink arrived damaged",
            "BROKEN_P2P_NVLINK_WRITER_DEVICE": "Data this GPU wrote over NVLink arrived damaged",
            "BROKEN_P2P_PCIE_MEMORY_DEVICE": "Data written to this GPU over PCIe arrived damaged",
            "BROKEN_P2P_PCIE_WRITER_DEVICE": "Data this GPU wrote over PCIe arrived damaged",
            "BROKEN_P2P_MEMORY_DEVICE": "Data written to this GPU by another arrived damaged",
            "BROKEN_P2P_WRITER_DEVICE": "Data this GPU wrote to another arrived damaged",
            "PCI_REPLAY_RATE": "PCIe packets are replayed too often",
            "PCIE_H_REPLAY_VIOLATION": "The host replays PCIe packets too often",
            "PCIE_REPLAY_VIOLATION": "PCIe packets were replayed during a test",
            "PCIE_REPLAY_THRESHOLD_VIOLATION": "More PCIe packets were replayed than allowed",
            "FIELD_VIOLATION": "A reading is not what it must be",
        },
    ),
    # ISOLATE, but of the switch and its links: no GPU is the proven culprit, so clean runs after a boot may answer.
    _group(
        "hardware",
        "fatal",
        "quarantine",
        "replace_node",
        {
            "NVSWITCH_FATAL_ERROR": "An NVSwitch failed fatally",
            "NVSWITCH_NVLINK_DOWN": "A link of an NVSwitch is down",
            "SXID_ERROR": "An NVSwitch reported an error",
        },
    ),
    # ISOLATE, but what is asked for is a boot: a boot and clean runs are the answer, not a person.
    _group(
        "hardware",
        "fatal",
        "quarantine",
        "reboot_node",
        {"GPU_RECOVERY_REBOOT": "The driver asks for a boot of the node"},
    ),
    # ISOLATE, SOFTWARE_XID: the same as Xid 95, which a reset ends.
    _group(
        "hardware",
        "fatal",
        "quarantine",
        "reset_gpu",
        {"UNCONTAINED_ERROR": "An uncorrectable memory error spread beyond one program"},
    ),
    # ISOLATE, PERF_* and SOFTWARE_EUD: measured against a limit, or by a test whose log must be read to know more.
    _group(
        "unknown",
        "critical",
        "quarantine",
        "move_job",
        {
            "FIELD_THRESHOLD_TS": "A reading went over its limit during a test",
            "FIELD_THRESHOLD_TS_DBL": "A reading went over its limit during a test",
            "FIELD_THRESHOLD_DBL": "A reading is over its limit",
            "FIELD_VIOLATION_DBL": "A reading is not what it must be",
            "EUD_TEST_FAILED": "The extended diagnostic failed",
        },
    ),
    # ISOLATE, SOFTWARE_LIBRARY and SOFTWARE_OTHER: the node's software, whichever devices it carries.
    _group(
        "platform",
        "critical",
        "hold",
        "reboot_node",
        {
            "NVML_LIB_BAD": "The management library could not be loaded or is damaged",
            "IMEX_UNHEALTHY": "The service that shares memory between nodes is not healthy",
        },
    ),
    # RESET, hardware.
    _group(
        "hardware",
        "critical",
        "quarantine",
        "reset_gpu",
        {
            "PENDING_PAGE_RETIREMENTS": "A memory page waits for a reset to be retired",
            "DBE_PENDING_PAGE_RETIREMENTS": "A page with an uncorrectable error waits for a reset to be retired",
            "UNCORRECTABLE_ROW_REMAP": "A memory row was remapped for an uncorrectable error",
            "PENDING_ROW_REMAP": "A memory row waits for a reset to be remapped",
            "GPU_RECOVERY_RESET": "The driver asks for a reset of the GPU",
            "GPU_RECOVERY_DRAIN_P2P": "The driver asks to end traffic between GPUs",
            "GPU_RECOVERY_DRAIN_RESET": "The driver asks to drain and reset the GPU",
        },
    ),
    # RESET to DCGM, but a failed collective names the GPU that noticed, not the one at fault.
    _group("unknown", "critical", "hold", "move_job", {"NCCL_ERROR": "A test of collective communication failed"}),
    # RESET, SOFTWARE_OTHER: somebody's process is on the GPU, which no reset answers.
    _group("platform", "warning", "hold", "kill_job", {"GRAPHICS_PROCESSES": "Other processes use the GPU"}),
    # TRIAGE, hardware and performance.
    _group(
        "hardware",
        "critical",
        "hold",
        "reset_gpu",
        {
            "NVLINK_DOWN": "An NVLink is down",
            "GPU_EXPECTED_NVLINKS_UP": "Fewer NVLinks of the GPU are up than expected",
            "NVSWITCH_EXPECTED_NVLINKS_UP": "Fewer links of an NVSwitch are up than expected",
            "CORRUPT_INFOROM": "The GPU's infoROM is damaged",
            "LOW_BANDWIDTH": "Transfers over PCIe are too slow",
            "HIGH_LATENCY": "Transfers over PCIe take too long to start",
            "PCIE_GENERATION": "The PCIe link runs at a lower generation than it should",
            "TARGET_POWER": "The GPU did not reach its target power",
            "STRESS_LEVEL": "The GPU did not reach the load of the test",
            "MEMORY_BANDWIDTH": "The GPU's memory is too slow",
            "GFLOPS_THRESHOLD_VIOLATION": "The GPU computes slower than it should",
        },
    ),
    # TRIAGE, software that failed on the GPU: device, driver and library are all possible.
    _group(
        "unknown",
        "critical",
        "hold",
        "reset_gpu",
        {
            "XID_ERROR": "The driver reported an Xid during a test",
            "CUDA_UNBOUND": "A GPU could not be bound to its CUDA device",
            "CUDA_DEVICE": "The CUDA device could not be used",
            "CUDA_CONTEXT": "No CUDA context could be made",
            "MEMORY_ALLOC": "Memory of the GPU could not be allocated",
            "API_FAIL": "A call of the driver's library failed",
            "API_FAIL_GPU": "A call of the driver's library failed for this GPU",
        },
    ),
    # UNKNOWN: the tool itself does not know what it saw, and unknown is not healthy.
    _group(
        "unknown",
        "warning",
        "hold",
        "none",
        {"UNKNOWN": "An error that DCGM cannot name", "UNRECOGNIZED": "An error that DCGM does not recognise"},
    ),
    # TRIAGE, MONITOR and UNKNOWN of the tool itself: it could not look, and so has seen nothing.
    _group(
        "platform",
        "warning",
        "record",
        "none",
        {
            "UNSUPPORTED_FIELD_TYPE": "DCGM asked itself for a reading of an unsupported type",
            "INTERNAL": "An internal error of DCGM",
            "CANNOT_GET_STAT": "DCGM could not get a statistic",
            "DCGM_API": "A call of DCGM's own library failed",
            "PAUSE_RESUME_FAILED": "DCGM could not pause or resume its watches",
            "HOSTENGINE_CONN": "DCGM's host engine could not be reached",
            "FIELD_QUERY": "DCGM could not query a reading",
            "CANNOT_GET_FIELD_TAG": "DCGM does not know a reading that was asked for",
            "CANNOT_SET_WATCHES": "DCGM could not watch its readings",
            "BAD_PARAMETER": "DCGM was given a bad parameter",
            "TOO_MANY_ERRORS": "More errors came than DCGM keeps",
            "EUD_BINARY_PERMISSIONS": "The extended diagnostic's program has wrong permissions",
            "EUD_NON_ROOT_USER": "The extended diagnostic was not run as root",
            "EUD_SPAWN_FAILURE": "The extended diagnostic could not be started",
            "EUD_TIMEOUT": "The extended diagnostic did not end in time",
            "EUD_ZOMBIE": "The extended diagnostic's process was left as a zombie",
            "EUD_NON_ZERO_EXIT_CODE": "The extended diagnostic ended with an error",
            "CANNOT_OPEN_LIB": "A library that the test needs could not be opened",
            "BINARY_PERMISSIONS": "A test's program has wrong permissions",
            "MEMORY_ALLOC_HOST": "The test could not allocate memory of the host",
            "HAD_TO_RESTORE_STATE": "DCGM had to restore the GPU's state after a test",
            "RETEST_REQUESTED": "The test asks to be run again",
        },
    ),
    # MONITOR, hardware: the device can work, and is watched.
    _group(
        "hardware",
        "warning",
        "record",
        "none",
        {
            "VOLATILE_SBE_DETECTED": "Corrected memory errors since the last reset",
            "ECC_PENDING": "A change of the ECC mode waits for a reset",
            "NO_MEMORY_CLOCKS": "The memory clocks cannot be read",
            "FABRIC_PROBE_STATE": "The GPU has not finished joining the fabric",
            "NVSWITCH_NON_FATAL_ERROR": "An NVSwitch reported an error that it survived",
            "NVSWITCH_DOWN": "An NVSwitch is down",
            "CLOCKS_EVENT_VIOLATION": "The clocks were lowered during a test",
            "NO_GRAPHICS_CLOCKS": "The graphics clocks cannot be read",
            "POWER_UNREADABLE": "The GPU's power cannot be read",
            "CLOCKS_EVENT_POWER": "The clocks were lowered for power",
            "CLOCKS_EVENT_THERMAL": "The clocks were lowered for heat",
            "THERMAL_VIOLATIONS": "The GPU was slowed for heat",
            "THERMAL_VIOLATIONS_TS": "The GPU was slowed for heat during a test",
            "TEMP_VIOLATION": "The GPU was hotter than allowed",
            "FIELD_THRESHOLD": "A reading is over its limit",
        },
    ),
    # MONITOR, and the same as Xid 94.
    _group(
        "hardware",
        "warning",
        "record",
        "kill_job",
        {"CONTAINED_ERROR": "An uncorrectable memory error was contained to one program"},
    ),
    # MONITOR, software.
    _group(
        "unknown",
        "warning",
        "record",
        "none",
        {
            "CUDA_API": "A call of CUDA failed",
            "NVML_API": "A call of the management library failed",
            "GPU_OP_MODE": "The GPU's operation mode is not what the test needs",
        },
    ),
    # MONITOR and CONFIG to DCGM, yet a node whose links are not trained, or short of a device, cannot do its work.
    # A hold on the node, never blame on a device.
    _group(
        "platform",
        "critical",
        "hold",
        "reboot_node",
        {
            "FABRIC_MANAGER_TRAINING_ERROR": "The fabric manager could not train the links",
            "CUDA_FM_NOT_INITIALIZED": "CUDA waits for a fabric manager that does not run",
            "DEVICE_COUNT_MISMATCH": "The driver's tools disagree about the number of devices",
        },
    ),
    # CONFIG: a setting, the same on every GPU of every node that was set up so.
    _group(
        "platform",
        "warning",
        "record",
        "none",
        {
            "ECC_DISABLED": "ECC is switched off",
            "ECC_UNSUPPORTED": "The GPU has no ECC",
            "PCIE_WIDTH": "The PCIe link is narrower than expected",
            "ENFORCED_POWER_LIMIT": "The power limit in force is lower than the test needs",
            "DENYLISTED_DRIVER": "A driver is loaded that the test does not run with",
            "TEST_DISABLED": "The test is disabled",
            "CONCURRENT_GPUS": "The test cannot run on several GPUs at once",
            "EMPTY_GPU_LIST": "The test was given no GPU",
            "FILE_CREATE_PERMISSIONS": "The test could not create its files",
            "TEST_SKIPPED": "The test was skipped",
            "BAD_CUDA_ENV": "A CUDA environment variable hinders the test",
            "NO_ACCESS_TO_FILE": "A file that the test needs cannot be read",
            "PERSISTENCE_MODE": "Persistence mode is off",
            "ABORTED": "The test was ended before it finished",
            "L1TAG_UNSUPPORTED": "The GPU cannot run the test of the first-level cache",
        },
    ),
    # A health watch that failed in words nobody knows. A failed memory watch means errors that DCGM could not correct.
    _group("hardware", "critical", "quarantine", "reset_gpu", {"HEALTH_MEMORY": "DCGM's watch of the memory failed"}),
    _group(
        "unknown",
        "critical",
        "hold",
        "reset_gpu",
        {
            "HEALTH_PCIE": "DCGM's watch of PCIe failed",
            "HEALTH_NVLINK": "DCGM's watch of NVLink failed",
            "HEALTH_SM": "DCGM's watch of the processors failed",
            "HEALTH_PMU": "DCGM's watch of the power management unit failed",
            "HEALTH_MCU": "DCGM's watch of the micro-controller failed",
            "HEALTH_INFOROM": "DCGM's watch of the infoROM failed",
            "HEALTH_THERMAL": "DCGM's watch of the temperature failed",
            "HEALTH_POWER": "DCGM's watch of the power failed",
            "HEALTH_DRIVER": "DCGM's watch of the driver failed",
            "HEALTH_OTHER": "A health watch of DCGM failed",
        },
    ),
    _group("unknown", "info", "record", "none", {"OK": "No error"}),
)
"""Every DCGM error, by policy."""
