# SPDX-License-Identifier: Apache-2.0
"""What is kept out now, how good is the case of each, and whose move is it? The queue that people work through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from registry.domain.hold_review import Completeness, next_step, weigh
from registry.domain.policy import Policy
from registry.domain.quarantine import TargetKind, asks_for_review
from registry.services.pages import PageRequest, slice_of
from registry.services.quarantine import bound_to_node
from registry.services.queue_cases import Opened, Waiting, of_hold, of_withheld, open_cases
from registry.store import gauges, queue
from registry.store.database import Database, Snapshot
from registry.store.devices import Device
from registry.store.queue import Narrowed

HELD, WITHHELD = "held", "withheld"
"""What an item of the queue is: a hold in force, or one that the breaker did not let through."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What part of the queue is asked for; `what` is `held` or `withheld`. None and False ask for everything."""

    cause: str | None = None
    owner: str | None = None
    node: str | None = None
    model: str | None = None
    ticket: str | None = None
    what: str | None = None
    is_overdue: bool = False


@dataclass(frozen=True, slots=True)
class QueueItem:
    """One hold, or withheld one, with the case as it stands. `places` are node and slot of each device, if any.

    `named` is what a person knows the target by: a serial, a UUID, a node's name, an identifier.
    """

    id: str
    what: str
    named: str
    devices: tuple[Device, ...]
    places: Mapping[str, tuple[str, str | None]]
    node: str | None
    opened_at: datetime
    age_seconds: float
    cause: str | None
    owner: str
    reason: str
    ticket: str | None
    review_at: datetime | None
    is_overdue: bool
    is_permanent: bool
    evidence: Completeness
    next_step: str


@dataclass(frozen=True, slots=True)
class QueuePage:
    """Items, the oldest first unless asked otherwise, and the key of the last where more follow."""

    items: tuple[QueueItem, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How much waits in all, before any filter; causes and owners with how many holds are theirs, the most first."""

    held: int
    withheld: int
    overdue: int
    causes: tuple[tuple[str, int], ...]
    owners: tuple[tuple[str, int], ...]


def count_queue(db: Database, *, now: datetime) -> QueueCounts:
    """Count what is held and withheld. Costs what is open now, whatever was."""
    with db.read() as snapshot:
        found = queue.count_open(snapshot, now)
        standing = gauges.count_withheld(snapshot)
    causes: dict[str, int] = {}
    owners: dict[str, int] = {}
    for (cause, owner, _), count in found.items():
        owners[owner] = owners.get(owner, 0) + count
        if cause is not None:
            causes[cause] = causes.get(cause, 0) + count
    overdue = sum(count for (_, _, is_due), count in found.items() if is_due)
    return QueueCounts(found.total(), standing, overdue, _most_first(causes), _most_first(owners))


def _most_first(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def list_queue(db: Database, filters: Filters, page: PageRequest, *, policy: Policy, now: datetime) -> QueuePage:
    """Return a page of what is kept out. Raises InvalidField for a filter that cannot be read."""
    with db.read() as snapshot:
        asked = Narrowed(
            cause=filters.cause,
            owner=filters.owner,
            ticket=filters.ticket,
            model=filters.model,
            is_overdue=filters.is_overdue,
            bound=bound_to_node(snapshot, filters.node) if filters.node is not None else None,
        )
        part = slice_of(page)
        waiting: list[Waiting] = []
        if filters.what != WITHHELD:
            waiting += [of_hold(one) for one in queue.list_open(snapshot, asked, part, now)]
        if filters.what != HELD:
            waiting += [of_withheld(*one) for one in queue.list_standing(snapshot, asked, part)]
        waiting.sort(key=lambda one: one.hold.id, reverse=page.newest_first)
        kept = waiting[: page.limit]
        items = tuple(_items(snapshot, kept, policy, now))
    return QueuePage(items, kept[-1].hold.id if len(waiting) > page.limit else None)


def get_items(db: Database, ids: Iterable[str], *, policy: Policy, now: datetime) -> tuple[QueueItem, ...]:
    """Return those of these that are still held or withheld, in the order of the queue."""
    with db.read() as snapshot:
        holds, standing = queue.get_waiting(snapshot, ids, now)
        waiting = [*(of_hold(one) for one in holds), *(of_withheld(*one) for one in standing)]
        return tuple(_items(snapshot, sorted(waiting, key=lambda one: one.hold.id), policy, now))


def _items(snapshot: Snapshot, waiting: Iterable[Waiting], policy: Policy, now: datetime) -> Iterator[QueueItem]:
    for opened in open_cases(snapshot, waiting, policy):
        yield _item(opened, policy, now)


def _item(opened: Opened, policy: Policy, now: datetime) -> QueueItem:
    waiting, case, units = opened.waiting, opened.case, opened.units
    hold = waiting.hold
    return QueueItem(
        id=hold.id,
        what=HELD if case.limited_by is None else WITHHELD,
        named=_name(waiting, units),
        devices=units,
        places={id_: (one.node, one.slot) for id_, one in opened.here.items()},
        node=waiting.node or next(iter(case.known.nodes), None),
        opened_at=hold.opened_at,
        age_seconds=max((now - hold.opened_at).total_seconds(), 0.0),
        cause=hold.cause,
        owner=str(hold.owner),
        reason=hold.reason,
        ticket=hold.ticket,
        review_at=hold.review_at,
        is_overdue=case.limited_by is None and asks_for_review(hold, now),
        is_permanent=hold.permanent,
        evidence=weigh(case),
        next_step=next_step(case, policy=policy, now=now),
    )


def _name(waiting: Waiting, units: Sequence[Device]) -> str:
    if waiting.hold.target_kind is TargetKind.NODE:
        return waiting.node or waiting.hold.target_key.rpartition(":")[2]
    known = next((one.serial or one.uuid for one in units if one.serial or one.uuid), None)
    # An identifier that nobody has shown is kept as kind|vendor|type|value.
    return known or (units[0].id if units else waiting.hold.target_key.rpartition("|")[2])
