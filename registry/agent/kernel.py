# SPDX-License-Identifier: Apache-2.0
"""What has the kernel said since the last look, and what did it say in this boot that still counts?

It is read from `/dev/kmsg`, record by record and without waiting: the first look reads all that the kernel still
holds, every later one only what was added (https://www.kernel.org/doc/Documentation/ABI/testing/dev-kmsg). Where that
may not be read, the journal is asked, then dmesg. Where neither answers, nobody knows whether there was an Xid.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from registry.agent.memory import Memory
from registry.collectors.boot import Boot, read_boot_time
from registry.collectors.kernel_log import CHECK, parse, parse_new_lines
from registry.collectors.running import Runner, ToolFailed, ToolMissing
from registry.domain.reports import CheckResult, CheckStatus, Findings

RECORD_MAX = 64 * 1024
"""Room for one record: the kernel writes at most `PRINTKRB_RECORD_MAX`, 8 KiB with all its parts
(https://github.com/torvalds/linux/blob/master/kernel/printk/internal.h), and refuses a smaller buffer."""

LOOK_MAX = 4 * 1024 * 1024
"""Most bytes of one look. What is left comes with the next; kernels keep 128 KiB to some megabytes."""

CLOCK_SLACK = timedelta(seconds=2)
"""How far the time of the boot may move without anybody having set the clock: the kernel tells it in whole seconds."""

COMMANDS = (
    (
        *("journalctl", "--dmesg", "--boot=0", "--output=short-iso-precise", "--no-pager", "--quiet"),
        "--lines=20000",
    ),
    ("dmesg", "--raw"),
)
"""What is asked where the device may not be read, the one that keeps more first."""


class KernelLog:
    """The log of the running kernel below `root`. `memory` keeps what failed in this boot beyond the agent's death."""

    def __init__(self, root: Path, run: Runner, boot: Boot, memory: Memory, now: Callable[[], datetime]) -> None:
        self._root = root
        self._path = root / "dev/kmsg"
        self._run = run
        self._boot = boot
        self._first_boot_time = memory.keep_boot_time(boot.booted_at)
        self._memory = memory
        self._now = now
        self._handle: int | None = None
        self._rest = b""
        self._is_whole = True

    def read(self) -> Findings:
        """Read what is new. A blocking Xid fails the check until the next boot. Raises ToolFailed, PartUnreadable."""
        data = self._new_bytes()
        if data is None:
            found = self._parse(self._ask(), is_whole=True)
        else:
            found = self._parse(data, is_whole=self._is_whole)
            self._is_whole = False
        self._remember(found)
        kept = tuple(_check_of(one) for one in self._memory.failing)
        # What the log holds of an earlier boot was told then, or is for the records of that boot, not of this one.
        failures = tuple(one for one in found.failures if not (one.evidence or {}).get("earlier_boot"))
        return Findings(checks=kept or found.checks, failures=failures, warnings=found.warnings)

    def close(self) -> None:
        """Let go of the device."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _parse(self, data: bytes, *, is_whole: bool) -> Findings:
        parser = parse if is_whole else parse_new_lines
        return parser(
            data,
            received_at=self._now(),
            boot_time=self._boot_time(),
            boot_id=self._boot.boot_id,
            first_boot_time=self._first_boot_time,
        )

    def _boot_time(self) -> datetime | None:
        """Say when the boot began by the clock of now: with it a line is as old as the kernel says, whatever the clock
        showed when the agent began. What is only the rounding of whole seconds moves nothing.
        """
        first, now = self._first_boot_time, read_boot_time(self._root)
        return first if first is None or now is None or abs(now - first) <= CLOCK_SLACK else now

    def _remember(self, found: Findings) -> None:
        is_unread = any(notice.code == "xid_unread" for notice in found.warnings)
        known = {(one.get("device"), one.get("code")) for one in self._memory.failing}
        for check in found.checks:
            lasts = check.status is CheckStatus.FAIL or (check.status is CheckStatus.UNKNOWN and is_unread)
            if lasts and (check.device, check.code) not in known:
                kept = {"status": str(check.status), "device": check.device, "code": check.code}
                self._memory.failing.append({**kept, "message": check.message})

    def _new_bytes(self) -> bytes | None:
        """Take what was added since the last time, whole lines only; None where the device may not be read."""
        try:
            if self._handle is None:
                self._handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            is_file = stat.S_ISREG(os.fstat(self._handle).st_mode)
        except OSError:
            return None
        text = bytearray(self._rest)
        while len(text) < LOOK_MAX:
            record = _next_record(self._handle)
            if record is None:
                break
            text += record
        whole = text.rfind(b"\n") + 1 if is_file else len(text)
        self._rest = bytes(text[whole:])
        return bytes(text[:whole])

    def _ask(self) -> bytes:
        reasons = []
        for command in COMMANDS:
            try:
                return self._run(command)
            except ToolMissing:
                reasons.append(f"there is no {command[0]}")
            except ToolFailed as error:
                reasons.append(f"{command[0]}: {error}")
        raise ToolFailed(f"{self._path} may not be read, and {'; '.join(reasons)}")


def _next_record(handle: int) -> bytes | None:
    """Read one record; None when there is none now."""
    while True:
        try:
            return os.read(handle, RECORD_MAX) or None
        except BlockingIOError:
            return None
        except OSError as error:
            # Overwritten before it was read: the next read goes on with the oldest that is left.
            if error.errno != errno.EPIPE:
                raise


def _check_of(kept: dict[str, str | None]) -> CheckResult:
    """Make the result again, without its code: the Xid is told by itself, once and with its time.

    A server takes a failing check with a code for a fault that begins now, and would count this one twice when its own
    message had to wait.
    """
    return CheckResult(CHECK, CheckStatus(kept["status"] or ""), kept.get("device"), message=kept.get("message"))
