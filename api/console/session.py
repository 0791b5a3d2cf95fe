# SPDX-License-Identifier: Apache-2.0
"""How does a person sign in and out? With the token that the API takes, of a role that people hold."""

from __future__ import annotations

import re
from http import HTTPStatus

from flask import Blueprint, Response, g, make_response, redirect, request

from api.console import cookies
from api.console.cookies import Session
from api.console.pages import HOME, LOGIN, PERSONS, action, render
from api.context import database, now, standing
from api.errors import status_of
from registry.domain.errors import Forbidden, PratiqueError, RateLimited, StoreUnavailable, Unauthenticated
from registry.services import tokens
from registry.services.tokens import Caller

bp = Blueprint("console_session", __name__)

_LOCAL = re.compile(r"/console/(?!.*(?:\.|%2e)(?:\.|%2e))[!-\[\]-~]*", re.IGNORECASE)
"""A page of ours, in the characters that an address has; a backslash is a slash to some browsers, two dots lead out."""


@bp.get("/login")
def login() -> Response:
    """Ask for the token."""
    return render("login.html", onward=_onward(request.args.get("next", "")))


@bp.post("/login")
def enter() -> Response:
    """Sign in, and go on to the page that was asked for."""
    onward = _onward(request.form.get("next", ""))
    try:
        asking = _authenticate()
    except StoreUnavailable:
        raise
    except PratiqueError as error:
        g.problem = error
        response = render("login.html", status_of(error), onward=onward)
        if isinstance(error, RateLimited):
            response.headers["Retry-After"] = str(error.extra["retry_after"])
        return response
    response = make_response(redirect(onward, HTTPStatus.SEE_OTHER))
    cookies.keep_session(response, Session.begin(asking.token_id, now()))
    return response


@bp.post("/logout")
@action(*PERSONS)
def leave() -> Response:
    """Sign out of this browser."""
    response = make_response(redirect(LOGIN, HTTPStatus.SEE_OTHER))
    cookies.end_session(response)
    return response


def _authenticate() -> Caller:
    """Return who holds the token in the form. Raises Unauthenticated, Forbidden and RateLimited."""
    # No form of another site may sign a browser in: it would work on under a name that is not its owner's.
    if request.headers.get("Sec-Fetch-Site", "none") not in {"same-origin", "none"}:
        raise Forbidden("this form was sent by another site: open this page itself and sign in here")
    wait = standing().bucket.take(f"login {request.remote_addr}", now())
    if wait:
        raise RateLimited(f"too many attempts to sign in from here; come again in {wait} s", retry_after=wait)
    secret = request.form.get("token", "").strip()
    if not secret:
        raise Unauthenticated("paste a token: it begins with prq_operator_, prq_auditor_ or prq_admin_")
    asking = tokens.authenticate(database(), secret, standing().pepper)
    if asking.role not in PERSONS:
        raise Forbidden(f"a token of role {asking.role} is for a machine; people sign in as operator, auditor or admin")
    return asking


def _onward(given: str) -> str:
    """Return where to go after the sign-in: only ever to a page of ours."""
    is_local = _LOCAL.fullmatch(given) and not given.startswith((LOGIN, "/console/logout"))
    return given if is_local else HOME
