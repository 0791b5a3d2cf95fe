# SPDX-License-Identifier: Apache-2.0
"""Which keys was this database made with? Fingerprints only: a key that fits is not stored beside what it protects."""

from __future__ import annotations

from registry.store.database import Snapshot, Transaction


def list_fingerprints(snapshot: Snapshot) -> dict[str, str]:
    """Return the fingerprint of each key, by the key's name."""
    return {row[0]: row[1] for row in snapshot.all("SELECT name, value FROM key_fingerprint ORDER BY name")}


def insert_fingerprint(transaction: Transaction, name: str, value: str) -> None:
    """Bind this database to a key. One that it is bound to already stays."""
    transaction.execute(
        "INSERT INTO key_fingerprint (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (name, value)
    )


def replace_fingerprint(transaction: Transaction, name: str, value: str) -> None:
    """Bind this database to another key than before."""
    transaction.execute("UPDATE key_fingerprint SET value = ? WHERE name = ?", (value, name))
