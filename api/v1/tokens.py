# SPDX-License-Identifier: Apache-2.0
"""Who may ask? Tokens are made, listed without their secret, and revoked."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from api.answers import change
from api.auth import require
from api.body import body
from api.context import actor, database, now, standing
from api.contract import says
from api.pagination import Words, listing, page_answer, query
from api.schemas.shown import page, ref
from api.schemas.tokens import TOKEN
from registry.domain.joining import JoinTerms
from registry.domain.roles import Role
from registry.services import tokens

bp = Blueprint("tokens", __name__)

FILTERS = frozenset(
    {
        *("id", "role", "name", "node", "created_by", "created_at", "revoked_at"),
        *("provider_id", "profile", "joined_with", "pattern", "uses", "used", "expires_at"),
    }
)
WORDS: Words = {"role": Role}
"""The values of the filters that have few."""


@bp.post("/tokens")
@says({201: ref("NewToken")}, example={"role": "auditor", "name": "bob"}, is_change=True)
@require(Role.ADMIN)
@body(TOKEN)
def create(data: dict[str, Any]) -> Response:
    """Make a token. Its secret is shown once."""
    query(())
    made: list[str] = []

    def work() -> tuple[int, dict[str, Any]]:
        view, secret = tokens.create_token(
            database(),
            role=Role(data["role"]),
            name=data["name"],
            node=data.get("node"),
            terms=_terms(data),
            pepper=standing().pepper,
            actor=actor(),
            now=now(),
        )
        made.append(secret)
        return 201, {**view.to_json(), "token": None}

    # The secret is never stored, so an answer that is replayed comes without it.
    return change(work, on_first=lambda shown: {**shown, "token": made[0]})


def _terms(data: dict[str, Any]) -> JoinTerms | None:
    if data["role"] != Role.JOIN:
        return None
    return JoinTerms(data["pattern"], data["uses"], data["expires_at"], data.get("profile"))


@bp.get("/tokens")
@says({200: page("Token")}, filters=FILTERS, words=WORDS, pages=True)
@require(Role.ADMIN)
def index() -> Response:
    """List the tokens, newest first, revoked ones too."""
    filters, part = listing(FILTERS, WORDS)
    return page_answer(tokens.page_tokens(database(), filters, part))


@bp.delete("/tokens/<token>")
@says({204: None}, problems=("not_open",), is_change=True)
@require(Role.ADMIN)
def revoke(token: str) -> Response:
    """Make a token worthless from now on."""
    query(())

    def work() -> tuple[int, dict[str, Any]]:
        tokens.revoke_token(database(), token, actor=actor(), now=now())
        return 204, {}

    return change(work)
