# SPDX-License-Identifier: Apache-2.0
"""What does an auditor see: who did what, how far the history is signed, and whether it holds, piece by piece?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.domain.events import Event
from registry.domain.times import parse_rfc3339
from registry.services import audit, history
from registry.services.pages import Page, PageRequest
from registry.store import checkpoints
from registry.store.database import Database

SLICE = 5_000
"""Entries that are verified at once: some 0.4 s of one core, after which whoever waits for it gets a turn."""

_TELLING = ("reason", "message", "why", "code", "name", "check", "action")
"""What says most about an event, the most telling first."""


@dataclass(frozen=True, slots=True)
class Signed:
    """How far the history is signed. `checkpoint` is None before the first, `is_readable` False for one that somebody
    has edited; `is_own_key` tells whether the key of this server signed it, None where it has none.
    """

    head: int
    checkpoint: Mapping[str, Any] | None
    age_seconds: float | None
    uncovered: int
    is_readable: bool = True
    is_own_key: bool | None = None


@dataclass(frozen=True, slots=True)
class Verified:
    """How far a verification has got: all entries after `began` up to `reached` hold, or `bad` is the first that does
    not. `vouched` counts the checkpoints that agreed. `next` is where to go on, None when it is over.
    """

    began: int
    reached: int
    head: int
    vouched: int
    bad: int | None
    reason: str | None
    next: int | None

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1."""
        whole = self.head - self.began
        return 1.0 if whole <= 0 else min((self.reached - self.began) / whole, 1.0)


def search_events(db: Database, filters: Mapping[str, str], page: PageRequest) -> Page:
    """Return events as the API lists them, each with its `body` to the character, as it was hashed, and a `summary`.

    Raises InvalidField, NotFound, DeviceAmbiguous.
    """
    return history.list_events(db, filters, page, show=_show)


def _show(event: Event) -> dict[str, Any]:
    return {**event.to_json(), "body": event.body, "summary": summary_of(event.data)}


def summary_of(data: Mapping[str, Any]) -> str:
    """Say in few words what an event tells; empty where it tells nothing in words."""
    return next((str(data[name]) for name in _TELLING if data.get(name)), "")


def read_signed(db: Database, *, key: str | None, now: datetime) -> Signed:
    """Tell how far the history is signed, and by whom. `key` is this server's public key, if it has one."""
    with db.read() as snapshot:
        head = snapshot.sequence()
        try:
            found = checkpoints.find_newest(snapshot)
        except ValueError:
            return Signed(head, None, None, head, is_readable=False)
        uncovered = checkpoints.count_uncovered(snapshot, found).count
    if found is None:
        return Signed(head, None, None, uncovered)
    age = max((now - parse_rfc3339(found.signed_at)).total_seconds(), 0.0)
    return Signed(head, found.to_json(), age, uncovered, is_own_key=None if key is None else found.key == key)


def verify_on(db: Database, *, key: str | None, began: int, after: int, vouched: int = 0) -> Verified:
    """Verify the next piece of the history, from after an entry on that was found to hold.

    `began` and `vouched` are what is known of the pieces before. Raises InvalidField for an entry beyond the head.
    """
    found = audit.verify(db, key=key, after=after, limit=SLICE)
    is_over = not found["ok"] or found["next"] is None
    return Verified(
        began=min(began, after),
        reached=after + found["entries"],
        head=found["head_sequence"],
        vouched=vouched + found["checkpoints"],
        bad=found["bad"],
        reason=found["reason"],
        next=None if is_over else found["next"],
    )
