# SPDX-License-Identifier: Apache-2.0
"""When was a line of the kernel log written? The forms of its stamps, and what each is worth as a time.

The kernel itself only counts microseconds since boot (https://www.kernel.org/doc/Documentation/ABI/testing/dev-kmsg);
dmesg and the journal make dates of that. A date without a year or a zone is completed here, and says so: a time that
cannot be known stays unknown and is never taken from the clock of the reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from registry.domain.times import FIRST_YEAR, parse_rfc3339

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

AHEAD = timedelta(days=1)
"""How far a date without a zone may lie ahead of its receipt: local time runs up to 14 hours ahead of UTC."""


class Form(StrEnum):
    """How a stamp is written."""

    UPTIME = "uptime"
    """`[ 1843.308145]`, also with the time since the line before, or the third field of /dev/kmsg: time since boot."""
    KERNEL_ISO = "kernel_iso"
    """`2026-01-31T12:00:00,123456+00:00`: `dmesg --time-format iso`, told from the journal by its decimal comma."""
    ISO = "iso"
    """`2026-01-31T12:00:00.123456+0000`: `journalctl -o short-iso[-precise]` and newer syslog."""
    FULL = "full"
    """`Sat 2026-01-31 12:00:00 UTC`: `journalctl -o short-full`."""
    CTIME = "ctime"
    """`[Sat Jan 31 12:00:00 2026]`: `dmesg -T`, local time without its zone."""
    SYSLOG = "syslog"
    """`Jan 31 12:00:00`: no year, no zone."""
    EPOCH = "epoch"
    """Seconds since 1970: `journalctl -o short-unix` and the fields of its JSON."""
    NONE = "none"
    """No stamp, or one that only counts from the line before (`dmesg -d`)."""


class Doubt(StrEnum):
    """Why a time is absent or not certain."""

    NO_TIME = "no_time"
    """The line carries no time."""
    BOOT_TIME_UNKNOWN = "boot_time_unknown"
    """It is counted from a boot whose time nobody told."""
    IMPOSSIBLE_DATE = "impossible_date"
    """There is no such date, none in the year that it would have to be of, or its month is of another language."""
    ZONE_ASSUMED_UTC = "zone_assumed_utc"
    """The stamp names no zone, and is read as UTC."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """A stamp as printed: its form and its text. For `uptime` the text is a count of microseconds since boot."""

    form: Form
    text: str = ""

    @property
    def uptime(self) -> int | None:
        """Microseconds since boot, None for every other form."""
        return int(self.text) if self.form is Form.UPTIME else None


@dataclass(frozen=True, slots=True)
class Moment:
    """What a stamp is worth: an aware time in UTC or None, and what speaks against it."""

    at: datetime | None
    doubt: Doubt | None = None

    @property
    def is_certain(self) -> bool:
        """True when the time is known and nothing was assumed."""
        return self.at is not None and self.doubt is None


_CLOCK = r"\d{2}:\d{2}:\d{2}"
_WORD = r"[^\s\[\]<>:]{1,16}"
"""A weekday or a month, which dmesg and the journal print in the language of whoever runs them: `Fr`, `nov.`."""
_DELTA = r"(?: *<[ +.*\d]{0,24}>| {1,24})?"
_BRACKETED: tuple[tuple[Form, re.Pattern[str]], ...] = (
    (Form.UPTIME, re.compile(rf"\[ *(\d{{1,10}}\.\d{{1,9}}){_DELTA}\] ?")),
    (Form.CTIME, re.compile(rf"\[{_WORD} ({_WORD} +\d{{1,2}} {_CLOCK} \d{{4}}){_DELTA}\] ?")),
    (Form.NONE, re.compile(r"\[((?: *\+|<) *\d{1,10}\.\d{1,9}>?|[A-Z][a-z]{2} ?\d{1,2} \d{2}:\d{2})\] ?")),
)
_BARE: tuple[tuple[Form, re.Pattern[str]], ...] = (
    (Form.KERNEL_ISO, re.compile(rf"(\d{{4}}-\d{{2}}-\d{{2}}T{_CLOCK},\d{{1,9}}(?:Z|[+-]\d{{2}}:?\d{{2}})) ")),
    (Form.ISO, re.compile(rf"(\d{{4}}-\d{{2}}-\d{{2}}[T ]{_CLOCK}(?:\.\d{{1,9}})?(?:Z|[+-]\d{{2}}:?\d{{2}})?) ")),
    (Form.SYSLOG, re.compile(rf"({_WORD} +\d{{1,2}} {_CLOCK}(?:\.\d{{1,9}})?) ")),
    (Form.FULL, re.compile(rf"{_WORD} (\d{{4}}-\d{{2}}-\d{{2}} {_CLOCK}(?:\.\d{{1,9}})? [A-Z0-9+-]{{1,6}}) ")),
    (Form.EPOCH, re.compile(r"(\d{9,11}\.\d{1,9}) ")),
)


def read_stamp(line: str, start: int) -> tuple[Stamp, int] | None:
    """Read the stamp at `start` of a line: the stamp, and where the text after it begins. None where none stands."""
    for form, pattern in _BRACKETED if line.startswith("[", start) else _BARE:
        found = pattern.match(line, start)
        if found is not None:
            text = str(to_micros(found[1])) if form is Form.UPTIME else found[1]
            return Stamp(form, text), found.end()
    return None


def to_micros(seconds: str) -> int:
    """Turn `1843.308145` into a count of microseconds, without a float in between."""
    whole, _, fraction = seconds.partition(".")
    return int(whole) * 1_000_000 + int(fraction[:6].ljust(6, "0"))


def resolve(stamp: Stamp, *, received_at: datetime, boot_time: datetime | None) -> Moment:
    """Say when a stamp was. Never raises: what cannot be is an unknown time with its doubt."""
    try:
        return _resolve(stamp, received_at, boot_time)
    except (ValueError, OverflowError):
        return Moment(None, Doubt.IMPOSSIBLE_DATE)


def _resolve(stamp: Stamp, received_at: datetime, boot_time: datetime | None) -> Moment:
    if stamp.form is Form.NONE:
        return Moment(None, Doubt.NO_TIME)
    if stamp.uptime is not None:
        since = timedelta(microseconds=stamp.uptime)
        return Moment(boot_time.astimezone(UTC) + since) if boot_time else Moment(None, Doubt.BOOT_TIME_UNKNOWN)
    if stamp.form is Form.EPOCH:
        return Moment(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=to_micros(stamp.text)))
    if stamp.form in {Form.SYSLOG, Form.CTIME}:
        month, day, clock, *year = stamp.text.split()
        at = _date(int(year[0]), month, day, clock) if year else _with_year(month, day, clock, received_at)
        return Moment(at, Doubt.ZONE_ASSUMED_UTC)
    return _with_zone(stamp.text.replace(",", "."))


def _with_zone(text: str) -> Moment:
    """Read an ISO date; the zone may be written `Z`, `+00:00`, `+0000`, `UTC`, or be absent or a name."""
    fraction = re.match(r"(?:\.\d+)?", text[19:])
    decimals = fraction[0] if fraction else ""
    zone = text[19 + len(decimals) :].strip()
    offset = re.fullmatch(r"([+-]\d{2}):?(\d{2})?", zone)
    written = f"{offset[1]}:{offset[2] or '00'}" if offset else "Z"
    moment = parse_rfc3339(f"{text[:10]}T{text[11:19]}{decimals}{written}")
    is_known = offset is not None or zone in {"Z", "UTC", "GMT"}
    return Moment(moment, None if is_known else Doubt.ZONE_ASSUMED_UTC)


def _with_year(month: str, day: str, clock: str, received_at: datetime) -> datetime:
    """Choose the newest year that does not put the line into the future.

    Raises ValueError when that year has no such day: 29 February does not say which other year was meant.
    """
    latest = received_at.astimezone(UTC) + AHEAD
    place = (_MONTHS.index(month) + 1, int(day), clock)
    is_ahead = place > (latest.month, latest.day, f"{latest:%H:%M:%S}")
    return _date(latest.year - 1 if is_ahead else latest.year, month, day, clock)


def _date(year: int, month: str, day: str, clock: str) -> datetime:
    """Make a date of its words. Raises ValueError when there is none, or none that a clock ever showed."""
    if year < FIRST_YEAR:
        raise ValueError("a year before the epoch comes from a clock that was never set")
    hours, minutes, seconds = clock.split(":")
    micros = to_micros(seconds)
    midnight = datetime(year, _MONTHS.index(month) + 1, int(day), tzinfo=UTC)
    if int(hours) > 23 or int(minutes) > 59 or micros >= 60_000_000:
        raise ValueError("there is no such time of day")
    return midnight + timedelta(hours=int(hours), minutes=int(minutes), microseconds=micros)
