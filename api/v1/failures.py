# SPDX-License-Identifier: Apache-2.0
"""What went wrong, as somebody saw it? Faults are recorded, listed and, when they were none, withdrawn."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from api.answers import change
from api.auth import READERS, require
from api.body import body, json_body, load
from api.context import actor, caller, database, now, policy
from api.errors import AllRefused
from api.pagination import listing, page_answer, query
from api.schemas.failures import MANY, ONE, WITHDRAW
from registry.domain.reports import ReportedFailure
from registry.domain.roles import Role
from registry.services import failures

bp = Blueprint("failures", __name__)

FILTERS = frozenset(
    {
        *("id", "failure_id", "device", "node", "slot", "code", "kind", "cause", "severity", "effect", "state"),
        "reporter",
    }
)


@bp.post("/failures")
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
@require(*READERS)
def index() -> Response:
    """List the faults, newest first."""
    filters, page = listing(FILTERS)
    return page_answer(failures.list_failures(database(), filters, page, now=now()))


@bp.post("/failures/<failure>/withdraw")
@require(Role.OPERATOR)
@body(WITHDRAW)
def withdraw(data: dict[str, Any], failure: str) -> Response:
    """Say that a recorded fault was none."""
    query(())
    return change(
        lambda: (
            200,
            failures.withdraw_failure(
                database(), failure, reason=data["reason"], actor=actor(), policy=policy(), now=now()
            ),
        )
    )


def _recorded(reported: tuple[ReportedFailure, ...]) -> tuple[int, dict[str, Any]]:
    """Record, and answer 201 for something new, 200 for nothing new. Raises AllRefused."""
    scope = caller().node if caller().role is Role.NODE else None
    items = failures.record_failures(database(), reported, actor=actor(), node_scope=scope, policy=policy(), now=now())
    outcomes = {item["outcome"] for item in items}
    if outcomes == {"refused"}:
        raise AllRefused(items)
    return (201 if "recorded" in outcomes else 200), {"items": items}
