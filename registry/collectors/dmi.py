# SPDX-License-Identifier: Apache-2.0
"""What does the firmware call this machine? Serial and UUID of the system, from sysfs or from `dmidecode`.

Both are kept as printed; that "Not Specified" is no serial is decided with all other placeholders, in the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from registry.collectors.rdma import MAX_TEXT, check_value, lines, read_text
from registry.collectors.running import Runner, ToolFailed, ToolMissing
from registry.collectors.sysfs import DirectoryTree
from registry.domain.errors import PartUnreadable
from registry.domain.reports import Findings, Notice

_TOOL = "dmidecode"
_FOLDER = "class/dmi/id"
_ATTRIBUTES = {"serial": "product_serial", "uuid": "product_uuid"}
"""https://github.com/torvalds/linux/blob/master/drivers/firmware/dmi-id.c; both are for root only."""
_FIELDS = {"Serial Number": "serial", "UUID": "uuid"}
_STRUCTURE = re.compile(r"Handle 0x[0-9A-Fa-f]{4,8}, DMI type ([0-9]{1,3}), [0-9]{1,5} bytes?")
_SYSTEM = "1"
"""SMBIOS type 1, System Information: the machine, not its board (2) or chassis (3), which have serials too:
https://www.dmtf.org/standards/smbios"""
_FIELD = re.compile(r"\s+([A-Za-z][A-Za-z -]{0,40}):\s*(.*)")


def collect(root: Path, run: Runner) -> Findings:
    """Read sysfs below `root`, and ask `dmidecode` for what is not readable there. Never raises: it says what it lacks.

    Both need root; without, the host is told apart by what else the report says.
    """
    tree = DirectoryTree(root)
    found = {name: tree.text(f"{_FOLDER}/{attribute}") for name, attribute in _ATTRIBUTES.items()}
    said = {name: text for name, text in found.items() if text and text.isprintable() and len(text) <= MAX_TEXT}
    if len(said) == len(_ATTRIBUTES):
        return Findings(host=_host(said))
    try:
        asked = parse(run(["dmidecode", "-t", "system"]))
    except (ToolMissing, ToolFailed, PartUnreadable):
        missing = " and ".join(name for name in _ATTRIBUTES if name not in said)
        notice = Notice("dmi_unreadable", f"The {missing} of the system cannot be read; run the agent as root.")
        return Findings(host=_host(said), warnings=(notice,))
    return Findings(host=_host({**asked.host.get("dmi", {}), **said}))


def parse(data: bytes) -> Findings:
    """Return `{"dmi": {"serial", "uuid"}}` of `dmidecode` text, placeholders as printed. Raises PartUnreadable."""
    said: dict[str, str] = {}
    structure: str | None = None
    systems = 0
    for line in lines(read_text(data, _TOOL), _TOOL):
        begun, found = _STRUCTURE.fullmatch(line), _FIELD.fullmatch(line)
        if begun is not None:
            structure = begun[1]
            systems += structure == _SYSTEM
        elif structure == _SYSTEM and found is not None and found[1] in _FIELDS:
            name = _FIELDS[found[1]]
            said.setdefault(name, check_value(name, found[2].strip(), _TOOL))
    if systems != 1:
        what = "no" if systems == 0 else "more than one"
        raise PartUnreadable(f"{what} System Information is in it; send what `{_TOOL}` printed, run as root")
    return Findings(host=_host(said))


def _host(said: Mapping[str, str]) -> dict[str, dict[str, str]]:
    return {"dmi": dict(said)} if said else {}
