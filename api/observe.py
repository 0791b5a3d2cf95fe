# SPDX-License-Identifier: Apache-2.0
"""What is left of a request when it is over? One line in the log and one count, neither with a secret in it."""

from __future__ import annotations

import logging
from functools import lru_cache
from time import perf_counter

from flask import Response, g, request
from prometheus_client import Counter, Histogram

from api.auth import IN_PATH
from api.context import request_id, trace_fields
from api.metrics import REQUESTS, SECONDS
from registry.services.tokens import Caller, mask

log = logging.getLogger("pratique.access")


def begin() -> None:
    """Take the time. Call it first: what runs before is not timed."""
    g.began = perf_counter()


def end(response: Response) -> None:
    """Count and log a request that is answered."""
    seconds = perf_counter() - g.get("began", perf_counter())
    # An address that nobody made is one word: whoever tries out addresses must not fill the memory with series.
    route = request.url_rule.rule if request.url_rule else "none"
    method = request.method if request.method in _METHODS else "other"
    caller: Caller | None = g.get("caller")
    role = str(caller.role) if caller else "none"
    try:
        _count(route, method, response.status_code, role).inc()
        _seconds(route, method).observe(seconds)
    except OSError as error:
        # What was done is done: whoever asked is told so, whether it can be counted or not.
        _tell_once(f"requests are not counted any more: {error}; start the server again")
    if log.isEnabledFor(logging.INFO):
        _log(response, route, caller, seconds)


@lru_cache(maxsize=16)
def _tell_once(text: str) -> None:
    log.error(text)


@lru_cache(maxsize=4096)
def _count(route: str, method: str, status: int, role: str) -> Counter:
    """Find a series once: the library looks for it behind a lock."""
    return REQUESTS.labels(route, method, str(status), role)


@lru_cache(maxsize=1024)
def _seconds(route: str, method: str) -> Histogram:
    return SECONDS.labels(route, method)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


def _shown_path() -> str:
    """Give the path without tokens and without the query: people put secrets there.

    What stands in a token's place is cut whatever it looks like: a mistyped token is nearly the token.
    """
    if request.url_rule is not None and IN_PATH in request.url_rule.arguments:
        return request.url_rule.rule.replace(f"<{IN_PATH}>", "[cut]")
    return mask(request.path)


def _log(response: Response, route: str, caller: Caller | None, seconds: float) -> None:
    fields = {
        "request_id": request_id(),
        **trace_fields(),
        "method": request.method,
        "path": _shown_path(),
        "route": route,
        "status": response.status_code,
        "milliseconds": round(seconds * 1000, 2),
        "bytes": response.content_length,
        "role": str(caller.role) if caller else None,
        "token": caller.token_id if caller else None,
        "remote": request.remote_addr,
    }
    log.info("%s %s %s", fields["method"], fields["path"], response.status_code, extra={"fields": fields})
