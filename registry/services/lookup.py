# SPDX-License-Identifier: Apache-2.0
"""What is called this? One text, looked for among everything that people copy from logs, tickets and labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from registry.domain.identifiers import why_unusable
from registry.services.targets import awaited_refs, find_units, type_of, usable_value
from registry.store import holds, lookup, nodes
from registry.store.database import Database, Snapshot

FOUND_MAX = 50
"""Most that one text finds: whoever sees more than that has to say more."""


class Kind(StrEnum):
    """What was found."""

    DEVICE = "device"
    """By our id, its serial or its UUID."""
    NODE = "node"
    """By its name, or the beginning of it."""
    INSTANCE = "instance"
    """By its provider id, whole or its last part: leads to the node it is, or was, a life of."""
    TICKET = "ticket"
    """By the ticket of holds that are open."""
    HOLD = "hold"
    """One that waits for a serial or UUID that nobody has shown, or one that is over, by its ticket."""


@dataclass(frozen=True, slots=True)
class Found:
    """One thing of that name: what it is, the name it is reached by, the name it is known by, and a word more."""

    kind: Kind
    ref: str
    name: str
    said: str | None = None


def look_up(db: Database, text: str) -> tuple[list[Found], bool]:
    """Return what is called this, the exact names first, and whether there is more than is returned."""
    with db.read() as snapshot:
        found = list(islice(_look(snapshot, text.strip()), FOUND_MAX + 1))
    return found[:FOUND_MAX], len(found) > FOUND_MAX


def _look(snapshot: Snapshot, text: str) -> Iterator[Found]:
    if not text:
        return
    units = find_units(snapshot, text)
    for unit in units:
        yield Found(Kind.DEVICE, unit.id, unit.serial or unit.uuid or unit.id, unit.model)
    if not units:
        yield from _awaited(snapshot, text)
    for name, provider_id in lookup.nodes_of_instance(snapshot, text, FOUND_MAX + 1):
        yield Found(Kind.INSTANCE, name, provider_id, f"on {name}")
    yield from _under_ticket(snapshot, text)
    if nodes.find_node(snapshot, text) is not None:
        yield Found(Kind.NODE, text, text)
        return
    for name in lookup.node_names(snapshot, text, FOUND_MAX + 1):
        yield Found(Kind.NODE, name, name)


def _awaited(snapshot: Snapshot, text: str) -> Iterator[Found]:
    """What is held by a list of somebody else before any node of ours has shown it."""
    type_ = type_of(text)
    if why_unusable(type_, text):
        return
    waiting = holds.open_for_identifiers(snapshot, awaited_refs(type_, usable_value(type_, text)))
    ids = {hold_id for those in waiting.values() for hold_id in those}
    for record in holds.get_holds(snapshot, ids).values():
        said = f"no node has shown it yet; held by {record.hold.owner}: {record.hold.reason}"
        yield Found(Kind.HOLD, record.hold.id, text, said)


def _under_ticket(snapshot: Snapshot, text: str) -> Iterator[Found]:
    """The open holds together, which are worked through in the queue, and each that is over by itself."""
    if count := lookup.count_tickets(snapshot, text):
        yield Found(Kind.TICKET, text, text, f"{count} quarantine{'s' if count > 1 else ''}")
    for record in holds.get_holds(snapshot, lookup.released_with_ticket(snapshot, text, FOUND_MAX + 1)).values():
        yield Found(Kind.HOLD, record.hold.id, text, f"released by {record.hold.released_by}: {record.hold.reason}")
