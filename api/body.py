# SPDX-License-Identifier: Apache-2.0
"""What did the body say? Bounded, whole, strict JSON, in the shape that stands above the handler."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

from flask import request
from marshmallow import Schema, ValidationError

from api.context import standing
from api.text import pointer, read_json, shorten
from registry.domain.errors import BodyTooLarge, FieldError, InvalidField, LengthRequired, MalformedBody

MULTIPART = "multipart/form-data"

SHAPE = "shape"
"""Under which name a handler keeps the shape of the body that it takes."""

P = ParamSpec("P")
R = TypeVar("R")


def check_length() -> None:
    """Refuse what cannot be read whole, before anything is read. Raises LengthRequired, BodyTooLarge, MalformedBody.

    Werkzeug cuts a chunked body at the limit and goes on as if that were all of it: so its length has to be said.
    """
    if request.headers.get("Transfer-Encoding"):
        raise LengthRequired("send the body with a Content-Length, not in chunks")
    limit = standing().settings.max_body_bytes
    if (request.content_length or 0) > limit:
        raise BodyTooLarge(f"the body has {request.content_length} bytes; at most {limit} are taken")
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise MalformedBody("send the body as it is, without a Content-Encoding")


def raw_body() -> bytes:
    """Return the whole body. Raises MalformedBody when it ended before its announced length: its sender gave up."""
    raw = request.get_data()
    announced = request.content_length or 0
    if len(raw) < announced:
        raise MalformedBody(f"the body ended after {len(raw)} of {announced} bytes: nothing of it was done")
    return raw


def json_body() -> Any:
    """Return the JSON that the body holds, an empty object for no body at all. Raises MalformedBody."""
    raw = raw_body()
    if not raw:
        return {}
    if not request.is_json:
        given = shorten(request.mimetype) or "no content type"
        raise MalformedBody(f"the body came as {given}; send it as application/json")
    return read_json(raw)


def body(schema: Schema) -> Callable[[Callable[Concatenate[dict[str, Any], P], R]], Callable[P, R]]:
    """Hand the body, loaded through `schema`, to a handler as its first argument.

    Raises MalformedBody, and InvalidField with a JSON Pointer for everything that is wrong.
    """

    def reader(handler: Callable[Concatenate[dict[str, Any], P], R]) -> Callable[P, R]:
        @functools.wraps(handler)
        def read(*args: P.args, **kwargs: P.kwargs) -> R:
            return handler(load(schema, json_body()), *args, **kwargs)

        vars(read)[SHAPE] = schema
        return read

    return reader


def load(schema: Schema, given: Any) -> dict[str, Any]:
    """Load a value through a schema. Raises InvalidField with a JSON Pointer for everything that is wrong."""
    try:
        loaded: dict[str, Any] = schema.load(given)
    except ValidationError as error:
        named = tuple(_flat(error.messages, ""))
        detail = f"{named[0].pointer or 'the body'} {named[0].detail}"
        others = f" (and {len(named) - 1} more)" if len(named) > 1 else ""
        raise InvalidField(detail + others, errors=named) from None
    return loaded


def _flat(messages: Any, where: str) -> Iterator[FieldError]:
    """Walk marshmallow's tree of complaints; `_schema` holds those about the object itself."""
    if isinstance(messages, dict):
        for name, inner in messages.items():
            yield from _flat(inner, where if name == "_schema" else pointer(where, name))
        return
    for message in messages if isinstance(messages, list) else [messages]:
        yield FieldError(where, str(message))
