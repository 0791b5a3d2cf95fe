# SPDX-License-Identifier: Apache-2.0
"""Does a log whose form is not known ever pass, and can a program's own words hinder a node?"""

from __future__ import annotations

import pytest

from registry.domain.errors import PartUnreadable
from tests.collectors.kernel_logs import FIRST, OFF_BUS, ORDINARY, SLOT, dmesg, journal_short, read, results

UNKNOWN_PREFIXES = [
    f"[ 1843.308145] (CPU0) {OFF_BUS}",
    f"[ 1843.308145] node-7: {OFF_BUS}",
    f"[ 1843.308145] x {OFF_BUS}",
    f"node-7: [ 1843.308145] {OFF_BUS}",
    f"web-0  | [ 1843.308145] {OFF_BUS}",
    f"[pod/reader-x7/reader] [ 1843.308145] {OFF_BUS}",
    f"I1120 06:30:43.308145       1 reader.go:12] {OFF_BUS}",
    f"Nov 20 2026 06:30:43 node-7 kernel: {OFF_BUS}",
    f"Nov 20 06:30:43 node-7 kern.warn kernel: [ 1843.308145] {OFF_BUS}",
    f"#033[32m[ 1843.308145] #033[0m{OFF_BUS}",
    f"   [ 1843.308145] {OFF_BUS}",
    f"    MESSAGE={OFF_BUS}",
    f"MESSAGE={OFF_BUS}",
    f'{{"log":"[ 1843.308145] {OFF_BUS}\\n","stream":"stdout"}}',
    f'{{"MESSAGE":"{OFF_BUS}"}}',
    f'{{"_TRANSPORT":"kernel","MESSAGE":"{OFF_BUS}',
    "node-7: NVRM: GPU 0000:5a:00.0: GPU has fallen off the bus.",
    "node-7: nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30",
]


@pytest.mark.parametrize("line", UNKNOWN_PREFIXES)
@pytest.mark.parametrize(
    "log", [b"", dmesg([(0.0, FIRST)]), journal_short([(5.0, ORDINARY)])], ids=["alone", "dmesg", "journal"]
)
def test_the_drivers_words_behind_an_unknown_prefix_leave_the_check_unknown(line: str, log: bytes) -> None:
    findings = read(log + line.encode() + b"\n")

    assert (findings.failures, results(findings)) == ((), [("unknown", None, None)])
    assert [one.code for one in findings.warnings] == ["xid_unread"]
    assert "journalctl -k" in findings.warnings[0].message


def test_what_was_read_beside_it_still_counts() -> None:
    findings = read(dmesg([(5.0, OFF_BUS)]) + f"node-7: [ 9.0] {OFF_BUS}\n".encode())

    assert results(findings) == [("fail", SLOT, "xid_79")]
    assert [one.code for one in findings.warnings] == ["xid_unread"]


def test_an_unread_line_of_an_earlier_boot_says_nothing_of_this_one() -> None:
    findings = read(f"node-7: [ 9.0] {OFF_BUS}\n".encode() + dmesg([(0.0, FIRST)]))

    assert results(findings) == [("pass", None, None)]


@pytest.mark.parametrize(
    "line",
    [
        f"bash[77]: {OFF_BUS}",
        f"[ 1843.308145] bash[77]: {OFF_BUS}",
        f"[ 1843.308145] node-7 bash[77]: {OFF_BUS}",
        f"Nov 20 06:30:43 node-7 kernel: bash[77]: {OFF_BUS}",
        f"4,900,77000001,-;my{OFF_BUS}",
        f"Nov 20 06:30:43 node-7 sudo: operator : COMMAND=/usr/bin/grep {OFF_BUS}",
        f"<14>1 2026-11-20T06:30:43+00:00 node-7 bash 77 - - {OFF_BUS}",
        f"<14>1 2026-11-20T06:30:43+00:00 node-7 kernel 77 - - {OFF_BUS}",
        f"<14>1 2026-11-20T06:30:43+00:00 node-7 bash 77 - - see there: a b {OFF_BUS}",
        f'{{"_TRANSPORT":"syslog","MESSAGE":"so it said {OFF_BUS}"}}',
        "[ 1843.308145] NVRM: Xid: 79[4711]: segfault at 7f ip 7f sp 7f error 4 in trainer[7f+d3]",
        "[ 1843.308145] NVRM: Xid: 79,[4711]: segfault at 7f ip 7f sp 7f error 4 in trainer[7f+d3]",
        "[ 1843.308145] a NVRM: Xid: 7[4711]: segfault at 7f ip 7f sp 7f error 4 in trainer[7f+d3]",
    ],
)
def test_what_a_program_wrote_neither_fails_the_check_nor_leaves_it_unknown(line: str) -> None:
    findings = read(dmesg([(0.0, FIRST)]) + line.encode() + b"\n")

    assert (findings.failures, results(findings)) == ((), [("pass", None, None)])


@pytest.mark.parametrize(
    "stamp",
    ["[ 1843.308145] kernel: ", "2026-11-20T06:30:43,308145+00:00 node-7 kernel: ", "^[[32m[ 1843.308145] ^[[0m"],
)
def test_a_log_whose_form_is_only_a_little_different_is_read(stamp: str) -> None:
    assert results(read(f"{stamp}{OFF_BUS}\n".encode())) == [("fail", SLOT, "xid_79")]


@pytest.mark.parametrize(
    "line", [OFF_BUS, f"[Nov20 06:30] {OFF_BUS}", f"[  +0.000003] {OFF_BUS}", f"[<    0.000003>] {OFF_BUS}"]
)
def test_a_line_that_tells_no_time_is_read_without_one(line: str) -> None:
    findings = read(line.encode())

    assert results(findings) == [("fail", SLOT, "xid_79")]
    assert findings.failures[0].occurred_at is None


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b'{\n   "dmesg": [\n      {"pri": 4, "time": 5.0, "msg": "x"}\n   ]\n}\n', "JSON of dmesg"),
        (b'[{"MESSAGE":"x","_TRANSPORT":"kernel"}]\n', "JSON array"),
        (b"[]\n", "JSON array"),
        (b'{\n\t"MESSAGE" : "x",\n\t"_TRANSPORT" : "kernel"\n}\n', "several lines"),
        (b'data: {"MESSAGE":"x"}\n', "server-sent"),
        (b"__CURSOR=s=0;i=1\n__REALTIME_TIMESTAMP=1\nMESSAGE=x\n_TRANSPORT=kernel\n\n", "export format"),
        (
            b"Fri 2026-11-20 06:30:43.308145 UTC [s="
            + b"0" * 32
            + b";i=1;b=2]\n    _TRANSPORT=kernel\n    MESSAGE=x\n",
            "verbose",
        ),
    ],
)
def test_a_form_that_is_not_read_is_refused_with_the_one_to_send(data: bytes, named: str) -> None:
    with pytest.raises(PartUnreadable) as refusal:
        read(data)

    assert named in refusal.value.detail
    assert "journalctl -k -o json" in refusal.value.detail


def test_records_of_programs_alone_are_a_log_that_says_nothing_of_the_driver() -> None:
    for data in (
        b"12,3001,1843308145,-;started\n",
        b"<12>[ 1843.308145] started\n",
        b"user  :notice: [ 5.0] started\n",
    ):
        assert results(read(data)) == [("unknown", None, None)]


def test_entries_of_a_json_sequence_and_lines_that_end_in_carriage_returns_are_read() -> None:
    entry = b'\x1e{"_TRANSPORT":"kernel","MESSAGE":"' + OFF_BUS.encode() + b'"}\n'

    assert results(read(entry)) == [("fail", SLOT, "xid_79")]
    assert results(read(dmesg([(0.0, FIRST), (5.0, OFF_BUS)]).replace(b"\n", b"\r"))) == [("fail", SLOT, "xid_79")]
