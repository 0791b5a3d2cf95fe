# SPDX-License-Identifier: Apache-2.0
"""How long was somebody silent, when the time in which nobody could have been heard is left out?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from registry.domain.policy import Policy


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which the service did not run: from its last sign of life to its next one.

    Other times that are to be left out, as the maintenance of a node, are told in the same form.
    """

    start: datetime
    end: datetime


def silence_seconds(reported_at: datetime, now: datetime, outages: Iterable[Outage]) -> float:
    """Return the seconds from a report to `now`, those of outages left out; never below zero.

    Outages may overlap, and may begin before the report or end after `now`.
    """
    return elapsed(reported_at, now, outages).total_seconds()


def elapsed(since: datetime, now: datetime, outages: Iterable[Outage]) -> timedelta:
    """Return the time from `since` to `now`, that of outages left out, as `silence_seconds` does; never below zero."""
    left_out = timedelta(0)
    counted_to = since
    for outage in sorted(outages, key=lambda one: one.start):
        start, end = max(outage.start, counted_to), min(outage.end, now)
        if end > start:
            left_out += end - start
            counted_to = end
    return max(timedelta(0), now - since - left_out)


def moment_after(since: datetime, length: timedelta, outages: Iterable[Outage]) -> datetime:
    """Return the moment at which so much time has elapsed since `since`, that of outages left out.

    It is the first moment with `elapsed(since, moment, outages) >= length`.
    """
    moment = counted_to = since
    moment += length
    for outage in sorted(outages, key=lambda one: one.start):
        start = max(outage.start, counted_to)
        if start < moment and outage.end > start:
            moment += outage.end - start
            counted_to = outage.end
    return moment


def is_stale(silence: float | None, policy: Policy) -> bool:
    """Tell whether a silence of so many seconds is too long; None means that nobody was ever heard."""
    return silence is None or silence > policy.report_stale_seconds
