# SPDX-License-Identifier: Apache-2.0
"""What does the service say of a fleet's life, when it is asked as anybody may ask? Lists and history, page by page.

Nothing is read from tables, and nothing is kept from the messages that were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.domain.events import EventType
from registry.domain.times import parse_rfc3339
from registry.services.devices import list_devices
from registry.services.failure_pages import list_failures
from registry.services.history import list_events
from registry.services.nodes import list_nodes
from registry.services.pages import Page, PageRequest
from registry.services.quarantine import list_quarantines
from registry.store.database import Database
from tests.bench.titan_replay import HOLDERS, POLICY, times_of
from tests.bench.titan_rows import CODES, Fault, Lives, Spell

PAGE = 1000

COMES = {EventType.DEVICE_ATTACHED, EventType.DEVICE_MOVED, EventType.DEVICE_RETURNED}
Place = tuple[str, str]
"""A serial, and the name of a node."""

GOES = {EventType.DEVICE_VANISHED, EventType.DEVICE_SWAPPED, EventType.DEVICE_DETACHED}


@dataclass(frozen=True, slots=True)
class Memory:
    """What the service remembers. `held_at` has the boards of each policy, `refused` those that keep a node out now."""

    lives: Lives
    held_at: dict[int, dict[str, datetime]]
    refused: frozenset[str]


def remember(db: Database, now: datetime, tick: Callable[[str], object]) -> Memory:
    """Ask the service for everything, at the end of the story. `tick` is called with each thing that is asked for."""
    tick("devices")
    serials = frozenset(one["serial"] for one in _items(lambda page: list_devices(db, {}, page, now=now)))
    tick("nodes and their admission")
    shown = list(_items(lambda page: list_nodes(db, {}, page, policy=POLICY, now=now)))
    tick("failures")
    faults = tuple(fault for code in CODES.values() for fault in _faults(db, code))
    tick("history")
    spells = tuple(_spells(_items(lambda page: list_events(db, {}, page)), now))
    tick("quarantines")
    held_at = {number: dict(_held(db, str(holder), now)) for number, holder in HOLDERS.items()}
    refused = frozenset(
        reason["device"]["serial"]
        for node in shown
        for reason in node["admission"]["reasons"]
        if reason["code"] == "device_quarantined" and not node["admission"]["admitted"]
    )
    lives = Lives(spells, faults, serials, frozenset(one["name"] for one in shown), now)
    return Memory(lives, held_at, refused)


def _items(ask: Callable[[PageRequest], Page]) -> Iterator[dict[str, Any]]:
    """Turn the pages of a list, the oldest first."""
    after: str | None = None
    while True:
        page = ask(PageRequest(PAGE, after, newest_first=False))
        yield from page.items
        after = page.next
        if after is None:
            return


def _faults(db: Database, code: str) -> Iterator[Fault]:
    for one in _items(lambda page: list_failures(db, {"code": code}, page)):
        first, *last = times_of(one)
        yield Fault(one["serial"], one["node"], code, first, one["count"] - len(last))
        for at in last:
            yield Fault(one["serial"], one["node"], code, at)


def _held(db: Database, owner: str, now: datetime) -> Iterator[tuple[str, datetime]]:
    for one in _items(lambda page: list_quarantines(db, {"owner": owner}, page, now=now)):
        yield one["target"]["device"], parse_rfc3339(one["opened_at"])


def _spells(events: Iterable[Mapping[str, Any]], now: datetime) -> Iterator[Spell]:
    """Tell from the history which node showed which GPU from when to when.

    A node that shows what another one carries shows it all the same: while the two are in conflict, both do.
    """
    since: dict[Place, datetime] = {}
    disputed: dict[str, Place] = {}
    for event in events:
        at = parse_rfc3339(event["at"])
        gone, come = _gone(event, disputed), _come(event, disputed)
        if gone in since:
            yield Spell(*gone, since.pop(gone), at)
        if come is not None:
            since.setdefault(come, at)
    for place, begun in since.items():
        yield Spell(*place, begun, now)


def _gone(event: Mapping[str, Any], disputed: dict[str, Place]) -> Place | None:
    """Which GPU is shown no more by which node."""
    type_, data = event["type"], event["data"]
    if type_ == EventType.DEVICE_MOVED:
        return data["serial"], data["from_node"]
    if type_ == EventType.CONFLICT_RESOLVED:
        return disputed.pop(data["conflict"])
    return (data["serial"], data["node"]) if type_ in GOES else None


def _come(event: Mapping[str, Any], disputed: dict[str, Place]) -> Place | None:
    """Which GPU is shown from now on by which node."""
    type_, data = event["type"], event["data"]
    if type_ not in COMES and type_ != EventType.CONFLICT_OPENED:
        return None
    here = (data["serial"], data["node"])
    if type_ == EventType.CONFLICT_OPENED:
        disputed[data["conflict"]] = here
    return here
