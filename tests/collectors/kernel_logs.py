# SPDX-License-Identifier: Apache-2.0
"""What does a kernel log look like? The same messages, as each tool would print them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from registry.collectors.kernel_log import parse
from registry.domain.reports import Findings, ReportedFailure

BOOT_TIME = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)
RECEIVED_AT = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
BOOT_ID = "5b0c7d1e-43f2-4b1a-9c55-0f6a2d8e7b31"
OTHER_BOOT_ID = "c2a4e6f8-1357-4242-8642-9f8e7d6c5b4a"
JOURNAL_BOOT = BOOT_ID.replace("-", "")

UUID = "GPU-7c1f0b52-9a3e-4d68-b0c7-51e2f4a6d830"
SERIAL = "1655500112233"
SLOT = "0000:5a:00.0"

OFF_BUS = "NVRM: Xid (PCI:0000:5a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
APPLICATION = "NVRM: Xid (PCI:0000:5a:00): 31, pid=4711, name=trainer, Ch 00000008, intr 00000000."
ORDINARY = "eth0: link becomes ready"
FIRST = "Linux version 6.8.0-1018-aws (builder@host) #19 SMP"

Lines = Iterable[tuple[float, str]]
"""Seconds since boot, and what the kernel said."""


def wall(seconds: float) -> datetime:
    return BOOT_TIME + timedelta(seconds=seconds)


def micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def dmesg(lines: Lines) -> bytes:
    return _text(f"[{seconds:12.6f}] {message}" for seconds, message in lines)


def dmesg_raw(lines: Lines) -> bytes:
    return _text(f"<4>[{seconds:12.6f}] {message}" for seconds, message in lines)


def dmesg_decoded(lines: Lines) -> bytes:
    return _text(f"kern  :warn  : [{seconds:12.6f}] {message}" for seconds, message in lines)


def dmesg_caller(lines: Lines) -> bytes:
    return _text(f"[{seconds:12.6f}][  T812] {message}" for seconds, message in lines)


def dmesg_colour(lines: Lines) -> bytes:
    return _text(f"\x1b[32m[{seconds:12.6f}] \x1b[0m\x1b[1m{message}\x1b[0m" for seconds, message in lines)


def dmesg_iso(lines: Lines) -> bytes:
    return _text(f"{wall(at):%Y-%m-%dT%H:%M:%S},{wall(at):%f}+00:00 {message}" for at, message in lines)


def dmesg_human(lines: Lines) -> bytes:
    return _text(f"[{wall(at):%a %b %e %H:%M:%S %Y}] {message}" for at, message in lines)


def kmsg(lines: Lines, *, priority: int = 4) -> bytes:
    numbered = enumerate(lines, start=3000)
    return _text(f"{priority},{number},{micros(at)},-;{message}" for number, (at, message) in numbered)


def journal_short(lines: Lines) -> bytes:
    return _text(f"{wall(at):%b %d %H:%M:%S} node-7 kernel: {message}" for at, message in lines)


def journal_iso(lines: Lines) -> bytes:
    return _text(f"{wall(at):%Y-%m-%dT%H:%M:%S}+0000 node-7.rack3.example kernel: {message}" for at, message in lines)


def journal_precise(lines: Lines) -> bytes:
    host = "node-7.rack3.example"
    return _text(f"{wall(at):%Y-%m-%dT%H:%M:%S.%f}+00:00 {host} kernel: {message}" for at, message in lines)


def journal_full(lines: Lines) -> bytes:
    return _text(f"{wall(at):%a %Y-%m-%d %H:%M:%S} UTC node-7 kernel: {message}" for at, message in lines)


def journal_unix(lines: Lines) -> bytes:
    return _text(f"{wall(at).timestamp():.6f} node-7 kernel: {message}" for at, message in lines)


def journal_json(lines: Lines, **changes: object) -> bytes:
    return _text(
        json.dumps(
            {
                "_TRANSPORT": "kernel",
                "SYSLOG_FACILITY": "0",
                "_BOOT_ID": JOURNAL_BOOT,
                "__REALTIME_TIMESTAMP": str(micros(wall(at).timestamp())),
                "MESSAGE": message,
                **changes,
            }
        )
        for at, message in lines
    )


def syslog(lines: Lines) -> bytes:
    return _text(f"{wall(at):%b %e %H:%M:%S} node-7 kernel: [{at:12.6f}] {message}" for at, message in lines)


def journal_monotonic(lines: Lines) -> bytes:
    return _text(f"[{seconds:12.6f}] node-7 kernel: {message}" for seconds, message in lines)


def journal_delta(lines: Lines) -> bytes:
    return _text(f"[{at:12.6f} <{'' if at == 0 else at:>13} >] node-7 kernel: {message}" for at, message in lines)


def syslog_protocol(lines: Lines) -> bytes:
    return _text(f"<4>1 {wall(at):%Y-%m-%dT%H:%M:%S.%f}+00:00 node-7 kernel - - - {message}" for at, message in lines)


def syslog_protocol_data(lines: Lines) -> bytes:
    data = '[origin software="rsyslogd" x="1"]'
    return _text(
        f"1 {wall(at):%Y-%m-%dT%H:%M:%S.%f}+00:00 node-7 kernel - - {data} [{at:12.6f}] {message}"
        for at, message in lines
    )


def container(lines: Lines) -> bytes:
    return _text(f"2026-11-29T11:00:00.123456789Z stdout F [{seconds:12.6f}] {message}" for seconds, message in lines)


def kubectl_logs(lines: Lines) -> bytes:
    return _text(f"2026-11-29T11:00:00.123456789Z [{seconds:12.6f}] {message}" for seconds, message in lines)


FORMS: dict[str, Callable[[Lines], bytes]] = {
    "dmesg": dmesg,
    "dmesg --raw": dmesg_raw,
    "dmesg --decode": dmesg_decoded,
    "dmesg with callers": dmesg_caller,
    "dmesg in colour": dmesg_colour,
    "dmesg --time-format iso": dmesg_iso,
    "dmesg -T": dmesg_human,
    "/dev/kmsg": kmsg,
    "journal short": journal_short,
    "journal short-iso": journal_iso,
    "journal short-iso-precise": journal_precise,
    "journal short-full": journal_full,
    "journal short-unix": journal_unix,
    "journal json": journal_json,
    "syslog": syslog,
    "journal short-monotonic": journal_monotonic,
    "journal short-delta": journal_delta,
    "syslog of RFC 5424": syslog_protocol,
    "syslog of RFC 5424 with structured data": syslog_protocol_data,
    "a container's log": container,
    "kubectl logs --timestamps": kubectl_logs,
}
WHOLE_SECONDS = {"dmesg -T", "journal short", "journal short-iso", "journal short-full", "syslog"}
NO_ZONE = {"dmesg -T", "journal short", "syslog"}


def read(data: bytes, *, boot_time: datetime | None = BOOT_TIME, boot_id: str = BOOT_ID) -> Findings:
    return parse(data, received_at=RECEIVED_AT, boot_time=boot_time, boot_id=boot_id)


def only(findings: Findings) -> ReportedFailure:
    assert len(findings.failures) == 1, findings.failures
    return findings.failures[0]


def evidence(failure: ReportedFailure) -> dict[str, object]:
    return dict(failure.evidence or {})


def said(*messages: str) -> bytes:
    """The messages as dmesg prints them, a second apart."""
    return dmesg((100.0 + at, message) for at, message in enumerate(messages))


def results(findings: Findings) -> list[tuple[str, str | None, str | None]]:
    assert {check.name for check in findings.checks} == {"gpu.xid"}
    return [(check.status.value, check.device, check.code) for check in findings.checks]


def _text(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
