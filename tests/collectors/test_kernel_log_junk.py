# SPDX-License-Identifier: Apache-2.0
"""Does any input at all do more than be read or be refused, and does it end in time?"""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.domain.errors import PartUnreadable
from registry.domain.failures import is_valid_code
from registry.domain.reports import Findings
from tests.collectors.junk import Edit, damaged, edits_of
from tests.collectors.kernel_logs import FORMS, OFF_BUS, SLOT, dmesg, read

LINES = [
    (0.0, "Linux version 6.8.0"),
    (5.0, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release Build"),
    (9.0, "NVRM: GPU at PCI:0000:5a:00: GPU-7c1f0b52-9a3e-4d68-b0c7-51e2f4a6d830"),
    (9.1, "NVRM: GPU Board Serial Number: 1655500112233"),
    (9.2, OFF_BUS),
    (9.3, "NVRM: Xid (PCI:0000:6b:00): 145, pid=8, name=x, RLW_CTRL Nonfatal XC1 i1 Link 10 (0x04082907)"),
    (9.4, "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 48 LTSSM Fault Up"),
    (9.5, "NVRM: The NVIDIA GPU 0000:7c:00.0"),
    (9.6, "NVRM: fallen off the bus and is not responding to commands."),
]
PIECES = st.one_of(
    st.binary(max_size=12),
    st.text(max_size=6).map(lambda text: text.encode("utf-8", "replace")),
    st.sampled_from(
        [b"\0", b"\r", b"\n", b"\n ", b"\\x0a", b"#012", b"9" * 5000, b"\xff\xfe", b"\x1b[31m", b"{", b"]"]
    ),
    st.sampled_from([b"NVRM: ", b"Xid (", b"): 79", b"kernel: ", b"\n-- Reboot --\n", b"\nPanic#1 Part2\n", b"i1 "]),
)
EDITS = edits_of(PIECES)
CALM = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def attempt(data: bytes) -> Findings | None:
    """Read the data; None when it was refused. Any other exception ends the test."""
    try:
        findings = read(data)
    except PartUnreadable as refusal:
        reason = refusal.detail
    else:
        check_sanity(findings)
        return findings
    assert 0 < len(reason) < 1000
    return None


def check_sanity(findings: Findings) -> None:
    assert {check.name for check in findings.checks} == {"gpu.xid"}
    for failure in findings.failures:
        assert is_valid_code(failure.code)
        assert not {unicodedata.category(one) for one in failure.message or ""} & {"Cc", "Cs"}
        assert failure.last_at is None or failure.occurred_at is None or failure.last_at >= failure.occurred_at
        assert len(failure.failure_id) <= 64


@CALM
@given(data=st.binary(max_size=400))
def test_bytes_are_read_or_refused(data: bytes) -> None:
    attempt(data)


@pytest.mark.parametrize("form", FORMS)
@CALM
@given(edits=EDITS)
def test_damaged_logs_are_read_or_refused(form: str, edits: list[Edit]) -> None:
    data = FORMS[form](LINES)
    data = damaged(data, edits)
    attempt(data)


@pytest.mark.parametrize("form", FORMS)
@CALM
@given(share=st.floats(0, 1))
def test_a_log_that_stops_early_tells_of_no_other_failures_than_the_whole(form: str, share: float) -> None:
    data = FORMS[form](LINES)
    whole = {failure.failure_id for failure in read(data).failures}

    part = data[: int(len(data) * share)]
    findings = attempt(part[: part.rfind(b"\n") + 1])

    assert findings is None or {failure.failure_id for failure in findings.failures} <= whole


@CALM
@given(junk=st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=60))
def test_junk_around_an_xid_does_not_hide_it(junk: str) -> None:
    noise = dmesg([(1.0, f"usb 1-1: {junk}")])

    failures = read(noise + dmesg([(9.0, OFF_BUS + junk)]) + noise).failures

    assert [(one.code, one.slot) for one in failures] == [("xid_79", SLOT)]


SIZE = 1_500_000
STAMP = b"[    1.000000] "
HUGE = {
    "the same xid": STAMP + OFF_BUS.encode() + b"\n",
    "ordinary lines": STAMP + b"usb 1-1: new device\n",
    "a line without end": b"NVRM: Xid ",
    "blanks": STAMP + b"NVRM:" + b" " * 4000 + b"\n",
    "brackets": b"[ [ [ [\n",
    "open parentheses": STAMP + b"NVRM: Xid ((((((((((((: : : :\n",
    "a unit without end": STAMP + b"NVRM: Xid (PCI:0000:5a:00): 145, SAW" + b"A" * 900 + b"   " * 300 + b"\n",
    "modules": STAMP + b"NVRM: loading NVIDIA UNIX " + b"Kernel Module " * 200 + b"\n",
    "line breaks": b"1,1,1,-;NVRM" + rb"\x0a" * 1000 + b"\n",
    "nested json": b'{"MESSAGE":' + b"[" * 3000 + b"\n",
    "zero bytes": b"\0",
    "every byte": bytes(range(256)),
}


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_text_ends_in_time(name: str) -> None:
    data = (HUGE[name] * (SIZE // len(HUGE[name]) + 1))[:SIZE]
    begun = time.monotonic()

    attempt(data)

    assert time.monotonic() - begun < 10
