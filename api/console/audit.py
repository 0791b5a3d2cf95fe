# SPDX-License-Identifier: Apache-2.0
"""Who did what and when, is the history whole, and how is it taken away with its proof?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from flask import Blueprint, Response
from flask.typing import ResponseReturnValue

from api.answers import CSV, NDJSON, answer, begun
from api.console.pages import PERSONS, page, render
from api.context import database, now, standing
from api.pagination import Words, cursor_of, listing, number, query
from registry.domain.events import EventType
from registry.domain.times import brief, rfc3339
from registry.services import audit, audit_view, checkpoints, export

bp = Blueprint("console_audit", __name__)

FILTERS = frozenset({"actor", "device", "node", "quarantine", "type", "since", "until", "sequence"})
WORDS: Words = {"type": EventType}
"""The values of the filters that have few."""

LINES = 50
"""Events on one page, unless the address asks for more or fewer."""

VERIFY = "/console/audit/verify"


@bp.get("/audit")
@page(*PERSONS)
def index() -> ResponseReturnValue:
    """Search the history, newest first, and say how far it is signed. Raises InvalidField, NotFound."""
    asked, part = listing(FILTERS, WORDS, limit=LINES)
    found = audit_view.search_events(database(), {**asked, **_times(asked)}, part)
    return render(
        "audit.html",
        events=found.items,
        next=cursor_of(found),
        filters=asked,
        signed=audit_view.read_signed(database(), key=audit.own_key(standing().settings), now=now()),
        types=[(str(one), str(one)) for one in EventType],
    )


def _times(asked: Mapping[str, str]) -> dict[str, str]:
    """Write the times that a browser's own field gives, which name no zone, as UTC. What is none is left to refuse."""
    found: dict[str, str] = {}
    for name in ("since", "until"):
        try:
            read = datetime.fromisoformat(asked.get(name, ""))
        except ValueError:
            continue
        found[name] = rfc3339(read.replace(tzinfo=UTC) if read.tzinfo is None else read)
    return found


@bp.get("/audit/verify")
@page(*PERSONS)
def verify() -> ResponseReturnValue:
    """Verify the next piece of the history and go on with the one after it by itself, until it is over.

    Each piece is one request of some 0.3 s, so that nobody else waits for it. How far it has got stands in the address:
    without scripts the browser goes on by the header `Refresh`.
    """
    asked = query({"began", "after", "vouched"})
    after = number(asked, "after", 0)
    found = audit_view.verify_on(
        database(),
        key=audit.own_key(standing().settings),
        began=number(asked, "began", after, most=after),
        after=after,
        vouched=number(asked, "vouched", 0),
    )
    onward = f"{VERIFY}?began={found.began}&after={found.next}&vouched={found.vouched}" if found.next else None
    response = render("audit_verify.html", found=found, onward=onward)
    if onward is not None:
        # https://html.spec.whatwg.org/multipage/document-lifecycle.html#the-refresh-header
        response.headers["Refresh"] = f"0; url={onward}"
    return response


@bp.get("/audit/export.ndjson")
@page(*PERSONS)
def export_lines() -> Response:
    """Give the whole history as lines, or what comes after an entry."""
    after = number(query({"after"}), "after", 0)
    return _file(Response(begun(export.export_events(database(), after=after)), content_type=NDJSON), "ndjson")


@bp.get("/audit/export.csv")
@page(*PERSONS)
def export_table() -> Response:
    """Give the whole history as a table, or what comes after an entry."""
    after = number(query({"after"}), "after", 0)
    content_type = f"{CSV}; charset=utf-8"
    return _file(Response(begun(export.export_csv(database(), after=after)), content_type=content_type), "csv")


@bp.get("/audit/checkpoint.json")
@page(*PERSONS)
def checkpoint() -> Response:
    """Give the newest signed checkpoint, to be kept elsewhere. Raises NotFound before the first."""
    query(())
    response = answer(checkpoints.show_newest(database()))
    response.headers["Content-Disposition"] = 'attachment; filename="checkpoint.json"'
    return response


def _file(response: Response, ending: str) -> Response:
    """Have the browser keep it under the time of its making."""
    name = f"history-{brief(now()).replace(':', '')}.{ending}"
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
