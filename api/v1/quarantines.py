# SPDX-License-Identifier: Apache-2.0
"""Which hardware is kept out, by whom and why? Holds are opened, shown and released here."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from api.answers import DRY_RUN, answer, change, dry_run
from api.auth import READERS, require
from api.body import body
from api.context import actor, caller, database, now
from api.contract import says
from api.errors import AllRefused
from api.pagination import Words, flag, listing, page_answer, query
from api.schemas.quarantines import OPEN, RELEASE, RELEASE_TARGETS, REVIEW
from api.schemas.shown import items, page, ref
from registry.domain.hold_review import Review
from registry.domain.quarantine import HoldMatch, HoldState, ReleasePolicy, Scope, TargetKind
from registry.domain.roles import Role
from registry.services import quarantine, reviewing
from registry.services.quarantine import OpenQuarantines

bp = Blueprint("quarantines", __name__)

FILTERS = frozenset(
    {
        *("id", "state", "device", "node", "owner", "cause", "ticket", "scope", "match", "release_policy"),
        *("target_kind", "permanent", "drain", "opened_at", "review_at", "review_due", "expires_at"),
        *("released_at", "released_by", "reason", "release_reason"),
    }
)
WORDS: Words = {
    "state": HoldState,
    "scope": Scope,
    "match": HoldMatch,
    "release_policy": ReleasePolicy,
    "target_kind": TargetKind,
}
"""The values of the filters that have few."""
REFUSALS = ("not_found", "invalid_field", "device_ambiguous")
"""Why a target may be refused."""

_TARGETS = {"targets": [{"device": "1654900010003"}], "reason": "fell off the bus twice"}


@bp.post("/quarantines")
@says({200: items("Opened"), 201: items("Opened")}, query={DRY_RUN}, example=_TARGETS, refused=REFUSALS, is_change=True)
@require(Role.OPERATOR)
@body(OPEN)
def open_many(data: dict[str, Any]) -> Response:
    """Hold one or many targets: 201 when something was opened, 200 when it was held already or for a dry run."""
    is_dry = flag(query({DRY_RUN}), DRY_RUN)
    command = _command(data)
    if is_dry:
        return dry_run(lambda: _opened(command, is_dry=True)[1])
    return change(lambda: _opened(command, is_dry=False))


@bp.get("/quarantines")
@says({200: page("Quarantine")}, filters=FILTERS, words=WORDS, pages=True)
@require(*READERS)
def index() -> Response:
    """List the holds, newest first, released ones too."""
    filters, part = listing(FILTERS, WORDS)
    return page_answer(quarantine.list_quarantines(database(), filters, part, now=now()))


@bp.get("/quarantines/<quarantine_id>")
@says({200: ref("Quarantine")})
@require(*READERS)
def show(quarantine_id: str) -> Response:
    """Show one hold."""
    query(())
    return answer(quarantine.show_quarantine(database(), quarantine_id, now=now()))


@bp.post("/quarantines/<quarantine_id>/review")
@says(
    {200: ref("Quarantine")},
    problems=("not_open",),
    example={"reason": "the maker asks for another diagnostic", "ticket": "RMA-7"},
    is_change=True,
)
@require(Role.OPERATOR)
@body(REVIEW)
def review(data: dict[str, Any], quarantine_id: str) -> Response:
    """Look at a hold again, which goes on: set when to look next, a ticket, or both."""
    query(())
    told = Review(data["reason"], data.get("review_at"), data.get("ticket"))
    return change(lambda: (200, reviewing.review_quarantine(database(), quarantine_id, told, actor=actor(), now=now())))


@bp.post("/quarantines/<quarantine_id>/release")
@says(
    {200: ref("Quarantine")},
    query={DRY_RUN},
    problems=("not_open",),
    example={"reason": "reseated, passed 24 h of burn-in"},
    is_change=True,
)
@require(Role.OPERATOR)
@body(RELEASE)
def release(data: dict[str, Any], quarantine_id: str) -> Response:
    """Let go of one hold, with a reason."""
    is_dry = flag(query({DRY_RUN}), DRY_RUN)

    def work() -> tuple[int, dict[str, Any]]:
        return 200, quarantine.release_quarantine(
            database(),
            quarantine_id,
            reason=data["reason"],
            evidence=data.get("evidence"),
            actor=actor(),
            role=caller().role,
            now=now(),
            dry_run=is_dry,
        )

    return dry_run(lambda: work()[1]) if is_dry else change(work)


@bp.post("/quarantines/release")
@says({200: items("Released")}, query={DRY_RUN}, example=_TARGETS, is_change=True)
@require(Role.OPERATOR)
@body(RELEASE_TARGETS)
def release_targets(data: dict[str, Any]) -> Response:
    """Let go of what holds these targets; each is answered."""
    is_dry = flag(query({DRY_RUN}), DRY_RUN)

    def work() -> tuple[int, dict[str, Any]]:
        items = quarantine.release_targets(
            database(),
            tuple(data["targets"]),
            reason=data["reason"],
            actor=actor(),
            role=caller().role,
            now=now(),
            dry_run=is_dry,
        )
        return 200, {"items": items}

    return dry_run(lambda: work()[1]) if is_dry else change(work)


def _command(data: dict[str, Any]) -> OpenQuarantines:
    return OpenQuarantines(
        targets=tuple(data["targets"]),
        reason=data["reason"],
        cause=data.get("cause"),
        ticket=data.get("ticket"),
        scope=data.get("scope"),
        match=data.get("match"),
        drain=bool(data.get("drain")),
        release_policy=data.get("release_policy"),
        permanent=bool(data.get("permanent")),
        review_at=data.get("review_at"),
        expires_at=data.get("expires_at"),
        evidence=data.get("evidence"),
    )


def _opened(command: OpenQuarantines, *, is_dry: bool) -> tuple[int, dict[str, Any]]:
    """Open, and say which status that is. Raises AllRefused when nothing is held and it was meant."""
    items = quarantine.open_quarantines(database(), command, actor=actor(), now=now(), dry_run=is_dry)
    if is_dry:
        return 200, {"items": items}
    outcomes = {item["outcome"] for item in items}
    if outcomes == {"refused"}:
        raise AllRefused(items)
    return (201 if "opened" in outcomes else 200), {"items": items}
