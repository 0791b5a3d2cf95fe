# SPDX-License-Identifier: Apache-2.0
"""Which thresholds, effects and rules are in force?"""

from __future__ import annotations

from flask import Blueprint, Response

from api.answers import answer
from api.auth import READERS, require
from api.context import policy
from api.contract import says
from api.pagination import query
from api.schemas.shown import ref

bp = Blueprint("policy", __name__)


@bp.get("/policy")
@says({200: ref("Policy")})
@require(*READERS)
def show() -> Response:
    """Show every threshold, the effect of every fault code, the rules, and the digest that decisions name them by."""
    query(())
    return answer({"digest": policy().digest, **policy().to_json()})
