# SPDX-License-Identifier: Apache-2.0
"""Which tokens were handed out? Only their keyed hashes are kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from registry.domain.roles import Role
from registry.store.database import Row, Snapshot, Transaction, from_micros, to_micros

_COLUMNS = "id, role, name, node, created_at, created_by, revoked_at"


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token without its secret."""

    id: str
    role: Role
    name: str
    node: str | None
    created_at: datetime
    created_by: str
    revoked_at: datetime | None


def insert_token(transaction: Transaction, token: TokenRow, hash_: str) -> None:
    """Keep a token under its keyed hash."""
    transaction.execute(
        "INSERT INTO token (id, role, name, node, hash, created_at, created_by, revoked_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
        (token.id, token.role.value, token.name, token.node, hash_, to_micros(token.created_at), token.created_by),
    )


def find_token_by_hash(snapshot: Snapshot, hash_: str) -> TokenRow | None:
    """Return the token with this keyed hash, revoked or not."""
    row = snapshot.one(f"SELECT {_COLUMNS} FROM token WHERE hash = ?", (hash_,))
    return _token(row) if row else None


def find_token(snapshot: Snapshot, token_id: str) -> TokenRow | None:
    """Return the token with this public id."""
    row = snapshot.one(f"SELECT {_COLUMNS} FROM token WHERE id = ?", (token_id,))
    return _token(row) if row else None


def list_tokens(snapshot: Snapshot) -> list[TokenRow]:
    """Return all tokens, the newest first, revoked ones too."""
    return [_token(row) for row in snapshot.all(f"SELECT {_COLUMNS} FROM token ORDER BY created_at DESC, id DESC")]


def set_revoked(transaction: Transaction, token_id: str) -> bool:
    """Let a token work no longer. False when it did not work before."""
    cursor = transaction.execute(
        "UPDATE token SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", (to_micros(transaction.now), token_id)
    )
    return bool(cursor.rowcount)


def _token(row: Row) -> TokenRow:
    id_, role, name, node, created_at, created_by, revoked_at = row
    return TokenRow(id_, Role(role), name, node, from_micros(created_at), created_by, from_micros(revoked_at))
