# SPDX-License-Identifier: Apache-2.0
"""Where does a person, or a generator of clients, read what this service takes and answers? Nothing is fetched from
elsewhere: the viewer is Swagger UI from the installed wheel, under a policy that forbids it to ask anybody but us.
"""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path

from flask import Blueprint, Response, current_app

from api.contract import says
from api.openapi import document
from registry.domain.errors import NotFound

bp = Blueprint("docs", __name__)

DOCUMENT = "api.docs.document"
"""Where an application keeps its document, as text, once it was asked for."""

STRICT = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""The viewer's own icons are `data:` images; everything else comes from here or not at all."""

OURS = {"page.js": "text/javascript", "page.html": "text/html; charset=utf-8"}
THEIRS = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "favicon-32x32.png": "image/png",
    "LICENSE": "text/plain; charset=utf-8",
}
"""What we hand out of the wheel, by name, with its type."""

_TEXT = {"type": "string"}


@bp.get("/openapi.json")
@says({200: {"type": "object"}})
def openapi() -> Response:
    """Give this document: OpenAPI 3.1."""
    kept = current_app.extensions.get(DOCUMENT)
    if kept is None:
        kept = json.dumps(document(current_app), ensure_ascii=False, separators=(",", ":")) + "\n"
        current_app.extensions[DOCUMENT] = kept
    return Response(kept, content_type="application/json")


@bp.get("/docs")
@says({200: {"text/html": _TEXT}})
def page() -> Response:
    """Show this document to people, with a form to try each address."""
    return _file(Path(__file__).with_name("page.html"), OURS["page.html"])


@bp.get("/docs/<file>")
@says({200: {"text/javascript": _TEXT, "text/css": _TEXT, "image/png": _TEXT, "text/plain": _TEXT}})
def asset(file: str) -> Response:
    """Give one file that the page is made of."""
    if file == "page.js":
        return _file(Path(__file__).with_name(file), OURS[file])
    if file not in THEIRS:
        raise NotFound(f"the documentation has no file {file}")
    return _file(_viewer() / file, THEIRS[file])


@cache
def _viewer() -> Path:
    """Find the viewer's files without importing the Flask extension that ships them."""
    spec = importlib.util.find_spec("flask_swagger_ui")
    if spec is None or not spec.submodule_search_locations:
        raise NotFound("the viewer is not installed: pip install 'pratique[server]'")
    return Path(spec.submodule_search_locations[0]) / "dist"


def _file(path: Path, content_type: str) -> Response:
    answer = Response(_content(path), content_type=content_type)
    answer.headers["Content-Security-Policy"] = STRICT
    answer.headers["Cache-Control"] = "public, max-age=3600"
    return answer


@cache
def _content(path: Path) -> bytes:
    return path.read_bytes()
