# SPDX-License-Identifier: Apache-2.0
"""How is a page guarded, shown and acted on? Whoever is signed in, in which role; forms post, pages are got.

A page is a handler under `@page(roles)` that ends in `render(template, …)`. A form is a handler under
`@action(roles, on=page)` that returns `Done(sentence, to)`; what it raises is said on the page the form stands on.
"""

from __future__ import annotations

import functools
import hmac
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import ParamSpec
from urllib.parse import quote, urlencode, urlsplit

from flask import Response, g, make_response, redirect, render_template, request
from flask.typing import ResponseReturnValue

from api.auth import ROLES
from api.console import cookies
from api.console.cookies import Session
from api.context import database, now, request_id, standing
from api.errors import PROBLEM_TYPE, status_of
from registry.domain.errors import Forbidden, PratiqueError, RateLimited, StoreUnavailable, Unauthenticated
from registry.domain.roles import Role
from registry.services import safe_mode, tokens

PERSONS = (Role.OPERATOR, Role.AUDITOR, Role.ADMIN)
"""Whose tokens open a session: those that people hold."""

LOGIN = "/console/login"
HOME = "/console/"
STATIC = "/console/static/"
CSRF = "csrf"
"""The name of the field that every form carries."""

POLICY = "; ".join(
    (
        *("default-src 'none'", "style-src 'self'", "script-src 'self'", "img-src 'self' data:", "connect-src 'self'"),
        *("form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"),
    )
)
"""What a page may load: our own files, and the icons that the style sheet draws as `data:` images."""

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Done:
    """An action that was carried out: what the next page says of it, and which page that is."""

    said: str
    to: str


def page(*roles: Role) -> Callable[[Callable[P, ResponseReturnValue]], Callable[P, ResponseReturnValue]]:
    """Let only people of these roles see a page; an admin sees every one. Whoever is not signed in is asked to.

    Sets whom `api.context.caller` and `actor` name. Raises Forbidden and RateLimited.
    """
    allowed = frozenset({*roles, Role.ADMIN})

    def guard(handler: Callable[P, ResponseReturnValue]) -> Callable[P, ResponseReturnValue]:
        @functools.wraps(handler)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
            if not _sign_in():
                return _to_login()
            _check_role(allowed)
            if request.method == "GET" and "" in request.args.values():
                return redirect(address_with(), HTTPStatus.SEE_OTHER)
            return handler(*args, **kwargs)

        vars(guarded)[ROLES] = allowed
        return guarded

    return guard


def action(
    *roles: Role, on: Callable[..., ResponseReturnValue] | None = None
) -> Callable[[Callable[P, Done | ResponseReturnValue]], Callable[P, ResponseReturnValue]]:
    """Let only people of these roles send a form, and only one that we gave them.

    `Done` leads to another page, which says so. What goes wrong is said, with its status, on the page `on` that the
    form stands on, which is called with the same arguments; without one it has a page of its own.
    """
    allowed = frozenset({*roles, Role.ADMIN})

    def guard(handler: Callable[P, Done | ResponseReturnValue]) -> Callable[P, ResponseReturnValue]:
        @functools.wraps(handler)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
            if not _sign_in():
                return _to_login()
            _check_role(allowed)
            check_form(g.session)
            try:
                done = handler(*args, **kwargs)
            except (Unauthenticated, StoreUnavailable):
                raise
            except PratiqueError as error:
                if on is None:
                    raise
                g.problem = error
                response = make_response(on(*args, **kwargs))
                response.status_code = status_of(error)
                return response
            return _onward(done) if isinstance(done, Done) else done

        vars(guarded)[ROLES] = allowed
        return guarded

    return guard


def render(template: str, status: int = 200, **values: object) -> Response:
    """Show a page. Besides `values` it knows who is signed in, what the last act did, and what safe mode is for."""
    said = cookies.find_sentence()
    g.is_said = said is not None
    text = render_template(
        template,
        me=g.get("caller"),
        csrf_token=g.session.csrf if "session" in g else None,
        problem=g.get("problem"),
        said=said,
        alarms=g.get("alarms", ()),
        now=now(),
        **values,
    )
    return Response(text, status=status, content_type="text/html; charset=utf-8")


def finish(response: Response) -> Response:
    """Complete an answer below /console: errors become pages, and the browser is told what a page may do."""
    if not is_ours(request.path):
        return response
    if response.content_type == PROBLEM_TYPE:
        response = _error_page(response)
    if g.get("is_said"):
        cookies.end_sentence(response)
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["Referrer-Policy"] = "same-origin"
    if not request.path.startswith(STATIC):
        response.headers["Cache-Control"] = "no-store"
    return response


def is_ours(path: str) -> bool:
    """Tell whether an address belongs to the console."""
    return path == HOME[:-1] or path.startswith(HOME)


def check_form(session: Session) -> None:
    """Refuse a form that was not ours to begin with. Raises Forbidden."""
    given = request.form.get(CSRF, "")
    if not hmac.compare_digest(given.encode(), session.csrf.encode()):
        raise Forbidden("this form belongs to no page of your session: load the page again, and send it from there")


def address_with(**changes: str | None) -> str:
    """Return this address with other parameters; None takes one out, and so does a form that left one empty."""
    kept = [(name, value) for name, value in request.args.items(multi=True) if value and name not in changes]
    kept += [(name, value) for name, value in changes.items() if value]
    return request.path + (f"?{urlencode(kept)}" if kept else "")


def _sign_in() -> bool:
    """Find out who asks, and keep it for the handler; False for a browser that has to sign in."""
    session = cookies.find_session(now())
    if session is None:
        return False
    try:
        asking = tokens.recall(database(), session.token_id)
    except Unauthenticated:
        return False
    g.session, g.caller = session, asking
    g.alarms = safe_mode.tell_standing(database())
    wait = standing().bucket.take(asking.token_id, now())
    if wait:
        raise RateLimited(f"too many requests with this token; come again in {wait} s", retry_after=wait)
    return True


def _check_role(allowed: frozenset[Role]) -> None:
    if g.caller.role not in allowed:
        spoken = " or ".join(role for role in Role if role in allowed)
        raise Forbidden(f"you are signed in as {g.caller.role} and may not do this; it takes {spoken}")


def _to_login() -> ResponseReturnValue:
    """Ask who it is, and come back to the page that was asked for; a form has to be filled in again."""
    asked = address_with() if request.method == "GET" else HOME
    where = f"{LOGIN}?next={quote(asked, safe='/')}"
    response = make_response(redirect(where, HTTPStatus.SEE_OTHER))
    # A part of a page that is fetched anew must not be replaced by the form to sign in: the whole page is.
    if "HX-Request" in request.headers:
        response = Response(headers={"HX-Redirect": where})
    return response


def _onward(done: Done) -> Response:
    response = make_response(redirect(done.to, HTTPStatus.SEE_OTHER))
    cookies.keep_sentence(response, done.said)
    return response


def _error_page(refused: Response) -> Response:
    """Say an error to a person. One of the service asks nothing of the records: they may be what is wrong."""
    told = refused.get_json()
    g.problem = None
    if "session" not in g and refused.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        with suppress(PratiqueError):
            _sign_in()
    wait = refused.headers.get("Retry-After")
    shown = render("error.html", refused.status_code, told=told, wait=wait, back=_page_before())
    shown.headers.extend((name, value) for name, value in refused.headers if name in {"Retry-After", "Allow"})
    shown.headers["X-Request-Id"] = request_id()
    return shown


def _page_before() -> str | None:
    """Return the page of ours that a link or a form on led here, to go back to; None where it was not another one."""
    before = urlsplit(request.referrer or "")
    address = before.path + (f"?{before.query}" if before.query else "")
    is_another = before.netloc == request.host and is_ours(before.path) and before.path not in {request.path, LOGIN}
    return address if is_another else None
