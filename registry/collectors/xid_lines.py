# SPDX-License-Identifier: Apache-2.0
"""What does a message of NVIDIA's driver say? Xids, SXids, the GPUs it names, and faults that have no number.

The forms are those of https://docs.nvidia.com/deploy/xid-errors/ and, for NVSwitches, of the fabric manager's guide
(https://docs.nvidia.com/datacenter/tesla/pdf/fabric-manager-user-guide.pdf). The number alone decides about the code:
the text after it carries names of processes, which anybody may choose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from registry.collectors.kernel_prefixes import is_name_of_process
from registry.domain.identifiers import normalise_slot, usable_serial, usable_uuid

NVLINK_XIDS = frozenset(range(144, 151))
"""Xids of NVLink 5, whose text names the unit, how bad it is, the link, and whether the error was injected."""
RECOVERY_XID = 154
"""Says which recovery action the driver now asks for."""

MAX_NAMED = 1024
"""More GPUs than any machine has: names beyond these are not kept."""

_XID = re.compile(r"NVRM: *Xid *(?:\(([^()]{0,64})\))? *: *([0-9]{1,6})(?![0-9A-Za-z_])(.*)")
_SXID = re.compile(r"nvidia-nvswitch([0-9]{0,4}): *SXid *\(([^()]{0,64})\) *: *([0-9]{1,6})(?![0-9A-Za-z_])(.*)")
_LOOKS_LIKE_ONE = re.compile(r"NVRM: *Xid|nvidia-nvswitch[0-9]{0,4}: *SXid")

_INSTANCE = re.compile(r" +GPU-I:([0-9]{1,4})(?: +GPU-CI:([0-9]{1,4}))?$")
"""What follows the address where the GPU is partitioned: the GPU instance and the compute instance that were hit.
https://docs.nvidia.com/datacenter/tesla/mig-user-guide/"""
_PROCESS = re.compile(r", *pid='?([0-9]{1,10}|<unknown>)'?(?:, *name=([^,]{0,64}))?")
# A process may be named so that its name looks like a flag. Names have 15 characters at most, and so no room for all
# that is asked for here: a unit, how bad, which copy, and the flag.
_NVLINK = re.compile(
    r"(?:, *pid=[^,]{0,32}, *name=[^,]{0,64})?, *((?:SAW|RLW|TLW|TREX|NVLPW|NETIR|MSE)[A-Z0-9_/]{0,48})"
    r" {1,16}(Fatal|Non-?fatal|Link Fatal) {1,16}XC[0-9] {1,16}i([01])(?: {1,16}Link {1,4}(-?[0-9]{1,4}))?",
    re.IGNORECASE,
)
_RECOVERY = re.compile(
    r"changed from 0x[0-9a-f]{1,8} \(([^()]{1,64})\) to 0x[0-9a-f]{1,8} \(([^()]{1,64})\)", re.IGNORECASE
)
_SXID_TEXT = re.compile(r", *(?:(Fatal|Non-fatal|Link Fatal)\b)?(?:, *Link (-?[0-9]{1,4}))?", re.IGNORECASE)
_SXID_DETAIL = re.compile(r", *(?:Severity |Data )")

_UUID = re.compile(
    r"NVRM: GPU at (?:PCI:)?([0-9a-f:.]{4,20}): (GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b", re.IGNORECASE
)
_BOARD_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: ([0-9A-Za-z]{6,32})\b")
_SERIAL = re.compile(r"NVRM: GPU ([0-9a-f:.]{4,20}): GPU serial number is ([0-9A-Za-z]{6,32})\b", re.IGNORECASE)
_OFF_BUS = re.compile(
    r"NVRM: GPU (?:at )?(?:PCI:)?([0-9a-f:.]{3,19}[0-9a-f]):?(?: GPU)? has fallen off the bus", re.IGNORECASE
)
"""As newer and older drivers put it; without a number, and sometimes nothing else is said."""
_NOT_ANSWERING = re.compile(r"NVRM: The NVIDIA GPU ([0-9a-f:.]{4,20})(?![0-9a-z])(.*)", re.IGNORECASE)
_OFF_BUS_END = re.compile(
    r" *(?:NVRM: *)?(?:\(PCI ID: [^()]{0,24}\) *)?(?:installed in this system has *)?fallen off the bus"
)
_UNSUPPORTED_END = re.compile(
    r" *(?:NVRM: *)?(?:\(PCI ID: [^()]{0,24}\) *)?(?:installed in this (?:[A-Za-z]{1,16} host )?system *)?"
    r"is not supported by\b"
)
"""What the driver says of a GPU that it will not run, one that went bad and shows other ids included.
https://github.com/NVIDIA/open-gpu-kernel-modules/blob/main/kernel-open/nvidia/nv-pci.c"""
_PROBE_FAILED = re.compile(
    r"nvidia(?:: probe of ([0-9a-f:.]{4,20})| ([0-9a-f:.]{4,20}): probe with driver nvidia) failed with error "
    r"(-[0-9]{1,5})",
    re.IGNORECASE,
)
"""What the kernel says then, in its older and its newer words.
https://github.com/torvalds/linux/blob/master/drivers/base/dd.c"""
_INIT_FAILED = re.compile(r"NVRM: (?:GPU ([0-9a-f:.]{4,20}): )?RmInitAdapter failed!", re.IGNORECASE)
_RESET_REQUIRED = re.compile(r"NVRM: .{0,400}\[NV_ERR_RESET_REQUIRED\]")
_LOADING = re.compile(r"NVRM: loading NVIDIA UNIX .{0,80}?Kernel Module.{0,40}? ([0-9]{3,4}\.[0-9.]{1,12})(?![0-9.])")

_INSTANCES = ("gpu_instance", "compute_instance")
_ENDS = {_OFF_BUS_END: "gpu.fallen_off_bus", _UNSUPPORTED_END: "gpu.init_failed"}
_REACH = 4
"""Lines of the driver within which `The NVIDIA GPU <address>` may be followed by what is the matter with it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that a message reports, a restart of the driver included.

    `slot` is the GPU's place, None for the node as a whole and for NVSwitches, which are no GPUs. `device` is the
    UUID or serial that earlier lines gave for the slot. A `detail` goes with a fault that was told before it.
    """

    code: str
    slot: str | None = None
    device: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    is_detail: bool = False

    @property
    def is_injected(self) -> bool:
        """True for an error that a test put in."""
        return self.evidence.get("injected") is True

    @property
    def place(self) -> str | None:
        """What tells two faults of one code apart: the slot, or the place as it was printed."""
        printed = self.evidence.get("nvswitch_slot", self.evidence.get("place"))
        return self.slot or (None if printed is None else str(printed))


@dataclass(slots=True)
class DriverMessages:
    """Reads the messages of one boot in their order: some only make sense together with those before."""

    uuids: dict[str, str] = field(default_factory=dict)
    serials: dict[str, str] = field(default_factory=dict)
    _named: str | None = None
    _pending: str | None = None
    _lines_left: int = 0

    def read(self, message: str, *, continues: bool = False) -> Fault | None:
        """Return what a message reports, None for names and everything else.

        A message that `continues` another one cannot begin anything of its own.
        """
        if is_name_of_process(message):
            return None
        finished = self._finish(message)
        if finished is not None or continues:
            return finished
        found = _PROBE_FAILED.match(message)
        if found is not None:
            place = found[1] or found[2]
            return self._at("gpu.init_failed", normalise_slot(place), {"place": place, "error": int(found[3])})
        if not message.startswith("NVRM:"):
            return _read_sxid(message)
        if self._keep_names(message):
            return None
        found = _XID.match(message)
        return self._xid(found[1], int(found[2]), found[3]) if found else self._unnumbered(message)

    def is_unread(self, message: str) -> bool:
        """Tell whether a message begins as an Xid or SXid does: one that was not read was wrong in an unknown way."""
        return _LOOKS_LIKE_ONE.match(message) is not None and not is_name_of_process(message)

    def _xid(self, place: str | None, number: int, text: str) -> Fault | None:
        if number == 0:
            return None
        evidence: dict[str, Any] = {}
        instance = _INSTANCE.search(place or "")
        if instance is not None:
            place = instance.string[: instance.start()]
            evidence |= {name: int(text) for name, text in zip(_INSTANCES, instance.groups(), strict=True) if text}
        slot = normalise_slot((place or "").removeprefix("PCI:"))
        if slot is None and place:
            evidence["place"] = place
        process = _PROCESS.match(text)
        if process is not None:
            evidence["pid"] = process[1]
            if process[2]:
                evidence["process"] = process[2].strip()
        if number in NVLINK_XIDS:
            evidence |= _nvlink(text)
        recovery = _RECOVERY.search(text) if number == RECOVERY_XID else None
        if recovery is not None:
            evidence |= {"recovery_action_before": recovery[1], "recovery_action": recovery[2]}
        return self._at(f"xid_{number}", slot, evidence)

    def _unnumbered(self, message: str) -> Fault | None:
        found = _OFF_BUS.match(message)
        if found is not None:
            return self._at("gpu.fallen_off_bus", normalise_slot(found[1]), {"place": found[1]})
        found = _INIT_FAILED.match(message)
        if found is not None:
            return self._at("gpu.init_failed", normalise_slot(found[1]), {"place": found[1]} if found[1] else {})
        if _RESET_REQUIRED.match(message):
            return Fault("gpu.requires_reset")
        found = _LOADING.match(message)
        return Fault("driver_loaded", evidence={"driver_version": found[1]}) if found else None

    def _finish(self, message: str) -> Fault | None:
        """Read `The NVIDIA GPU <address>` … `fallen off the bus` or `is not supported`, printed on three lines.

        https://github.com/NVIDIA/NVSentinel/issues/155
        """
        found = _NOT_ANSWERING.match(message)
        if found is not None:
            self._pending, self._lines_left = found[1], _REACH
            message = found[2]
        elif self._pending is None or not message.startswith("NVRM:"):
            return None
        self._lines_left -= 1
        place = self._pending
        code = next((code for end, code in _ENDS.items() if end.match(message)), None)
        if code or self._lines_left == 0:
            self._pending = None
        return self._at(code, normalise_slot(place), {"place": place}) if code else None

    def _at(self, code: str, slot: str | None, evidence: dict[str, Any]) -> Fault:
        if slot is None:
            return Fault(code, evidence=evidence)
        evidence.pop("place", None)
        return Fault(code, slot, self.uuids.get(slot) or self.serials.get(slot), evidence)

    def _keep_names(self, message: str) -> bool:
        """Keep the UUID and serial that the driver prints before the first Xid of a GPU; say whether it was one."""
        named = _UUID.match(message)
        if named is not None:
            self._named = normalise_slot(named[1])
            self._keep(self.uuids, self._named, usable_uuid(named[2]))
            return True
        printed = _BOARD_SERIAL.match(message)
        if printed is not None:
            self._keep(self.serials, self._named, usable_serial(printed[1]))
        self._named = None
        told = _SERIAL.match(message)
        if told is not None:
            self._keep(self.serials, normalise_slot(told[1]), usable_serial(told[2]))
        return printed is not None or told is not None

    @staticmethod
    def _keep(names: dict[str, str], slot: str | None, name: str | None) -> None:
        if slot is not None and name is not None and (slot in names or len(names) < MAX_NAMED):
            names[slot] = name


def _nvlink(text: str) -> dict[str, Any]:
    found = _NVLINK.match(text)
    if found is None:
        return {}
    evidence: dict[str, Any] = {"unit": found[1], "severity": found[2].replace("-", "").lower()}
    if found[4] is not None:
        evidence["link"] = int(found[4])
    if found[3] == "1":
        evidence["injected"] = True
    return evidence


def _read_sxid(message: str) -> Fault | None:
    """Read an error of an NVSwitch. Its address is the switch's, so no GPU is named."""
    found = _SXID.match(message)
    if found is None or int(found[3]) == 0:
        return None
    place = found[2].removeprefix("PCI:")
    evidence: dict[str, Any] = {"nvswitch_slot": normalise_slot(place) or place}
    if found[1]:
        evidence["nvswitch"] = int(found[1])
    said = _SXID_TEXT.match(found[4])
    if said is not None and said[1]:
        evidence["severity"] = said[1].replace("-", "").lower()
    if said is not None and said[2]:
        evidence["link"] = int(said[2])
    is_detail = _SXID_DETAIL.match(found[4]) is not None
    return Fault(f"sxid_{int(found[3])}", evidence=evidence, is_detail=is_detail)
