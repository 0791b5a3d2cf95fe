# SPDX-License-Identifier: Apache-2.0
"""Which EFAs does libfabric offer (`fi_info -p efa`)? Each stands there once per endpoint type, and counts once.

An entry's domain is the device's name with `-rdm` or `-dgrm` behind it; the fabric may hold the device's GID.
"""

from __future__ import annotations

import re
from pathlib import Path

from registry.collectors.nvidia_smi_text import shown
from registry.collectors.rdma import (
    MAX_DEVICES,
    check_end,
    check_entries,
    check_value,
    device_name,
    efa_entry,
    lines,
    other_cards,
    read_text,
)
from registry.collectors.running import Runner
from registry.domain.errors import PartUnreadable
from registry.domain.reports import Inventory, Kind

_TOOL = "fi_info -p efa"
_LINE = re.compile(r"\s*([a-z_]{1,20})\s*:\s*(.*)")
_KEYS = frozenset({"provider", "fabric", "domain", "version", "type", "protocol"})
_GID_IN_FABRIC = re.compile(r"EFA-(.+)")
_FAILED = re.compile(r"fi_getinfo\b", re.IGNORECASE)


def collect(root: Path, run: Runner) -> Inventory:  # noqa: ARG001 - all collectors are called alike
    """Run the tool and read it. Raises ToolMissing, ToolFailed, PartUnreadable."""
    return parse(run(["fi_info", "-p", "efa"]))


def parse(data: bytes) -> Inventory:
    """Return one entry per device of the efa provider; other providers are only remarked on. Raises PartUnreadable.

    `fi_getinfo: -61` is refused too: a libfabric without the provider says it as well as a machine without EFAs.
    """
    text = read_text(data, _TOOL)
    check_end(text, _TOOL)
    gids: dict[str, str | None] = {}
    others: dict[str, None] = {}
    for entry in _read_entries(text):
        if entry["provider"] != "efa":
            others[entry["provider"]] = None
            continue
        name = device_name(entry.get("domain", ""))
        if not name:
            raise PartUnreadable("an entry of the efa provider names no domain: the output is cut off; send all of it")
        found = _GID_IN_FABRIC.fullmatch(entry.get("fabric", ""))
        gids[name] = gids.get(name) or (found[1] if found else None)
        if len(gids) > MAX_DEVICES:
            raise PartUnreadable(f"the output lists more than {MAX_DEVICES} devices; no machine has as many")
    entries = tuple(efa_entry(name, None, None, gid=gid) for name, gid in gids.items())
    check_entries(entries, _TOOL)
    return Inventory(kind=Kind.EFA, entries=entries, warnings=other_cards(f"provider {name}" for name in others))


def _read_entries(text: str) -> list[dict[str, str]]:
    entries: list[dict[str, str]] = []
    for number, line in enumerate(lines(text, _TOOL), start=1):
        if _FAILED.match(line.strip()):
            raise PartUnreadable(f"fi_info found no provider: {shown(line)}; check libfabric and the efa driver")
        found = _LINE.fullmatch(line)
        if found is None or found[1] not in _KEYS or (not entries and found[1] != "provider"):
            raise PartUnreadable(
                f"line {number} is not of fi_info: {shown(line)}; send what `{_TOOL}` printed, without -v"
            )
        value = check_value(found[1], found[2].strip(), _TOOL)
        if found[1] == "provider":
            entries.append({"provider": value})
        elif entries[-1].setdefault(found[1], value) != value:
            raise PartUnreadable(f"line {number} says {found[1]} a second time in one entry; send one run of fi_info")
    return entries
