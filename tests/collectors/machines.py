# SPDX-License-Identifier: Apache-2.0
"""Which GPUs stand in the machines of these tests? Serials, UUIDs and slots are invented here."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

_H100_BUSES = ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db")


def serial_of(node: int, position: int) -> str:
    """Return a serial of thirteen digits that no other position of any node has."""
    return f"1651{node:05d}{position + 1:04d}"


def uuid_of(node: int, position: int) -> str:
    """Return a UUID that no other position of any node has."""
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'pratique {node} {position}')}"


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi prints it: texts, with N/A where the part has nothing."""

    serial: str
    uuid: str
    slot: str
    """The address as NVML prints it: eight digits of domain."""
    minor: str = "0"
    model: str = "NVIDIA H100 80GB HBM3"
    architecture: str = "Hopper"
    part_number: str | None = "692-2G520-0205-000"
    """None for the drivers that print one part number only."""
    chip_number: str = "2330-885-A1"
    module_id: str = "1"
    vbios: str = "96.00.9F.00.04"
    inforom: str = "G520.0205.00.05"
    chassis_serial: str = "N/A"
    recovery_action: str | None = "None"
    temperature: str = "31"
    memory_temperature: str = "38"
    ecc_mode: str = "Enabled"
    ecc: tuple[str, str, str, str] = ("0", "0", "0", "0")
    """Volatile corrected and uncorrected, aggregate corrected and uncorrected."""
    remapped: tuple[str, str, str, str] | None = ("0", "0", "No", "No")
    """Corrected, uncorrected, pending, failure; None where the block reads N/A."""
    retired: tuple[str, str, str] = ("N/A", "N/A", "N/A")
    """Single bit, double bit, pending."""
    slices: tuple[str, ...] = ()
    is_lost: bool = False
    """True for a GPU whose identity is still printed while nothing else can be read."""


def h100_gpus(
    gpus: int = 8,
    *,
    node: int = 0,
    serial: Callable[[int], str] | None = None,
    uuid: Callable[[int], str] | None = None,
    lost: Collection[int] = (),
    pending: Collection[int] = (),
    failed: Collection[int] = (),
    uncorrected: Collection[int] = (),
) -> list[Gpu]:
    """Return the GPUs of an H100 node. The collections hold the positions at which something is wrong."""
    made = []
    for at in range(gpus):
        remapped = ("0", "4" if at in pending or at in failed else "0", _yes(at in pending), _yes(at in failed))
        made.append(
            Gpu(
                serial=serial(at) if serial else serial_of(node, at),
                uuid=uuid(at) if uuid else uuid_of(node, at),
                slot=f"00000000:{_H100_BUSES[at % 8].upper()}:{at // 8:02X}.0",
                minor=str(at),
                module_id=str((at * 3 + 1) % 8 + 1),
                ecc=("0", "2", "0", "2") if at in uncorrected else ("0", "0", "0", "0"),
                remapped=remapped,
                is_lost=at in lost,
            )
        )
    return made


def v100_gpus(gpus: int = 4, *, node: int = 0) -> list[Gpu]:
    """Return the GPUs of a V100 node: retired pages in place of remapped rows, the domain alone tells them apart."""
    return [
        Gpu(
            serial=serial_of(node, at),
            uuid=uuid_of(node, at),
            slot=f"{at + 1:08X}:00:00.0",
            minor=str(at),
            model="Tesla V100-SXM2-32GB",
            architecture="Volta",
            part_number=None,
            chip_number="900-2G503-0310-000",
            vbios="88.00.80.00.01",
            inforom="G503.0203.00.05",
            recovery_action=None,
            remapped=None,
            retired=("0", "0", "No"),
        )
        for at in range(gpus)
    ]


def gb200_gpus(*, node: int = 0) -> list[Gpu]:
    """Return the four GPUs of a GB200 tray: two boards with one serial each, and a chassis serial."""
    slots = ("00000008:01:00.0", "00000009:01:00.0", "00000018:01:00.0", "00000019:01:00.0")
    return [
        Gpu(
            serial=serial_of(node, at // 2),
            uuid=uuid_of(node, at),
            slot=slot,
            minor=str(at),
            model="NVIDIA GB200",
            architecture="Blackwell",
            part_number="900-2G548-0001-000",
            chip_number="2941-886-A1",
            module_id=str((2, 1, 4, 3)[at]),
            chassis_serial="1821900000017",
        )
        for at, slot in enumerate(slots)
    ]


def geforce_gpus(gpus: int = 1, *, node: int = 0) -> list[Gpu]:
    """Return GeForce cards: no serial, no ECC, no rows."""
    return [
        Gpu(
            serial="N/A",
            uuid=uuid_of(node, at),
            slot=f"00000000:{at + 1:02X}:00.0",
            minor=str(at),
            model="NVIDIA GeForce RTX 4090",
            architecture="Ada Lovelace",
            part_number="N/A",
            memory_temperature="N/A",
            ecc_mode="N/A",
            ecc=("N/A", "N/A", "N/A", "N/A"),
            remapped=None,
        )
        for at in range(gpus)
    ]


def change(machine: Sequence[Gpu], at: int, **changes: object) -> list[Gpu]:
    """Return the machine with one GPU changed."""
    return [replace(gpu, **changes) if here == at else gpu for here, gpu in enumerate(machine)]  # type: ignore[arg-type]


def _yes(flag: bool) -> str:
    return "Yes" if flag else "No"
