# SPDX-License-Identifier: Apache-2.0
"""What should be repaired, who does it, and may it begin? Nothing is carried out here: programs and people claim."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from api.answers import answer, change
from api.auth import READERS, require
from api.body import body
from api.context import actor, database, now, policy
from api.contract import says
from api.pagination import Words, listing, page_answer, query
from api.schemas.repairs import CANCEL, CLAIM, COMPLETE, RESUME, STOP
from api.schemas.simple import page, ref
from registry.domain.repair import Action
from registry.domain.repair_orders import OrderState, Outcome
from registry.domain.roles import Role
from registry.services import repairs

bp = Blueprint("repairs", __name__)

FILTERS = frozenset(
    {
        *("id", "action", "state", "node", "provider_id", "device", "condition", "because", "waits_for", "token"),
        *("claimed_by", "outcome", "detail"),
        *("planned_at", "ready_at", "claimed_at", "lease_until", "ended_at", "settled_at"),
    }
)
WORDS: Words = {"action": Action, "state": OrderState, "outcome": Outcome}
"""The values of the filters that have few."""


@bp.get("/repairs")
@says({200: page("Repair")}, filters=FILTERS, words=WORDS, pages=True, problems=("not_found", "device_ambiguous"))
@require(*READERS)
def index() -> Response:
    """List the repairs, newest first, those that are over too."""
    filters, part = listing(FILTERS, WORDS)
    return page_answer(repairs.list_repairs(database(), filters, part))


@bp.get("/repairs/budget")
@says({200: ref("RepairBudget")})
@require(*READERS)
def budget() -> Response:
    """Tell how many nodes repairs disturb, how many they may, who stopped them, and which checks are suspected."""
    query(())
    return answer(repairs.show_budget(database(), policy=policy(), now=now()))


@bp.get("/repairs/<repair>")
@says({200: ref("Repair")})
@require(*READERS)
def show(repair: str) -> Response:
    """Show one repair."""
    query(())
    return answer(repairs.show_repair(database(), repair))


@bp.post("/repairs/<repair>/claim")
@says({200: ref("Repair")}, problems=("not_open",), example={"holder": "robot-1"}, is_change=True)
@require(Role.OPERATOR)
@body(CLAIM)
def claim(data: dict[str, Any], repair: str) -> Response:
    """Carry a ready repair out, until the lease runs out. What gives hardware away puts it into quarantine."""
    query(())
    who: dict[str, Any] = {"holder": data.get("holder"), "token": data.get("token"), "actor": actor()}
    return change(lambda: (200, repairs.claim_repair(database(), repair, **who, policy=policy(), now=now())))


@bp.post("/repairs/<repair>/complete")
@says(
    {200: ref("Repair")},
    problems=("not_open",),
    example={"outcome": "done", "holder": "robot-1", "token": 1},
    is_change=True,
)
@require(Role.OPERATOR)
@body(COMPLETE)
def complete(data: dict[str, Any], repair: str) -> Response:
    """Say that a claimed repair was carried out, or could not be."""
    query(())
    who: dict[str, Any] = {"holder": data.get("holder"), "token": data.get("token"), "actor": actor()}
    how: dict[str, Any] = {"is_done": data["outcome"] == "done", "reason": data.get("reason")}
    return change(lambda: (200, repairs.complete_repair(database(), repair, **how, **who, now=now())))


@bp.post("/repairs/<repair>/cancel")
@says({200: ref("Repair")}, problems=("not_open",), example={"reason": "the board is on its way"}, is_change=True)
@require(Role.OPERATOR)
@body(CANCEL)
def cancel(data: dict[str, Any], repair: str) -> Response:
    """Say that a repair is not to be carried out. Nobody who has claimed it is called back."""
    query(())
    outcome = Outcome(data.get("outcome") or Outcome.BY_PERSON)
    told: dict[str, Any] = {"reason": data["reason"], "outcome": outcome, "actor": actor()}
    return change(lambda: (200, repairs.cancel_repair(database(), repair, **told, now=now())))


@bp.post("/repairs/stop")
@says({200: ref("RepairBudget")}, problems=("not_open",), example={"reason": "a storm"}, is_change=True)
@require(Role.OPERATOR)
@body(STOP)
def stop(data: dict[str, Any]) -> Response:
    """Let no repair begin until somebody says so. What is claimed goes on."""
    query(())
    return change(
        lambda: (
            200,
            repairs.stop_repairs(database(), reason=data["reason"], actor=actor(), policy=policy(), now=now()),
        )
    )


@bp.post("/repairs/resume")
@says({200: ref("RepairBudget")}, problems=("not_open",), example={"reason": "the storm is over"}, is_change=True)
@require(Role.OPERATOR)
@body(RESUME)
def resume(data: dict[str, Any]) -> Response:
    """Let repairs go on; with `condition`, believe a check that was suspected."""
    query(())
    told: dict[str, Any] = {"reason": data["reason"], "condition": data.get("condition"), "actor": actor()}
    return change(lambda: (200, repairs.resume_repairs(database(), **told, policy=policy(), now=now())))
