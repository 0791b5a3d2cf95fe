# SPDX-License-Identifier: Apache-2.0
"""How does a browser show that it signed in? By a sealed cookie that names a token and never holds it.

The seal is an HMAC under a key of its own, derived from the pepper. A cookie ends after twelve hours, and at once with
its token: who that is, and whether it is still good, is asked of the records at each request.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import Response, request
from itsdangerous import BadData, URLSafeSerializer

from api.context import standing

NAME = "pratique_console"
SAID = "pratique_console_said"
"""The cookie of the one sentence that the next page says: what an action did."""

PATH = "/console"
LIFETIME = timedelta(hours=12)
"""A shift: whoever comes back the next day shows the token again."""

SENTENCE_LENGTH = 600
"""Longest sentence kept for the next page: browsers drop cookies over 4 KiB."""

_PURPOSE = b"pratique:console:"


@dataclass(frozen=True, slots=True)
class Session:
    """One sign-in of one browser: the token's id, and until when it lasts at most."""

    id: str
    token_id: str
    until: datetime

    @classmethod
    def begin(cls, token_id: str, now: datetime) -> Session:
        """Begin one now, under an id that nobody can guess."""
        return cls(secrets.token_urlsafe(16), token_id, now + LIFETIME)

    @property
    def csrf(self) -> str:
        """The text that every form of this session carries, and that no other site can know."""
        return hmac.new(_key(b"csrf"), self.id.encode(), hashlib.sha256).hexdigest()


def keep_session(response: Response, session: Session) -> None:
    """Give the browser the cookie of a session."""
    _keep(response, NAME, [session.id, session.token_id, int(session.until.timestamp())], LIFETIME)


def end_session(response: Response) -> None:
    """Take the cookie of the session back."""
    response.delete_cookie(NAME, path=PATH, secure=_is_secure(), httponly=True, samesite="Lax")


def find_session(now: datetime) -> Session | None:
    """Return the session that this request belongs to; None without one, or when it is over."""
    opened = _open(NAME)
    if not isinstance(opened, list):
        return None
    id_, token_id, until = opened
    session = Session(id_, token_id, datetime.fromtimestamp(until, UTC))
    return session if now < session.until else None


def keep_sentence(response: Response, sentence: str) -> None:
    """Let the next page say a sentence, once."""
    _keep(response, SAID, sentence[:SENTENCE_LENGTH], timedelta(minutes=5))


def find_sentence() -> str | None:
    """Return what this page has to say of the action before it."""
    opened = _open(SAID)
    return opened if isinstance(opened, str) else None


def end_sentence(response: Response) -> None:
    """Forget the sentence that was said."""
    response.delete_cookie(SAID, path=PATH, secure=_is_secure(), httponly=True, samesite="Lax")


def _keep(response: Response, name: str, value: Any, lifetime: timedelta) -> None:
    response.set_cookie(
        name,
        str(_sealer(name).dumps(value)),
        max_age=lifetime,
        path=PATH,
        secure=_is_secure(),
        httponly=True,
        samesite="Lax",
    )


def _open(name: str) -> Any:
    try:
        return _sealer(name).loads(request.cookies.get(name, ""))
    except BadData:
        return None


def _sealer(name: str) -> URLSafeSerializer:
    return URLSafeSerializer(_key(name.encode()), salt=name, signer_kwargs={"digest_method": hashlib.sha256})


def _key(purpose: bytes) -> bytes:
    return hmac.new(standing().pepper, _PURPOSE + purpose, hashlib.sha256).digest()


def _is_secure() -> bool:
    """Whether the browser came by TLS, here or at whatever stands before us.

    Anybody may send the header; whoever lies only keeps the own cookie from being sent in the clear.
    """
    return request.is_secure or request.headers.get("X-Forwarded-Proto", "").partition(",")[0].strip() == "https"
