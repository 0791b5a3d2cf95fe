# SPDX-License-Identifier: Apache-2.0
"""Which checkpoints and rotations are in the history, and how far has a sink got?

They are nowhere else: each is the data of an event that follows the entry it is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from registry.domain.checkpoints import Checkpoint, Rotation, Statement, parse_statement
from registry.domain.events import Event, EventType
from registry.store import history
from registry.store.snapshots import Snapshot, Transaction
from registry.store.values import from_micros, to_micros

STATEMENTS = (EventType.CHECKPOINT_SIGNED, EventType.KEY_ROTATED)


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Entries that no checkpoint covers yet, leaving out the event of the newest checkpoint itself."""

    count: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True)
class SinkState:
    """How far a sink has got: `event` is the last that it took. `error` says why it does not take the next."""

    event: int = 0
    attempts: int = 0
    retry_at: datetime | None = None
    error: str | None = None


def find_newest(snapshot: Snapshot) -> Checkpoint | None:
    """Return the newest checkpoint; None before the first. Raises ValueError for one that somebody has edited."""
    found = history.page_events(snapshot, types=[EventType.CHECKPOINT_SIGNED], limit=1, newest_first=True)
    return Checkpoint.parse(found[0].data) if found else None


def find_head(snapshot: Snapshot) -> tuple[int, str]:
    """Return sequence and hash of the newest entry."""
    row = snapshot.one("SELECT sequence, hash FROM chain_head WHERE id = 1")
    if row is None:
        raise LookupError("the head of the history is gone")
    return int(row[0]), str(row[1])


def find_hash(snapshot: Snapshot, sequence: int) -> str | None:
    """Return the hash of an entry."""
    row = snapshot.one("SELECT hash FROM event WHERE sequence = ?", (sequence,))
    return str(row[0]) if row else None


def count_uncovered(snapshot: Snapshot, newest: Checkpoint | None) -> Uncovered:
    """Say what no checkpoint covers."""
    after = newest.sequence + 1 if newest else 0
    row = snapshot.one("SELECT at FROM event WHERE sequence > ? ORDER BY sequence LIMIT 1", (after,))
    return Uncovered(max(snapshot.sequence() - after, 0), from_micros(row[0]) if row else None)


def list_statements(snapshot: Snapshot, after: int, limit: int) -> list[tuple[int, Statement]]:
    """Return checkpoints and rotations, each with the sequence of its event, from after one on; the oldest first.

    Raises ValueError for one that somebody has edited.
    """
    found = history.page_events(snapshot, types=STATEMENTS, after=after, limit=limit)
    return [(one.sequence, parse_statement(one.data)) for one in found]


def list_rotations(snapshot: Snapshot) -> list[Rotation]:
    """Return every rotation that can be read; there is one each time somebody changes the key."""
    found: list[Rotation] = []
    after = 0
    while page := history.page_events(snapshot, types=[EventType.KEY_ROTATED], after=after):
        found += _readable(page)
        after = page[-1].sequence
    return found


def find_sink(snapshot: Snapshot, name: str) -> SinkState:
    """Return how far a sink has got; one that is new has got nowhere."""
    row = snapshot.one("SELECT event, attempts, retry_at, error FROM sink WHERE name = ?", (name,))
    return SinkState(int(row[0]), int(row[1]), from_micros(row[2]), row[3]) if row else SinkState()


def save_sink(transaction: Transaction, name: str, state: SinkState) -> None:
    """Write down how far a sink has got."""
    transaction.execute(
        "INSERT INTO sink (name, event, attempts, retry_at, error) VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) "
        "DO UPDATE SET event = excluded.event, attempts = excluded.attempts, retry_at = excluded.retry_at, "
        "error = excluded.error",
        (name, state.event, state.attempts, to_micros(state.retry_at), state.error),
    )


def _readable(events: Sequence[Event]) -> list[Rotation]:
    found = []
    for one in events:
        try:
            found.append(Rotation.parse(one.data))
        except ValueError:
            continue  # it vouches for nothing then; that it was edited is found by whoever verifies the chain
    return found
