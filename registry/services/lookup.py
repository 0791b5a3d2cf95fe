# SPDX-License-Identifier: Apache-2.0
"""What is called this? One text, looked for among everything that people copy from logs, tickets and labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from registry.services.targets import find_units
from registry.store import lookup, nodes
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
    """By the ticket that a hold was opened with."""


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
    for unit in find_units(snapshot, text):
        yield Found(Kind.DEVICE, unit.id, unit.serial or unit.uuid or unit.id, unit.model)
    for name, provider_id in lookup.nodes_of_instance(snapshot, text, FOUND_MAX + 1):
        yield Found(Kind.INSTANCE, name, provider_id, f"on {name}")
    if count := lookup.count_tickets(snapshot, text):
        yield Found(Kind.TICKET, text, text, f"{count} quarantine{'s' if count > 1 else ''}")
    if nodes.find_node(snapshot, text) is not None:
        yield Found(Kind.NODE, text, text)
        return
    for name in lookup.node_names(snapshot, text, FOUND_MAX + 1):
        yield Found(Kind.NODE, name, name)
