# SPDX-License-Identifier: Apache-2.0
"""Which boot is this, when did it begin, and which life of the machine is it?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from registry.collectors.running import Runner
from registry.collectors.sysfs import DirectoryTree
from registry.domain.errors import PartUnreadable
from registry.domain.identifiers import usable_text

_BOOT_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_BTIME = re.compile(r"^btime ([0-9]{1,10})$", re.MULTILINE)
_EC2_INSTANCE = re.compile(r"i-(?:[0-9a-f]{8}|[0-9a-f]{17})")
_MAX_STAT_BYTES = 4 * 1024 * 1024
"""/proc/stat has a line per processor and one of all interrupts: some 100 KiB on the largest machines."""


@dataclass(frozen=True, slots=True)
class Boot:
    """The current boot. `booted_at` is in UTC, by the node's own clock, and None where the kernel does not say.

    `provider_id` is None where nothing names the instance; then somebody has to.
    """

    boot_id: str
    booted_at: datetime | None = None
    provider_id: str | None = None


def collect(root: Path, run: Runner, provider_id: str | None = None) -> Boot:  # noqa: ARG001 - all are called alike
    """Read the boot from /proc below `root`. A `provider_id` that was set stands before what the machine says.

    Raises PartUnreadable without a boot id: nothing that a node says can be used without.
    """
    boot_id = parse_boot_id(_read(root / "proc/sys/kernel/random/boot_id"))
    return Boot(boot_id, read_boot_time(root), (provider_id or "").strip() or read_provider_id(root))


def read_boot_time(root: Path) -> datetime | None:
    """Return when the boot began, by the clock as it is set now: the kernel counts it back from there at each reading
    (https://github.com/torvalds/linux/blob/master/fs/proc/stat.c, `getboottime64`). None where it is missing.
    """
    return parse_boot_time(_read(root / "proc/stat"))


def parse_boot_id(data: bytes) -> str:
    """Return the random id that the kernel gives each boot (man 4 random). Raises PartUnreadable."""
    text = data.decode("ascii", "replace").strip().lower()
    if not _BOOT_ID.fullmatch(text) or not text.strip("0-"):
        raise PartUnreadable("/proc/sys/kernel/random/boot_id holds no boot id; mount /proc, or run on the host itself")
    return text


def parse_boot_time(data: bytes) -> datetime | None:
    """Return the `btime` of /proc/stat, in UTC (man 5 proc_stat); None where it is missing."""
    found = _BTIME.search(data.decode("ascii", "replace"))
    return datetime.fromtimestamp(int(found[1]), UTC) if found else None


def read_provider_id(root: Path) -> str | None:
    """Return what names this life of the machine: the EC2 instance id, else the system's UUID; None without either.

    Nitro instances carry their id as the board's asset tag, readable by everybody:
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html
    A virtual machine of another cloud gets a UUID with each life, and only root can read it. A machine of one's own
    keeps it for life, which is right there.
    """
    tree = DirectoryTree(root)
    tag = tree.text("class/dmi/id/board_asset_tag") or ""
    if _EC2_INSTANCE.fullmatch(tag):
        return tag
    uuid = usable_text(tree.text("class/dmi/id/product_uuid"))
    return f"dmi:{uuid.lower()}" if uuid and uuid.isprintable() and len(uuid) <= 64 else None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_STAT_BYTES)
    except OSError:
        return b""
