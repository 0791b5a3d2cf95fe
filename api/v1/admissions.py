# SPDX-License-Identifier: Apache-2.0
"""What would you say to these? Many decisions at once; nothing is written."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from api.answers import answer
from api.auth import READERS, require
from api.body import body
from api.context import database, now, policy
from api.contract import says
from api.pagination import query
from api.schemas.admissions import PREVIEW
from api.schemas.shown import items
from registry.services import admission

bp = Blueprint("admissions", __name__)


@bp.post("/admissions")
@says({200: items("Decision")}, example={"candidates": [{"node": "node-a"}]})
@require(*READERS)
@body(PREVIEW)
def preview(data: dict[str, Any]) -> Response:
    """Decide about nodes by name and hardware by identifiers."""
    query(())
    return answer({"items": admission.preview(database(), data["candidates"], policy=policy(), now=now())})
