# SPDX-License-Identifier: Apache-2.0
"""How does an answer leave? As JSON; and a change asked for twice under one key is answered, not made, twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import orjson
from flask import Response, request

from api.context import caller, database, now
from api.text import why_not_id
from registry.domain.errors import FieldError, InvalidField
from registry.services import idempotency

NDJSON, CSV = "application/x-ndjson", "text/csv"
"""In what form the history leaves as one stream."""

KEY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotent-Replayed"
DRY_RUN = "dry_run"

# Times are written in our own form before they come here.
_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_DATETIME


def answer(body: Any, status: int = 200) -> Response:
    """Answer JSON, UTF-8, with a line's end. Raises TypeError for what has no form in JSON."""
    return Response(orjson.dumps(body, option=_OPTIONS), status=status, content_type="application/json")


Body = dict[str, Any]


def change(
    work: Callable[[], tuple[int, Body]], *, on_first: Callable[[Body], Body] = dict, in_parts: bool = False
) -> Response:
    """Answer a change. Under an `Idempotency-Key` the first answer is stored with it and replayed.

    `work` makes the change and returns status and body; what it raises leaves nothing behind, no stored answer either.
    Work `in_parts` has transactions of its own, may be repeated, and leaves behind what it did. `on_first` completes
    the body of the first answer with what must not be stored.
    """
    key = _key()
    if key is None:
        status, body = work()
        return _changed(on_first(body), status)
    run = idempotency.run_in_parts if in_parts else idempotency.run_once
    status, body, replayed = run(
        database(), token_id=caller().token_id, route=_route(), key=key, digest=_digest(), now=now(), work=work
    )
    if not replayed:
        return _changed(on_first(body), status)
    again = _changed(body, status)
    again.headers[REPLAYED_HEADER] = "true"
    return again


def dry_run(work: Callable[[], Body]) -> Response:
    """Answer what a change would do. Nothing is done, so no key is kept, but one that no change takes is refused."""
    _key()
    return answer({**work(), DRY_RUN: True})


def _key() -> str | None:
    key = request.headers.get(KEY_HEADER)
    reason = why_not_id(key) if key is not None else None
    if reason is not None:
        raise InvalidField(f"{KEY_HEADER} {reason}", errors=(FieldError("", f"{KEY_HEADER} {reason}"),))
    return key


def _changed(body: Body, status: int) -> Response:
    return Response(status=status) if status == 204 else answer(body, status)


def _route() -> str:
    return f"{request.method} {request.url_rule}"


def _digest() -> str:
    """Hash what was asked: the same key on another address or with another body is another request."""
    asked = hashlib.sha256(request.full_path.encode("utf-8", "surrogatepass"))
    asked.update(b"\n" + request.get_data())
    return asked.hexdigest()


def begun(pieces: Iterator[str]) -> Iterator[str]:
    """Read the first piece before the status is sent, so that a store that cannot answer is still a 503."""
    first = next(pieces, None)

    def rest() -> Iterator[str]:
        if first is not None:
            yield first
            yield from pieces

    return rest()
