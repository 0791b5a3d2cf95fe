# SPDX-License-Identifier: Apache-2.0
"""A job failed: who is to blame, and what shall be done with it?"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from api.answers import answer, change
from api.auth import READERS, require
from api.body import body
from api.context import actor, database, now, policy
from api.contract import says
from api.pagination import Words, listing, page_answer, query
from api.schemas.job_failures import JOB_FAILURE, job_of
from api.schemas.shown_job_failures import BLAMED
from api.schemas.simple import page, ref
from registry.domain.job_failures import Attribution, JobFailure, Retry
from registry.domain.roles import Role
from registry.services import job_failures

bp = Blueprint("job_failures", __name__)

FILTERS = frozenset(
    {
        *("id", "job_id", "user", "reporter", "node", "device", "attribution", "cause", "retry", "confidence"),
        *("exit_code", "signal", "revision", "started_at", "failed_at", "recorded_at", "judged_at"),
    }
)
WORDS: Words = {"attribution": Attribution, "cause": BLAMED, "retry": Retry}
"""The values of the filters that have few."""


@bp.post("/job-failures")
@says(
    {200: ref("JobFailureJudged"), 201: ref("JobFailureJudged")},
    example={
        "job_id": "train-4711",
        "nodes": ["node-a", "node-b"],
        "started_at": "2026-11-29T06:00:00Z",
        "failed_at": "2026-11-29T12:00:00Z",
        "exit_code": 134,
        "log_excerpt": "[rank3]: Watchdog caught collective operation timeout",
        "signals": [{"kind": "nccl_timeout", "at": "2026-11-29T11:59:58Z", "rank": 3, "node": "node-a"}],
    },
    is_change=True,
)
@require(Role.OPERATOR)
@body(JOB_FAILURE)
def judge(data: dict[str, Any]) -> Response:
    """Say who is to blame for a failed job, from what it saw and what is on record of its nodes and their devices."""
    query(())
    job = job_of(data)
    return change(lambda: _judged(job))


@bp.get("/job-failures")
@says({200: page("JobFailure")}, filters=FILTERS, words=WORDS, pages=True, problems=("not_found", "device_ambiguous"))
@require(*READERS)
def index() -> Response:
    """List the failed jobs, newest first."""
    filters, part = listing(FILTERS, WORDS)
    return page_answer(job_failures.list_job_failures(database(), filters, part))


@bp.get("/job-failures/<job_failure>")
@says({200: ref("JobFailurePage")})
@require(*READERS)
def show(job_failure: str) -> Response:
    """Show one failed job, with all that was told of it and every verdict that was given."""
    query(())
    return answer(job_failures.show_job_failure(database(), job_failure))


def _judged(job: JobFailure) -> tuple[int, dict[str, Any]]:
    outcome, found = job_failures.judge_job_failure(database(), job, actor=actor(), policy=policy(), now=now())
    return (201 if outcome == "judged" else 200), {"outcome": outcome, **found}
