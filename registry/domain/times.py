# SPDX-License-Identifier: Apache-2.0
"""How is a moment written and read? One text form for answers, history and messages."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

FIRST_YEAR = 1970
"""A year before the epoch comes from a clock that was never set."""

_RFC3339 = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:\.(?P<fraction>[0-9]+))?(?P<offset>[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
"""`date-time` of RFC 3339, 5.6: https://www.rfc-editor.org/rfc/rfc3339#section-5.6 (the offset is not optional)."""


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION_PART = re.compile(r"([0-9]+)([smhd])")


def rfc3339(moment: datetime) -> str:
    """Write an aware time in UTC with six decimals and `Z`, so that texts sort as times do. Raises ValueError."""
    if moment.utcoffset() is None:
        raise ValueError("a time without an offset cannot be written")
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def rfc3339_or_none(moment: datetime | None) -> str | None:
    """Write a time that may be absent: None stays None."""
    return None if moment is None else rfc3339(moment)


def brief(moment: datetime) -> str:
    """Write a time for a message to people: RFC 3339 in UTC, cut to seconds. Raises ValueError without an offset."""
    return rfc3339(moment)[:19] + "Z"


def parse_rfc3339(text: str) -> datetime:
    """Read an RFC 3339 time as aware UTC, cut to microseconds.

    Raises ValueError when the offset is missing, the date does not exist, or the year is outside 1970 to 9999.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError("not a time like 2026-01-31T12:00:00Z (the offset is required)")
    fraction = (found["fraction"] or "")[:6].ljust(6, "0")
    local = datetime.strptime(f"{found['date']} {found['time']}.{fraction} +0000", "%Y-%m-%d %H:%M:%S.%f %z")
    try:
        moment = local.replace(tzinfo=_zone(found["offset"])).astimezone(UTC)
    except OverflowError:
        raise ValueError("the year is outside 1970 to 9999") from None
    if moment.year < FIRST_YEAR:
        raise ValueError("the year is outside 1970 to 9999")
    return moment


def parse_duration(text: str) -> timedelta:
    """Read `90s`, `15m`, `1h30m`, `30d` or a bare number of seconds. Raises ValueError."""
    parts = _DURATION_PART.findall(text)
    if text.isascii() and text.isdigit():
        parts = [(text, "s")]
    elif not text or "".join(number + unit for number, unit in parts) != text:
        raise ValueError("no length of time like 90s, 15m or 1h30m")
    try:
        return sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())
    except (OverflowError, ValueError):
        raise ValueError("too long a time") from None


def _zone(offset: str) -> timezone:
    """Make the zone of `Z` or `±hh:mm`."""
    if offset in {"Z", "z"}:
        return UTC
    hours, minutes = int(offset[1:3]), int(offset[4:6])
    if hours > 23 or minutes > 59:
        raise ValueError("the offset is outside -23:59 to +23:59")
    ahead = timedelta(hours=hours, minutes=minutes)
    return timezone(-ahead if offset[0] == "-" else ahead)
