# SPDX-License-Identifier: Apache-2.0
"""What does this service take and answer? One OpenAPI 3.1 document, built from the routes and their contracts.

https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from flask import Flask
from werkzeug.routing import Rule

from api.answers import KEY_HEADER
from api.auth import IN_PATH
from api.contract import Contract, contract_of
from api.errors import CODE_OF_STATUS, PROBLEM_TYPE, STATUS
from api.pagination import CURSOR_LENGTH, LIMIT_DEFAULT, LIMIT_MAX, WRITTEN
from api.schemas.fields import PLAIN, PROSE, JsonSchema
from api.schemas.shown import COMPONENTS
from api.text import ID_LENGTH, TEXT_LENGTH
from registry.domain.canonical import INT_LIMIT
from registry.domain.errors import PROBLEM_CODES
from registry.domain.roles import Role

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

ALWAYS = ("malformed_body", "length_required", "body_too_large", "internal")
"""What any request may be answered: a body that cannot be read whole is refused before anything is looked at."""

WITH_TOKEN = ("unauthenticated", "forbidden", "invalid_field", "rate_limited", "store_unavailable")
CHANGES = ("idempotency_key_reused", "idempotency_in_progress", "malformed_body")

CODE_STATUS: dict[str, int] = {
    **{code: status for status, code in CODE_OF_STATUS.items() if status != 415},
    **{kind.code: int(status) for kind, status in STATUS.items()},
    "internal": 500,
}
"""The status of every problem code."""

INTRODUCTION = """\
The memory of which physical GPU is which. Every error is a problem document (RFC 9457) with a stable `code`; a method
that an address does not take is answered 405 `method_not_allowed`. A "no" is data: status 200. Times are RFC 3339 in
UTC. Unknown members and parameters are refused.
"""

_TEXT: JsonSchema = {"type": "string", "minLength": 1, "maxLength": ID_LENGTH, "pattern": PLAIN}
_NODE: JsonSchema = {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,253}$"}
_MOMENT: JsonSchema = {"type": "string", "format": "date-time"}
_FLAG: JsonSchema = {"type": "boolean"}

PARAMETERS: dict[str, tuple[JsonSchema, str]] = {
    "limit": ({"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT}, "Items in a page."),
    "cursor": ({"type": "string", "minLength": 1, "maxLength": CURSOR_LENGTH}, "`next` of the page before."),
    "order": ({"type": "string", "enum": ["asc", "desc"]}, "Oldest or newest first."),
    "after": (
        {"type": "integer", "minimum": 0, "maximum": INT_LIMIT - 1, "default": 0},
        "Begin after this sequence: to go on where a stream broke off, give the last one that came.",
    ),
    "proof": (
        {"type": "integer", "minimum": 0, "maximum": INT_LIMIT - 1},
        "The sequence of a checkpoint that you hold, to have what is told proved to you by it.",
    ),
    "dry_run": ({**_FLAG, "default": False}, "Say what would be done, and do nothing."),
    "since": (_MOMENT, "Not before this time."),
    "until": (_MOMENT, "Before this time."),
    "device": (_TEXT, "Our id, a serial or a UUID."),
    "exit_code": ({"type": "integer", "minimum": 1 - INT_LIMIT, "maximum": INT_LIMIT - 1}, "Only these."),
    "node": (_NODE, "A node's name."),
    "timeout": ({**_TEXT, "examples": ["2s"]}, "How long an API server waits; it adds this itself."),
    "actor": ({**_TEXT, "examples": ["operator:alice"]}, "`kind:name` of whoever did it."),
}
"""Query parameters whose name alone does not say it all."""

PATH: dict[str, tuple[JsonSchema, str]] = {
    "node": (_NODE, "The node's name."),
    "ref": (_TEXT, "Our id, a serial or a UUID."),
    "name": ({"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"}, "The profile's name."),
    "job": ({**_TEXT, "examples": ["llama-7"]}, "The job, as it calls itself."),
    "secret": (_TEXT, "A token, where none can be sent in a header. No log shows it."),
}
FLAGS = frozenset({"permanent", "drain", "attached", "review_due", "built_in", "enabled"})
NUMBERS = frozenset(
    {
        *("confidence", "count", "devices", "nodes", "revision", "sequence", "token", "uses", "used"),
        *("abandoned", "attempts", "behind", "dead", "delivered", "event", "failed", "pending", "position", "status"),
    }
)


def document(app: Flask) -> dict[str, Any]:
    """Build the document of an application. Raises TypeError for a route that nobody said anything of."""
    paths: dict[str, dict[str, Any]] = {}
    for rule, method in routes(app):
        stated = contract_of(app.view_functions[rule.endpoint])
        if stated is None:
            raise TypeError(f"{method} {rule.rule} has no contract: state it with api.contract.says")
        paths.setdefault(braced(rule.rule), {})[method.lower()] = _operation(rule, stated)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Pratique", "version": version("pratique"), "description": INTRODUCTION},
        "servers": [{"url": "/"}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "prq_<role>_…"}},
        },
    }


def routes(app: Flask) -> Iterator[tuple[Rule, str]]:
    """Yield every route with each method that it was made for; the console's pages are for people, not for programs."""
    for rule in app.url_map.iter_rules():
        if rule.rule == "/" or rule.rule.startswith("/console"):
            continue
        yield from ((rule, method) for method in METHODS if method in (rule.methods or ()))


def braced(rule: str) -> str:
    """Write Flask's `<path:ref>` as `{ref}`."""
    return re.sub(r"<(?:[a-z]+:)?([a-z_]+)>", r"{\1}", rule)


def _operation(rule: Rule, stated: Contract) -> dict[str, Any]:
    summary, _, more = stated.summary.partition(". ")
    roles = [str(role) for role in Role if role in stated.roles]
    told = f"Roles: {', '.join(roles)}." if roles else "Needs no token."
    found: dict[str, Any] = {
        "operationId": rule.endpoint,
        "tags": [rule.endpoint.partition(".")[0]],
        "summary": summary.rstrip("."),
        "description": f"{more} {told}".strip(),
        "x-roles": roles,
        "security": [{"token": []}] if roles and IN_PATH not in rule.arguments else [],
        "parameters": list(_parameters(rule, stated)),
        "responses": {str(status): one for status, one in sorted(_responses(rule, stated).items())},
    }
    if stated.body:
        found["requestBody"] = {"required": _is_required(stated), "content": dict(_content(stated))}
    return found


def _content(stated: Contract) -> Iterator[tuple[str, Any]]:
    for media, schema in stated.body.items():
        example = stated.examples.get(media)
        yield media, {"schema": schema, **({"example": example} if example is not None else {})}


def _is_required(stated: Contract) -> bool:
    return any(schema.get("required") or schema.get("type") == "string" for schema in stated.body.values())


def _parameters(rule: Rule, stated: Contract) -> Iterator[dict[str, Any]]:
    for name in sorted(rule.arguments):
        schema, words = PATH.get(name, (_TEXT, "Our id."))
        yield {"name": name, "in": "path", "required": True, "schema": schema, "description": words}
    for name in (*stated.query, *(("limit", "cursor", "order") if stated.pages else ())):
        schema, words = PARAMETERS.get(name) or _filter(name)
        if name in stated.words:
            schema = {"type": "string", "enum": list(stated.words[name])}
        schema = stated.query_shape.get("properties", {}).get(name, schema)
        is_required = name in stated.query_shape.get("required", ())
        yield {"name": name, "in": "query", "required": is_required, "schema": schema, "description": words}
    if stated.is_change:
        yield {
            "name": KEY_HEADER,
            "in": "header",
            "schema": {"type": "string", "minLength": 1, "maxLength": ID_LENGTH},
            "description": "Makes the request safe to repeat for 24 hours: the first answer comes again.",
        }


def _filter(name: str) -> tuple[JsonSchema, str]:
    if name in FLAGS:
        return _FLAG, "Only these."
    if name in WRITTEN:
        return {"type": "string", "minLength": 1, "maxLength": TEXT_LENGTH, "pattern": PROSE}, "Only with these words."
    if name in NUMBERS:
        return {"type": "integer", "minimum": 0, "maximum": INT_LIMIT - 1}, "Only these."
    if name.endswith(("_at", "_until")):
        words = "A time, or a range of times `A..B`, of which either end may be left out; B is exclusive."
        return {**_TEXT, "examples": ["2026-11-01T00:00:00Z..", "2026-11-01T00:00:00Z..2026-12-01T00:00:00Z"]}, words
    return _TEXT, "Only these."


def _responses(rule: Rule, stated: Contract) -> dict[int, Any]:
    by_status: dict[int, set[str]] = {}
    for code in _codes(rule, stated):
        by_status.setdefault(CODE_STATUS[code], set()).add(code)
    if stated.refused:
        by_status.setdefault(422, set()).update(stated.refused)
    found = {status: _problem(status, codes) for status, codes in by_status.items()}
    for status, content in stated.answers.items():
        media = {name: {"schema": schema} for name, schema in content.items()}
        found[status] = {
            "description": HTTPStatus(status).phrase,
            "headers": _HEADERS,
            **({"content": media} if media else {}),
        }
    return found


def _codes(rule: Rule, stated: Contract) -> set[str]:
    return {
        *ALWAYS,
        *(WITH_TOKEN if stated.roles else ()),
        *(("not_found",) if rule.arguments else ()),
        *(CHANGES if stated.is_change else ()),
        *stated.problems,
    }


def _problem(status: int, codes: set[str]) -> dict[str, Any]:
    ordered = [code for code in PROBLEM_CODES if code in codes]
    schema = {
        "allOf": [{"$ref": "#/components/schemas/Problem"}, {"properties": {"code": {"enum": ordered}}}],
    }
    words = f"{HTTPStatus(status).phrase}: {', '.join(f'`{code}`' for code in ordered)}"
    return {"description": words, "headers": _HEADERS, "content": {PROBLEM_TYPE: {"schema": schema}}}


_HEADERS: dict[str, Any] = {
    "X-Request-Id": {"description": "What the logs name this request by.", "schema": {"type": "string"}}
}
