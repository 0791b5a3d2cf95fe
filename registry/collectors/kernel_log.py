# SPDX-License-Identifier: Apache-2.0
"""Which faults does the kernel log tell of, on which GPUs, when, and how often?

The same code on the same GPU is one failure, however many lines it fills: `occurred_at` is the first sight, `last_at`
the last. Its `failure_id` is made from the first line alone, so that a log that is read again and again, or a longer
one with the same beginning, tells of nothing new. A time since boot is no id by itself, the next boot counts the same
microseconds again: there the boot's id belongs to it.

What is not of the running boot is history: it says so (`evidence["earlier_boot"]`), and it fails no check. That is
whatever stands before the kernel's first line in the text, is stamped before `boot_time` or with another boot's id,
and every line of a crash dump from pstore. What a test put in says so as well (`evidence["injected"]`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from registry.collectors.kernel_lines import KernelText, Record
from registry.collectors.kernel_times import Doubt, Moment, resolve
from registry.collectors.xid_lines import DriverMessages, Fault
from registry.domain.errors import PartUnreadable
from registry.domain.failures import look_up
from registry.domain.reports import CheckResult, CheckStatus, Findings, Notice, ReportedFailure

CHECK = "gpu.xid"

MAX_FAILURES = 256
"""Different faults of one log: a machine has 16 GPUs at most, and when all fail they report a few codes each."""
MAX_LOADS = 16
"""Loads of the driver that are told, the newest: one that follows a fault says as much as all after it, and a driver
that is loaded again every minute fills a log with them."""
_MAX_NOTICES = 20
_MAX_MESSAGE = 512
_BOOT_SLACK = timedelta(seconds=60)
"""How far a kernel's first lines may seem to precede the boot: the clock is often set only after them."""
_OFF_BUS = frozenset({"xid_79", "gpu.fallen_off_bus"})


def parse(
    data: bytes,
    *,
    received_at: datetime,
    boot_time: datetime | None = None,
    boot_id: str = "",
    first_boot_time: datetime | None = None,
) -> Findings:
    """Read a kernel log: the failures in it, and the check `gpu.xid`.

    `received_at` gives a year to dates that have none. `boot_time` turns time since boot into dates; without it such
    a failure has no `occurred_at`, and `evidence["time"]` says why. `boot_id` is the running boot's.
    A reader whose clock was set since gives as `first_boot_time` what it took for the boot's time at first: ids are
    made with it, and stay.
    The check fails per GPU on a blocking Xid of the running boot; it is unknown when the text holds no line of the
    running kernel, or an Xid whose number cannot be read. Raises PartUnreadable for a text that is no log.
    """
    log = _Log(KernelText(data), received_at, boot_time, boot_id, first_boot_time or boot_time, is_whole=True)
    log.read()
    log.text.check()
    return log.findings()


def parse_new_lines(
    data: bytes,
    *,
    received_at: datetime,
    boot_time: datetime | None = None,
    boot_id: str = "",
    first_boot_time: datetime | None = None,
) -> Findings:
    """Read what was added to a log that was read before: nothing new is no fault. Else as `parse`."""
    log = _Log(KernelText(data), received_at, boot_time, boot_id, first_boot_time or boot_time, is_whole=False)
    log.read()
    return log.findings()


@dataclass(slots=True)
class _Burst:
    """The sights of one code on one GPU in one boot."""

    fault: Fault
    record: Record
    first: Moment
    is_other_boot: bool
    last: Moment
    last_uptime: int | None = None
    count: int = 1

    def add(self, fault: Fault, moment: Moment, uptime: int | None) -> None:
        """Count another sight. Of what changes, such as the recovery action, the newest is kept."""
        self.count += 1
        self.last_uptime = uptime
        if moment.at is not None and (self.last.at is None or moment.at > self.last.at):
            self.last = moment
        if "recovery_action" in fault.evidence:
            self.fault = Fault(self.fault.code, self.fault.slot, self.fault.device, fault.evidence)


@dataclass(slots=True)
class _Log:
    text: KernelText
    received_at: datetime
    boot_time: datetime | None
    boot_id: str
    first_boot_time: datetime | None
    is_whole: bool
    driver: DriverMessages = field(default_factory=DriverMessages)
    has_driver: bool = False
    """A line before showed that the driver runs in this boot: a load after it is a new one."""
    era: int = 0
    bursts: dict[tuple[object, ...], _Burst] = field(default_factory=dict)
    loads: list[tuple[object, ...]] = field(default_factory=list)
    """The keys of those bursts that are loads of the driver, oldest first."""
    unread: list[Record] = field(default_factory=list)
    """Lines that look like an Xid, and were not read or not the kernel's."""

    def read(self) -> None:
        """Go through the text once."""
        for record in self.text.records():
            if record.era != self.era:
                self.driver, self.has_driver, self.era = DriverMessages(), False, record.era
            if not record.is_kernels or record.is_unread:
                self._leave(record)
                continue
            fault = self.driver.read(record.message, continues=record.continues)
            if fault is not None:
                self._take(fault, record)
            elif not record.continues:
                self._leave(record)

    def _take(self, fault: Fault, record: Record) -> None:
        is_first_load = fault.code == "driver_loaded" and self.is_whole and not self.has_driver
        self.has_driver = True
        if is_first_load:
            return  # part of the boot, which is a restart by itself
        moment = resolve(record.stamp, received_at=self.received_at, boot_time=self.boot_time)
        restart = record.stamp.text if fault.code == "driver_loaded" else None
        is_other_boot = self._is_other_boot(record, moment)
        key = (record.era, is_other_boot, fault.code, fault.place, fault.is_injected, restart)
        known = self.bursts.get(key)
        if known is None:
            self.bursts[key] = _Burst(fault, record, moment, is_other_boot, moment)
        elif not fault.is_detail:
            known.add(fault, moment, record.stamp.uptime)
        if known is None and restart is not None:
            self.loads = [*self.loads, key]
            if len(self.loads) > MAX_LOADS:
                del self.bursts[self.loads.pop(0)]
        if len(self.bursts) - len(self.loads) > MAX_FAILURES:
            told = f"the kernel log tells of more than {MAX_FAILURES} different faults"
            raise PartUnreadable(f"{told}, and no machine has so many: send this node's log, of this boot (dmesg)")

    def _leave(self, record: Record) -> None:
        if len(self.unread) < _MAX_NOTICES and (record.is_unread or self.driver.is_unread(record.message)):
            self.unread.append(record)

    def _is_other_boot(self, record: Record, moment: Moment) -> bool:
        if record.boot is not None and _is_boot_id(self.boot_id):
            return record.boot.replace("-", "").lower() != self.boot_id.replace("-", "").lower()
        if self.boot_time is None or moment.at is None or not moment.is_certain:
            return False
        # A clock that was set within the boot has stamped lines of it by either.
        began = min(self.boot_time, self.first_boot_time or self.boot_time)
        return moment.at < began - _BOOT_SLACK

    def _is_earlier(self, burst: _Burst) -> bool:
        return self.text.is_dump or burst.is_other_boot or burst.record.era != self.text.era

    def findings(self) -> Findings:
        """Say what was found."""
        return Findings(
            checks=tuple(self._checks()),
            failures=tuple(self._failure(burst) for burst in self.bursts.values() if self._counts(burst)),
            warnings=tuple(map(_notice, self.unread)),
        )

    def _counts(self, burst: _Burst) -> bool:
        """Leave out what says nothing more.

        A GPU that is off the bus is told twice, with and without a number. A load of the driver lets holds be
        released, so one without a certain time, or of another boot, must not pass for one that just happened.
        """
        code = burst.fault.code
        if code == "driver_loaded":
            return burst.first.is_certain and not self._is_earlier(burst)
        if code != "gpu.fallen_off_bus":
            return True
        with_number = (burst.record.era, burst.is_other_boot, "xid_79", burst.fault.place, False, None)
        return with_number not in self.bursts

    def _failure(self, burst: _Burst) -> ReportedFailure:
        fault, first, last = burst.fault, self._moment(burst, burst.first), self._moment(burst, burst.last)
        return ReportedFailure(
            failure_id=self._id(burst, first),
            code=fault.code,
            device=fault.device,
            slot=fault.slot,
            occurred_at=first.at,
            message=burst.record.message[:_MAX_MESSAGE],
            evidence=self._evidence(burst, first),
            count=burst.count,
            last_at=last.at,
        )

    def _moment(self, burst: _Burst, moment: Moment) -> Moment:
        """An earlier boot counted from another beginning than the one that was told."""
        if self._is_earlier(burst) and burst.record.stamp.uptime is not None:
            return Moment(None, Doubt.BOOT_TIME_UNKNOWN)
        return moment

    def _evidence(self, burst: _Burst, first: Moment) -> dict[str, Any]:
        stamp, slot = burst.record.stamp, burst.fault.slot
        evidence: dict[str, Any] = {"source": "kernel_log", **burst.fault.evidence}
        if first.doubt is not None:
            evidence["time"] = first.doubt.value
        if stamp.uptime is not None:
            evidence["uptime_microseconds"] = stamp.uptime
            if burst.last_uptime is not None:
                evidence["last_uptime_microseconds"] = burst.last_uptime
        elif stamp.text:
            evidence["stamp"] = stamp.text
        if self._is_earlier(burst):
            evidence["earlier_boot"] = True
        if slot is not None and burst.record.era == self.era:
            names = {"uuid": self.driver.uuids.get(slot), "serial": self.driver.serials.get(slot)}
            evidence |= {name: text for name, text in names.items() if text is not None}
        return evidence

    def _id(self, burst: _Burst, first: Moment) -> str:
        """Name the first line: by its own words, and where its stamp comes again in the next boot, by the boot.

        All that a reader of the same line may come to see otherwise stands in it, for one id may never be used for two
        stories: the time, because the clock that counts the boot can be set, and a date without a year gets one; the
        device, because a log that begins later may lack the line that named it.
        """
        stamp, fault = burst.record.stamp, burst.fault
        if stamp.uptime is not None and first.at is not None:
            first = resolve(stamp, received_at=self.received_at, boot_time=self.first_boot_time)
        when = "" if first.at is None else f"{first.at:%Y-%m-%dT%H:%M:%S.%f}"
        is_dated = first.at is not None and stamp.uptime is None
        boot = "" if is_dated or self.text.is_dump else self.boot_id
        line = ("" if is_dated else stamp.text, burst.record.message[:_MAX_MESSAGE])
        parts = (boot, when, fault.code, fault.slot or "", fault.device or "", *line)
        return f"kernel-{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:32]}"

    def _checks(self) -> Iterator[CheckResult]:
        """`gpu.xid`: a fail for each GPU, else one result for the node."""
        worst: dict[str | None, _Burst] = {}
        for burst in self.bursts.values():
            if not self._is_blocking(burst):
                continue
            other = worst.get(burst.fault.slot)
            if other is None or _rank(burst) > _rank(other):
                worst[burst.fault.slot] = burst
        for slot, burst in worst.items():
            code = burst.fault.code
            times = "once" if burst.count == 1 else f"{burst.count} times"
            said = f"the kernel log shows {code} {times} in this boot: {look_up(code).title}"
            yield CheckResult(CHECK, CheckStatus.FAIL, device=slot, code=code, message=said)
        if worst:
            return
        unknown = self._why_unknown()
        if unknown is not None:
            yield CheckResult(CHECK, CheckStatus.UNKNOWN, message=unknown)
        else:
            yield CheckResult(CHECK, CheckStatus.PASS, message="the kernel log shows no Xid that blocks")

    def _is_blocking(self, burst: _Burst) -> bool:
        code = burst.fault.code
        if self._is_earlier(burst) or burst.fault.is_injected or not self._counts(burst):
            return False
        return (code.startswith("xid_") or code in _OFF_BUS) and look_up(code).effect.is_blocking

    def _why_unknown(self) -> str | None:
        if self.is_whole and self.text.is_dump:
            return "the text is what a crash left behind, and says nothing of the running kernel"
        if self.is_whole and not self.text.has_kernel_lines:
            return "the text holds no line of the kernel; send the output of dmesg or journalctl -k"
        unread = [one.is_unread for one in self.unread if one.is_kernels and one.era == self.text.era]
        if not unread:
            return None
        if all(unread):
            return f"the driver's messages stand behind a prefix that is not read; {_FORMS}"
        return "the kernel log shows an Xid whose number cannot be read"


def _rank(burst: _Burst) -> int:
    return look_up(burst.fault.code).effect.rank


def _is_boot_id(text: str) -> bool:
    """Tell whether a reporter's boot id is the kernel's own (https://www.kernel.org/doc/html/latest/admin-guide/sysctl/
    kernel.html#random), and so can be compared with the journal's.
    """
    plain = text.replace("-", "").lower()
    return len(plain) == 32 and all(one in "0123456789abcdef" for one in plain)


_FORMS = "send what dmesg prints, or journalctl -k"


def _notice(record: Record) -> Notice:
    quoted = repr(record.message[:100])
    if record.is_unread:
        return Notice(
            "xid_unread", f"a message of the driver stands behind a prefix that is not read, {quoted}; {_FORMS}"
        )
    if record.is_kernels:
        return Notice("xid_unread", f"this line tells of an Xid, and its number cannot be read: {quoted}")
    return Notice("not_from_kernel", f"a program wrote this line, not the kernel: {quoted}")
