# SPDX-License-Identifier: Apache-2.0
"""Which requests with an idempotency key were answered, and how?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from registry.store.database import Snapshot, Transaction, to_micros


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The first answer to a key, and a digest of what was asked."""

    digest: str
    status: int
    body: str


def find_answer(snapshot: Snapshot, token_id: str, route: str, key: str) -> StoredAnswer | None:
    """Return what was answered to this key of this token on this route."""
    row = snapshot.one(
        "SELECT digest, status, body FROM idempotency WHERE token_id = ? AND route = ? AND key = ?",
        (token_id, route, key),
    )
    return StoredAnswer(*row) if row else None


def insert_answer(transaction: Transaction, token_id: str, route: str, key: str, answer: StoredAnswer) -> None:
    """Keep an answer for the next time. Raises Duplicate when there is one."""
    transaction.execute(
        "INSERT INTO idempotency (token_id, route, key, digest, status, body, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (token_id, route, key, answer.digest, answer.status, answer.body, to_micros(transaction.now)),
    )


def delete_older(transaction: Transaction, limit: datetime) -> None:
    """Forget the answers that were given before `limit`."""
    transaction.execute("DELETE FROM idempotency WHERE created_at <= ?", (to_micros(limit),))
