# SPDX-License-Identifier: Apache-2.0
"""Which conditions of a Kubernetes Node speak of its health, and which status is the bad one?

Both polarities are in use, so each type stands here with its own. A condition is judged in a check of its own,
`condition.<type in snake case>`, never in one of ours: what a detector once wrote into the cluster outlives reboots
and the detector itself, and must not pass for having looked at the kernel log or the memory of this boot.

Words of: https://github.com/aws/eks-node-monitoring-agent (EKS), https://github.com/NVIDIA/NVSentinel (NVSentinel),
https://github.com/kubernetes/node-problem-detector (NPD), https://github.com/facebookresearch/gcm (GCM),
https://github.com/GoogleCloudPlatform/container-engine-accelerators/pull/516 (GKE),
https://kubernetes.io/docs/reference/node/node-status/ (Kubernetes itself).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from registry.domain.reports import CheckStatus


@dataclass(frozen=True, slots=True)
class ConditionType:
    """How a condition is read: `bad` is the status that says something is wrong, `amounts_to` what that comes to.

    `starts_bad`: its detector writes the bad status before it has looked at all.
    """

    check: str
    bad: str = "True"
    amounts_to: CheckStatus = CheckStatus.FAIL
    starts_bad: bool = False


_GOOD_WHEN_TRUE = (
    # EKS: one word for all accelerators; the reason says which fault.
    *("AcceleratedHardwareReady", "ContainerRuntimeReady", "KernelReady", "NetworkingReady", "StorageReady"),
)
_BAD_WHEN_TRUE = (
    # NVSentinel, watches of DCGM.
    *("GpuCpusetWatch", "GpuDriverWatch", "GpuInforomWatch", "GpuMcuWatch", "GpuMemWatch", "GpuNvlinkWatch"),
    *("GpuPcieWatch", "GpuPmuWatch", "GpuPowerBrakeWatch", "GpuPowerWatch", "GpuSmWatch", "GpuThermalMarginWatch"),
    "GpuThermalWatch",
    # NVSentinel, the rest.
    *("CSPMaintenance", "NVCRECertFailed", "NVSwitchDown", "NVSwitchFatalError", "SyslogError"),
    *("SysLogsGPUFallenOff", "SysLogsSXIDError", "SysLogsXIDError"),
    *("FabricManagerDown", "FabricManagerFlapping", "FabricManagerNotActive"),
    # GCM, by way of NPD.
    *("DcgmiDiagProblem", "DcgmiNvlinkStatusProblem", "ProcZombieProblem", "SmiDisconnectedProblem"),
    *("SmiEccProblem", "XidErrorsProblem"),
    # GKE's device plugin, Crusoe, AMD.
    *("XidCriticalError", "GPUNVBandwidthUnhealthy", "AMDGPUXgmi"),
    # NPD as it is shipped.
    *("ContainerRuntimeUnhealthy", "CperHardwareErrorFatal", "DiskBadBlock", "FrequentContainerdRestart"),
    *("FrequentDockerRestart", "FrequentKubeletRestart", "FrequentUnregisterNetDevice", "KernelDeadlock"),
    *("KubeProxyUnhealthy", "KubeletUnhealthy", "NTPProblem", "ReadonlyFilesystem", "XfsShutdown"),
)
_NOTED_WHEN_TRUE = ("NVSwitchNonFatalError",)
MONITORS = frozenset({"DCGMError", "GpuDcgmConnectivityFailure", "GpuDcgmUnresponsive"})
"""Types that are bad when the monitor cannot look: then nothing is known of the hardware, good or bad."""

BLIND_REASONS = frozenset({"DCGMError", "DCGM_PROBE_HANG"})
"""Reasons that say the monitor could not look. The hardware is as unknown as before: EKS keeps `DCGMError` for days
after a slow start of the host engine, https://github.com/aws/eks-node-monitoring-agent/issues/266"""

NOT_OURS = frozenset(
    {
        # Judged by Kubernetes itself; a node that waits for admission may not be Ready because it waits.
        *("DiskPressure", "MemoryPressure", "NetworkUnavailable", "OutOfDisk", "PIDPressure", "Ready"),
        *("DrainInProgress", "Drained", "GracefulNodeShutdownInProgress", "MaintenanceInProgress"),
        # Book-keeping of controllers.
        *("ExternalRemediationComplete", "MaintenancePlanned", "NVSentinelOwnershipReleased"),
        *("NewNodeValidationRequested", "PendingPhaseState"),
    }
)
"""Known types that say nothing of the hardware."""

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def check_name(type_: str) -> str:
    """Return the check of a condition: `condition.kernel_deadlock` for `KernelDeadlock`."""
    return f"condition.{_WORDS.sub('_', type_).lower()}"


KNOWN: Mapping[str, ConditionType] = MappingProxyType(
    {
        **{name: ConditionType(check_name(name), bad="False") for name in _GOOD_WHEN_TRUE},
        # The usual custom plugin of NPD, which starts every condition as False, whatever that means for it:
        # https://github.com/kubernetes/node-problem-detector/issues/304
        "GPUHealthy": ConditionType(check_name("GPUHealthy"), bad="False", starts_bad=True),
        **{name: ConditionType(check_name(name)) for name in _BAD_WHEN_TRUE},
        **{name: ConditionType(check_name(name), amounts_to=CheckStatus.WARN) for name in _NOTED_WHEN_TRUE},
        **{name: ConditionType(check_name(name), amounts_to=CheckStatus.UNKNOWN) for name in MONITORS},
    }
)
"""Every condition that is judged, by its type to the letter, as Kubernetes compares them."""
