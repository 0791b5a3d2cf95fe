# SPDX-License-Identifier: Apache-2.0
"""What has the kernel said since the last look? Reads the log of the running boot on a node, and where it left off.

A sequence number alone does not say where: captures exist in which several records share one, and it begins anew with
each boot. So a `Cursor` holds the boot and a digest of the last lines, looks for them in the newest text, and reads
on behind them. When they are not there (a full ring buffer, another boot, another source) everything is read again,
which tells nobody of anything new: the ids of the failures are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from registry.collectors.kernel_log import parse, parse_new_lines
from registry.collectors.running import Runner, ToolFailed, ToolMissing
from registry.domain.errors import PartUnreadable
from registry.domain.reports import Findings
from registry.domain.times import parse_rfc3339, rfc3339_or_none

MAX_BYTES = 16 * 1024 * 1024
"""What one look keeps at most, the newest. The kernel's own buffer has 256 KiB to a few MiB (`log_buf_len`)."""
_MAX_READ = 4 * MAX_BYTES
"""Where reading ends when the log is written as fast as it is read."""
_RECORD = 8192
"""Room for one record of /dev/kmsg, which gives one per read and none that is cut (`PRINTK_MESSAGE_MAX` is 2,048)."""
_TAIL = 3
"""Lines that say where the last look ended."""

BOOT_ID = Path("proc/sys/kernel/random/boot_id")
KMSG = Path("dev/kmsg")
_STAT = Path("proc/stat")
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("journalctl", "--dmesg", "--boot", "--no-pager", "--quiet", "--output=short-iso-precise"),
    ("dmesg", "--raw"),
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the last look ended; keep it over a restart of the agent.

    `boot_time` is kept from the first look of the boot: computed anew each time it would move with the clock, and so
    would the time of every line that was told already.
    """

    boot_id: str
    boot_time: datetime | None
    source: str = ""
    tail: str = ""

    def to_text(self) -> str:
        """Write the cursor as one line of JSON."""
        return json.dumps({**asdict(self), "boot_time": rfc3339_or_none(self.boot_time)}, sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Cursor | None:
        """Read a cursor back; None for what is none, as after a crash in the middle of writing: then all is read."""
        try:
            kept = json.loads(text)
            return cls(
                boot_id=_text(kept["boot_id"]),
                boot_time=None if kept["boot_time"] is None else parse_rfc3339(kept["boot_time"]),
                source=_text(kept["source"]),
                tail=_text(kept["tail"]),
            )
        except (ValueError, TypeError, KeyError):
            return None


@dataclass(frozen=True, slots=True)
class Look:
    """What one look read: the whole text, where in it the new lines begin, and the cursor for the next look."""

    text: bytes
    start: int
    cursor: Cursor


def collect(root: Path, run: Runner, *, received_at: datetime, cursor: Cursor | None = None) -> tuple[Findings, Cursor]:
    """Read what is new in the kernel log below `root`, and give the cursor to go on from.

    The check `gpu.xid` speaks of the new lines; at the first look of a boot, of all of it. Raises PartUnreadable when
    the log cannot be read, with the reason: then nothing is known about Xids.
    """
    look = read_since(root, run, cursor)
    told: dict[str, Any] = {
        "received_at": received_at,
        "boot_time": look.cursor.boot_time,
        "boot_id": look.cursor.boot_id,
    }
    if look.start == 0:
        return parse(look.text, **told), look.cursor
    return parse_new_lines(look.text[look.start :], **told), look.cursor


def read_since(root: Path, run: Runner, cursor: Cursor | None) -> Look:
    """Read the kernel log and find where `cursor` ended in it; all of it is new without one. Raises PartUnreadable."""
    boot = _running_boot(root)
    if cursor is not None and cursor.boot_id == boot.boot_id:
        boot = replace(boot, boot_time=cursor.boot_time)
    else:
        cursor = None
    source, text = _read_log(root, run)
    start = _end_of(text, cursor.tail) if cursor is not None and cursor.source == source else 0
    tail = _digest(text.splitlines()[-_TAIL:])
    return Look(text, start, replace(boot, source=source, tail=tail))


def _running_boot(root: Path) -> Cursor:
    try:
        boot_id = (root / BOOT_ID).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise PartUnreadable(f"the kernel does not say which boot this is: {error}") from error
    return Cursor(boot_id, _boot_time(root))


def _boot_time(root: Path) -> datetime | None:
    """Return `btime` of /proc/stat, whole seconds (https://www.kernel.org/doc/html/latest/filesystems/proc.html)."""
    try:
        lines = (root / _STAT).read_text(encoding="ascii", errors="replace").splitlines()
        seconds = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        return datetime.fromtimestamp(seconds, UTC)
    except (OSError, ValueError, IndexError, OverflowError, StopIteration):
        return None


def _read_log(root: Path, run: Runner) -> tuple[str, bytes]:
    """Read the log from the first source that has it, and name the source."""
    reasons = []
    try:
        text = _read_kmsg(root / KMSG)
    except OSError as error:
        reasons.append(f"/{KMSG}: {error.strerror or error}")
    else:
        if text:
            return "kmsg", text
        reasons.append(f"/{KMSG}: empty")
    for command in _COMMANDS:
        text, reason = _run(run, command)
        if text.strip():
            return command[0], text
        reasons.append(f"{command[0]}: {reason}")
    raise PartUnreadable(f"the kernel log cannot be read ({'; '.join(reasons)}); run the agent as root")


def _run(run: Runner, command: Sequence[str]) -> tuple[bytes, str]:
    try:
        return run(command)[-MAX_BYTES:], "printed nothing"
    except ToolMissing:
        return b"", "not installed"
    except ToolFailed as error:
        return b"", str(error) or "failed"


def _read_kmsg(path: Path) -> bytes:
    """Read what /dev/kmsg has, oldest first, without waiting for more.

    One read gives one record; EAGAIN says that there is no more, EPIPE that the next one was overwritten meanwhile
    (https://www.kernel.org/doc/Documentation/ABI/testing/dev-kmsg).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    pieces: list[bytes] = []
    size = 0
    try:
        while size < _MAX_READ:
            try:
                piece = os.read(descriptor, _RECORD)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
    finally:
        os.close(descriptor)
    return b"".join(pieces)[-MAX_BYTES:]


def _end_of(text: bytes, tail: str) -> int:
    """Return where the lines with the digest `tail` end in the text; 0 when they are not in it. The last ones count."""
    lines = text.splitlines(keepends=True)
    end = len(text)
    for at in range(len(lines), 0, -1):
        if _digest(line.rstrip(b"\r\n") for line in lines[max(0, at - _TAIL) : at]) == tail:
            return end
        end -= len(lines[at - 1])
    return 0


def _digest(lines: Iterable[bytes]) -> str:
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value
