# SPDX-License-Identifier: Apache-2.0
"""Where does what was seen contradict what is known, and who ruled on it?"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from api.answers import answer, change
from api.auth import READERS, require
from api.body import body
from api.context import actor, database, now
from api.contract import says
from api.pagination import Words, listing, page_answer, query
from api.schemas.conflicts import RESOLVE
from api.schemas.shown import page, ref
from registry.domain.known import ConflictRule
from registry.domain.reports import Kind
from registry.domain.roles import Role
from registry.services import conflicts

bp = Blueprint("conflicts", __name__)

FILTERS = frozenset(
    {
        *("id", "state", "rule", "node", "device", "kind"),
        *("opened_at", "resolved_at", "resolved_by", "resolved_as", "reason", "resolve_reason"),
    }
)
WORDS: Words = {
    "state": ("open", "resolved"),
    "rule": ConflictRule,
    "kind": Kind,
    "resolved_as": ("same_device", "different_devices"),
}
"""The values of the filters that have few."""


@bp.get("/conflicts")
@says({200: page("Conflict")}, filters=FILTERS, words=WORDS, pages=True, problems=("not_found", "device_ambiguous"))
@require(*READERS)
def index() -> Response:
    """List the conflicts, newest first, resolved ones too."""
    filters, part = listing(FILTERS, WORDS)
    return page_answer(conflicts.list_conflicts(database(), filters, part))


@bp.get("/conflicts/<conflict>")
@says({200: ref("Conflict")})
@require(*READERS)
def show(conflict: str) -> Response:
    """Show one conflict."""
    query(())
    return answer(conflicts.show_conflict(database(), conflict))


@bp.post("/conflicts/<conflict>/resolve")
@says(
    {200: ref("Conflict")},
    problems=("not_open",),
    example={"reason": "the label was read on site", "as": "same_device"},
    is_change=True,
)
@require(Role.OPERATOR)
@body(RESOLVE)
def resolve(data: dict[str, Any], conflict: str) -> Response:
    """Rule that what was seen is the known device, or another one."""
    query(())
    return change(
        lambda: (
            200,
            conflicts.resolve_conflict(
                database(), conflict, reason=data["reason"], as_=data["as"], actor=actor(), now=now()
            ),
        )
    )
