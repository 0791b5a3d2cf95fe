# SPDX-License-Identifier: Apache-2.0
"""Who is asking? Tokens are handed out once, recognised by a keyed hash, and revoked.

A token is `prq_<role>_`, 43 random characters and a checksum of 6. The checksum lets a scanner know a leaked token,
and spares the database a look for text that never was one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from registry.domain.errors import FieldError, InvalidField, NotFound, NotOpen, Unauthenticated
from registry.domain.events import JSON, Actor, Draft, EventType, Subject, SubjectKind
from registry.domain.joining import JoinTerms, check_terms
from registry.domain.roles import Role
from registry.domain.times import rfc3339
from registry.services.pages import Page, PageRequest, page_of_few
from registry.store import tokens as store
from registry.store.database import Database, Transaction, new_id
from registry.store.filters import Sort

NAME_LENGTH_MAX = 128
SORTS = {
    **dict.fromkeys(("created_at", "revoked_at", "expires_at"), Sort.TIME),
    **dict.fromkeys(("uses", "used"), Sort.NUMBER),
}
"""The fields whose filters are no plain text."""
RANDOM_BYTES = 32
"""256 bits: 43 characters in the alphabet of https://www.rfc-editor.org/rfc/rfc4648#section-5."""

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHECKSUM_LENGTH = 6  # 62 to the 6th is the first power that holds 32 bits
_NODE_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")
_TOKEN_LIKE = re.compile(r"(?P<kind>prq_[a-z]+_)[A-Za-z0-9_-]+")
_TOKEN = re.compile(rf"(?P<body>prq_(?:{'|'.join(Role)})_[A-Za-z0-9_-]{{43}})(?P<checksum>[0-9A-Za-z]{{6}})")


@dataclass(frozen=True, slots=True)
class TokenView:
    """A token as it may be shown: without its secret."""

    id: str
    role: Role
    name: str
    node: str | None
    created_at: datetime
    created_by: str
    revoked_at: datetime | None
    provider_id: str | None
    profile: str | None
    joined_with: str | None
    pattern: str | None
    uses: int | None
    used: int | None
    expires_at: datetime | None

    def to_json(self) -> dict[str, Any]:
        """Give it in the shape the API answers."""
        return {
            "id": self.id,
            "role": self.role.value,
            "name": self.name,
            "node": self.node,
            "created_at": rfc3339(self.created_at),
            "created_by": self.created_by,
            "revoked_at": rfc3339(self.revoked_at) if self.revoked_at else None,
            "provider_id": self.provider_id,
            "profile": self.profile,
            "joined_with": self.joined_with,
            "pattern": self.pattern,
            "uses": self.uses,
            "used": self.used,
            "expires_at": rfc3339(self.expires_at) if self.expires_at else None,
        }


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever asks. `node` is set for role node only: the one node that the caller speaks for.

    `provider_id` and `profile` are set where that is further bound to one instance and one profile, by a trade.
    """

    token_id: str
    role: Role
    name: str
    node: str | None
    provider_id: str | None = None
    profile: str | None = None


def create_token(
    db: Database,
    *,
    role: Role,
    name: str,
    node: str | None = None,
    terms: JoinTerms | None = None,
    pepper: bytes,
    actor: Actor,
    now: datetime,
) -> tuple[TokenView, str]:
    """Hand out a token and return it with its secret, which is kept nowhere. The node need not exist yet.

    Raises InvalidField when the name is no name, when role node lacks a node, when role join lacks terms or has some
    that nothing could meet, or when another role has either.
    """
    _check(role, name, node, terms, now)
    row = store.TokenRow(new_id(now), role, name, node, now, str(actor))
    if terms is not None:
        bounded = replace(row, profile=terms.profile, pattern=terms.pattern, uses=terms.uses)
        row = replace(bounded, used=0, expires_at=terms.expires_at)
    with db.write(now) as transaction:
        return hand_out(transaction, row, pepper, actor)


def hand_out(
    transaction: Transaction, row: store.TokenRow, pepper: bytes, actor: Actor, **more: JSON
) -> tuple[TokenView, str]:
    """Put a token on record and return it with its secret, which is kept nowhere. `more` goes into the event."""
    body = f"prq_{row.role.value}_{secrets.token_urlsafe(RANDOM_BYTES)}"
    secret = body + checksum_of(body)
    store.insert_token(transaction, row, hash_of(secret, pepper))
    transaction.record(draft_of(EventType.TOKEN_CREATED, row, actor, **more))
    return _view(row), secret


def authenticate(db: Database, secret: str, pepper: bytes) -> Caller:
    """Return who holds this secret. One indexed read, never a cache: a revoked token stops working at once.

    Raises Unauthenticated, with the same words for a token that never was and for one that is revoked.
    """
    shape = _TOKEN.fullmatch(secret)
    if shape is None or not hmac.compare_digest(checksum_of(shape["body"]), shape["checksum"]):
        raise Unauthenticated("this is not a token of this service: a token begins with prq_ and is copied whole")
    hash_ = hash_of(secret, pepper)
    row = db.look(lambda snapshot: store.find_token_by_hash(snapshot, hash_))
    if row is None or row.revoked_at is not None:
        raise Unauthenticated("the token is unknown or revoked: ask an administrator for another")
    return Caller(row.id, row.role, row.name, row.node, row.provider_id, row.profile)


def recall(db: Database, token_id: str) -> Caller:
    """Return whoever signed in with this token before. One indexed read, as often as it is asked.

    Raises Unauthenticated when the token is revoked by now.
    """
    row = db.look(lambda snapshot: store.find_token(snapshot, token_id))
    if row is None or row.revoked_at is not None:
        raise Unauthenticated("the token of this session is revoked: sign in with another")
    return Caller(row.id, row.role, row.name, row.node, row.provider_id, row.profile)


def list_tokens(db: Database) -> list[TokenView]:
    """Return all tokens, the newest first, revoked ones too."""
    with db.read() as snapshot:
        return [_view(row) for row in store.list_tokens(snapshot)]


def page_tokens(db: Database, filters: Mapping[str, str], page: PageRequest) -> Page:
    """Return tokens by their fields, revoked ones too. Raises InvalidField."""
    return page_of_few((view.to_json() for view in list_tokens(db)), filters, page, key="id", sorts=SORTS)


def revoke_token(db: Database, token_id: str, actor: Actor, now: datetime) -> None:
    """Make a token worthless at once. Raises NotFound, and NotOpen when it is revoked already."""
    with db.write(now) as transaction:
        row = store.find_token(transaction, token_id)
        if row is None:
            raise NotFound(f"there is no token {token_id}")
        if not store.set_revoked(transaction, token_id):
            raise NotOpen(f"token {token_id} was revoked already")
        transaction.record(draft_of(EventType.TOKEN_REVOKED, row, actor))


def hash_of(secret: str, pepper: bytes) -> str:
    """Hash a secret with the pepper: HMAC-SHA-256 as hex. Without the pepper a stolen database opens nothing."""
    return hmac.new(pepper, secret.encode(), hashlib.sha256).hexdigest()


def mask(text: str) -> str:
    """Cut every token, whole or in part, out of a text that goes to a log."""
    return _TOKEN_LIKE.sub(r"\g<kind>[cut]", text)


def checksum_of(body: str) -> str:
    """Return the six base-62 digits of the CRC-32 that a token ends with."""
    rest, digits = zlib.crc32(body.encode()), ""
    for _ in range(_CHECKSUM_LENGTH):
        rest, digit = divmod(rest, 62)
        digits = _BASE62[digit] + digits
    return digits


def _check(role: Role, name: str, node: str | None, terms: JoinTerms | None, now: datetime) -> None:
    errors = []
    if not name.strip() or name != name.strip() or not name.isprintable() or len(name) > NAME_LENGTH_MAX:
        errors.append(FieldError("/name", f"must be 1 to {NAME_LENGTH_MAX} printable characters without blanks around"))
    if role is Role.NODE and node is None:
        errors.append(FieldError("/node", "is required for role node: such a token speaks for one node"))
    if role is not Role.NODE and node is not None:
        errors.append(FieldError("/node", f"belongs to role node only, not to role {role.value}"))
    if node is not None and not _NODE_NAME.fullmatch(node):
        errors.append(FieldError("/node", "must be 1 to 253 letters, digits, dots, dashes or underscores"))
    if role is Role.JOIN and terms is None:
        errors += [FieldError(f"/{one}", "is required for role join") for one in ("pattern", "uses", "expires_at")]
    if role is not Role.JOIN and terms is not None:
        errors.append(FieldError("/pattern", f"belongs to role join only, not to role {role.value}"))
    errors += check_terms(terms, now) if terms else []
    if errors:
        raise InvalidField("the token cannot be made", errors=tuple(errors))


def draft_of(type_: EventType, row: store.TokenRow, actor: Actor, **more: JSON) -> Draft:
    """Make the event that a token came or went: about the token, its node, and the token it was traded for."""
    subjects = [Subject(SubjectKind.TOKEN, row.id)]
    if row.node is not None:
        subjects.append(Subject(SubjectKind.NODE, row.node))
    if row.joined_with is not None:
        subjects.append(Subject(SubjectKind.TOKEN, row.joined_with))
    bounds: dict[str, JSON] = {
        **{name: getattr(row, name) for name in ("provider_id", "profile", "joined_with", "pattern", "uses")},
        "expires_at": rfc3339(row.expires_at) if row.expires_at else None,
    }
    data: dict[str, JSON] = {"role": row.role.value, "name": row.name, "node": row.node, "token": row.id, **more}
    return Draft(type_, actor, tuple(subjects), {**data, **{name: one for name, one in bounds.items() if one}})


def _view(row: store.TokenRow) -> TokenView:
    return TokenView(**{one.name: getattr(row, one.name) for one in fields(row)})
