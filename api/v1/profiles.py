# SPDX-License-Identifier: Apache-2.0
"""What is expected of a sort of node?"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from api.answers import answer, change
from api.auth import READERS, require
from api.body import json_body
from api.context import actor, database, now
from api.contract import JSON, says
from api.pagination import listing, page_answer, query
from api.schemas.shown import page, ref
from api.schemas.taken import PROFILE, PROFILE_EXAMPLE
from registry.domain.roles import Role
from registry.services import profiles

bp = Blueprint("profiles", __name__)

FILTERS = frozenset({"name", "built_in"})


@bp.get("/profiles")
@says({200: page("Profile")}, filters=FILTERS, pages=True)
@require(*READERS)
def index() -> Response:
    """List the profiles by name, built-in ones too."""
    filters, part = listing(FILTERS, newest_first=False)
    return page_answer(profiles.list_profiles(database(), filters, part))


@bp.get("/profiles/<name>")
@says({200: ref("Profile")})
@require(*READERS)
def show(name: str) -> Response:
    """Show one profile."""
    query(())
    return answer(profiles.show_profile(database(), name))


@bp.put("/profiles/<name>")
@says({200: ref("Profile"), 201: ref("Profile")}, body={JSON: PROFILE}, example=PROFILE_EXAMPLE, is_change=True)
@require(Role.OPERATOR)
def put(name: str) -> Response:
    """Write a profile: 201 when it is new."""
    query(())
    given = json_body()

    def work() -> tuple[int, dict[str, Any]]:
        profile, is_new = profiles.set_profile(database(), name, given, actor=actor(), now=now())
        return (201 if is_new else 200), profile

    return change(work)
