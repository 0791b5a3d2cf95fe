# SPDX-License-Identifier: Apache-2.0
"""Which raw outputs may a report hold, what prints each of them, and who reads it? All parsers are the agent's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, TypeVar

from registry.collectors import (
    boot,
    dcgm_diag,
    dcgm_health,
    dmi,
    efa_sysfs,
    fi_info,
    ibv_devinfo,
    kernel_log,
    lspci,
    node_conditions,
    nvidia_smi_csv,
    nvidia_smi_list,
    nvidia_smi_q,
    nvidia_smi_xml,
)
from registry.domain.errors import FieldError, PartUnreadable, SlotRepeated
from registry.domain.identity import check_slots
from registry.domain.reports import Findings, Inventory

Parser: TypeAlias = Callable[[bytes], Inventory]
_Said = TypeVar("_Said")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a part does not say itself: of which node and boot the report is, when the boot began, when it came."""

    boot_id: str
    received_at: datetime
    boot_time: datetime | None = None
    node: str | None = None
    provider_id: str = ""


GPU_PARTS: Mapping[str, Parser] = {
    "nvidia_smi_xml": nvidia_smi_xml.parse,
    "nvidia_smi_q": nvidia_smi_q.parse,
    "nvidia_smi_csv": nvidia_smi_csv.parse,
    "nvidia_smi_list": nvidia_smi_list.parse,
}
"""The lists of GPUs, the one that says most first: it speaks for the GPUs."""

EFA_PARTS: Mapping[str, Parser] = {
    "efa_sysfs": efa_sysfs.parse,
    "ibv_devinfo": ibv_devinfo.parse,
    "lspci": lspci.parse,
    "fi_info": fi_info.parse,
}
"""The lists of EFAs, the one that says most first. sysfs and lspci print slots; the others have them from names made
of a slot, and `efa_0` is none."""

FINDING_PARTS: Mapping[str, Callable[[bytes, Receipt], Findings]] = {
    "dcgm_health": lambda data, _: dcgm_health.parse(data),
    "dcgm_diag": lambda data, _: dcgm_diag.parse(data),
    "kernel_log": lambda data, at: kernel_log.parse(
        data, received_at=at.received_at, boot_time=at.boot_time, boot_id=at.boot_id
    ),
    "node_conditions": lambda data, at: node_conditions.parse(data, node_name=at.node, provider_id=at.provider_id),
    "dmidecode": lambda data, _: dmi.parse(data),
}
"""What is no list: results, faults, and what the host is."""

BOOT_PART = "proc_stat"
"""What tells when the boot began: it makes dates of the time since boot that dmesg prints."""

COMMANDS: Mapping[str, str] = {
    "nvidia_smi_xml": "nvidia-smi -q -x",
    "nvidia_smi_q": "nvidia-smi -q",
    "nvidia_smi_csv": "nvidia-smi --query-gpu=… --format=csv",
    "nvidia_smi_list": "nvidia-smi -L",
    "efa_sysfs": f"a tar of /sys/class/infiniband and /sys/class/net, in bash: {efa_sysfs.TAR_COMMAND}",
    "ibv_devinfo": "ibv_devinfo -v",
    "lspci": "lspci -Dnnvvv",
    "fi_info": "fi_info -p efa",
    "dcgm_health": "dcgmi health -c -j",
    "dcgm_diag": "dcgmi diag -r N -j",
    "kernel_log": "dmesg or journalctl -k",
    "proc_stat": "cat /proc/stat",
    "node_conditions": "kubectl get node NAME -o json",
    "dmidecode": "dmidecode",
}
"""Every raw part, and what prints it."""


def read_boot_time(data: bytes) -> datetime:
    """Return when the boot began, by the node's own clock. Raises PartUnreadable."""
    found = boot.parse_boot_time(data)
    if found is None:
        raise PartUnreadable("it has no line btime; send /proc/stat as it is")
    return found


def read_part(name: str, read: Callable[[], _Said]) -> _Said:
    """Read one part. Raises PartUnreadable and SlotRepeated, which name it."""
    try:
        said = read()
        check_slots(said.entries if isinstance(said, Inventory) else ())
    except SlotRepeated as error:
        told = tuple(dict.fromkeys(FieldError(f"/{name}", one.detail) for one in error.errors))
        raise SlotRepeated(f"{name}: {error.detail}", errors=told) from error
    except PartUnreadable as error:
        raise PartUnreadable(
            f"{name} cannot be read: {error.detail}", errors=(FieldError(f"/{name}", error.detail),), **error.extra
        ) from error
    return said
