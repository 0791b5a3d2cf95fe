# SPDX-License-Identifier: Apache-2.0
"""Is this process alive, and can it answer? Without a token, and without saying more than that."""

from __future__ import annotations

from flask import Blueprint, Response

from api.answers import answer
from api.context import database, now, policy
from api.contract import says
from api.schemas.document import obj
from api.schemas.shown import ref, word
from registry.services import health

bp = Blueprint("health", __name__, url_prefix="/health")


@bp.get("/live")
@says({200: obj({"status": word(("ok",))})})
def live() -> Response:
    """Say that the process runs; the store is not asked."""
    return answer(health.liveness())


@bp.get("/ready")
@says({200: ref("Ready"), 503: ref("Ready")})
def ready() -> Response:
    """Say whether requests can be answered: 200, or 503 with the checks that say why not."""
    state = health.readiness(database(), now=now(), policy=policy())
    return answer(state, 503 if state["status"] == "not_ready" else 200)
