# SPDX-License-Identifier: Apache-2.0
"""What did the kernel say? Lines of a kernel log, in whichever form it was read, without what stands before them.

Read are dmesg (plain, `-T`, `-x`, `-r`, `--time-format iso`), /dev/kmsg itself, the journal (`short` and its kin,
`json`, `cat`), syslog files of either RFC and the dumps of a crash in pstore, also behind what a container's log puts
before a line. Anybody may write into the log: a message counts as the
kernel's own only when it begins where the log's prefix ends and no facility says that a program wrote it
(https://www.kernel.org/doc/Documentation/ABI/testing/dev-kmsg: a program's facility is never 0).
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from registry.collectors.kernel_prefixes import CONTAINER, OWN, PROTOCOL, Head, is_behind, name_foreign
from registry.collectors.kernel_times import Form, Stamp, read_stamp
from registry.domain.errors import PartUnreadable

MAX_LINE = 4096
"""Bytes of one line that are read. A record of the kernel has 1,024 at most (`LOG_LINE_MAX` of kernel/printk)."""
_MAX_JSON = 65_536
_FIRST_SECOND = 1_000_000

_INTERESTING = re.compile(
    rb'NVRM|SXid|nvidia(?:: | [0-9a-f:.]{4,20}: )probe |Linux version |^-- |#\d{1,10} Part\d|"MESSAGE" ?: ?\['
)
_CONTROL = re.compile(r"(?:\x1b|\^\[)\[[0-9;]*[A-Za-z]|[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_KMSG = re.compile(r"(\d{1,9}),\d{1,20},(\d{1,18}),[^;]{0,256};")
_PRIORITY = re.compile(r"<(\d{1,9})>")
_DECODED = re.compile(r"([a-z0-9]{2,8}) *:[a-z]{3,7} *: ?")
_CALLER = re.compile(r"\[ *[TC]\d{1,10}\] ?")
_CLOCK = re.compile(r"\[ *\d{1,10}\.\d{1,9}\] ?")
_HOST = r"(?:[^\s:\[\]]{1,255}|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f.]{0,15}){2,8}(?:%[\w.-]{1,16})?)"
"""A name, or an address: a log that was sent over the network names its sender by that. One of IPv6 holds colons."""
_SENDER = re.compile(rf"(?:{_HOST} )?kernel(?:\[\d{{1,10}}\])?: ?(?:{_CLOCK.pattern})?")
_HOSTED = frozenset({Form.ISO, Form.FULL, Form.SYSLOG, Form.EPOCH})
_BOOT_MARK = re.compile(r"-- (?:Boot [0-9a-f]{32}|Reboot) --")
_DUMP = re.compile(r"[A-Za-z]{2,20}#\d{1,10} Part\d{1,10}")
_ESCAPED_NEWLINE = re.compile(r"\\x0a|#012|\n")
_REFUSED = re.compile(
    r"operation not permitted|permission denied|read kernel buffer failed|no journal files|no entries|not found",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Record:
    """One message. `era` counts the boots that the text shows; the last is the running one.

    `is_kernels` is False when the log itself says that a program wrote it. A line that `continues` can only end what
    the one before it began: a program may write line breaks, and must not get a message of its own by them.
    `boot` is the journal's id of the boot, where the form tells.
    """

    message: str
    stamp: Stamp
    era: int = 0
    is_kernels: bool = True
    continues: bool = False
    boot: str | None = None
    is_tagged: bool = False
    """Behind its host stands the name of a program that is not the kernel."""
    is_unread: bool = False
    """The driver's words are in it, behind others that are neither a known prefix nor a program's tag."""


@dataclass(slots=True)
class KernelText:
    """The text of a kernel log, read line by line; its flags hold when `records` has come to its end."""

    data: bytes
    era: int = 0
    is_dump: bool = False
    """The text is what a crash left behind: of an earlier boot, whatever else it says."""
    has_stamps: bool = False
    has_kernel_lines: bool = False
    has_unread: bool = False
    _complaint: str | None = field(default=None)

    def records(self) -> Iterator[Record]:
        """Return the messages that may be of interest, in the order of the text. Bounded by `MAX_LINE` per line."""
        for raw in io.BytesIO(self.data if b"\n" in self.data else self.data.replace(b"\r", b"\n")):
            if self.has_kernel_lines and not _INTERESTING.search(raw[:_MAX_JSON]):
                continue
            for record in self._read(raw):
                self._note(record)
                yield record

    def check(self) -> None:
        """Refuse what is no log at all: silence is not health. Raises PartUnreadable."""
        form = name_foreign(self.data)
        if form is not None:
            raise PartUnreadable(f"this is {form}, which is not read; send what dmesg prints, or journalctl -k -o json")
        if self.has_stamps or self.has_kernel_lines or self.has_unread:
            return
        if self._complaint is not None:
            said = self._complaint[:120]
            raise PartUnreadable(f"the kernel log could not be read on the node: {said!r}; run dmesg as root")
        if not self.data.strip():
            raise PartUnreadable("the kernel log is empty; a running kernel always has one: run dmesg as root")
        raise PartUnreadable("no line looks like one of a kernel log; send what dmesg or journalctl -k printed")

    def _read(self, raw: bytes) -> Iterator[Record]:
        raw = raw.lstrip(b"\0\x1e")
        line = _clean(raw[:MAX_LINE].decode("utf-8", "replace")).rstrip()
        record = self._from_json(raw) if raw.startswith(b"{") else self._from_line(line)
        text = line.strip() if record is None else record.message
        first, *others = _ESCAPED_NEWLINE.split(text) if "NVRM" in text else [text]
        if is_behind(first, _head_of(record)):
            self.has_unread = True
            yield Record(first, Stamp(Form.NONE), self.era, is_unread=True)
        elif record is not None:
            yield replace(record, message=first)
        if record is not None:
            yield from (replace(record, message=other.strip(), continues=True) for other in others)

    def _note(self, record: Record) -> None:
        """See whether a boot begins here: everything before it is of an earlier one."""
        if record.is_unread:
            return
        self.has_kernel_lines = self.has_kernel_lines or (record.is_kernels and not record.continues)
        is_first = record.stamp.uptime is None or record.stamp.uptime < _FIRST_SECOND
        if record.is_kernels and is_first and not record.continues and record.message.startswith("Linux version "):
            self.era += 1

    def _from_line(self, line: str) -> Record | None:
        if not line:
            return None
        if line[0].isspace():
            message = line.strip()
            is_more = "NVRM" in line and not is_behind(message, Head.NONE)
            return Record(message, Stamp(Form.NONE), self.era, continues=True) if is_more else None
        if _BOOT_MARK.fullmatch(line):
            self.era += 1
            return None
        if _DUMP.fullmatch(line):
            self.is_dump = True
            return None
        found = _KMSG.match(line)
        if found is not None:
            self.has_stamps = True
            stamp = Stamp(Form.UPTIME, str(int(found[2])))
            return Record(line[found.end() :], stamp, self.era, is_kernels=int(found[1]) < 8)
        return self._from_text(line)

    def _from_text(self, line: str) -> Record | None:
        """Read a line of dmesg, the journal or syslog, also one that a program wrote; None where no prefix is known."""
        container = CONTAINER.match(line)
        line = line[container.end() :] if container else line
        protocol = PROTOCOL.match(line)
        if protocol is not None:
            return self._from_protocol(line, protocol)
        at, is_kernels = 0, True
        priority = _PRIORITY.match(line)
        if priority is not None:
            at, is_kernels = priority.end(), int(priority[1]) < 8
        decoded = _DECODED.match(line, at)
        if decoded is not None:
            at, is_kernels = decoded.end(), decoded[1] == "kern"
        read = read_stamp(line, at)
        if read is None:
            is_marked = priority is not None or decoded is not None
            return self._unstamped(line, at, is_marked=is_marked, is_kernels=is_kernels)
        self.has_stamps = True
        stamp, at = read
        sender = _SENDER.match(line, at)
        at = sender.end() if sender is not None else at
        if stamp.form in _HOSTED and sender is None and not line.startswith(OWN, at):
            return Record(line[at:], stamp, self.era, is_kernels=False, is_tagged=True)
        caller = _CALLER.match(line, at)
        return Record(line[caller.end() if caller else at :], stamp, self.era, is_kernels=is_kernels)

    def _from_protocol(self, line: str, head: re.Match[str]) -> Record:
        """Read a line of RFC 5424."""
        self.has_stamps = True
        stamp = Stamp(Form.NONE) if head["time"] == "-" else Stamp(Form.ISO, head["time"])
        is_kernels = head["program"] == "kernel" and int(head["priority"] or 0) < 8
        clock = _CLOCK.match(line, head.end())
        return Record(line[clock.end() if clock else head.end() :], stamp, self.era, is_kernels=is_kernels)

    def _unstamped(self, line: str, at: int, *, is_marked: bool, is_kernels: bool) -> Record | None:
        """A line without a time: of `dmesg -t`, or what a tool says in place of a log."""
        if is_marked or line.startswith(OWN):
            return Record(line[at:], Stamp(Form.NONE), self.era, is_kernels=is_kernels)
        if self._complaint is None and _REFUSED.search(line):
            self._complaint = line
        return None

    def _from_json(self, raw: bytes) -> Record | None:
        """Read a line of `journalctl -o json`; the fields: systemd.journal-fields(7) of https://systemd.io."""
        try:
            entry = json.loads(raw[:_MAX_JSON])
        except (ValueError, RecursionError):
            return None
        if not isinstance(entry, dict) or "MESSAGE" not in entry:
            return None
        self.has_stamps = True
        sender = entry.get("_TRANSPORT", entry.get("SYSLOG_IDENTIFIER"))
        if sender is None:
            return None
        facility = entry.get("SYSLOG_FACILITY", "0")
        boot = entry.get("_BOOT_ID")
        return Record(
            _text_of(entry["MESSAGE"]),
            _journal_stamp(entry.get("__REALTIME_TIMESTAMP")),
            self.era,
            is_kernels=sender == "kernel" and facility in ("0", 0),
            boot=boot if isinstance(boot, str) else None,
        )


def _head_of(record: Record | None) -> Head:
    if record is None:
        return Head.NONE
    if record.is_kernels:
        return Head.KERNEL
    return Head.SYSLOG if record.is_tagged else Head.PROGRAM


def _clean(text: str) -> str:
    return _CONTROL.sub("", text.replace("\t", " "))


def _text_of(message: object) -> str:
    """Return a MESSAGE of the journal as text; what is not UTF-8 comes as a list of bytes."""
    if isinstance(message, list) and all(isinstance(one, int) and 0 <= one < 256 for one in message):
        message = bytes(message[:MAX_LINE]).decode("utf-8", "replace")
    if not isinstance(message, str):
        return ""
    return "\n".join(_clean(line) for line in message[:MAX_LINE].split("\n"))


def _journal_stamp(micros: object) -> Stamp:
    """Make a stamp of the microseconds since 1970 that the journal writes as text."""
    if not isinstance(micros, str) or re.fullmatch(r"[0-9]{7,18}", micros) is None:
        return Stamp(Form.NONE)
    return Stamp(Form.EPOCH, f"{micros[:-6]}.{micros[-6:]}")
