# SPDX-License-Identifier: Apache-2.0
"""How does a page say a state, a time, an age? In words first: a sign and a colour only repeat them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from registry.domain.quarantine import ReleasePolicy
from registry.domain.times import brief, parse_rfc3339

GOOD, WARN, BAD, IDLE = "good", "warn", "bad", "idle"

_GOOD = (
    *("in_service", "admitted", "admit", "available", "reporting", "pass", "ok"),
    *("released", "resolved", "done", "completed", "counted"),
)
_BAD = (
    *("quarantined", "failing", "safe_mode", "draining", "drain", "conflict"),
    *("fail", "failure", "open", "alarm", "fatal"),
)
_WARN = (
    *("held", "hold", "missing", "stale", "unidentified", "warn", "problem", "unknown", "withheld"),
    *("waiting", "waiting_for_passes", "overdue", "suspected", "stopped"),
)
_IDLE = ("maintenance", "under_repair", "detached", "retired", "skipped", "not_applicable", "muted", "withdrawn")

TONES: Mapping[str, str] = {
    **dict.fromkeys(_GOOD, GOOD),
    **dict.fromkeys(_BAD, BAD),
    **dict.fromkeys(_WARN, WARN),
    **dict.fromkeys(_IDLE, IDLE),
}
"""How good each word is; a word that is not here is neither."""

SIGNS: Mapping[str, str] = {GOOD: "✓", WARN: "▲", BAD: "✕", IDLE: "○"}
"""The sign that goes with each: told apart by shape, not by colour."""

ENDINGS: Mapping[str, str] = {
    ReleasePolicy.MANUAL: "Ends when a person releases it",
    ReleasePolicy.AT_EXPIRY: "Ends at its date",
    ReleasePolicy.AFTER_PASSES: "Ends after clean runs that follow a restart, or when a person releases it",
}
"""What ends a hold, for whoever has never heard the names of the ways."""

HEADINGS: Mapping[int, str] = {
    400: "This could not be read",
    401: "Sign in first",
    403: "You may not do this",
    404: "There is nothing here",
    405: "This page takes no such form",
    409: "It has changed meanwhile",
    413: "This is too much at once",
    422: "This cannot be done as it was asked",
    429: "Too many at once",
    500: "Something went wrong here",
    503: "The records cannot be reached",
}
"""What a page of an error is called, instead of the name that HTTP has for its status."""

_COMMAND = re.compile("`([^`]+)`")

_STEPS = ((86_400 * 2, 86_400, "d"), (7_200, 3_600, "h"), (120, 60, "min"), (0, 1, "s"))
"""From how many seconds on an age is said in which unit: two days are 48 h until they are over."""


def tone(word: str) -> str:
    """Return how good a state is."""
    return TONES.get(word, IDLE)


def sign(word: str) -> str:
    """Return the sign of a state."""
    return SIGNS[tone(word)]


def plain(word: object) -> str:
    """Write a word of ours as people read it: `in_service` is `in service`."""
    return str(word).replace("_", " ")


def capital(sentence: str) -> str:
    """Begin a sentence with a capital and leave the rest as it is: names in it must not change."""
    return sentence[:1].upper() + sentence[1:].removesuffix(".")


def ending(release_policy: str) -> str:
    """Say what ends a hold."""
    return ENDINGS[release_policy]


def heading(status: int, title: str) -> str:
    """Call an error by what it means for a person; one that is rare keeps its title."""
    return HEADINGS.get(status, title)


def typed(sentence: str) -> Markup:
    """Show what a sentence has between backticks as something to type; all else of it stays text."""
    return Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(sentence))))  # noqa: S704 - escaped before


def moment_of(given: datetime | str) -> datetime:
    """Return a time, which answers hold as text."""
    return parse_rfc3339(given) if isinstance(given, str) else given


def exact(given: datetime | str) -> str:
    """Write a time for machines: RFC 3339 in UTC."""
    return brief(moment_of(given))


def clock(given: datetime | str) -> str:
    """Write a time for people: date, time and zone, to the second."""
    return brief(moment_of(given)).replace("T", " ").replace("Z", " UTC")


def age(given: datetime | str, now: datetime) -> str:
    """Say how long ago a time was, or how far ahead it is."""
    seconds = (now - moment_of(given)).total_seconds()
    told = duration(abs(seconds))
    return f"{told} ago" if seconds >= 0 else f"in {told}"


def duration(seconds: float | timedelta) -> str:
    """Say a length of time in the unit that fits it, cut: 90 s, 5 min, 30 h, 12 d."""
    whole = int(seconds.total_seconds() if isinstance(seconds, timedelta) else seconds)
    unit, name = next((unit, name) for least, unit, name in _STEPS if whole >= least)
    return f"{whole // unit} {name}"


def number(value: float) -> str:
    """Write a number with its thousands apart by a narrow blank; what is no whole number gets two decimals at most."""
    told = f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".rstrip("0").rstrip(".")
    return told.replace(",", "\u202f")


def percent(share: float) -> str:
    """Write a share of one as per cent, with one decimal; what is nearly all or nothing is not rounded to it."""
    cut = int(abs(share) * 1000 + (0.5 if 0.001 <= abs(share) <= 0.999 else 0)) / 10
    return f"{'-' if share < 0 else ''}{cut:g}\u00a0%"


def tell(data: Mapping[str, Any], names: Iterable[str]) -> str:
    """Say what an event has of these, in their order: `code xid_79, slot 0000:0f:00.0`."""
    return ", ".join(f"{plain(name)} {data[name]}" for name in names if data.get(name) not in (None, ""))


def segment(value: object) -> str:
    """Write a name as one part of an address."""
    return quote(str(value), safe="")
