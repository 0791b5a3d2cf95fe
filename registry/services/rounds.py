# SPDX-License-Identifier: Apache-2.0
"""What is due for each subscription now? What waits and may be tried again, then what is new in the history.

An event waits for every earlier one that is about the same subject and has not arrived. While the receiver itself
fails, one message is tried at a time, by turns one that waits and the next that is new, so that a receiver which is
back, and one which only refuses some events, is noticed soon; the rest stays where it is, in the history.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from registry.domain.actors import Subject
from registry.domain.events import Event
from registry.domain.messages import cloud_event, ping, slack_text
from registry.domain.times import rfc3339
from registry.domain.webhooks import (
    AWAY_FAILURES,
    PENDING_MAX,
    SAVE_EVERY,
    Format,
    is_about,
    is_waiting,
    message_id,
    node_of,
)
from registry.services.webhook_keys import Safe, Unreadable
from registry.services.webhooks import open_secrets, open_url
from registry.store import deliveries, history
from registry.store import webhooks as store
from registry.store.database import Row, Snapshot
from registry.store.deliveries import Delivery
from registry.store.webhooks import Subscription

BATCH = 50
"""Messages of one turn: what a crash can send twice."""

PAGE = 500
PAGES = 10
"""Events that are looked at in one go, and how often, before others have their turn."""

PAGES_KEPT = 20
"""How many of them are kept for other subscriptions at the same place in the history."""

CONTENT_TYPES = {Format.CLOUDEVENTS: "application/cloudevents+json; charset=utf-8", Format.SLACK: "application/json"}


@dataclass(frozen=True, slots=True)
class Item:
    """One message. Without a delivery it is tried for the first time; without an event it only tries the way."""

    message: str
    body: bytes = field(repr=False)
    event: Event | None
    delivery: Delivery | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a message did not arrive."""

    error: str
    status: int | None = None
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """What one subscription is sent in one turn.

    `blocked` are new events that wait for an earlier one; `up_to` is the position when all of it is done. `fault` says
    why nothing can be sent at all.
    """

    subscription: Subscription
    items: tuple[Item, ...]
    blocked: tuple[int, ...]
    up_to: int
    url: str = field(default="", repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    fault: str | None = None

    @property
    def must_save(self) -> bool:
        """Whether the position is worth a commit of its own."""
        return self.up_to - self.subscription.position >= SAVE_EVERY

    @property
    def content_type(self) -> str:
        """What the bodies are."""
        return CONTENT_TYPES[self.subscription.format]


class Planner:
    """Finds what is due. It remembers how far it has looked for whom, so that nobody's silence costs a commit."""

    def __init__(self, safe: Safe, public_url: str | None) -> None:
        self._safe = safe
        self._public_url = public_url
        self._seen: dict[str, int] = {}

    def plan(self, snapshot: Snapshot, busy: Collection[str], now: datetime) -> list[Batch]:
        """Return a batch for each subscription that is due and has none under way."""
        view = _View(snapshot)
        found = []
        for one in store.list_subscriptions(snapshot, is_enabled=True):
            if one.id in busy:
                continue
            batch = self._batch(view, one, now)
            has_work = batch.items or batch.blocked
            self._seen[one.id] = one.position if has_work else batch.up_to
            if has_work or batch.must_save:
                found.append(batch)
        return found

    def _batch(self, view: _View, one: Subscription, now: datetime) -> Batch:
        waiting = deliveries.list_pending(view.snapshot, one.id)
        # While it rests only somebody who tries the way is answered: what waits need not be read each second.
        events = {} if is_waiting(one.retry_at, now) else view.events_of(waiting)
        choice = _Choice(one, waiting, events, now)
        position = min(max(one.position, self._seen.get(one.id, 0)), max(view.head, one.position))
        up_to = position
        if choice.wants_new:
            up_to = self._look_at_new(view, one, choice, position)
        chosen = choice.chosen()
        left = choice.new_beyond(chosen)
        up_to = min(up_to, left - 1) if left else up_to
        blocked = tuple(sequence for sequence in choice.blocked if sequence <= up_to)
        items = tuple(self._item(one, event, delivery, now) for event, delivery in chosen)
        if not items:
            return Batch(one, (), blocked, up_to)
        try:
            url, secrets = open_url(one, self._safe), open_secrets(view.snapshot, one, self._safe, now)
        except Unreadable as error:
            return Batch(one, items, blocked, up_to, fault=f"its secret cannot be read: {error}")
        return Batch(one, items, blocked, up_to, url, secrets)

    def _look_at_new(self, view: _View, one: Subscription, choice: _Choice, position: int) -> int:
        """Offer new events until there are enough; return how far that went."""
        for row in view.rows_after(position):
            event = self._fitting(view, one, row)
            if event is not None:
                if not choice.has_room:
                    break
                choice.offer(event)
            position = row[0]
        return position

    def _fitting(self, view: _View, one: Subscription, row: Row) -> Event | None:
        """Return the event of an entry if the subscription is told of it."""
        if not one.filter.takes_type(row[2]):
            return None
        event = history.read_row(row)
        if event is None or is_about(event, one.id):
            return None
        return event if one.filter.takes(event, view.profile_of(event)) else None

    def _item(self, one: Subscription, event: Event | None, delivery: Delivery | None, now: datetime) -> Item:
        if event is None:
            message = f"ping_{delivery.id if delivery else one.id}"
            document = ping(message, one.id, rfc3339(now), self._public_url)
            if one.format is Format.SLACK:
                document = {"text": document["data"]["summary"]}
            return Item(message, _write(document), None, delivery)
        if one.format is Format.SLACK:
            return Item(message_id(event), _write({"text": slack_text(event, self._public_url)}), event, delivery)
        return Item(message_id(event), _write(cloud_event(event, self._public_url)), event, delivery)


class _View:
    """One view of the history, in which what several subscriptions ask for is read once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.head = snapshot.sequence()
        self._pages: dict[int, list[Row]] = {}
        self._profiles: dict[str, str | None] = {}

    def rows_after(self, position: int) -> Iterator[Row]:
        """Yield the entries after a position, some thousands at most."""
        for _ in range(PAGES):
            if position >= self.head:
                return
            page = self._pages.get(position) or history.next_rows(self.snapshot, position, PAGE)
            if len(self._pages) < PAGES_KEPT:
                self._pages[position] = page
            yield from page
            if len(page) < PAGE:
                return
            position = page[-1][0]

    def events_of(self, waiting: Collection[Delivery]) -> Mapping[int, Event]:
        """Return the events of deliveries."""
        return history.get_events(self.snapshot, [one.event for one in waiting if one.event is not None])

    def profile_of(self, event: Event) -> str | None:
        """Return the profile of an event's node."""
        node = node_of(event.data)
        if node is None:
            return None
        if node not in self._profiles:
            self._profiles[node] = store.find_profile(self.snapshot, node)
        return self._profiles[node]


class _Choice:
    """What of the waiting and the new is sent in this turn."""

    def __init__(self, one: Subscription, waiting: list[Delivery], events: Mapping[int, Event], now: datetime) -> None:
        self.is_away = one.failures >= AWAY_FAILURES
        self.blocked: list[int] = []
        self._prefers_new = one.failures % 2 == 1
        self._taken: set[Subject] = set()
        self._room = PENDING_MAX - len(waiting)
        self._new: list[Event] = []
        self._pings = [row for row in waiting if row.event is None]
        self._free: list[tuple[Event, Delivery]] = []
        self._due: list[tuple[Event, Delivery]] = []
        self._rests = is_waiting(one.retry_at, now)
        for row in waiting:
            event = events.get(row.event) if row.event is not None else None
            if event is not None:
                self._sort(event, row, now)

    def _sort(self, event: Event, row: Delivery, now: datetime) -> None:
        subjects = _subjects(event)
        if not subjects & self._taken:
            self._free.append((event, row))
            if not is_waiting(row.retry_at, now):
                self._due.append((event, row))
                if not self.is_away:
                    return  # it goes ahead in this very turn, and all after it stop where it does not arrive
        self._taken |= subjects

    @property
    def wants_new(self) -> bool:
        """Whether new events are to be looked at."""
        return not self._rests and self.has_room

    @property
    def has_room(self) -> bool:
        """Whether one more new event can be taken care of."""
        most = 1 if self.is_away else BATCH - min(len(self._due), BATCH)
        return self._room > 0 and len(self._new) < most

    def offer(self, event: Event) -> None:
        """Take a new event: to be sent, or to wait for an earlier one."""
        subjects = _subjects(event)
        if subjects & self._taken:
            self._room -= 1
            self._taken |= subjects
            self.blocked.append(event.sequence)
        else:
            self._new.append(event)

    def chosen(self) -> list[tuple[Event | None, Delivery | None]]:
        """Return what is sent, in its order. Somebody who tries the way does not wait for a rest to end."""
        pings: list[tuple[Event | None, Delivery | None]] = [(None, row) for row in self._pings[:BATCH]]
        if self._rests:
            return pings
        new: list[tuple[Event | None, Delivery | None]] = [(event, None) for event in self._new]
        if not self.is_away:
            return [*pings, *self._due[:BATCH], *new][:BATCH]
        # The one that was tried longest ago.
        free = sorted(self._free, key=lambda pair: (pair[1].tried_at or pair[1].created_at, pair[1].id))[:1]
        return pings[:1] or (new or list(free) if self._prefers_new or not free else list(free))

    def new_beyond(self, chosen: Collection[tuple[Event | None, Delivery | None]]) -> int | None:
        """Return the first new event that was offered and is not sent in this turn."""
        sent = {event.sequence for event, row in chosen if event is not None and row is None}
        return min((event.sequence for event in self._new if event.sequence not in sent), default=None)


def _subjects(event: Event) -> frozenset[Subject]:
    return frozenset(one for one, _ in event.subjects)


def _write(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
