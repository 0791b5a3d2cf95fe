# SPDX-License-Identifier: Apache-2.0
"""What does a handler promise? Stated above it, next to who may ask and what it takes, for the published document.

What is enforced is not said twice: roles are read off `require`, the body's shape off `body`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from marshmallow import Schema

from api.auth import ROLES
from api.body import SHAPE
from api.schemas.document import shape_schema
from api.schemas.fields import JsonSchema
from registry.domain.roles import Role

JSON = "application/json"
CONTRACT = "contract"

H = TypeVar("H", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Contract:
    """What the document says of one handler."""

    summary: str
    answers: Mapping[int, Mapping[str, JsonSchema]]
    roles: frozenset[Role]
    query: tuple[str, ...] = ()
    query_shape: JsonSchema = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pages: bool = False
    body: Mapping[str, JsonSchema] = field(default_factory=dict)
    examples: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    is_change: bool = False


def says(  # noqa: PLR0913 - each is one thing that a reader of the document wants to know
    answers: Mapping[int, JsonSchema | Mapping[str, JsonSchema] | None],
    *,
    filters: Collection[str] = (),
    words: Mapping[str, Iterable[str]] | None = None,
    query: Collection[str] = (),
    query_shape: Schema | None = None,
    pages: bool = False,
    body: Mapping[str, JsonSchema] | None = None,
    example: Any = None,
    problems: tuple[str, ...] = (),
    refused: tuple[str, ...] = (),
    is_change: bool = False,
) -> Callable[[H], H]:
    """State the contract of a handler; stands between its address and `require`.

    `answers` are schemas by status: one schema for JSON, several by media type, None for no body. `query_shape` is what
    parameters are read through where their names alone do not say it, `words` are the values that a filter may have
    where they are few. `problems` are the codes that only this handler answers, `refused` those that a 422 may carry
    when not one of many was accepted. `pages` is a list in pages, `is_change` a mutation that takes an
    `Idempotency-Key`.
    """

    def state(handler: H) -> H:
        if not handler.__doc__:
            raise TypeError(f"{handler.__name__} needs a docstring: its first sentence is the summary")
        told = vars(handler)
        shape = told.get(SHAPE)
        taken = body if body is not None else ({JSON: shape_schema(shape)} if shape is not None else {})
        told[CONTRACT] = Contract(
            summary=" ".join(handler.__doc__.split()),
            answers={status: _by_media(given) for status, given in answers.items()},
            roles=told.get(ROLES, frozenset()),
            query=tuple(sorted({*filters, *query})),
            query_shape=shape_schema(query_shape, is_nullable=False) if query_shape else {},
            words={name: tuple(map(str, those)) for name, those in (words or {}).items()},
            pages=pages,
            body=taken,
            examples={next(iter(taken)): example} if example is not None else {},
            problems=problems,
            refused=refused,
            is_change=is_change,
        )
        return handler

    return state


def contract_of(handler: Callable[..., Any]) -> Contract | None:
    """Return what was stated above a handler."""
    found: Contract | None = vars(handler).get(CONTRACT)
    return found


def _by_media(given: JsonSchema | Mapping[str, JsonSchema] | None) -> Mapping[str, JsonSchema]:
    if given is None:
        return {}
    return given if all("/" in name for name in given) and given else {JSON: dict(given)}
