# SPDX-License-Identifier: Apache-2.0
"""What must any request cost? The real application, with three views beside it that do less; never shipped.

`python -m tests.bench.entry serve …` is `pratique serve …`, with the same gunicorn settings for all four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask, Response, request

from api.answers import answer
from api.auth import READERS, require
from registry.domain.roles import Role

STATIC, AUTHENTICATED, PARSED = "/static", "/v1/bench/authenticated", "/v1/bench/parsed"


def make_application() -> Any:
    """Hang the views into the application that gunicorn loads."""
    from api.wsgi import application  # noqa: PLC0415 - reads the environment when it is imported

    @application.get(AUTHENTICATED)
    @require(Role.NODE, *READERS)
    def authenticated() -> Response:
        return answer({"ok": True})

    @application.post(PARSED)
    @require(Role.NODE)
    def parsed() -> Response:
        return answer({"devices": len(request.get_json()["devices"])})

    application.wsgi_app = _beside(_bare().wsgi_app, application.wsgi_app)
    return application


def _bare() -> Flask:
    """A Flask application with one view and nothing around it."""
    bare = Flask("bare", static_folder=None)

    @bare.get(STATIC)
    def static() -> Response:
        return Response('{"ok":true}\n', content_type="application/json")

    return bare


Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]


def _beside(bare: Wsgi, real: Wsgi) -> Wsgi:
    return lambda environ, start: (bare if environ["PATH_INFO"] == STATIC else real)(environ, start)


def main() -> None:
    """Run the command `pratique` with this application in place of its own."""
    from registry.admin import serve  # noqa: PLC0415 - gunicorn imports this module for the application alone
    from registry.main import main as pratique  # noqa: PLC0415 - as above

    serve.APPLICATION = "tests.bench.entry:make_application()"
    pratique(prog_name="pratique")


if __name__ == "__main__":
    main()
