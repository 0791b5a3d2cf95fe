# SPDX-License-Identifier: Apache-2.0
"""Is each stamp of a kernel log worth the time that it says, and no more?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from registry.collectors.kernel_log import parse
from tests.collectors.kernel_logs import OFF_BUS, RECEIVED_AT, evidence, only, read


def test_uptime_is_no_wall_clock() -> None:
    data = b"4,900,227986636,-;NVRM: Xid (PCI:0000:9b:00): 119, pid=1, name=x, Timeout\n"
    boot_time = datetime(2026, 1, 1, tzinfo=UTC)

    known = only(read(data, boot_time=boot_time))
    unknown = only(read(data, boot_time=None))

    assert known.occurred_at == boot_time + timedelta(minutes=3, seconds=47, microseconds=986636)
    assert (unknown.occurred_at, unknown.last_at) == (None, None)
    assert evidence(unknown)["time"] == "boot_time_unknown"
    assert evidence(unknown)["uptime_microseconds"] == 227986636


@pytest.mark.parametrize(
    ("received_at", "stamp", "occurred_at"),
    [
        ("2027-01-01T00:00:05", "Dec 31 23:59:58", "2026-12-31T23:59:58"),
        ("2026-12-31T23:59:59", "Dec 31 23:59:58", "2026-12-31T23:59:58"),
        ("2026-12-31T23:00:00", "Jan  1 01:30:00", "2027-01-01T01:30:00"),
        ("2026-11-29T12:00:00", "Nov 30 11:00:00", "2026-11-30T11:00:00"),
        ("2026-11-29T12:00:00", "Nov 30 13:00:00", "2025-11-30T13:00:00"),
        ("2028-03-01T00:00:00", "Feb 29 12:00:00", "2028-02-29T12:00:00"),
        ("2027-03-01T00:00:00", "Feb 29 12:00:00", None),
        ("2029-01-15T00:00:00", "Feb 29 12:00:00", "2028-02-29T12:00:00"),
        ("2027-03-01T00:00:00", "Feb 30 12:00:00", None),
        ("2027-03-01T00:00:00", "Foo 12 12:00:00", None),
        ("2027-03-01T00:00:00", "Feb 12 25:00:00", None),
        ("2027-03-01T00:00:00", "Feb 12 12:61:00", None),
    ],
)
def test_a_date_without_a_year_gets_the_one_that_its_receipt_allows(
    received_at: str, stamp: str, occurred_at: str | None
) -> None:
    failure = only(
        parse(
            f"{stamp} node-7 kernel: {OFF_BUS}\n".encode(),
            received_at=datetime.fromisoformat(received_at).replace(tzinfo=UTC),
        )
    )

    expected = None if occurred_at is None else datetime.fromisoformat(occurred_at).replace(tzinfo=UTC)
    assert failure.occurred_at == expected
    assert evidence(failure)["time"] == ("impossible_date" if expected is None else "zone_assumed_utc")
    assert evidence(failure)["stamp"] == stamp


@pytest.mark.parametrize(
    ("stamp", "occurred_at"),
    [
        ("2026-11-20T08:30:43+0200 node-7 kernel: ", "2026-11-20T06:30:43+00:00"),
        ("2026-11-20T08:30:43.25+02:00 node-7 kernel: ", "2026-11-20T06:30:43.250000+00:00"),
        ("2026-11-20T06:30:43.123456789Z node-7 kernel: ", "2026-11-20T06:30:43.123456+00:00"),
        ("2026-11-20T01:00:43,000001-05:30 ", "2026-11-20T06:30:43.000001+00:00"),
        ("2026-11-20 06:30:43 node-7 kernel: ", "2026-11-20T06:30:43+00:00"),
        ("Fri 2026-11-20 06:30:43 CET node-7 kernel: ", "2026-11-20T06:30:43+00:00"),
        ("2026-13-20T06:30:43Z node-7 kernel: ", None),
        ("1899-11-20T06:30:43Z node-7 kernel: ", None),
        ("9999-12-31T23:59:59-0100 node-7 kernel: ", None),
        ("[Fri Nov 20 06:30:43 1901] ", None),
        ("[9999999999.000000] ", None),
        ("[  +0.000012] ", None),
        ("[Nov20 06:30] ", None),
        ("<4>", None),
        ("", None),
    ],
)
def test_every_zone_is_turned_into_utc_and_what_is_no_time_is_none(stamp: str, occurred_at: str | None) -> None:
    failure = only(read(f"{stamp}{OFF_BUS}\n".encode(), boot_time=datetime(9900, 1, 1, tzinfo=UTC)))

    expected = None if occurred_at is None else datetime.fromisoformat(occurred_at)
    assert failure.occurred_at == expected
    is_assumed = "CET" in stamp or stamp.startswith("2026-11-20 ")
    assert ("time" in evidence(failure)) == (expected is None or is_assumed)


def test_received_at_is_no_time_of_any_line() -> None:
    assert only(read(f"{OFF_BUS}\n".encode())).occurred_at != RECEIVED_AT
