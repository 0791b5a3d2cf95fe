# SPDX-License-Identifier: Apache-2.0
"""Who asks, and may they? A bearer token on every request; the roles stand above each handler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from flask import g, request

from api.context import database, now, standing
from registry.domain.errors import Forbidden, RateLimited, Unauthenticated
from registry.domain.roles import Role
from registry.services import tokens
from registry.services.tokens import Caller

ROLES = "roles"
"""Under which name a guarded handler keeps who may reach it."""

READERS = (Role.OPERATOR, Role.AUDITOR)
"""Who may read everything except tokens."""

IN_PATH = "secret"
"""The part of an address that is a token, for those who cannot send a header. No log shows it."""

P = ParamSpec("P")
R = TypeVar("R")


def require(*roles: Role) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let only these roles reach a handler; an admin reaches every one. A node only reaches addresses of its own name.

    Raises Unauthenticated, Forbidden and RateLimited.
    """
    allowed = frozenset({*roles, Role.ADMIN})

    def guard(handler: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(handler)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            asking = _authenticate()
            if asking.role not in allowed:
                raise Forbidden(f"a token of role {asking.role} may not do this; it takes {_spoken(allowed)}")
            _check_node(asking)
            return handler(*args, **kwargs)

        vars(guarded)[ROLES] = allowed
        return guarded

    return guard


def _authenticate() -> Caller:
    """Find out who asks, and keep it for the handler."""
    asking = tokens.authenticate(database(), _secret(), standing().pepper)
    g.caller = asking
    wait = standing().bucket.take(asking.token_id, now())
    if wait:
        raise RateLimited(f"too many requests with this token; come again in {wait} s", retry_after=wait)
    return asking


def _secret() -> str:
    """Return the token: of the address where it has a place for one, else of the header. Raises Unauthenticated."""
    in_path: str | None = (request.view_args or {}).get(IN_PATH)
    if in_path is not None:
        return in_path
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Unauthenticated("send a token: Authorization: Bearer prq_…")
    return secret.strip()


def _check_node(asking: Caller) -> None:
    """Keep a node's token to its own node's addresses."""
    named = (request.view_args or {}).get("node")
    if asking.role is Role.NODE and named is not None and named != asking.node:
        raise Forbidden(f"this token is bound to node {asking.node} and may not speak for {named}")


def check_instance(provider_id: str, profile: str) -> None:
    """Keep a token that was traded to the instance and the profile it was traded for. Raises Forbidden."""
    asking: Caller = g.caller
    for name, bound, given in (
        ("instance", asking.provider_id, provider_id),
        ("profile", asking.profile, profile),
    ):
        if asking.role is Role.NODE and bound is not None and given != bound:
            raise Forbidden(f"this token is bound to {name} {bound} and may not speak for {given}")


def _spoken(roles: frozenset[Role]) -> str:
    return " or ".join(role for role in Role if role in roles)
