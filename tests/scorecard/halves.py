# SPDX-License-Identifier: Apache-2.0
"""What stands in the records and what in the history? Each in the same words, so that the two can be compared."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeAlias

from registry.store.database import Snapshot

Mark: TypeAlias = tuple[str, str]
"""A type of event, and what tells one of that type from another."""

NEWS = "device.changed"

_ROWS = {
    "node.registered": "SELECT name FROM node",
    "node.booted": "SELECT i.provider_id || ' ' || b.boot_id FROM boot b JOIN instance i ON i.id = b.instance_id",
    "device.registered": "SELECT id FROM device",
    "device.attached": "SELECT device_id FROM placement",
    "failure.recorded": "SELECT failure_id FROM sight",
    "quarantine.opened": "SELECT id FROM quarantine",
    "quarantine.released": "SELECT id FROM quarantine WHERE state = 'released'",
    NEWS: "SELECT id || ' ' || asset_tag FROM device WHERE asset_tag LIKE 'tag-%'",
}


@dataclass(frozen=True, slots=True)
class Both:
    """The two halves of what was done: `rows` is the state, `events` the history that speaks of it.

    Each news of a device takes the place of the one before: of those only the last is in `events`, all are in `told`.
    """

    rows: frozenset[Mark]
    events: frozenset[Mark]
    told: frozenset[Mark]
    head_fits: bool

    @property
    def kept(self) -> frozenset[Mark]:
        """What is there with both its halves."""
        return frozenset(one for one in self.told if one in self.rows or one[0] == NEWS)


def read(snapshot: Snapshot) -> Both:
    """Read both halves."""
    rows = frozenset((type_, str(mark)) for type_, sql in _ROWS.items() for (mark,) in snapshot.all(sql))
    bodies = [json.loads(body) for (body,) in snapshot.all("SELECT body FROM event ORDER BY sequence")]
    events, told, last = set[Mark](), set[Mark](), dict[str, str]()
    for body in bodies:
        if body["type"] == NEWS:
            tag = body["data"]["after"].get("asset_tag", "")
            told.add((NEWS, tag))
            last[body["data"]["device"]] = tag
        elif body["type"] in _ROWS:
            events.add((body["type"], _mark(body)))
    told |= events
    events |= {(NEWS, f"{device} {tag}") for device, tag in last.items()}
    (head,) = snapshot.one("SELECT sequence FROM chain_head") or (0,)
    return Both(rows, frozenset(events), frozenset(told), head == len(bodies))


def _mark(body: dict[str, Any]) -> str:
    type_, data = body["type"], body["data"]
    match type_:
        case "node.registered":
            return str(data["node"])
        case "node.booted":
            return f"{data['provider_id']} {data['boot_id']}"
        case "failure.recorded":
            return str(data["failure_id"])
        case "device.registered" | "device.attached":
            return str(data["device"])
        case _:
            return next(str(one["id"]) for one in body["subjects"] if one["kind"] == "quarantine")
