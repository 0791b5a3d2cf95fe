# SPDX-License-Identifier: Apache-2.0
"""Which Xids, SXids and canonical kinds are known, and what is the policy for each? Data only.

Rows that share a policy stand in one group, with the reason above it; the words are those of the enums in
`failures`, which reads this table once at import and refuses a word it does not know.

Facts are from NVIDIA's Xid documentation; where NVIDIA, EKS, Karpenter, Azure and gpud disagree the stricter
of the well-founded answers was taken, because a `hold` costs two clean runs and a missed fault costs a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

XID_SOURCES = ("https://docs.nvidia.com/deploy/xid-errors/",)
EKS_SOURCES = (*XID_SOURCES, "https://github.com/aws/eks-node-monitoring-agent")
MEMORY_SOURCES = (*XID_SOURCES, "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/")
SXID_SOURCES = ("https://docs.nvidia.com/datacenter/tesla/pdf/fabric-manager-user-guide.pdf",)


@dataclass(frozen=True, slots=True)
class Group:
    """Codes under one policy. `titles` maps each code to a short description; `sources` are public documents."""

    cause: str
    severity: str
    effect: str
    first_action: str
    titles: Mapping[str, str]
    sources: tuple[str, ...] = ()


def _numbered(prefix: str, titles: Mapping[int, str]) -> dict[str, str]:
    return {f"{prefix}_{number}": title for number, title in titles.items()}


def _engines(pattern: str, numbers: Mapping[int, int]) -> dict[int, str]:
    return {number: pattern.format(engine) for number, engine in numbers.items()}


_XID_GROUPS = (
    # The program's own doing: NVIDIA's first step for each is to restart the application. Healthy nodes were lost
    # over 43 elsewhere, so they are recorded and counted; only repetition, judged by a rule, makes them the device's.
    Group(
        "user",
        "warning",
        "record",
        "kill_job",
        _numbered(
            "xid",
            {
                11: "A program sent a damaged command buffer",
                13: "A program's kernel raised an exception on the GPU",
                25: "A program sent an illegal command buffer",
                31: "A program touched GPU memory it had not mapped",
                43: "The GPU stopped working on a program after its fault",
                45: "A program's work was cleaned up after an earlier error",
                60: "The video processor raised an exception",
                69: "A program used a graphics class wrongly",
                80: "Damaged data was sent to the GPU",
                137: "A program reached over NVLink to memory it may not use",
            },
        ),
        XID_SOURCES,
    ),
    # An engine failed on one piece of work. NVIDIA restarts the application and asks support if it returns; the code
    # alone does not tell program from driver, so nobody is blamed and the repetition is left to rules.
    Group(
        "unknown",
        "warning",
        "record",
        "kill_job",
        _numbered(
            "xid",
            {
                8: "The GPU stopped working on a channel",
                37: "The driver's firmware reported an error",
                **_engines("Copy engine {} raised an exception", {39: 0, 40: 1, 41: 2}),
                68: "Video decoder 0 raised an exception",
                **_engines(
                    "Copy engine {} reported an unknown error", {70: 3, 71: 4, 72: 5, 75: 6, 76: 7, 77: 8, 85: 9}
                ),
                82: "JPEG engine 0 reported an error",
                **_engines("Video decoder {} reported an error", {83: 1, 84: 2, 88: 3, 89: 4, 96: 5, 97: 6, 98: 7}),
                86: "The optical flow engine raised an exception",
                **_engines("JPEG engine {} reported an error", {99: 1, 100: 2, 101: 3, 102: 4, 103: 5, 104: 6, 105: 7}),
                108: "An error under a number that NVIDIA lists as unused",
                **_engines(
                    "Copy engine {} reported an unknown error",
                    {126: 10, 127: 11, 128: 12, 129: 13, 130: 14, 131: 15, 132: 16, 133: 17, 134: 18, 135: 19},
                ),
                139: "Optical flow engine 1 reported an error",
                141: "The fast path of CUDA reported an error",
                160: "A channel was taken out of use",
                161: "A channel could not be taken out of use",
            },
        ),
        XID_SOURCES,
    ),
    # Messages about something else, or tests. Xid 154 repeats another Xid's recovery action, which the check
    # gpu.recovery_action reads from the device itself; blocking here too would count one fault twice.
    Group(
        "unknown",
        "info",
        "record",
        "none",
        _numbered(
            "xid",
            {
                14: "A message under a number that NVIDIA lists as unused",
                106: "A test message of the management bus",
                107: "A silent test message of the management bus",
                152: "The memory unit of the deep learning accelerator reported an error",
                153: "The deep learning accelerator timed out",
                154: "The recovery action that the driver asks for has changed",
                162: "Power smoothing is available again",
                163: "Power smoothing is no longer available",
                164: "The power smoothing circuit nears the end of its life",
                165: "The power smoothing circuit is at the end of its life",
            },
        ),
        XID_SOURCES,
    ),
    # Driver faults that NVIDIA's table tells to ignore and no fleet treats as fatal.
    Group(
        "driver",
        "warning",
        "record",
        "none",
        _numbered("xid", {66: "The driver made an illegal access", 67: "The driver made an illegal access"}),
        XID_SOURCES,
    ),
    # NVIDIA ignores them, gpud calls them fatal and reboots: hold, so that two clean runs decide.
    Group(
        "driver",
        "critical",
        "hold",
        "reboot_node",
        _numbered("xid", {38: "The driver's firmware failed", 44: "The GPU faulted while it changed contexts"}),
        (*XID_SOURCES, "https://github.com/leptonai/gpud"),
    ),
    # Either a program's damaged buffer or the PCIe link that carried it: clean runs tell the two apart.
    Group(
        "unknown",
        "critical",
        "hold",
        "move_job",
        _numbered("xid", {32: "A damaged command buffer arrived: the program's, or the PCIe link's"}),
        (*XID_SOURCES, "https://github.com/leptonai/gpud"),
    ),
    # Driver or firmware stuck until a reset; NVIDIA says reset, EKS calls all but 169 fatal. A hold would end after
    # two clean runs without the reset, a quarantine ends only after one. 169 is 62 under a newer number.
    Group(
        "driver",
        "fatal",
        "quarantine",
        "reset_gpu",
        _numbered(
            "xid",
            {
                46: "The GPU stopped processing and did not come back",
                62: "A micro-controller inside the GPU halted",
                109: "The GPU did not change contexts in time",
                110: "The GPU reported a security fault",
                119: "The GPU's system processor did not answer the driver",
                120: "The GPU's system processor failed",
                158: "The GPU timed out fatally",
                169: "A micro-controller inside the GPU halted",
            },
        ),
        EKS_SOURCES,
    ),
    # Memory errors that the driver contained or corrected: the job is lost at most. Counted.
    Group(
        "hardware",
        "warning",
        "record",
        "kill_job",
        _numbered("xid", {94: "An uncorrectable memory error was contained to one program"}),
        MEMORY_SOURCES,
    ),
    Group(
        "hardware",
        "warning",
        "record",
        "none",
        _numbered(
            "xid",
            {
                92: "Corrected memory errors come at a high rate",
                93: "The infoROM was written more often than it is built for",
            },
        ),
        MEMORY_SOURCES,
    ),
    # Memory that cannot be trusted until a reset applies what the driver has noted. 63 is the remap that a reset
    # will carry out, not the failed one (64): it ends with a reset and clean runs, without a person.
    Group(
        "hardware",
        "fatal",
        "quarantine",
        "reset_gpu",
        _numbered(
            "xid",
            {
                48: "An uncorrectable double-bit memory error",
                63: "A memory row was marked for remapping at the next reset",
                95: "An uncorrectable memory error spread beyond one program",
                140: "An uncorrectable memory error was not recovered",
                156: "A damaged resource was marked for retirement at the next reset",
            },
        ),
        MEMORY_SOURCES,
    ),
    # Details of an Xid 48 that may itself have been dropped by the log's rate limit.
    Group(
        "hardware",
        "critical",
        "hold",
        "reset_gpu",
        _numbered(
            "xid",
            {
                171: "Where in memory an uncorrectable error was found",
                172: "Where in on-chip memory an uncorrectable error was found",
            },
        ),
        MEMORY_SOURCES,
    ),
    # The spare rows or units are gone: no reset brings them back, and the next boot hides the evidence.
    Group(
        "hardware",
        "fatal",
        "permanent",
        "return_device",
        _numbered(
            "xid",
            {64: "A memory row could not be remapped", 157: "A damaged resource could not be retired"},
        ),
        MEMORY_SOURCES,
    ),
    # A board that left the bus once tends to leave it again; after the boot it looks well.
    Group("hardware", "fatal", "permanent", "replace_node", {"xid_79": "The GPU fell off the bus"}, EKS_SOURCES),
    # Board, power and bus faults: fatal to EKS or in NVIDIA's own wording.
    Group(
        "hardware",
        "fatal",
        "quarantine",
        "replace_node",
        _numbered(
            "xid",
            {
                54: "The board's auxiliary power is not connected",
                142: "A fault of a video encoder that wants the vendor's attention",
                143: "The GPU could not be initialised",
                167: "A PCIe transaction timed out fatally",
            },
        ),
        EKS_SOURCES,
    ),
    # Links that NVIDIA resets and EKS calls fatal.
    Group(
        "hardware",
        "fatal",
        "quarantine",
        "reset_gpu",
        _numbered(
            "xid",
            {
                74: "An NVLink error",
                136: "An NVLink could not be trained",
                155: "An NVLink error that software declared",
            },
        ),
        EKS_SOURCES,
    ),
    # NVLink 5 and chip-to-chip: one number covers messages to ignore and messages that want a reset, and a link has
    # two ends. Hold: where a reset is needed the driver says so in the recovery action, and that check fails.
    Group(
        "hardware",
        "critical",
        "hold",
        "reset_gpu",
        _numbered(
            "xid",
            {
                121: "An error on the link between GPU and CPU",
                144: "NVLink: an error where the link meets the crossbar",
                145: "NVLink: an error in the layer of remote requests",
                146: "NVLink: an error in the transaction layer",
                149: "NVLink: an error of the network interface, or the link went down",
                150: "NVLink: an error of the link's management engine",
                159: "An error of the coherent hub without data",
            },
        ),
        XID_SOURCES,
    ),
    # Every subcode of these two is one to ignore.
    Group(
        "hardware",
        "warning",
        "record",
        "none",
        _numbered(
            "xid",
            {
                147: "NVLink: an error in traffic that software may ignore",
                148: "NVLink: an error of the link's wrapper that may be ignored",
            },
        ),
        XID_SOURCES,
    ),
    # Virtualisation and confidential computing set up wrongly: the node's matter, not the device's.
    Group(
        "platform",
        "critical",
        "hold",
        "reboot_node",
        _numbered(
            "xid",
            {
                78: "A virtual GPU could not be started",
                151: "A key of confidential computing could not be rotated",
                166: "Traffic came before the link was set up for encryption",
                168: "Errors in the write-protected region of memory",
                170: "An interrupt came in confidential mode",
            },
        ),
        XID_SOURCES,
    ),
)

# NVSwitch errors; the guide lists those the switch corrects by itself. Whatever is not listed is unknown and holds.
_CORRECTED_SXIDS: tuple[int, ...] = (11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011)
_CORRECTED_SXIDS += (19049, 19055, 19057, 19059, 19062, 19065, 19068, 19071, 24001, 24002, 24003)

_SXID_GROUPS = (
    Group(
        "hardware",
        "info",
        "record",
        "none",
        _numbered("sxid", dict.fromkeys(_CORRECTED_SXIDS, "The NVSwitch corrected a single-bit memory error")),
        SXID_SOURCES,
    ),
    # Logged as fatal: a link of the switch broke. The GPU at its end reports an Xid 74 of its own where it is touched.
    Group(
        "hardware", "fatal", "quarantine", "reboot_node", {"sxid_20034": "A link of the NVSwitch failed"}, SXID_SOURCES
    ),
)

_KIND_GROUPS = (
    Group(
        "hardware",
        "fatal",
        "permanent",
        "replace_node",
        {"gpu.fallen_off_bus": "The GPU fell off the bus"},
    ),
    # Both are reasons for which NVIDIA takes boards back.
    Group(
        "hardware",
        "fatal",
        "permanent",
        "return_device",
        {
            "gpu.row_remap.failed": "Memory rows can no longer be remapped",
            "gpu.sram.threshold": "On-chip memory has had more uncorrectable errors than it may",
        },
        MEMORY_SOURCES,
    ),
    # Wants a reset, and is well after it if the clean runs say so.
    Group(
        "hardware",
        "fatal",
        "quarantine",
        "reset_gpu",
        {
            "gpu.ecc.dbe": "An uncorrectable memory error",
            "gpu.mem.uncontained": "An uncorrectable memory error spread beyond one program",
            "gpu.row_remap.pending": "A memory row waits for a reset to be remapped",
            "gpu.page_retirement": "A memory page waits for a reset to be retired",
            "gpu.requires_reset": "The tools say that the GPU requires a reset",
        },
    ),
    # "Unknown device" and NVML's "unknown error" are the same fault as a lost GPU in other words: only one wording
    # leading to quarantine let the others through elsewhere.
    Group(
        "hardware",
        "fatal",
        "quarantine",
        "reboot_node",
        {
            "gpu.init_failed": "The GPU could not be initialised",
            "gpu.unknown_device": "The tools see a device and cannot tell what it is",
            "gpu.nvml_unknown": "The management library answers with an unknown error for this GPU",
        },
    ),
    # Wrong results are worse than none.
    Group(
        "hardware",
        "fatal",
        "quarantine",
        "contact_support",
        {
            "gpu.sdc_suspected": "The GPU is suspected of computing wrong results",
            "gpu.diag_failed": "A diagnostic of the GPU failed",
            "nvswitch.fatal": "An NVSwitch failed fatally",
        },
    ),
    Group("driver", "fatal", "quarantine", "reset_gpu", {"gpu.gsp": "The GPU's system processor failed"}),
    # A person's word: no cause is known, and passes after a restart are asked for.
    Group("unknown", "critical", "quarantine", "move_job", {"operator.suspect": "A person suspects the device"}),
    # Something is wrong that may be on the other side of a link, a slot or a cable, or that lasts only while the
    # check fails. A damaged infoROM is here and not in quarantine: the tools repeat the warning with every look, so
    # the node stays out exactly as long as it is there, and DCGM itself wants it looked into, not isolated.
    Group(
        "hardware",
        "critical",
        "hold",
        "reboot_node",
        {
            "gpu.missing": "A GPU that should be there is not",
            "gpu.nvlink.down": "An NVLink is down",
            "gpu.nvlink.errors": "An NVLink has errors",
            "gpu.pcie": "The GPU's PCIe link is slow or has errors",
            "gpu.inforom": "The GPU's infoROM is damaged",
            "gpu.perf.low": "The GPU is slower than it should be",
            "efa.missing": "An EFA that should be there is not",
            "efa.link_down": "The link of an EFA is down",
            "efa.traffic_stall": "Traffic through an EFA has stopped",
            "efa.flap": "The link of an EFA goes up and down",
        },
    ),
    Group(
        "platform",
        "critical",
        "hold",
        "reboot_node",
        {"fabric.manager_down": "The fabric manager does not run or could not train the links"},
    ),
    # What a slot holds is not what it held: identity rules decide about the device, the passes begin anew.
    Group("unknown", "critical", "hold", "none", {"identity.changed": "Another device answers where one was known"}),
    # Warnings to DCGM, EKS and gpud alike: counted.
    Group(
        "hardware",
        "warning",
        "record",
        "none",
        {
            "gpu.ecc.sbe_rate": "Corrected memory errors come at a high rate",
            "gpu.thermal.limit": "The GPU is hot enough to be slowed",
            "gpu.thermal.neighbour_outlier": "The GPU is much hotter than its neighbours",
            "gpu.power": "The GPU's power is limited or cannot be read",
            "nvswitch.nonfatal": "An NVSwitch reported an error that it survived",
            "efa.errors": "Error counters of an EFA rise",
        },
    ),
    Group(
        "hardware",
        "warning",
        "record",
        "kill_job",
        {"gpu.mem.contained": "An uncorrectable memory error was contained to one program"},
    ),
    Group("unknown", "warning", "record", "move_job", {"nccl.error": "Collective communication failed"}),
    Group("user", "warning", "record", "kill_job", {"app.fault": "The program failed on the GPU"}),
    # A monitor that cannot look has seen no fault: nodes were replaced for eight days over this elsewhere.
    Group("platform", "warning", "record", "none", {"monitor.silent": "The monitor could not look"}),
)

GROUPS: tuple[Group, ...] = (*_XID_GROUPS, *_SXID_GROUPS, *_KIND_GROUPS)
"""Every group of Xids, SXids and canonical kinds."""

NO_FAULTS: tuple[Group, ...] = (
    Group(
        "platform",
        "info",
        "record",
        "none",
        {"gpu_reset": "The GPU was reset", "driver_loaded": "The driver was loaded anew"},
    ),
)
"""Codes that report no fault but a new beginning."""

CROSSWALK: Mapping[str, tuple[str, ...]] = {
    "gpu.missing": ("dcgm_device_count_mismatch",),
    "gpu.fallen_off_bus": ("xid_79", "dcgm_fallen_off_bus"),
    "gpu.ecc.dbe": (
        "xid_48",
        "xid_140",
        "dcgm_volatile_dbe_detected",
        "dcgm_dbe_violation",
        "dcgm_dbe_threshold_violation",
        "dcgm_cuda_dbe",
    ),
    "gpu.ecc.sbe_rate": (
        "xid_92",
        "dcgm_volatile_sbe_detected",
        "dcgm_sbe_violation",
        "dcgm_sbe_threshold_violation",
    ),
    "gpu.mem.contained": ("xid_94", "dcgm_contained_error"),
    "gpu.mem.uncontained": ("xid_95", "dcgm_uncontained_error"),
    "gpu.row_remap.pending": ("xid_63", "dcgm_pending_row_remap", "dcgm_uncorrectable_row_remap"),
    "gpu.row_remap.failed": ("xid_64", "dcgm_row_remap_failure", "dcgm_uncorrectable_row_remap_limit"),
    "gpu.page_retirement": (
        "dcgm_pending_page_retirements",
        "dcgm_dbe_pending_page_retirements",
        "dcgm_retired_pages_limit",
        "dcgm_retired_pages_dbe_limit",
    ),
    "gpu.sram.threshold": ("xid_171", "xid_172", "dcgm_sram_threshold"),
    "gpu.nvlink.down": ("xid_136", "xid_149", "dcgm_nvlink_down", "dcgm_gpu_expected_nvlinks_up"),
    "gpu.nvlink.errors": (
        *(f"xid_{number}" for number in (74, 144, 145, 146, 147, 148, 150, 155)),
        "dcgm_nvlink_error_threshold",
        "dcgm_nvlink_crc_error_threshold",
        "dcgm_nvlink_error_critical",
        "dcgm_nvlink_effective_ber_threshold",
        "dcgm_nvlink_symbol_ber_threshold",
    ),
    "fabric.manager_down": ("dcgm_fabric_manager_training_error", "dcgm_cuda_fm_not_initialized"),
    "nvswitch.fatal": ("sxid_20034", "dcgm_nvswitch_fatal_error", "dcgm_nvswitch_nvlink_down", "dcgm_sxid_error"),
    "nvswitch.nonfatal": (
        *(f"sxid_{number}" for number in _CORRECTED_SXIDS),
        "dcgm_nvswitch_non_fatal_error",
    ),
    "gpu.pcie": (
        "xid_32",
        "xid_167",
        "dcgm_pci_replay_rate",
        "dcgm_pcie_replay_violation",
        "dcgm_pcie_h_replay_violation",
        "dcgm_pcie_replay_threshold_violation",
        "dcgm_pcie_width",
        "dcgm_pcie_generation",
        "dcgm_low_bandwidth",
        "dcgm_high_latency",
    ),
    "gpu.thermal.limit": (
        "dcgm_thermal_violations",
        "dcgm_thermal_violations_ts",
        "dcgm_temp_violation",
        "dcgm_clocks_event_thermal",
    ),
    "gpu.power": ("xid_54", "dcgm_power_unreadable", "dcgm_clocks_event_power", "dcgm_enforced_power_limit"),
    "gpu.inforom": ("xid_93", "dcgm_corrupt_inforom"),
    "gpu.gsp": ("xid_119", "xid_120"),
    "gpu.init_failed": ("xid_143",),
    "gpu.perf.low": (
        "dcgm_memory_bandwidth",
        "dcgm_stress_level",
        "dcgm_gflops_threshold_violation",
        "dcgm_target_power",
    ),
    "gpu.sdc_suspected": (
        "dcgm_faulty_memory",
        "dcgm_memory_mismatch",
        "dcgm_nan_value",
        "dcgm_l1tag_miscompare",
    ),
    "gpu.diag_failed": ("dcgm_eud_test_failed",),
    "gpu.requires_reset": ("dcgm_gpu_recovery_reset", "dcgm_gpu_recovery_drain_reset", "dcgm_gpu_recovery_drain_p2p"),
    "nccl.error": ("dcgm_nccl_error",),
    "app.fault": tuple(f"xid_{number}" for number in (11, 13, 25, 31, 43, 45, 60, 69, 80, 137)),
    "monitor.silent": ("dcgm_hostengine_conn", "dcgm_cannot_set_watches"),
}
"""Canonical kind -> the codes that other tools use for the same fault. One code has one kind."""
