# SPDX-License-Identifier: Apache-2.0
"""What do we know of a node, may it take work, and what are the ways out?"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request

from api.answers import answer, change
from api.auth import READERS, require
from api.body import body
from api.context import actor, database, now, policy
from api.pagination import listing, page_answer, query
from api.schemas.nodes import MAINTENANCE, RETIRE, WAIVER
from api.v1.names import check_node
from registry.domain.roles import Role
from registry.services import admission, history, nodes

bp = Blueprint("nodes", __name__)

FILTERS = frozenset({"name", "state", "profile", "zone", "provider_id", "boot_id"})
TEXT = "text/plain"


@bp.get("/nodes")
@require(*READERS)
def index() -> Response:
    """List the nodes, newest first."""
    filters, page = listing(FILTERS)
    return page_answer(nodes.list_nodes(database(), filters, page, policy=policy(), now=now()))


@bp.get("/nodes/<node>")
@require(*READERS)
def show(node: str) -> Response:
    """Show one node: devices by slot, passes, conditions, the decision."""
    query(())
    return answer(nodes.show_node(database(), node, policy=policy(), now=now()))


@bp.get("/nodes/<node>/admission")
@require(Role.NODE, *READERS)
def decide(node: str) -> Response:
    """Decide now. A "no" is data: always 200. `Accept: text/plain` gives one line."""
    check_node(node)
    query(())
    decision = admission.decide_admission(database(), node, policy=policy(), now=now())
    if request.accept_mimetypes.best_match(["application/json", TEXT]) == TEXT:
        return Response(decision.as_line() + "\n", content_type=f"{TEXT}; charset=utf-8")
    return answer(decision.to_json())


@bp.get("/nodes/<node>/history")
@require(*READERS)
def past(node: str) -> Response:
    """Tell what happened to a node, oldest first."""
    _, page = listing((), newest_first=False)
    return page_answer(history.node_history(database(), node, page, now=now()))


@bp.post("/nodes/<node>/retire")
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
@require(Role.OPERATOR)
@body(WAIVER)
def waive(data: dict[str, Any], node: str) -> Response:
    """Let fewer devices be enough until a time."""
    query(())
    return change(
        lambda: (201, nodes.grant_waiver(database(), node, **data, actor=actor(), policy=policy(), now=now()))
    )
