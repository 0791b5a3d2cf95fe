# SPDX-License-Identifier: Apache-2.0
"""What does `ibv_devinfo -v` say of the EFAs? Name, GUID, GID, firmware; and nothing of the link.

The EFA driver answers ACTIVE for every port, whatever the network does, so a good port state proves nothing here:
`efa_query_port`, https://github.com/torvalds/linux/blob/master/drivers/infiniband/hw/efa/efa_verbs.c
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from registry.collectors.nvidia_smi_text import shown
from registry.collectors.rdma import (
    LINK_CHECK,
    MAX_DEVICES,
    check_end,
    check_entries,
    check_value,
    efa_entry,
    is_efa,
    lines,
    other_cards,
    read_hex,
    read_text,
)
from registry.collectors.running import Runner
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Inventory, Kind

_TOOL = "ibv_devinfo -v"
_LINE = re.compile(r"([a-z_]{1,20}|GID\[  0\])\s*:\s*(.*)")
_KEPT = frozenset({"fw_ver", "node_guid", "vendor_id", "vendor_part_id", "hw_ver", "state", "phys_state", "GID[  0]"})
_NONE_FOUND = "no ib devices found"


@dataclass(slots=True)
class _Device:
    """One block: the first value of each key that is of use."""

    name: str
    texts: dict[str, str] = field(default_factory=dict)


def collect(root: Path, run: Runner) -> Inventory:  # noqa: ARG001 - all collectors are called alike
    """Run the tool and read it. Raises ToolMissing, ToolFailed, PartUnreadable."""
    return parse(run(["ibv_devinfo", "-v"]))


def parse(data: bytes) -> Inventory:
    """Return the EFAs of one output; other cards are only remarked on.

    A port that is not active fails `efa.link`; an active one says nothing. Raises PartUnreadable.
    """
    text = read_text(data, _TOOL)
    check_end(text, _TOOL)
    devices = _read_devices(text)
    efas = [device for device in devices if _is_efa(device)]
    entries = tuple(_entry(device) for device in efas)
    check_entries(entries, _TOOL)
    checks = [_down(device, entry) for device, entry in zip(efas, entries, strict=True) if _is_down(device.texts)]
    others = (f"{device.name} (vendor {device.texts['vendor_id']})" for device in devices if not _is_efa(device))
    return Inventory(kind=Kind.EFA, entries=entries, checks=tuple(checks), warnings=other_cards(others))


def _read_devices(text: str) -> list[_Device]:
    devices: list[_Device] = []
    for line in lines(text, _TOOL):
        found = _LINE.fullmatch(line.strip())
        if found is not None and found[1] == "hca_id":
            devices.append(_Device(check_value("hca_id", found[2].strip(), _TOOL)))
        elif not line[0].isspace() or not devices:
            _read_remark(line.strip())
        elif found is not None and found[1] in _KEPT:
            devices[-1].texts.setdefault(found[1], check_value(found[1], found[2].strip(), _TOOL))
        if len(devices) > MAX_DEVICES:
            raise PartUnreadable(f"the output lists more than {MAX_DEVICES} devices; no machine has as many")
    for device in devices:
        if not device.name or not {"vendor_id", "vendor_part_id"} <= device.texts.keys():
            raise PartUnreadable(f"{device.name!r} has no vendor: the output is cut off; send all of it")
    return devices


def _read_remark(line: str) -> None:
    """Pass over what the library says beside the list, and over the sentence that there is nothing to list."""
    if line.lower() == _NONE_FOUND or line.startswith("libibverbs: Warning"):
        return
    raise PartUnreadable(
        f"ibv_devinfo does not list a device here: {shown(line)}; see to it, and send its whole output"
    )


def _is_efa(device: _Device) -> bool:
    return is_efa(read_hex(device.texts["vendor_id"]), _part(device.texts["vendor_part_id"]), None)


def _part(text: str) -> int | None:
    """Return the part number: the one id that ibv_devinfo prints in decimal."""
    return int(text) if re.fullmatch(r"[0-9]{1,10}", text) else None


def _entry(device: _Device) -> DeviceEntry:
    texts = device.texts
    # Newer versions add the kind of the GID after a comma.
    gid = texts.get("GID[  0]", "").partition(",")[0].strip()
    plain = efa_entry(
        device.name,
        None,
        _part(texts["vendor_part_id"]),
        gid=gid or None,
        node_guid=texts.get("node_guid") or None,
    )
    firmware = {"efa": texts["fw_ver"]} if texts.get("fw_ver") else {}
    return replace(plain, firmware=firmware, readings=_readings(texts))


def _readings(texts: Mapping[str, str]) -> dict[str, str]:
    named = {"port_state": "state", "phys_state": "phys_state", "hw_ver": "hw_ver"}
    return {name: _word(texts[key]) for name, key in named.items() if texts.get(key)}


def _word(text: str) -> str:
    """Return `PORT_ACTIVE (4)` as `ACTIVE`."""
    return text.partition(" (")[0].removeprefix("PORT_")


def _is_down(texts: Mapping[str, str]) -> bool:
    return _word(texts.get("state", "")) in {"DOWN", "INIT", "ARMED"}


def _down(device: _Device, entry: DeviceEntry) -> CheckResult:
    message = f"the port of {device.name} is {_word(device.texts['state'])}"
    return CheckResult(LINK_CHECK, CheckStatus.FAIL, device=entry.slot, code="efa.link_down", message=message)
