# SPDX-License-Identifier: Apache-2.0
"""Which tokens were handed out? Only their keyed hashes are kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from registry.domain.roles import Role
from registry.store.database import Row, Snapshot, Transaction, from_micros, to_micros

_COLUMNS = (
    "id, role, name, node, created_at, created_by, revoked_at, "
    "provider_id, profile, joined_with, pattern, uses, used, expires_at"
)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token without its secret.

    `provider_id` and `joined_with`, the join token, are set for one that was traded; `profile` for it or for a join
    token that is bound to one; the rest for a join token.
    """

    id: str
    role: Role
    name: str
    node: str | None
    created_at: datetime
    created_by: str
    revoked_at: datetime | None = None
    provider_id: str | None = None
    profile: str | None = None
    joined_with: str | None = None
    pattern: str | None = None
    uses: int | None = None
    used: int | None = None
    expires_at: datetime | None = None


def insert_token(transaction: Transaction, token: TokenRow, hash_: str) -> None:
    """Keep a token under its keyed hash."""
    transaction.execute(
        f"INSERT INTO token ({_COLUMNS}, hash) VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(token.id, token.role.value, token.name, token.node, to_micros(token.created_at), token.created_by),
            *(token.provider_id, token.profile, token.joined_with, token.pattern, token.uses, token.used),
            *(to_micros(token.expires_at), hash_),
        ),
    )


def find_token_by_hash(snapshot: Snapshot, hash_: str) -> TokenRow | None:
    """Return the token with this keyed hash, revoked or not."""
    row = snapshot.one(f"SELECT {_COLUMNS} FROM token WHERE hash = ?", (hash_,))
    return _token(row) if row else None


def note_refusal(transaction: Transaction, token_id: str) -> bool:
    """Note that a trade was refused because of this token. False when that was noted before."""
    cursor = transaction.execute(
        "UPDATE token SET refusal_at = ? WHERE id = ? AND refusal_at IS NULL", (to_micros(transaction.now), token_id)
    )
    return bool(cursor.rowcount)


def find_token(snapshot: Snapshot, token_id: str) -> TokenRow | None:
    """Return the token with this public id."""
    row = snapshot.one(f"SELECT {_COLUMNS} FROM token WHERE id = ?", (token_id,))
    return _token(row) if row else None


def list_tokens(snapshot: Snapshot) -> list[TokenRow]:
    """Return all tokens, the newest first, revoked ones too."""
    return [_token(row) for row in snapshot.all(f"SELECT {_COLUMNS} FROM token ORDER BY created_at DESC, id DESC")]


def list_joined(snapshot: Snapshot, node: str) -> list[TokenRow]:
    """Return the tokens that instances of this node were given by trades, the oldest first, revoked ones too."""
    sql = f"SELECT {_COLUMNS} FROM token WHERE node = ? AND joined_with IS NOT NULL ORDER BY id"
    return [_token(row) for row in snapshot.all(sql, (node,))]


def find_joined(snapshot: Snapshot, provider_id: str) -> TokenRow | None:
    """Return the token that this instance was given by a trade, under whichever name; None when it was revoked."""
    sql = f"SELECT {_COLUMNS} FROM token WHERE provider_id = ? AND joined_with IS NOT NULL AND revoked_at IS NULL"
    row = snapshot.one(sql, (provider_id,))
    return _token(row) if row else None


def count_use(transaction: Transaction, token_id: str) -> bool:
    """Count one trade of a join token. False when there is none left."""
    sql = "UPDATE token SET used = used + 1 WHERE id = ? AND used < uses"
    return bool(transaction.execute(sql, (token_id,)).rowcount)


def set_revoked(transaction: Transaction, token_id: str) -> bool:
    """Let a token work no longer. False when it did not work before."""
    cursor = transaction.execute(
        "UPDATE token SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", (to_micros(transaction.now), token_id)
    )
    return bool(cursor.rowcount)


def _token(row: Row) -> TokenRow:
    id_, role, name, node, created_at, created_by, revoked_at, *bounds = row
    provider_id, profile, joined_with, pattern, uses, used, expires_at = bounds
    return TokenRow(
        id=id_,
        role=Role(role),
        name=name,
        node=node,
        created_at=from_micros(created_at),
        created_by=created_by,
        revoked_at=from_micros(revoked_at),
        provider_id=provider_id,
        profile=profile,
        joined_with=joined_with,
        pattern=pattern,
        uses=uses,
        used=used,
        expires_at=from_micros(expires_at),
    )
