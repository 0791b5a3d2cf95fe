# SPDX-License-Identifier: Apache-2.0
"""How does a machine look to nvidia-smi? Documents of our own, in the shapes that the tool prints.

A machine is a list of `Gpu` values; each function writes one output of the tool about it. `h100_xml` is the short
way. Positions count from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tests.collectors.machines import Gpu, h100_gpus

STAMP = "Wed Sep  2 07:15:30 2026"
DRIVER = "580.82.07"
_LOST = "GPU is lost"


def h100_xml(
    gpus: int = 8,
    *,
    node: int = 0,
    serial: Callable[[int], str] | None = None,
    uuid: Callable[[int], str] | None = None,
    stamp: str = STAMP,
    attached: int | None = None,
    lost: Collection[int] = (),
    pending: Collection[int] = (),
    failed: Collection[int] = (),
    uncorrected: Collection[int] = (),
    without: Collection[int] = (),
    version: int = 13,
) -> bytes:
    """Return `nvidia-smi -q -x` of an H100 node; `without` holds positions that are counted and not listed."""
    machine = h100_gpus(
        gpus,
        node=node,
        serial=serial,
        uuid=uuid,
        lost=lost,
        pending=pending,
        failed=failed,
        uncorrected=uncorrected,
    )
    listed = [gpu for at, gpu in enumerate(machine) if at not in without]
    return xml_document(listed, stamp=stamp, attached=gpus if attached is None else attached, version=version)


def xml_document(
    machine: Sequence[Gpu], *, stamp: str = STAMP, attached: int | None = None, version: int | None = 13
) -> bytes:
    """Return `nvidia-smi -q -x`. `version` is that of the document type; None for drivers that named none."""
    doctype = f'<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v{version}.dtd">\n' if version else ""
    return (
        f'<?xml version="1.0" ?>\n{doctype}<nvidia_smi_log>\n'
        f"\t<timestamp>{stamp}</timestamp>\n\t<driver_version>{DRIVER}</driver_version>\n"
        f"\t<cuda_version>13.0</cuda_version>\n"
        f"\t<attached_gpus>{len(machine) if attached is None else attached}</attached_gpus>\n"
        f"{''.join(_xml_gpu(gpu, version or 9) for gpu in machine)}</nvidia_smi_log>\n"
    ).encode()


def q_document(machine: Sequence[Gpu], *, stamp: str = STAMP, attached: int | None = None) -> bytes:
    """Return `nvidia-smi -q`."""
    count = len(machine) if attached is None else attached
    heading = [
        ("Timestamp", stamp),
        ("Driver Version", DRIVER),
        ("CUDA Version", "13.0"),
        ("", ""),
        ("Attached GPUs", count),
    ]
    top = "\n".join(f"{key:<55}: {text}" if key else "" for key, text in heading)
    return f"\n==============NVSMI LOG==============\n\n{top}\n{''.join(_q_gpu(gpu) for gpu in machine)}\n".encode()


CSV_COLUMNS: dict[str, Callable[[Gpu], str]] = {
    "index": lambda gpu: gpu.minor,
    "name": lambda gpu: gpu.model,
    "serial": lambda gpu: gpu.serial,
    "uuid": lambda gpu: gpu.uuid,
    "pci.bus_id": lambda gpu: gpu.slot,
    "vbios_version": lambda gpu: gpu.vbios,
    "temperature.gpu": lambda gpu: _unless_lost(gpu, gpu.temperature),
    "ecc.errors.uncorrected.volatile.total": lambda gpu: _unless_lost(gpu, gpu.ecc[1]),
    "ecc.errors.uncorrected.aggregate.total": lambda gpu: _unless_lost(gpu, gpu.ecc[3]),
    "retired_pages.pending": lambda gpu: _unless_lost(gpu, gpu.retired[2]),
    "remapped_rows.pending": lambda gpu: _unless_lost(gpu, gpu.remapped[2] if gpu.remapped else "N/A"),
    "remapped_rows.failure": lambda gpu: _unless_lost(gpu, gpu.remapped[3] if gpu.remapped else "N/A"),
    "utilization.gpu [%]": lambda gpu: _unless_lost(gpu, "0 %"),
}


def csv_document(machine: Sequence[Gpu], columns: Sequence[str] = tuple(CSV_COLUMNS)) -> bytes:
    """Return `nvidia-smi --query-gpu=… --format=csv`."""
    rows = [list(columns)]
    rows.extend([_bracketed(CSV_COLUMNS[column](gpu)) for column in columns] for gpu in machine)
    return "".join(", ".join(row) + "\n" for row in rows).encode()


def list_document(machine: Sequence[Gpu]) -> bytes:
    """Return `nvidia-smi -L`."""
    text = ""
    for at, gpu in enumerate(machine):
        text += f"GPU {at}: {gpu.model} (UUID: {gpu.uuid})\n"
        text += "".join(f"  MIG 1g.10gb     Device  {no}: (UUID: {name})\n" for no, name in enumerate(gpu.slices))
    return text.encode()


def _unless_lost(gpu: Gpu, text: str) -> str:
    return _LOST if gpu.is_lost else text


def _bracketed(text: str) -> str:
    return f"[{text}]" if text in {"N/A", _LOST, "Unknown Error"} else text


def _tag(name: str, *inner: str) -> str:
    return f"<{name}>{''.join(inner)}</{name}>\n"


def _xml_gpu(gpu: Gpu, version: int) -> str:
    parts = [
        _tag("product_name", gpu.model),
        _tag("product_architecture", gpu.architecture) if version >= 11 else "",
        _tag("mig_mode", _tag("current_mig", "Enabled" if gpu.slices else "Disabled")),
        _tag("mig_devices", *(_xml_slice(at, name) for at, name in enumerate(gpu.slices)) if gpu.slices else ("None",)),
        _tag("serial", gpu.serial),
        _tag("uuid", gpu.uuid),
        _tag("minor_number", gpu.minor),
        _tag("vbios_version", gpu.vbios),
        _tag("multigpu_board", "No"),
        _tag("board_id", "0x1800"),
        _tag("board_part_number", gpu.part_number) if gpu.part_number is not None else "",
        _tag("gpu_part_number", gpu.chip_number),
        _xml_platform(gpu, version),
        _tag("inforom_version", _tag("img_version", gpu.inforom)),
        _tag("gpu_virtualization_mode", _tag("virtualization_mode", "None")),
        _tag("gpu_recovery_action", _unless_lost(gpu, gpu.recovery_action)) if gpu.recovery_action else "",
        _tag("pci", _tag("pci_bus_id", gpu.slot)),
        _tag("fan_speed", "N/A"),
        _tag("ecc_mode", _tag("current_ecc", gpu.ecc_mode)),
        _xml_memory(gpu, version),
        _tag("temperature", _tag("gpu_temp", _celsius(gpu, gpu.temperature)), _xml_memory_temperature(gpu)),
        _tag("processes", _tag("process_info", _tag("pid", "4711"), _tag("process_name", "/usr/bin/train"))),
    ]
    return f'<gpu id="{gpu.slot}">\n{"".join(parts)}</gpu>\n'


def _xml_slice(index: int, name: str) -> str:
    return _tag("mig_device", _tag("index", str(index)), _tag("uuid", name))


def _xml_platform(gpu: Gpu, version: int) -> str:
    if version < 12:
        return _tag("gpu_module_id", gpu.module_id)
    return _tag("platformInfo", _tag("chassis_serial_number", gpu.chassis_serial), _tag("module_id", gpu.module_id))


def _celsius(gpu: Gpu, degrees: str) -> str:
    return _unless_lost(gpu, f"{degrees} C" if degrees.lstrip("-").isdigit() else degrees)


def _xml_memory_temperature(gpu: Gpu) -> str:
    return _tag("memory_temp", _celsius(gpu, gpu.memory_temperature))


def _xml_memory(gpu: Gpu, version: int) -> str:
    if gpu.is_lost:
        return _tag("ecc_errors", _LOST) + _tag("retired_pages", _LOST) + _tag("remapped_rows", _LOST)
    single, double, pending = gpu.retired
    retired = _tag(
        "retired_pages",
        _tag("multiple_single_bit_retirement", _tag("retired_count", single)),
        _tag("double_bit_retirement", _tag("retired_count", double)),
        _tag("pending_retirement", pending),
    )
    errors = _tag("volatile", _xml_counters(*gpu.ecc[:2], version)) + _tag(
        "aggregate", _xml_counters(*gpu.ecc[2:], version)
    )
    return _tag("ecc_errors", errors) + retired + _xml_rows(gpu, version)


def _xml_counters(corrected: str, uncorrected: str, version: int) -> str:
    if version < 11:
        old = {"single_bit": corrected, "double_bit": uncorrected}
        return "".join(
            _tag(name, _tag("device_memory", count), _tag("cbu", "N/A"), _tag("total", count))
            for name, count in old.items()
        )
    none = "N/A" if uncorrected == "N/A" else "0"
    sram = (
        {"sram_uncorrectable": none}
        if version == 11
        else {"sram_uncorrectable_parity": none, "sram_uncorrectable_secded": none}
    )
    counters = {"sram_correctable": none, **sram, "dram_correctable": corrected, "dram_uncorrectable": uncorrected}
    return "".join(_tag(name, count) for name, count in counters.items())


def _xml_rows(gpu: Gpu, version: int) -> str:
    if gpu.remapped is None:
        return _tag("remapped_rows", "N/A") if version >= 11 else ""
    names = ("corr", "unc", "pending", "failure")
    return _tag(
        "remapped_rows", *(_tag(f"remapped_row_{name}", text) for name, text in zip(names, gpu.remapped, strict=True))
    )


def _q_gpu(gpu: Gpu) -> str:
    lines: list[tuple[int, str, str | None]] = [
        (1, "Product Name", gpu.model),
        (1, "Product Architecture", gpu.architecture),
        (1, "MIG Mode", None),
        (2, "Current", "Enabled" if gpu.slices else "Disabled"),
        *_q_slices(gpu),
        (1, "Serial Number", gpu.serial),
        (1, "GPU UUID", gpu.uuid),
        (1, "Minor Number", gpu.minor),
        (1, "VBIOS Version", gpu.vbios),
        (1, "MultiGPU Board", "No"),
        (1, "Board ID", "0x1800"),
        *([(1, "Board Part Number", gpu.part_number)] if gpu.part_number is not None else []),
        (1, "GPU Part Number", gpu.chip_number),
        (1, "Platform Info", None),
        (2, "Chassis Serial Number", gpu.chassis_serial),
        (2, "Module Id", gpu.module_id),
        (1, "Inforom Version", None),
        (2, "Image Version", gpu.inforom),
        (1, "GPU Virtualization Mode", None),
        (2, "Virtualization Mode", "None"),
        *([(1, "GPU Recovery Action", _unless_lost(gpu, gpu.recovery_action))] if gpu.recovery_action else []),
        (1, "PCI", None),
        (2, "Bus Id", gpu.slot),
        (1, "ECC Mode", None),
        (2, "Current", gpu.ecc_mode),
        *_q_memory(gpu),
        (1, "Temperature", None),
        (2, "GPU Current Temp", _celsius(gpu, gpu.temperature)),
        (2, "Memory Current Temp", _celsius(gpu, gpu.memory_temperature)),
        (1, "Processes", None),
        (2, "Process ID", "4711"),
        (3, "Name", "/usr/bin/train"),
        (1, "Capabilities", None),
        (2, "EGM", "disabled"),
    ]
    return "".join([f"GPU {gpu.slot}\n", *(_q_line(*line) for line in lines)])


def _q_line(level: int, key: str, text: str | None) -> str:
    indented = " " * 4 * level + key
    return f"{indented}\n" if text is None else f"{indented:<55}: {text}\n"


def _q_slices(gpu: Gpu) -> list[tuple[int, str, str | None]]:
    made: list[tuple[int, str, str | None]] = []
    for at, name in enumerate(gpu.slices):
        made += [(1, "MIG Device", None), (2, "Index", str(at)), (2, "UUID", name)]
        made += [(2, "ECC Errors", None), (3, "Volatile", None), (4, "SRAM Uncorrectable", "0")]
    return made


def _q_memory(gpu: Gpu) -> list[tuple[int, str, str | None]]:
    if gpu.is_lost:
        return [(1, key, _LOST) for key in ("ECC Errors", "Retired Pages", "Remapped Rows")]
    made: list[tuple[int, str, str | None]] = [(1, "ECC Errors", None)]
    for name, corrected, uncorrected in (("Volatile", *gpu.ecc[:2]), ("Aggregate", *gpu.ecc[2:])):
        none = "N/A" if uncorrected == "N/A" else "0"
        made += [(2, name, None), (3, "SRAM Correctable", none), (3, "SRAM Uncorrectable Parity", none)]
        made += [(3, "SRAM Uncorrectable SEC-DED", none), (3, "DRAM Correctable", corrected)]
        made += [(3, "DRAM Uncorrectable", uncorrected)]
    made += [(1, "Retired Pages", None)]
    retired = ("Single Bit ECC", "Double Bit ECC", "Pending Page Blacklist")
    made += [(2, key, text) for key, text in zip(retired, gpu.retired, strict=True)]
    if gpu.remapped is None:
        return [*made, (1, "Remapped Rows", "N/A")]
    rows = ("Correctable Error", "Uncorrectable Error", "Pending", "Remapping Failure Occurred")
    return [*made, (1, "Remapped Rows", None), *((2, key, text) for key, text in zip(rows, gpu.remapped, strict=True))]
