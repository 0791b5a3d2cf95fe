# SPDX-License-Identifier: Apache-2.0
"""May this new node have a token of its own? `POST /v1/join` trades a join token for one."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from api.answers import answer
from api.auth import require
from api.body import body
from api.context import actor, caller, database, now, standing
from api.contract import says
from api.pagination import query
from api.schemas.shown import ref
from api.schemas.tokens import JOIN
from registry.domain.joining import Trade
from registry.domain.roles import Role
from registry.services import joining

bp = Blueprint("join", __name__)


@bp.post("/join")
@says(
    {201: ref("NewToken")},
    example={"node": "gpu-17", "provider_id": "aws:///us-east-1a/i-0abc", "profile": "p5.48xlarge"},
    problems=("already_joined", "instance_superseded"),
)
@require(Role.JOIN)
@body(JOIN)
def trade(data: dict[str, Any]) -> Response:
    """Trade the join token for the token of one instance of one node. Its secret is shown once, and never again.

    There is no replay: nothing from which a lost answer could be given again is kept.
    """
    query(())
    view, secret = joining.join(
        database(), Trade(**data), caller=caller(), pepper=standing().pepper, actor=actor(), now=now()
    )
    return answer({**view.to_json(), "token": secret}, 201)
