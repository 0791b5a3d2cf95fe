# SPDX-License-Identifier: Apache-2.0
"""Is the same message found in every form that a kernel log is printed in, with its time, and nothing that is none?"""

from __future__ import annotations

import pytest

from registry.domain.errors import PartUnreadable
from tests.collectors.kernel_logs import (
    APPLICATION,
    BOOT_ID,
    FIRST,
    FORMS,
    JOURNAL_BOOT,
    NO_ZONE,
    OFF_BUS,
    ORDINARY,
    OTHER_BOOT_ID,
    SLOT,
    WHOLE_SECONDS,
    dmesg,
    evidence,
    journal_json,
    journal_short,
    kmsg,
    only,
    read,
    results,
    said,
    syslog,
    wall,
)

LINES = [(0.0, FIRST), (4.5, ORDINARY), (1843.308145, OFF_BUS), (1850.0, ORDINARY)]


@pytest.mark.parametrize("form", FORMS)
def test_an_xid_is_found_with_its_place_and_time(form: str) -> None:
    findings = read(FORMS[form](LINES))

    failure = only(findings)
    at = wall(1843.308145)
    assert (failure.code, failure.slot, failure.device, failure.message) == ("xid_79", SLOT, None, OFF_BUS)
    assert failure.occurred_at == (at.replace(microsecond=0) if form in WHOLE_SECONDS else at)
    assert evidence(failure).get("time") == ("zone_assumed_utc" if form in NO_ZONE else None)
    assert results(findings) == [("fail", SLOT, "xid_79")]
    assert findings.warnings == ()


@pytest.mark.parametrize("form", FORMS)
def test_a_log_without_xids_passes_for_the_whole_node(form: str) -> None:
    findings = read(FORMS[form]([(0.0, FIRST), (4.5, ORDINARY)]))

    assert (findings.failures, results(findings)) == ((), [("pass", None, None)])


@pytest.mark.parametrize("form", FORMS)
def test_windows_line_ends_and_zero_bytes_between_lines_change_nothing(form: str) -> None:
    data = FORMS[form](LINES)

    assert read(data.replace(b"\n", b"\r\n\0\0\0")) == read(data)


@pytest.mark.parametrize(
    "line",
    [
        f"[ 1843.308145] bash[77]: {OFF_BUS}",
        f"Nov 20 06:30:43 node-7 bash[77]: {OFF_BUS}",
        f"Nov 20 06:30:43 node-7 {OFF_BUS}",
        f"2026-11-20T06:30:43.308145+0000 node-7 logger: kernel: {OFF_BUS}",
        f"12,3001,1843308145,-;{OFF_BUS}",
        f"<12>[ 1843.308145] {OFF_BUS}",
        f"user  :notice: [ 1843.308145] {OFF_BUS}",
        f"4,3001,1843308145,-;note\\x0a{OFF_BUS}",
        f"[ 1843.308145] note\n               {OFF_BUS}",
        f"[ 1843.308145] trainer[9]: segfault at 7f ip 7f sp 7f error 4 in libnccl.so.2[7f+d3]; {OFF_BUS}",
        f"[ 1843.308145] {OFF_BUS.lower()}",
    ],
)
def test_what_a_program_wrote_is_no_xid(line: str) -> None:
    findings = read(dmesg([(0.0, FIRST)]) + line.encode() + b"\n")

    assert (findings.failures, results(findings)) == ((), [("pass", None, None)])


@pytest.mark.parametrize(
    "changes",
    [{"_TRANSPORT": "syslog"}, {"_TRANSPORT": "stdout", "SYSLOG_IDENTIFIER": "kernel"}, {"SYSLOG_FACILITY": "1"}],
    ids=str,
)
def test_a_journal_entry_of_a_program_is_no_xid(changes: dict[str, str]) -> None:
    data = journal_json([(0.0, FIRST)]) + journal_json([(9.0, OFF_BUS)], **changes)

    assert read(data).failures == ()


def test_a_line_that_the_facility_gives_away_is_told_to_the_sender() -> None:
    notices = read(kmsg([(0.0, FIRST)]) + kmsg([(9.0, OFF_BUS)], priority=12)).warnings

    assert [notice.code for notice in notices] == ["not_from_kernel"]


def test_metadata_lines_of_kmsg_are_no_messages() -> None:
    data = kmsg([(5.0, ORDINARY)]) + b" SUBSYSTEM=pci\n DEVICE=+pci:0000:5a:00.0\n" + kmsg([(1843.3, OFF_BUS)])

    assert only(read(data)).slot == SLOT


def test_a_message_that_the_journal_keeps_as_bytes_is_read() -> None:
    data = journal_json([(1843.3, "")], MESSAGE=list(OFF_BUS.encode() + b"\xff"))

    assert only(read(data)).code == "xid_79"


THREE_LINES = ("NVRM: The NVIDIA GPU 0000:5a:00.0", "NVRM: (PCI ID: 10de:2330) installed in this system has")
END = "NVRM: fallen off the bus and is not responding to commands."


@pytest.mark.parametrize(
    "data",
    [
        said(*THREE_LINES, END),
        said("\n               ".join((*THREE_LINES, END))),
        kmsg([(5.0, r"\x0a".join((*THREE_LINES, END)))]),
        syslog([(5.0, "#012".join((*THREE_LINES, END)))]),
        journal_short([(5.0, "\n".join(("NVRM: The NVIDIA GPU 0000:5a:00.0 (PCI ID: 10de:2330)", f"   {END}")))]),
        journal_json([(5.0, "\n".join((*THREE_LINES, END)))]),
        said("NVRM: The NVIDIA GPU 0000:5a:00.0 fallen off the bus and is not responding to commands."),
        said("NVRM: GPU 0000:5a:00.0: GPU has fallen off the bus."),
        said("NVRM: GPU 5a:00.0: GPU has fallen off the bus."),
    ],
    ids=["stamped", "indented", "kmsg", "syslog", "journal", "json", "one line", "short", "without a domain"],
)
def test_a_gpu_off_the_bus_without_a_number_is_found(data: bytes) -> None:
    findings = read(data)

    failure = only(findings)
    assert (failure.code, failure.slot) == ("gpu.fallen_off_bus", SLOT)
    assert results(findings) == [("fail", SLOT, "gpu.fallen_off_bus")]


def test_the_end_of_such_a_message_belongs_to_its_beginning_and_not_to_an_xid_between() -> None:
    other = "NVRM: Xid (PCI:0000:6b:00): 31, pid=1, name=x, GPU has fallen off the bus"

    failures = read(said(THREE_LINES[0], other, THREE_LINES[1], END)).failures

    assert {(one.code, one.slot) for one in failures} == {("xid_31", "0000:6b:00.0"), ("gpu.fallen_off_bus", SLOT)}


def test_an_end_without_its_beginning_names_nothing() -> None:
    far = (THREE_LINES[0], "NVRM: a", "NVRM: b", "NVRM: c", END)

    assert read(said(END)).failures == ()
    assert read(said(*far)).failures == ()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"dmesg: read kernel buffer failed: Operation not permitted\n", "Operation not permitted"),
        (b"No journal files were opened due to insufficient permissions.\n", "No journal files"),
        (b"-- No entries --\n", "No entries"),
        (b"sh: 1: dmesg: not found\n", "not found"),
        (b"<html><body>502</body></html>", "no line looks like"),
        (b"\0" * 100, "no line looks like"),
        (b"GPU 0: NVIDIA H100 (UUID: GPU-7c1f0b52)\n", "no line looks like"),
    ],
)
def test_what_is_no_log_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(PartUnreadable) as refusal:
        read(data)

    assert reason in refusal.value.detail


def test_a_journal_without_a_line_of_the_kernel_says_nothing_about_xids() -> None:
    findings = read(b"Nov 20 06:30:43 node-7 sshd[12]: session opened\n")

    assert results(findings) == [("unknown", None, None)]


PANIC = "Panic#1 Part1\n<4>[ 1843.308145] {}\n"


def test_a_crash_dump_is_history_and_no_word_about_the_running_kernel() -> None:
    findings = read(PANIC.format(OFF_BUS).encode())

    failure = only(findings)
    assert (failure.code, failure.slot, failure.occurred_at) == ("xid_79", SLOT, None)
    assert evidence(failure)["earlier_boot"] is True
    assert results(findings) == [("unknown", None, None)]


def test_a_crash_dump_is_the_same_failure_whichever_boot_reads_it() -> None:
    data = PANIC.format(OFF_BUS).encode()

    assert only(read(data)).failure_id == only(read(data, boot_id=OTHER_BOOT_ID)).failure_id


@pytest.mark.parametrize("between", [[(0.0, FIRST)], None], ids=["first line of a kernel", "mark of the journal"])
def test_what_stands_before_the_running_boot_is_history(between: list[tuple[float, str]] | None) -> None:
    mark = journal_short(between) if between else f"-- Boot {JOURNAL_BOOT} --\n".encode()
    data = journal_short([(-900.0, OFF_BUS)]) + mark + journal_short([(60.0, APPLICATION)])

    findings = read(data)

    earlier, running = findings.failures
    assert (earlier.code, evidence(earlier)["earlier_boot"]) == ("xid_79", True)
    assert (running.code, evidence(running).get("earlier_boot")) == ("xid_31", None)
    assert results(findings) == [("pass", None, None)]


def test_a_time_before_the_boot_is_history_where_the_zone_is_known() -> None:
    before = (-3600.0, OFF_BUS)

    known = read(FORMS["journal short-iso-precise"]([before, (60.0, ORDINARY)]))
    assumed = read(FORMS["journal short"]([before, (60.0, ORDINARY)]))

    assert (evidence(only(known))["earlier_boot"], results(known)) == (True, [("pass", None, None)])
    assert results(assumed) == [("fail", SLOT, "xid_79")]


def test_the_journals_own_boot_id_tells_an_earlier_boot() -> None:
    data = journal_json([(60.0, OFF_BUS)], _BOOT_ID=OTHER_BOOT_ID.replace("-", "")) + journal_json([(70.0, ORDINARY)])

    assert results(read(data)) == [("pass", None, None)]
    assert results(read(data, boot_id="a name of its own")) == [("fail", SLOT, "xid_79")]
    assert results(read(data, boot_id=BOOT_ID.upper())) == [("pass", None, None)]


def test_uptime_of_an_earlier_boot_is_not_counted_from_this_one() -> None:
    earlier, running = read(dmesg([(50.0, OFF_BUS), (0.0, FIRST), (70.0, APPLICATION)])).failures

    assert (earlier.occurred_at, evidence(earlier)["time"]) == (None, "boot_time_unknown")
    assert running.occurred_at == wall(70.0)


@pytest.mark.parametrize(
    "host", ["fe80::21:8", "2001:db8::7:4a", "::1", "fe80::21:8%eth0", "node-7.rack-3.example.com"]
)
@pytest.mark.parametrize("stamp", ["Nov 20 06:30:43", "2026-11-20T06:30:43.308145+00:00"])
def test_a_host_may_be_named_by_its_address(host: str, stamp: str) -> None:
    assert only(read(f"{stamp} {host} kernel: {OFF_BUS}\n".encode())).slot == SLOT


@pytest.mark.parametrize(
    "line", [f"Nov 20 06:30:43 node-7 fe80::1:2 kernel: {OFF_BUS}", f"Nov 20 06:30:43 logger: kernel: {OFF_BUS}"]
)
def test_an_address_within_what_a_program_wrote_makes_it_no_message_of_the_kernel(line: str) -> None:
    assert read(line.encode() + b"\n").failures == ()


@pytest.mark.parametrize(
    ("stamp", "at"),
    [
        ("[Fr Nov 20 06:30:43 2026]", "06:30:43"),
        ("Fr 2026-11-20 06:30:43 CET node-7 kernel:", "06:30:43"),
        ("[vie nov 20 06:30:43 2026]", None),
        ("[ven. nov. 20 06:30:43 2026]", None),
        ("[金 11月 20 06:30:43 2026]", None),
        ("nov. 20 06:30:43 node-7 kernel:", None),
        ("11月 20 06:30:43 node-7 kernel:", None),
    ],
)
def test_a_date_in_another_language_hides_no_xid(stamp: str, at: str | None) -> None:
    findings = read(f"{stamp} {OFF_BUS}\n".encode())

    failure = only(findings)
    assert (failure.code, failure.slot) == ("xid_79", SLOT)
    assert (failure.occurred_at and f"{failure.occurred_at:%H:%M:%S}") == at
    assert evidence(failure)["time"] == ("impossible_date" if at is None else "zone_assumed_utc")
    assert results(findings) == [("fail", SLOT, "xid_79")]


@pytest.mark.parametrize("stamp", ["[Fr Mär 20 06:30:43 2026]", "Okt 20 06:30:43 node-7 kernel:"])
def test_a_log_in_another_language_is_a_log(stamp: str) -> None:
    assert results(read(f"{stamp} {ORDINARY}\n".encode())) == [("pass", None, None)]


def test_what_a_program_wrote_in_another_language_is_no_xid() -> None:
    assert read(f"Okt 20 06:30:43 node-7 bash[77]: {OFF_BUS}\n".encode()).failures == ()
