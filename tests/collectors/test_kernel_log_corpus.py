# SPDX-License-Identifier: Apache-2.0
"""Are public captures of kernel logs read as what they hold?

The captures are not part of this project; the test runs where they are kept beside it, or where PRATIQUE_CORPUS says.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from registry.domain.identity import normalise_slot
from registry.domain.reports import Findings
from tests.collectors.kernel_logs import evidence, only, read, results, said

ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("PRATIQUE_CORPUS", ROOT.parent / "shared" / "corpus"))
LINES = CORPUS / "kernel-log" / "xid-lines.tsv"
pytestmark = pytest.mark.skipif(not LINES.is_file(), reason="the captures are not here")

CAPTURES: dict[str, list[tuple[str, str | None, int]]] = {
    "gpud/dmesg-time-format-iso.log": [
        ("xid_48", "0000:19:00.0", 1),
        ("xid_63", "0000:19:00.0", 1),
        ("xid_94", "0000:19:00.0", 9),
    ],
    "gpud/dmesg.decode.iso.512cbd8.log": [("xid_13", "0000:38:00.0", 16), ("xid_43", "0000:38:00.0", 1)],
    "gpud/dmesg-time-format-short-iso.log": [],
    "gpud/dmesg.0.log": [],
    "gpud/dmesg.decode.iso.28c8c95.log": [],
    "gpud/dmesg.decode.iso.log": [],
    "gpud/dmesg.decode.iso.log.1": [],
    "gpud/dmesg.peermem.log.0": [],
    "gpud/dmesg-erst.txt": [],
    "gpud/journalctl-time-format-short-iso-2.log": [],
    "gpud/kmsg.1.log": [],
    "gpud/kmsg.2.peermem.log": [],
}
UNKNOWN = (
    *("gpud/dmesg.txt", "gpud/dmesg-erst-7530486857247752193", "gpud/dmesg-erst-7530486857247752194"),
    "azhpc-diagnostics/journald.log",
)


def messages() -> list[str]:
    if not LINES.is_file():
        return []
    return [line.split("\t")[1] for line in LINES.read_text().splitlines()]


def expected(message: str) -> tuple[str, str | None] | None:
    """Read a line with other means: words between fixed marks."""
    if "fallen off the bus" in message and "Xid" not in message:
        place = re.search(r"GPU ([0-9a-f:.]+[0-9a-f])", message)
        assert place is not None
        return "gpu.fallen_off_bus", normalise_slot(place[1])
    head, colon, tail = message.partition("): ") if "(" in message.partition(" : ")[0] else message.partition(" : ")
    number = re.match(r"\d+", tail)
    if not colon or "Xid" not in head or number is None:
        return None
    if "SXid" in head:
        return f"sxid_{number[0]}", None
    return f"xid_{number[0]}", normalise_slot(head.partition("(")[2].removeprefix("PCI:"))


@pytest.mark.parametrize("message", messages())
def test_a_line_says_what_it_holds(message: str) -> None:
    findings = read(said(message))

    wanted = expected(message)
    assert [(one.code, one.slot) for one in findings.failures] == ([] if wanted is None else [wanted])
    if wanted is None and re.search(r"Xid", message):
        assert results(findings) == [("unknown", None, None)]
    assert all("injected" not in evidence(one) for one in findings.failures)


def test_every_line_of_one_log_is_counted_once() -> None:
    found = [wanted for wanted in map(expected, messages()) if wanted is not None]

    failures = read(said(*messages())).failures

    with_number = {slot for code, slot in found if code == "xid_79"}
    wanted = {one for one in found if one[0] != "gpu.fallen_off_bus" or one[1] not in with_number}
    assert {(one.code, one.slot) for one in failures} == wanted
    xids = [one for one in found if one[0].startswith("xid_")]
    assert sum(one.count for one in failures if one.code.startswith("xid_")) == len(xids)


def capture(name: str) -> Findings:
    return read((CORPUS / name).read_bytes(), boot_time=None)


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_tells_of_its_faults_and_no_others(name: str) -> None:
    findings = capture(name)

    assert [(one.code, one.slot, one.count) for one in findings.failures] == CAPTURES[name]
    assert findings.warnings == ()
    status = {check.status.value for check in findings.checks}
    assert status == ({"fail"} if ("xid_48", "0000:19:00.0", 1) in CAPTURES[name] else {"pass"})


@pytest.mark.parametrize("name", UNKNOWN)
def test_crash_dumps_and_logs_without_the_kernel_say_nothing_of_it(name: str) -> None:
    assert (capture(name).failures, results(capture(name))) == ((), [("unknown", None, None)])


def test_times_with_a_decimal_comma_are_read_to_the_microsecond() -> None:
    first = capture("gpud/dmesg-time-format-iso.log").failures[0]

    assert first.occurred_at is not None
    assert first.occurred_at.isoformat() == "2024-11-15T12:02:03.470068+00:00"


def test_records_that_share_a_sequence_number_are_all_read() -> None:
    text = (CORPUS / "gpud" / "kmsg.2.peermem.log").read_text()
    xid = "NVRM: Xid (PCI:0000:9b:00): 119, Timeout"

    assert only(read(re.sub(r";.*", f";{xid}", text).encode())).count == len(text.splitlines()) == 8
