# SPDX-License-Identifier: Apache-2.0
"""Which events is a subscription told of, what is signed, and when is a delivery tried again or given up?

As the Standard Webhooks specification has it: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from registry.domain.actors import SubjectKind
from registry.domain.events import Event, EventType

SCHEDULE_SECONDS = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""How long to wait after the first, second … try that failed: the schedule of the specification, ten tries within
75 hours and 36 minutes ("Deliverability and reliability")."""

TRIES = len(SCHEDULE_SECONDS) + 1
"""Tries before a delivery is a dead letter."""

JITTER = 0.1
"""By how much a wait is made longer by chance, so that what failed together does not come back together."""

PAUSE_SECONDS = 5
PAUSE_SECONDS_MAX = 300
"""How long a subscription rests after a failure: twice as long each time, five minutes at most, so that one that comes
back hears of what it missed soon."""

AWAY_FAILURES = 3
"""After so many failures in a row, of whatever events, it is the receiver that fails, and not an event."""

AWAY_MAX = timedelta(days=7)
"""When nothing has arrived for so long, a subscription is switched off: the specification recommends it. What it was
not told stays in the history, and is told when somebody switches it on."""

AWAY_TRIES = 20
"""Nor is it before so many tries in a row, which take more than an hour: a server that was itself off for a week, or
whose clock leapt ahead, has not tried for a week.
"""

PENDING_MAX = 1000
"""Deliveries of one subscription that may wait beside the history. Beyond them it is told of nothing new until some are
settled: the history keeps everything in order, so that bounds what a receiver that refuses some events costs."""

SAVE_EVERY = 10_000
"""After so many events that concern a subscription in nothing its position is written: to look at them again after a
restart costs a second or two, and to write it each time a commit."""

LATE_EVENTS = 2 * SAVE_EVERY
"""One whose position is further back than that is late, although nothing fails: its receiver is slow."""

SUBSCRIPTIONS_MAX = 100
"""Each is sent to by a thread of its own."""

RETRY_AFTER_MAX = timedelta(days=1)
"""The longest wait that a receiver may ask for: the longest of the schedule."""

WAIT_MAX = RETRY_AFTER_MAX * (1 + JITTER)
"""No wait is longer."""

GONE = 410
ASKS_TO_WAIT = frozenset({429, 502, 503, 504})
"""Statuses whose `Retry-After` is heeded."""


class Format(StrEnum):
    """In what shape a subscription is told."""

    CLOUDEVENTS = "cloudevents"
    """A CloudEvents 1.0 document: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md."""
    SLACK = "slack"
    """One sentence, as an incoming webhook of Slack takes it."""


class Algorithm(StrEnum):
    """With what messages are signed."""

    HMAC = "hmac-sha256"
    """A secret that both sides know: `v1`, `whsec_…`."""
    ED25519 = "ed25519"
    """A key pair of which the receiver knows the public half: `v1a`, `whpk_…`."""


class DeliveryState(StrEnum):
    """Where a delivery stands that did not arrive at the first try."""

    PENDING = "pending"
    """It is tried, or waits for an earlier event of the same subject."""
    DELIVERED = "delivered"
    """The receiver took it."""
    DEAD = "dead"
    """It was given up."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events a subscription is told of. Nothing named is no limit; an event has to be within all of them."""

    types: tuple[str, ...] = ()
    """Event types, or `<noun>.*` for all of a noun."""
    causes: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    """Profiles of the event's node."""

    def takes_type(self, type_: str) -> bool:
        """Say whether events of a type are told at all."""
        return not self.types or type_ in self.types or f"{type_.partition('.')[0]}.*" in self.types

    def takes(self, event: Event, profile: str | None) -> bool:
        """Say whether an event is told; `profile` is that of its node. What has no cause or node has no fitting one."""
        if not self.takes_type(event.type):
            return False
        if self.causes and event.data.get("cause") not in self.causes:
            return False
        return not self.profiles or profile in self.profiles


def unknown_types(types: Iterable[str]) -> list[str]:
    """Return those that are neither an event type nor `<noun>.*`."""
    known = {str(one) for one in EventType} | {f"{one.partition('.')[0]}.*" for one in EventType}
    return [one for one in types if one not in known]


def is_about(event: Event, subscription_id: str) -> bool:
    """Say whether an event is about a subscription: that one is not told, or its failures would be news to itself."""
    return any(one.kind == SubjectKind.SUBSCRIPTION and one.id == subscription_id for one, _ in event.subjects)


def message_id(event: Event) -> str:
    """Name an event's message: the same at each try, and another for another event that a restore put in its place."""
    return f"evt_{event.sequence}_{event.hash[:16]}"


def signing_input(message: str, timestamp: int, body: bytes) -> bytes:
    """Return what is signed: id, seconds since 1970, and body, with full stops between ("Signature scheme")."""
    return f"{message}.{timestamp:d}.".encode() + body


def wait_after(tries: int, chance: float) -> timedelta | None:
    """Return how long to wait after so many tries that failed; None when it is given up. `chance` is from 0 to 1."""
    if tries >= TRIES:
        return None
    return timedelta(seconds=SCHEDULE_SECONDS[tries - 1] * (1 + JITTER * chance))


def pause_after(failures: int, chance: float) -> timedelta:
    """Return how long a subscription rests after so many failures in a row. `chance` is from 0 to 1."""
    seconds = min(PAUSE_SECONDS * 2 ** min(failures - 1, 16), PAUSE_SECONDS_MAX)
    return timedelta(seconds=seconds * (1 + JITTER * chance))


def is_waiting(until: datetime | None, now: datetime) -> bool:
    """Say whether a wait goes on. One that would be longer than any is of a clock that ran ahead, and over."""
    return until is not None and now < until <= now + WAIT_MAX


def retry_after(status: int, text: str | None, now: datetime) -> datetime | None:
    """Return until when a receiver asks to be left alone: `Retry-After` is seconds or a date (RFC 9110, 10.2.3).

    What cannot be read, and what no such status came with, asks for nothing; a day is the most that is heeded.
    """
    if text is None or status not in ASKS_TO_WAIT:
        return None
    if text.isascii() and text.isdigit():
        return now + min(timedelta(seconds=int(text[:9])), RETRY_AFTER_MAX)
    try:
        at = parsedate_to_datetime(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):  # no date, or one beyond all calendars
        return None
    return min(max(at, now), now + RETRY_AFTER_MAX)


def node_of(data: Mapping[str, Any]) -> str | None:
    """Return the node that an event is about."""
    node = data.get("node")
    return node if isinstance(node, str) else None
