# SPDX-License-Identifier: Apache-2.0
"""What happened, to anything at all? The whole history, in pages or as one stream."""

from __future__ import annotations

from collections.abc import Iterator

from flask import Blueprint, Response

from api.auth import READERS, require
from api.context import database, now
from api.pagination import listing, number, page_answer, query
from registry.services import history

bp = Blueprint("events", __name__)

FILTERS = frozenset({"type", "actor", "device", "node", "since", "until"})
NDJSON = "application/x-ndjson"


@bp.get("/events")
@require(*READERS)
def index() -> Response:
    """List the events, oldest first."""
    filters, page = listing(FILTERS, newest_first=False)
    return page_answer(history.list_events(database(), filters, page, now=now()))


@bp.get("/events/export")
@require(*READERS)
def export() -> Response:
    """Stream the history as NDJSON, one event a line, from after a sequence number on."""
    after = number(query({"after"}), "after", 0)
    return Response(_begun(history.export_events(database(), after=after)), content_type=NDJSON)


def _begun(lines: Iterator[str]) -> Iterator[str]:
    """Read the first line before the status is sent, so that a store that cannot answer is still a 503."""
    first = next(lines, None)

    def stream() -> Iterator[str]:
        # A reader that goes away closes this generator, and through it the snapshot that the lines are read from.
        if first is not None:
            yield first
            yield from lines

    return stream()
