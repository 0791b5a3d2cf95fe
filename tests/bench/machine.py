# SPDX-License-Identifier: Apache-2.0
"""What does machine number N call itself, and what does it report? Eight GPUs, 32 EFAs and ten checks."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from registry.services.tokens import checksum_of

GPUS, EFAS = 8, 32
DEVICES = GPUS + EFAS
PROFILE = "p5.48xlarge"
CHECKS = (
    *("gpu.ecc", "gpu.row_remap", "gpu.xid", "efa.link", "gpu.nvlink", "gpu.thermal", "gpu.responding"),
    *("gpu.recovery_action", "dcgm.health", "dcgm.diag"),
)
FIRMWARE = "96.00.74.00.0A"
"""What every GPU runs when nothing is being changed."""

TAG = "rack-00"
"""What stands on every GPU when nothing is being changed: changing it is news of the device and of nothing else."""


def node_name(number: int) -> str:
    """The name of a node."""
    return f"node-{number:08d}"


def serial(number: int, slot: int) -> str:
    """The thirteen digits on the board of a GPU."""
    return f"165{number:08d}{slot:02d}"


def gpu_uuid(number: int, slot: int) -> str:
    """The UUID of a GPU."""
    return f"GPU-{number:08x}-{slot:04x}-4000-8000-{number:08x}{slot:04x}"


def mac(number: int, slot: int) -> str:
    """The address of an EFA adapter."""
    return f"02:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}:{slot:02x}:ef"


def provider_id(number: int) -> str:
    """The cloud's name for the machine."""
    return f"aws:///us-east-1a/i-{number:017x}"


def boot_id(number: int) -> str:
    """The only boot of the machine."""
    return f"b0070000-0000-4000-8000-{number:012x}"


def names(number: int) -> list[str]:
    """All that no other machine bears, in the same order for every machine."""
    boards = [name for slot in range(GPUS) for name in (serial(number, slot), gpu_uuid(number, slot))]
    return [
        node_name(number),
        provider_id(number),
        boot_id(number),
        *boards,
        *(mac(number, slot) for slot in range(EFAS)),
    ]


def secret(number: int) -> str:
    """The token of a node: random to look at, the same in every run."""
    digits = base64.urlsafe_b64encode(hashlib.sha256(f"token of {number}".encode()).digest()).decode().rstrip("=")
    body = f"prq_node_{digits}"
    return body + checksum_of(body)


def report(
    number: int,
    report_id: str,
    *,
    firmware: dict[int, str] | None = None,
    tags: dict[int, str] | None = None,
    ecc: str = "pass",
) -> dict[str, Any]:
    """The body of a report. `firmware` and `tags` give GPUs by slot another VBIOS or asset tag."""
    versions, tagged = firmware or {}, tags or {}
    gpus = [
        {
            "kind": "gpu",
            "vendor": "nvidia",
            "serial": serial(number, slot),
            "uuid": gpu_uuid(number, slot),
            "slot": f"0000:{0x10 + slot:02x}:00.0",
            "model": "NVIDIA H100 80GB HBM3",
            "asset_tag": tagged.get(slot, TAG),
            "firmware": {"vbios": versions.get(slot, FIRMWARE)},
            "readings": {"temperature_celsius": 41, "power_watts": 312},
        }
        for slot in range(GPUS)
    ]
    efas = [
        {
            "kind": "efa",
            "vendor": "amazon",
            "slot": f"0000:{0x80 + slot:02x}:00.0",
            "name": f"rdmap{0x80 + slot}s0",
            "mac": mac(number, slot),
        }
        for slot in range(EFAS)
    ]
    checks = [{"name": name, "status": ecc if name == "gpu.ecc" else "pass"} for name in CHECKS]
    about = {"report_id": report_id, "boot_id": boot_id(number), "provider_id": provider_id(number), "profile": PROFILE}
    return {**about, "covers": ["efa", "gpu"], "devices": [*gpus, *efas], "checks": checks}
