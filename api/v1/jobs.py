# SPDX-License-Identifier: Apache-2.0
"""How do jobs fare? They say it themselves, message by message; what became of their time is read here."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from api.answers import answer, change
from api.auth import READERS, require
from api.body import body
from api.context import actor, database, now, policy
from api.contract import says
from api.errors import AllRefused
from api.pagination import Words, listing, page_answer, query
from api.schemas.jobs import MANY, event_of
from api.schemas.simple import items, page, ref
from api.text import why_not_id
from registry.domain.errors import FieldError, InvalidField
from registry.domain.job_events import JobEvent, Outcome, Unit
from registry.domain.job_phases import Phase
from registry.domain.roles import Role
from registry.services import jobs

bp = Blueprint("jobs", __name__)

FILTERS = frozenset(
    {
        *("job_id", "state", "outcome", "unit", "node", "nodes", "devices", "reporter"),
        *("started_at", "ended_at", "last_at", "recorded_at"),
    }
)
WORDS: Words = {"state": Phase, "outcome": Outcome, "unit": Unit}
"""The values of the filters that have few."""


@bp.post("/jobs/<job>/events")
@says(
    {200: items("JobEventTaken"), 201: items("JobEventTaken")},
    example={
        "events": [
            {
                "event_id": "e-1",
                "kind": "started",
                "at": "2026-11-29T11:00:00Z",
                "nodes": ["node-a", "node-b"],
                "devices": 16,
            },
            {"event_id": "e-2", "kind": "progress", "at": "2026-11-29T11:05:00Z", "step": 0},
        ]
    },
    refused=("invalid_field",),
    is_change=True,
)
@require(Role.OPERATOR)
@body(MANY)
def tell(data: dict[str, Any], job: str) -> Response:
    """Take what a job says of itself: that it began, how far it is, that it pauses, was interrupted or ended. Messages
    may come late, twice and in any order.
    """
    query(())
    if (reason := why_not_id(job)) is not None:
        raise InvalidField(f"the id of the job {reason}", errors=(FieldError("", f"the id of the job {reason}"),))
    told = tuple(event_of(one) for one in data["events"])
    return change(lambda: _told(job, told))


@bp.get("/jobs")
@says({200: page("Job")}, filters=FILTERS, words=WORDS, pages=True)
@require(*READERS)
def index() -> Response:
    """List the jobs, newest first."""
    filters, part = listing(FILTERS, WORDS)
    return page_answer(jobs.list_jobs(database(), filters, part))


@bp.get("/jobs/<job>")
@says({200: ref("JobPage")})
@require(*READERS)
def show(job: str) -> Response:
    """Show one job: how much of its time was progress that survived, and what became of the rest."""
    query(())
    return answer(jobs.show_job(database(), job, now=now()))


def _told(job: str, told: tuple[JobEvent, ...]) -> tuple[int, dict[str, Any]]:
    """Take them, and answer 201 for something new, 200 for nothing new. Raises AllRefused."""
    taken = jobs.record_job_events(database(), job, told, actor=actor(), policy=policy(), now=now())
    outcomes = {item["outcome"] for item in taken}
    if outcomes == {"refused"}:
        raise AllRefused(taken)
    return (201 if "recorded" in outcomes else 200), {"items": taken}
