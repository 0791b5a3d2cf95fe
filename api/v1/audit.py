# SPDX-License-Identifier: Apache-2.0
"""Was anything removed from the history, or changed in it?"""

from __future__ import annotations

from flask import Blueprint, Response

from api.answers import answer
from api.auth import READERS, require
from api.context import database, standing
from api.contract import says
from api.pagination import number, query
from api.schemas.shown import ref
from registry.services import audit, checkpoints

bp = Blueprint("audit", __name__)


VERIFY_AT_ONCE = 50_000
"""Entries that one request looks at: some two seconds of work."""


@bp.get("/audit/verify")
@says({200: ref("Verified")}, query={"after"})
@require(*READERS)
def verify() -> Response:
    """Check the history, and say whether it holds: 200 either way, because a finding is data. At most 50,000 entries
    are looked at; `next` is what to give as `after` for the rest, and null at the head.
    """
    after = number(query({"after"}), "after", 0)
    key = audit.own_key(standing().settings)
    return answer(audit.verify(database(), key=key, after=after, limit=VERIFY_AT_ONCE))


@bp.get("/audit/checkpoint")
@says({200: ref("Checkpoint")}, query={"proof"}, problems=("not_found",))
@require(*READERS)
def checkpoint() -> Response:
    """Give the newest signed checkpoint of the history, to be kept elsewhere. With the sequence of an older one as
    `proof`, the hashes are added that prove that the history only went on from there.
    """
    parameters = query({"proof"})
    since = number(parameters, "proof", 0) if "proof" in parameters else None
    return answer(checkpoints.show_newest(database(), since=since))
