# SPDX-License-Identifier: Apache-2.0
"""Is what the policy promises kept, and where did the time of nodes and jobs go?"""

from __future__ import annotations

from flask import Blueprint, Response

from api.answers import answer
from api.auth import READERS, require
from api.context import database, now, policy
from api.contract import says
from api.pagination import query
from api.schemas.simple import ref
from registry.services import slo

bp = Blueprint("slo", __name__)


@bp.get("/slo")
@says({200: ref("Objectives")})
@require(*READERS)
def show() -> Response:
    """Tell how the objectives stand: target, what was reached, what is left, how fast it is used up, by cause."""
    query(())
    return answer(slo.show_objectives(database(), policy=policy(), now=now()))
