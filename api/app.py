# SPDX-License-Identifier: Apache-2.0
"""What is the application made of? Read it like a table of contents."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import datetime

from flask import Flask, Response, g, request

from api import bootstrap, console, docs, health, metrics, observe
from api.body import check_length
from api.context import EXTENSION, Standing, request_id, utc_now
from api.errors import register_errors
from api.text import why_not_text
from api.v1 import BLUEPRINTS
from api.webhooks import kubernetes
from registry.config import Settings
from registry.domain.errors import NotFound
from registry.domain.tracing import parse_traceparent

REQUEST_ID = "X-Request-Id"
_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


def create_app(settings: Settings, *, clock: Callable[[], datetime] = utc_now, workers: int = 1) -> Flask:
    """Make the application for one of so many processes that share the load.

    Opens no connection: that happens in the process, and for the request, that needs one.
    """
    app = Flask("api", static_folder=None)
    _configure(app, settings)
    app.extensions[EXTENSION] = Standing.on(settings, clock, workers=workers)
    # One function on either side: Flask looks at each whether it is a coroutine, at every request.
    app.before_request(_enter)
    app.after_request(_leave)
    register_errors(app)
    app.register_blueprint(health.bp)
    app.register_blueprint(metrics.bp)
    app.register_blueprint(docs.bp)
    app.register_blueprint(bootstrap.bp)
    app.register_blueprint(kubernetes.bp)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint, url_prefix="/v1")
    console.register(app)
    return app


def _configure(app: Flask, settings: Settings) -> None:
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.logger.setLevel(settings.log_level.upper())
    # An address has one spelling: nothing is redirected, because clients drop the body or the token on the way.
    app.url_map.merge_slashes = False


def _enter() -> None:
    """Let a request in, or raise what is wrong with it before anybody looks at who asks."""
    observe.begin()
    _name_request()
    metrics.check_listener()
    check_length()
    _check_address()


def _leave(response: Response) -> Response:
    response = console.finish(response)
    _label(response)
    observe.end(response)
    return response


def _name_request() -> None:
    """Give the request an id: the caller's where it is a plain word, else our own. Keep the trace it belongs to."""
    given = request.headers.get(REQUEST_ID, "")
    g.request_id = given if _SANE_ID.fullmatch(given) else uuid.uuid4().hex
    g.trace = parse_traceparent(request.headers.get("traceparent"))


def _check_address() -> None:
    """Refuse addresses that no record can have. Raises NotFound."""
    for name, value in (request.view_args or {}).items():
        reason = why_not_text(value, 512)
        if reason is not None:
            raise NotFound(f"the {name} in this address {reason}: there is no record of such a name")


def _label(response: Response) -> None:
    response.headers[REQUEST_ID] = request_id()
    response.headers["X-Content-Type-Options"] = "nosniff"
    if request.path.startswith("/v1"):
        response.headers["Cache-Control"] = "no-store"
