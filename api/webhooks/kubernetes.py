# SPDX-License-Identifier: Apache-2.0
"""May a Kubernetes API server open a node that we keep closed? It asks before a change of a Node; nothing is written.

The token stands in a header, or in the address where an API server has no way to send one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

from flask import Blueprint, Response

from api.auth import require
from api.context import database, now, policy, standing
from api.contract import JSON, says
from api.pagination import query
from api.schemas.document import shape_schema
from api.schemas.reviews import ANSWER, EXAMPLE, REVIEW
from api.webhooks.reviews import Review, change_of, patch_of, read_review, respond
from registry.domain.errors import StoreUnavailable
from registry.domain.node_naming import Naming
from registry.domain.node_review import LET_BE, answer_change, answer_without_decision
from registry.domain.roles import Role
from registry.services.admission import decide_admission

bp = Blueprint("kubernetes", __name__, url_prefix="/k8s")

TIMEOUT = "timeout"
"""What an API server adds to the address of a webhook: how long it will wait. We are done long before, but for records
that somebody holds locked: then it waits no longer, and its own configuration refuses what would open a node."""

P = ParamSpec("P")


def _without_records(answer: Callable[[Review], Response]) -> Callable[[Callable[P, Response]], Callable[P, Response]]:
    """Answer by the review alone while the store cannot.

    Not even whoever asks can be known then; but such an answer tells nobody what they did not say themselves.
    """

    def guard(handler: Callable[P, Response]) -> Callable[P, Response]:
        @functools.wraps(handler)
        def answered(*args: P.args, **kwargs: P.kwargs) -> Response:
            try:
                return handler(*args, **kwargs)
            except StoreUnavailable:
                return answer(read_review())

        return answered

    return guard


def _refuse_openings(review: Review) -> Response:
    change = change_of(review, _naming())
    return respond(review, answer_without_decision(change, "the records cannot be read") if change else LET_BE)


def _naming() -> Naming:
    return Naming(standing().settings.node_name_from)


def _close_if_new(review: Review) -> Response:
    return respond(review, LET_BE, patch_of(review))


def _states(handler: Callable[P, Response]) -> Callable[P, Response]:
    return says({200: ANSWER}, query=(TIMEOUT,), body={JSON: shape_schema(REVIEW)}, example=EXAMPLE)(handler)


@bp.post("/nodes/validate")
@bp.post("/<secret>/nodes/validate", endpoint="validate_by_path")
@_states
@_without_records(_refuse_openings)
@require(Role.WEBHOOK, Role.OPERATOR)
def validate(secret: str = "") -> Response:  # noqa: ARG001 - read where it is asked who asks
    """Say whether a Node may be changed so. Refused is what takes our taint or label from a node not admitted."""
    query((TIMEOUT,))
    review = read_review()
    change = change_of(review, _naming())
    if change is None or not change.needs_decision:
        return respond(review, LET_BE)
    if change.asked_as is None:
        return respond(review, answer_without_decision(change, f"it has no {_naming().way} to be known by here"))
    decision = decide_admission(database(), change.asked_as, policy=policy(), now=now())
    return respond(review, answer_change(change, decision))


@bp.post("/nodes/mutate")
@bp.post("/<secret>/nodes/mutate", endpoint="mutate_by_path")
@_states
@_without_records(_close_if_new)
@require(Role.WEBHOOK, Role.OPERATOR)
def mutate(secret: str = "") -> Response:  # noqa: ARG001 - as above
    """Add our taint to a Node of ours that is created without it. Everything else stays as it is."""
    query((TIMEOUT,))
    return _close_if_new(read_review())
