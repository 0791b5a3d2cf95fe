# SPDX-License-Identifier: Apache-2.0
"""Which HTTP answer does each error become? One table, one shape: RFC 9457 `application/problem+json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Any

from flask import Flask, Response, current_app
from werkzeug.exceptions import HTTPException, InternalServerError

from api.context import request_id, trace_fields
from api.text import shorten
from registry.domain import errors as facts
from registry.domain.errors import FieldError, PratiqueError

STATUS: Mapping[type[PratiqueError], HTTPStatus] = {
    facts.Unauthenticated: HTTPStatus.UNAUTHORIZED,
    facts.Forbidden: HTTPStatus.FORBIDDEN,
    facts.NotFound: HTTPStatus.NOT_FOUND,
    facts.MalformedBody: HTTPStatus.BAD_REQUEST,
    facts.InvalidField: HTTPStatus.UNPROCESSABLE_ENTITY,
    facts.BodyTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    facts.LengthRequired: HTTPStatus.LENGTH_REQUIRED,
    facts.RateLimited: HTTPStatus.TOO_MANY_REQUESTS,
    facts.CoversRequired: HTTPStatus.UNPROCESSABLE_ENTITY,
    facts.SlotRepeated: HTTPStatus.UNPROCESSABLE_ENTITY,
    facts.PartUnreadable: HTTPStatus.UNPROCESSABLE_ENTITY,
    facts.ReportIdReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    facts.IdempotencyKeyReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    facts.IdempotencyInProgress: HTTPStatus.CONFLICT,
    facts.InstanceSuperseded: HTTPStatus.CONFLICT,
    facts.AlreadyJoined: HTTPStatus.CONFLICT,
    facts.DeviceAmbiguous: HTTPStatus.CONFLICT,
    facts.NotOpen: HTTPStatus.CONFLICT,
    facts.StoreUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""The status of every fact that can go wrong."""

CODE_OF_STATUS: Mapping[int, str] = {
    400: "malformed_body",
    404: "not_found",
    405: "method_not_allowed",
    411: "length_required",
    413: "body_too_large",
    415: "malformed_body",
}
"""Our code for what Flask and Werkzeug refuse by themselves."""

SENTENCES: Mapping[int, str] = {
    404: "there is no such address here",
    405: "this address does not take this method",
    413: "the body is over the limit",
}
"""What to say where Werkzeug's own words are of no help."""

RETRY_AFTER_SECONDS: Mapping[type[PratiqueError], int] = {facts.StoreUnavailable: 5, facts.IdempotencyInProgress: 1}
"""When to come again: a restarting database needs seconds, a request under way less."""

PROBLEM_TYPE = "application/problem+json"

ERRORS_MAX = 100
"""Most errors that one answer names: nobody mends more at once, and a large body must not make a large answer."""

DETAIL_LENGTH = 2000
"""Longest sentence in an answer. What it shows of the message is cut where it is written, far below this."""


class AllRefused(PratiqueError):
    """Not one of the many things asked for was done. `extra["items"]` says why, one by one."""

    def __init__(self, items: list[dict[str, Any]]) -> None:
        codes = {str(item["code"]) for item in items if item.get("code")}
        super().__init__(f"none of {len(items)} was accepted: {items[0].get('message') or 'refused'}", items=items)
        self.shared_code = codes.pop() if len(codes) == 1 else facts.InvalidField.code


def register_errors(app: Flask) -> None:
    """Answer every error of this application with a problem document."""
    app.register_error_handler(AllRefused, _all_refused)
    app.register_error_handler(PratiqueError, _fact)
    app.register_error_handler(HTTPException, _refused_by_the_framework)
    app.register_error_handler(InternalServerError, _unforeseen)


def problem(
    status: HTTPStatus,
    code: str,
    detail: str,
    *,
    errors: Iterable[FieldError] = (),
    extra: Mapping[str, Any] | None = None,
) -> Response:
    """Make a problem document. `extra` members stand beside ours and never replace them."""
    named = [
        {"pointer": shorten(error.pointer, DETAIL_LENGTH), "detail": shorten(error.detail, DETAIL_LENGTH)}
        for error in islice(errors, ERRORS_MAX)
    ]
    body = {
        **(extra or {}),
        "type": "about:blank",
        "title": status.phrase,
        "status": int(status),
        "code": code,
        "detail": shorten(detail, DETAIL_LENGTH),
        "instance": request_id(),
        "errors": named,
    }
    # What came in may be shown again: it is escaped here, because it may hold what no UTF-8 can.
    return Response(json.dumps(body), status=int(status), content_type=PROBLEM_TYPE)


def status_of(error: PratiqueError) -> HTTPStatus:
    """Return the status of a fact that went wrong."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), HTTPStatus.UNPROCESSABLE_ENTITY)


def _fact(error: PratiqueError) -> Response:
    status = status_of(error)
    answer = problem(status, error.code, error.detail, errors=error.errors, extra=error.extra)
    for note in getattr(error, "__notes__", ()):
        # What the driver said names hosts, files and accounts: it is for the log alone.
        current_app.logger.warning("request %s: %s", request_id(), note, extra=_named())
    if status is HTTPStatus.UNAUTHORIZED:
        answer.headers["WWW-Authenticate"] = 'Bearer realm="pratique"'
    wait = error.extra.get("retry_after", RETRY_AFTER_SECONDS.get(type(error)))
    if wait is not None:
        answer.headers["Retry-After"] = str(wait)
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        told = "request %s: the store cannot answer: %s"
        current_app.logger.warning(told, request_id(), error.detail, extra=_named())
    return answer


def _named() -> dict[str, Any]:
    """Give a line of the log the fields that its request is found by."""
    return {"fields": {"request_id": request_id(), **trace_fields()}}


def _all_refused(error: AllRefused) -> Response:
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, error.shared_code, error.detail, extra=error.extra)


def _refused_by_the_framework(error: HTTPException) -> Response:
    ready = error.get_response()
    code = CODE_OF_STATUS.get(error.code or 500)
    if code is None and ready.status_code < 400:
        return Response(ready.get_data(), status=ready.status_code, headers=ready.headers)
    status = HTTPStatus(error.code or 400) if code and error.code != 415 else HTTPStatus.BAD_REQUEST
    detail = SENTENCES.get(int(status), error.description or status.phrase)
    answer = problem(status, code or "malformed_body", detail)
    if "Allow" in ready.headers:
        answer.headers["Allow"] = ready.headers["Allow"]
    return answer


def _unforeseen(error: InternalServerError) -> Response:
    cause = error.original_exception
    # The traceback shows our own frames, never the headers: no token reaches the log.
    current_app.logger.error("request %s failed", request_id(), exc_info=cause or error, extra=_named())
    detail = f"something went wrong here that nobody foresaw; the log has it under {request_id()}"
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", detail)
