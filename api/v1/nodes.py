# SPDX-License-Identifier: Apache-2.0
"""What do we know of a node, may it take work, and what are the ways out?"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request

from api.answers import answer, change
from api.auth import READERS, require
from api.body import body
from api.context import actor, caller, database, now, policy
from api.contract import JSON, says
from api.pagination import Words, listing, page_answer, query
from api.schemas.nodes import MAINTENANCE, RETIRE, WAIVER
from api.schemas.shown import page, ref
from api.v1 import pasts
from api.v1.names import check_node
from registry.domain.node_status import NodeStatus
from registry.domain.roles import Role
from registry.services import admission, history, nodes

bp = Blueprint("nodes", __name__)

FILTERS = frozenset(
    {
        *("name", "state", "profile", "zone", "provider_id", "boot_id"),
        *("registered_at", "reported_at", "retired_at", "maintenance_until", "maintenance_reason"),
    }
)
WORDS: Words = {"state": NodeStatus}
"""The values of the filters that have few."""
TEXT = "text/plain"
LINE = {"type": "string", "examples": ["hold 11 passes_insufficient 2026-11-29T12:00:30.000000Z\n"]}


@bp.get("/nodes")
@says({200: page("Node")}, filters=FILTERS, words=WORDS, pages=True)
@require(*READERS)
def index() -> Response:
    """List the nodes, newest first."""
    filters, part = listing(FILTERS, WORDS)
    return page_answer(nodes.list_nodes(database(), filters, part, policy=policy(), now=now()))


@bp.get("/nodes/<node>")
@says({200: ref("NodePage")})
@require(*READERS)
def show(node: str) -> Response:
    """Show one node: devices by slot, passes, conditions, the decision."""
    query(())
    return answer(nodes.show_node(database(), node, policy=policy(), now=now()))


@bp.get("/nodes/<node>/admission")
@says({200: {JSON: ref("Decision"), TEXT: LINE}})
@require(Role.NODE, *READERS)
def decide(node: str) -> Response:
    """Decide now. A "no" is data: always 200. `Accept: text/plain` gives one line."""
    check_node(node)
    query(())
    decision = admission.decide_admission(database(), node, instance=caller().provider_id, policy=policy(), now=now())
    # Looked at before it is parsed: nobody who wants JSON names a text type.
    wants_text = "text" in request.headers.get("Accept", "")
    if wants_text and request.accept_mimetypes.best_match(["application/json", TEXT]) == TEXT:
        return Response(decision.as_line() + "\n", content_type=f"{TEXT}; charset=utf-8")
    return answer(decision.to_json())


@bp.get("/nodes/<node>/history")
@says({200: page("Event")}, filters=pasts.FILTERS, words=pasts.WORDS, pages=True)
@require(*READERS)
def past(node: str) -> Response:
    """Tell what happened to a node, oldest first."""
    filters, part = listing(pasts.FILTERS, pasts.WORDS, newest_first=False)
    return page_answer(history.node_history(database(), node, filters, part))


@bp.post("/nodes/<node>/retire")
@says({200: ref("Node")}, example={"reason": "given back"}, is_change=True)
@require(Role.OPERATOR)
@body(RETIRE)
def retire(data: dict[str, Any], node: str) -> Response:
    """Say that a node will not come back."""
    query(())
    return change(
        lambda: (
            200,
            nodes.retire_node(database(), node, reason=data.get("reason"), actor=actor(), policy=policy(), now=now()),
        )
    )


@bp.post("/nodes/<node>/maintenance")
@says({200: ref("Node")}, example={"until": "2027-01-01T00:00:00Z", "reason": "new firmware"}, is_change=True)
@require(Role.OPERATOR)
@body(MAINTENANCE)
def maintain(data: dict[str, Any], node: str) -> Response:
    """Keep a node out of work until a time."""
    query(())
    return change(
        lambda: (
            200,
            nodes.set_maintenance(
                database(), node, until=data["until"], reason=data["reason"], actor=actor(), policy=policy(), now=now()
            ),
        )
    )


@bp.post("/nodes/<node>/waivers")
@says(
    {201: ref("Waiver")},
    example={"kind": "gpu", "count": 7, "until": "2027-01-01T00:00:00Z", "reason": "one is away for repair"},
    is_change=True,
)
@require(Role.OPERATOR)
@body(WAIVER)
def waive(data: dict[str, Any], node: str) -> Response:
    """Let fewer devices be enough until a time."""
    query(())
    return change(lambda: (201, nodes.grant_waiver(database(), node, **data, actor=actor(), now=now())))
