# SPDX-License-Identifier: Apache-2.0
"""What do the four outputs of nvidia-smi have in common? The names of the readings, and the list they make.

Each parser of this family turns its document into `Printed` values: texts under our names, one set per GPU. From
there on the document's form no longer matters, and `build_inventory` makes the list.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from registry.collectors.nvidia_smi_checks import (
    ALL_CHECKS,
    RESPONDING,
    Printed,
    Word,
    add_up,
    classify,
    derive_checks,
    read_count,
)
from registry.collectors.nvidia_smi_text import MAX_DEVICES, MAX_TEXT, Remarks, lines, shown
from registry.domain.errors import PartUnreadable
from registry.domain.identity import normalise_slot
from registry.domain.reports import CheckResult, DeviceEntry, Inventory, Kind, Notice, Reading, ReportedFailure

COUNTS = frozenset(
    {
        *("ecc_volatile_corrected", "ecc_volatile_uncorrected", "ecc_aggregate_corrected", "ecc_aggregate_uncorrected"),
        *("retired_sbe", "retired_dbe", "remap_corrected", "remap_uncorrected"),
        *("mig_devices", "minor", "index", "slot_number", "tray_index"),
    }
)
"""Readings that are numbers without a unit."""

TEMPERATURES = frozenset({"temperature_celsius", "memory_temperature_celsius"})
"""Readings in whole degrees Celsius."""

LOADS = {
    "power_watts": re.compile(r"(\d{1,5}(?:\.\d{1,3})?)(?: ?W)?"),
    "utilization_percent": re.compile(r"(\d{1,3})(?: ?%)?"),
}
"""What a GPU does: the power it draws and the share of time it was in use, each with the form it is printed in."""
_MOST = {"power_watts": 10_000, "utilization_percent": 100}
"""Numbers beyond these are blanks."""

WORDS = frozenset(
    {
        *("ecc_mode", "retired_pending", "remap_pending", "remap_failure", "recovery_action", "mig_current"),
        *("chassis_serial", "board_id", "multigpu_board", "architecture", "virtualization", "driver_version"),
        "sram_threshold_exceeded",
    }
)
"""Readings that are kept as the tool printed them."""

_VITAL = ("serial", "uuid", "model", "vbios")
"""What every GPU that answers can tell: `Unknown Error` here means that it does not answer. In one of the many other
fields (`Addressing Mode`, a temperature) the same words are seen on GPUs that are fine: that field alone is unread."""

_TEMPERATURE = re.compile(r"(-?\d{1,19})(?:\.\d+)?(?: ?C)?")
_COLDEST, _HOTTEST = -50, 200
"""Degrees beyond which a number is no temperature: 510, 65535 and the blanks of DCGM are printed on some parts."""

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Heading:
    """What the document says about itself."""

    attached: int | None = None
    stamp: str | None = None
    driver_version: str | None = None
    notices: tuple[Notice, ...] = ()


def name_texts(paths: Mapping[str, str], table: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the texts of one GPU's tree under our names. Of several paths for one name the first that is there counts.

    A block that prints a word instead of its contents (`<remapped_rows>N/A</remapped_rows>`) gives it to all in it.
    """
    texts = {}
    for name, candidates in table.items():
        found = next((text for path in candidates if (text := _find(paths, path)) is not None), None)
        if found is not None:
            texts[name] = found
    for era in ("volatile", "aggregate"):
        for name, words in (
            ("corrected", ("correctable", "single_bit")),
            ("uncorrected", ("uncorrectable", "double_bit")),
        ):
            total = add_up(_ecc_terms(paths, f"ecc_errors/{era}", *words))
            if total is not None:
                texts[f"ecc_{era}_{name}"] = total
    return texts


def find_gone(texts: Mapping[str, str]) -> str | None:
    """Return what says that a GPU does not answer, None when nothing does."""
    for name in _VITAL:
        text = texts.get(name, "")
        if text.strip("[] .").casefold() == "unknown error":
            return f"{name} reads {text.strip()}"
    return next((text for text in texts.values() if classify(text) is Word.GONE), None)


def build_inventory(
    gpus: Iterable[Printed], remarks: Remarks, heading: Heading, asked: frozenset[str] = ALL_CHECKS
) -> Inventory:
    """Make the list of one document, with the checks that were `asked` for and the faults named around it.

    Raises PartUnreadable for a PCI address or a value that cannot be one, and for more devices than a machine has.
    """
    entries: list[DeviceEntry] = []
    checks: list[CheckResult] = []
    _check_length("timestamp", heading.stamp or "")
    for gpu in _with_unreachable(gpus, remarks):
        entry = _build_entry(gpu, heading.driver_version)
        entries.append(entry)
        checks.extend(derive_checks(gpu, _device_name(entry), asked))
    if len(entries) > MAX_DEVICES:
        raise PartUnreadable(f"the output lists {len(entries)} GPUs; no machine has more than {MAX_DEVICES}")
    return Inventory(
        kind=Kind.GPU,
        entries=tuple(entries),
        checks=tuple(checks),
        failures=tuple(_inforom_failures(remarks, heading, entries)),
        attached=heading.attached,
        stamp=heading.stamp,
        warnings=(*heading.notices, *remarks.notices),
    )


def read_complaints(text: str) -> Inventory | None:
    """Read an output that is nothing but complaints about GPUs which do not answer; None for every other.

    One lost GPU can keep nvidia-smi from listing the rest, of which that says nothing: the inventory is no list.
    Raises PartUnreadable.
    """
    remarks = Remarks()
    if not all(remarks.take(line) for line in lines(text)) or not remarks.unreachable:
        return None
    return without_list(build_inventory((), remarks, Heading(), asked=frozenset({RESPONDING})))


def without_list(inventory: Inventory) -> Inventory:
    """Keep what was found, of an output that lists nobody who answers."""
    return replace(inventory, entries=(), is_list=False)


def read_attached(text: str | None) -> int | None:
    """Return how many GPUs the tool says there are, None where it does not say."""
    count = read_count(text)
    return count if isinstance(count, int) and count <= MAX_DEVICES else None


def _find(paths: Mapping[str, str], path: str) -> str | None:
    """Return the text at the path, else that of the nearest block around it which printed a word."""
    while path:
        if path in paths:
            return paths[path]
        path = path.rpartition("/")[0]
    return None


def _ecc_terms(paths: Mapping[str, str], block: str, ending: str, old_block: str) -> list[str]:
    """Return the counters to add up, whatever the era of the document.

    Until Volta `single_bit` and `double_bit` hold one counter per memory and a `total`. Since Turing there are
    `sram_` and `dram_` counters; from driver 535 on the SRAM's uncorrectable ones stand apart by parity and SEC-DED.
    """
    old = {path: text for path, text in paths.items() if path.startswith(f"{block}/{old_block}/")}
    total = old.get(f"{block}/{old_block}/total")
    if total is not None and isinstance(read_count(total), int):
        return [total]
    new = {path: text for path, text in paths.items() if path.startswith(f"{block}/") and f"_{ending}" in path}
    whole = {path for path in new if path.endswith(f"_{ending}")}
    terms = [text for path, text in new.items() if path in whole or path.rpartition("_")[0] not in whole]
    terms.extend(old.values())
    around = _find(paths, f"{block}/{old_block}")
    return terms or ([around] if around is not None else [])


def _with_unreachable(gpus: Iterable[Printed], remarks: Remarks) -> list[Printed]:
    """Add the places that nvidia-smi could not reach; one that is listed all the same stays one entry."""
    listed = list(gpus)
    slots = {_read_slot(gpu.texts): at for at, gpu in enumerate(listed)}
    unreachable: dict[str, Printed] = {}
    for line in remarks.unreachable:
        address = _ADDRESS.search(line)
        slot = normalise_slot(address[0]) if address else None
        if slot is not None and slot in slots:
            listed[slots[slot]] = replace(listed[slots[slot]], gone=line)
        else:
            unreachable[slot or line] = Printed(texts={"slot": slot} if slot else {}, gone=line)
    return [*unreachable.values(), *listed]


def _build_entry(gpu: Printed, driver_version: str | None) -> DeviceEntry:
    texts = dict(gpu.texts) if driver_version is None else {"driver_version": driver_version, **gpu.texts}
    for name, text in texts.items():
        _check_length(name, text)
    driver = _read("driver_version", texts.get("driver_version", ""))
    firmware = {
        "vbios": _value(texts, "vbios"),
        "inforom": _value(texts, "inforom"),
        "driver": str(driver) if driver else None,
    }
    return DeviceEntry(
        kind=Kind.GPU,
        vendor="nvidia",
        slot=_read_slot(texts),
        serial=texts.get("serial"),
        uuid=texts.get("uuid"),
        model=_value(texts, "model"),
        part_number=_value(texts, "part_number"),
        module_id=_value(texts, "module_id"),
        firmware={name: text for name, text in firmware.items() if text is not None},
        readings={name: _read(name, text) for name, text in sorted(texts.items()) if name in _READINGS},
        slices=gpu.slices,
    )


def _check_length(name: str, text: str) -> None:
    if len(text) > MAX_TEXT:
        raise PartUnreadable(f"{name} has {len(text)} characters ({shown(text)}); send what nvidia-smi printed")


_READINGS = COUNTS | TEMPERATURES | WORDS | LOADS.keys()


def _read(name: str, text: str) -> Reading:
    if name in COUNTS:
        count = read_count(text)
        return count if isinstance(count, int) else None
    if name in TEMPERATURES:
        return _read_temperature(text)
    if name in LOADS:
        return _read_load(name, text)
    if classify(text) is not Word.VALUE:
        return None
    # Driver 610 adds a remark: "610.62 [Deprecated; will be removed …]".
    return text.partition(" [")[0].strip() if name == "driver_version" else text.strip()


def _read_temperature(text: str) -> int | None:
    found = _TEMPERATURE.fullmatch(text.strip())
    degrees = int(found[1]) if found else 0
    # Zero is what virtual GPUs print for "no sensor"; nothing that computes is as cold as that.
    return degrees if degrees and _COLDEST <= degrees <= _HOTTEST else None


def _read_load(name: str, text: str) -> float | int | None:
    found = LOADS[name].fullmatch(text.strip()) if text.isascii() else None
    if found is None or float(found[1]) > _MOST[name]:
        return None
    return float(found[1]) if name == "power_watts" else int(found[1])


def _read_slot(texts: Mapping[str, str]) -> str | None:
    for name in ("slot", "slot_header"):
        text = texts.get(name)
        if text is None or classify(text) is not Word.VALUE:
            continue
        slot = normalise_slot(text)
        if slot is None:
            raise PartUnreadable(f"{shown(text)} is not a PCI address; send the output of nvidia-smi as it was printed")
        return slot
    return None


def _value(texts: Mapping[str, str], name: str) -> str | None:
    text = texts.get(name)
    return text.strip() if text is not None and classify(text) is Word.VALUE else None


def _device_name(entry: DeviceEntry) -> str | None:
    named = (text for text in (entry.uuid, entry.serial) if classify(text) is Word.VALUE)
    return entry.slot or next(named, None)


def _inforom_failures(remarks: Remarks, heading: Heading, entries: Sequence[DeviceEntry]) -> Iterable[ReportedFailure]:
    """Name each warning once per look. The GPUs' own names are in the id: two nodes may look in the same second."""
    look = "\n".join([heading.stamp or "", *(f"{entry.uuid} {entry.serial} {entry.slot}" for entry in entries)])
    for line in dict.fromkeys(remarks.inforom):
        address = _ADDRESS.search(line)
        digest = hashlib.sha256(f"{look}\n{line}".encode()).hexdigest()
        yield ReportedFailure(
            failure_id=f"inforom-{digest[:32]}",
            code="gpu.inforom",
            slot=normalise_slot(address[0]) if address else None,
            message=line,
        )
