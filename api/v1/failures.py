# SPDX-License-Identifier: Apache-2.0
"""What went wrong, as somebody saw it? Faults are recorded, listed and, when they were none, withdrawn."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from api.answers import answer, change
from api.auth import READERS, require
from api.body import body, json_body, load
from api.context import actor, caller, database, now, policy
from api.contract import JSON, says
from api.errors import AllRefused
from api.pagination import Words, listing, page_answer, query
from api.schemas.document import shape_schema
from api.schemas.failures import MANY, ONE, WITHDRAW
from api.schemas.shown import items, page, ref
from registry.domain.failures import KINDS, Cause, Effect, Severity
from registry.domain.reports import ReportedFailure
from registry.domain.roles import Role
from registry.services import failure_pages, failures

bp = Blueprint("failures", __name__)

FILTERS = frozenset(
    {
        *("id", "failure_id", "device", "node", "slot", "code", "kind", "cause", "severity", "effect", "state"),
        *(
            "serial",
            "uuid",
            "ref",
            "attached",
            "occurred_at",
            "recorded_at",
            "last_at",
            "count",
            "reporter",
            "muted",
            "message",
        ),
    }
)
WORDS: Words = {
    "kind": KINDS,
    "cause": Cause,
    "severity": Severity,
    "effect": Effect,
    "state": ("active", "withdrawn"),
}
"""The values of the filters that have few."""

REFUSALS = ("forbidden", "not_found", "device_ambiguous", "invalid_field")
"""Why a fault may be refused."""


@bp.post("/failures")
@says(
    {200: items("Recorded"), 201: items("Recorded")},
    body={JSON: {"anyOf": [shape_schema(ONE), shape_schema(MANY)], "required": []}},
    example={"failure_id": "f-1", "device": "1654900010001", "code": "xid_48", "occurred_at": "2026-11-29T12:00:00Z"},
    refused=REFUSALS,
    is_change=True,
)
@require(Role.NODE, Role.OPERATOR)
def record() -> Response:
    """Record one fault, or up to a thousand."""
    query(())
    given = json_body()
    is_many = isinstance(given, dict) and "failures" in given
    loaded = load(MANY, given)["failures"] if is_many else [load(ONE, given)]
    reported = tuple(ReportedFailure(**one) for one in loaded)
    return change(lambda: _recorded(reported))


@bp.get("/failures")
@says({200: page("Failure")}, filters=FILTERS, words=WORDS, pages=True, problems=("not_found", "device_ambiguous"))
@require(*READERS)
def index() -> Response:
    """List the faults, newest first."""
    filters, part = listing(FILTERS, WORDS)
    return page_answer(failure_pages.list_failures(database(), filters, part))


@bp.get("/failures/<failure>")
@says({200: ref("Failure")})
@require(*READERS)
def show(failure: str) -> Response:
    """Show one fault, by our id."""
    query(())
    return answer(failure_pages.show_failure(database(), failure))


@bp.post("/failures/<failure>/withdraw")
@says({200: ref("Failure")}, problems=("not_open",), example={"reason": "it was a test"}, is_change=True)
@require(Role.OPERATOR)
@body(WITHDRAW)
def withdraw(data: dict[str, Any], failure: str) -> Response:
    """Say that a recorded fault was none."""
    query(())
    return change(
        lambda: (
            200,
            failures.withdraw_failure(
                database(), failure, reason=data["reason"], actor=actor(), now=now(), policy=policy()
            ),
        )
    )


def _recorded(reported: tuple[ReportedFailure, ...]) -> tuple[int, dict[str, Any]]:
    """Record, and answer 201 for something new, 200 for nothing new. Raises AllRefused."""
    asking = caller()
    is_node = asking.role is Role.NODE
    items = failures.record_failures(
        database(),
        reported,
        actor=actor(),
        node_scope=asking.node if is_node else None,
        provider_id=asking.provider_id if is_node else None,
        policy=policy(),
        now=now(),
    )
    outcomes = {item["outcome"] for item in items}
    if outcomes == {"refused"}:
        raise AllRefused(items)
    return (201 if "recorded" in outcomes else 200), {"items": items}
