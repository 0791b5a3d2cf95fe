# SPDX-License-Identifier: Apache-2.0
"""Is the service sure of its records again? An administrator says so, and why."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from api.answers import change
from api.auth import require
from api.body import body
from api.context import actor, database, now
from api.contract import says
from api.pagination import query
from api.schemas.service import ACKNOWLEDGE
from api.schemas.shown import ref
from registry.services import safe_mode

bp = Blueprint("service", __name__)


@bp.post("/service/acknowledge")
@says(
    {200: ref("Acknowledged")},
    problems=("not_open",),
    example={"reason": "the holds of 12:00 to 13:00 were opened anew by hand"},
    is_change=True,
)
@require()
@body(ACKNOWLEDGE)
def acknowledge(data: dict[str, Any]) -> Response:
    """Leave safe mode: take note of what is missing in the history, and admit nodes again."""
    query(())
    return change(lambda: (200, safe_mode.acknowledge(database(), reason=data["reason"], actor=actor(), now=now())))
