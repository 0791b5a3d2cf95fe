# SPDX-License-Identifier: Apache-2.0
"""Is a time written in one way, and refused when it cannot be one?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.times import brief, parse_duration, parse_rfc3339, rfc3339

MOMENTS = st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001


@given(MOMENTS)
def test_what_is_written_is_read_back_to_the_microsecond(moment: datetime) -> None:
    assert parse_rfc3339(rfc3339(moment)) == moment


@given(MOMENTS, MOMENTS)
def test_texts_sort_as_their_times_do(one: datetime, other: datetime) -> None:
    assert (rfc3339(one) < rfc3339(other)) == (one < other)


def test_six_decimals_are_written_even_when_they_are_zero() -> None:
    moment = datetime(2026, 1, 31, 14, 0, tzinfo=timezone(timedelta(hours=2)))

    assert rfc3339(moment) == "2026-01-31T12:00:00.000000Z"
    assert brief(moment) == "2026-01-31T12:00:00Z"


def test_a_time_without_an_offset_is_not_written() -> None:
    with pytest.raises(ValueError, match="offset"):
        rfc3339(datetime(2026, 1, 31))  # noqa: DTZ001


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00Z",
        "2026-01-31t12:00:00z",
        "2026-01-31 12:00:00.0+00:00",
        "2026-01-31T14:30:00+02:30",
        "2026-01-31T07:00:00-05:00",
        "2026-01-31T12:00:00.0000009Z",
    ],
)
def test_every_spelling_of_noon_is_noon(text: str) -> None:
    assert parse_rfc3339(text) == datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "noon",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00Z",
        "2026-02-30T12:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00+02:60",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "0001-01-01T00:00:00+10:00",
        "0000-01-01T00:00:00Z",
        "٢٠٢٦-01-31T12:00:00Z",
        "2026-01-31T12:00:00Z\n",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_rfc3339(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("15m", 900), ("1h30m", 5400), ("2d", 172_800), ("0", 0)],
)
def test_a_length_of_time_is_a_number_with_a_unit(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "m", "15 m", "-5s", "1.5h", "15x", "9" * 20 + "d", "9" * 5000, "٣s", "²"])
def test_anything_else_is_no_length_of_time(text: str) -> None:
    with pytest.raises(ValueError, match="time"):
        parse_duration(text)
