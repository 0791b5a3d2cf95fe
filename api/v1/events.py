# SPDX-License-Identifier: Apache-2.0
"""What happened, to anything at all? The whole history, in pages or as one stream."""

from __future__ import annotations

from flask import Blueprint, Response, request

from api.answers import CSV, NDJSON, begun
from api.auth import READERS, require
from api.context import database
from api.contract import says
from api.pagination import Words, listing, number, page_answer, query
from api.schemas.shown import page
from registry.domain.events import EventType
from registry.services import export, history

bp = Blueprint("events", __name__)

FILTERS = frozenset({"sequence", "type", "actor", "device", "node", "quarantine", "since", "until"})
WORDS: Words = {"type": EventType}
"""The values of the filters that have few."""
LINES = {NDJSON: {"type": "string", "description": "One event a line."}, CSV: {"type": "string"}}


@bp.get("/events")
@says({200: page("Event")}, filters=FILTERS, words=WORDS, pages=True, problems=("not_found",))
@require(*READERS)
def index() -> Response:
    """List the events, oldest first."""
    filters, part = listing(FILTERS, WORDS, newest_first=False)
    return page_answer(history.list_events(database(), filters, part))


@bp.get("/events/export")
@says({200: LINES}, query={"after"})
@require(*READERS)
def stream() -> Response:
    """Stream the history as NDJSON, or as CSV for `Accept: text/csv`. To go on with a stream that broke off, give the
    sequence of the last line as `after`.
    """
    after = number(query({"after"}), "after", 0)
    if request.accept_mimetypes.best_match([NDJSON, CSV]) == CSV:
        return Response(begun(export.export_csv(database(), after=after)), content_type=f"{CSV}; charset=utf-8")
    return Response(begun(export.export_events(database(), after=after)), content_type=NDJSON)
