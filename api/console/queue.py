# SPDX-License-Identifier: Apache-2.0
"""What is kept out, and whose move is it? The list that people work through, one by one or many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from api.console import forms
from api.console.pages import PERSONS, Done, action, page, render
from api.context import actor, caller, database, now, policy
from api.pagination import Words, cursor_of, listing
from api.text import ID_LENGTH, why_not_text
from registry.domain.errors import InvalidField, NotFound
from registry.domain.failures import Cause
from registry.domain.hold_review import Review
from registry.domain.roles import Role
from registry.services import queue_view, reviewing
from registry.services.pages import Page
from registry.services.queue_view import HELD, WITHHELD, Filters, QueueItem
from registry.services.reviewing import DONE, ItemResult

bp = Blueprint("console_queue", __name__)

FILTERS = frozenset({"cause", "owner", "node", "model", "ticket", "what", "overdue"})
WORDS: Words = {"what": (HELD, WITHHELD), "overdue": ("true", "false")}
"""The values of the filters that have few."""

LINES = 50
"""Most lines on one page: as many as can be ticked and still fit into an address, which the server cuts at 4 KiB."""

QUEUE = "/console/queue"
RELEASE, REVIEW, HOLD = "release", "review", "hold"
"""What can be done with what was ticked."""


@bp.get("/queue")
@page(*PERSONS)
def index() -> ResponseReturnValue:
    """List what is held or withheld, the oldest first. Raises InvalidField."""
    asked, part = listing(FILTERS, WORDS, newest_first=False, limit=LINES)
    part = replace(part, limit=min(part.limit, LINES))
    filters = Filters(
        **{name: asked[name] for name in FILTERS - {"overdue"} if name in asked},
        is_overdue=asked.get("overdue") == "true",
    )
    found = queue_view.list_queue(database(), filters, part, policy=policy(), now=now())
    return render(
        "queue.html",
        items=found.items,
        next=cursor_of(Page([], found.next)),
        counts=queue_view.count_queue(database(), now=now()),
        filters=asked,
        newest_first=part.newest_first,
        causes=[str(one) for one in Cause],
    )


@bp.get("/queue/selected")
@page(Role.OPERATOR)
def selected() -> ResponseReturnValue:
    """Show what was ticked, and ask what to do with it. Raises InvalidField, NotFound."""
    items = _chosen()
    do = request.values.get("do", RELEASE)
    if do not in {RELEASE, REVIEW, HOLD}:
        raise forms.refuse("do", f"must be {RELEASE}, {REVIEW} or {HOLD}")
    return render("queue_selected.html", items=items, gone=len(_ticked()) - len(items), sure=_sure_of(items), do=do)


@bp.post("/queue/release")
@action(Role.OPERATOR, on=selected)
def release() -> Done | ResponseReturnValue:
    """Let go of all that was ticked, and tell item by item what came of it."""
    items = _chosen()
    forms.retyped(_sure_of(items)[1])
    ids = [one.id for one in items]
    results = reviewing.release_many(
        database(), ids, reason=forms.prose(), actor=actor(), role=caller().role, now=now()
    )
    return _told(items, results, "released")


@bp.post("/queue/review")
@action(Role.OPERATOR, on=selected)
def review() -> Done | ResponseReturnValue:
    """Give all that was ticked a new date of review, a ticket, or both."""
    items = _chosen()
    told = Review(forms.prose(), forms.moment("review_at"), forms.optional("ticket"))
    results = reviewing.review_many(database(), [one.id for one in items], told, actor=actor(), now=now())
    return _told(items, results, "reviewed")


@bp.post("/queue/hold")
@action(Role.OPERATOR, on=selected)
def hold() -> Done | ResponseReturnValue:
    """Open a hold of one's own in place of each that the breaker withheld."""
    items = _chosen()
    ids, reason, ticket = [one.id for one in items], forms.prose(), forms.optional("ticket")
    results = reviewing.hold_many(database(), ids, reason=reason, ticket=ticket, actor=actor(), now=now())
    return _told(items, results, "held")


def _chosen() -> tuple[QueueItem, ...]:
    """Return what was ticked and still waits. Raises InvalidField, and NotFound when none of it does."""
    ids = _ticked()
    if not ids:
        raise InvalidField("nothing was ticked: tick at least one line of the queue")
    if len(ids) > forms.FIELDS_MAX or any(why_not_text(one, ID_LENGTH) for one in ids):
        raise forms.refuse("id", "is not what the queue sends: tick the lines anew")
    items = queue_view.get_items(database(), ids, policy=policy(), now=now())
    if not items:
        raise NotFound("Nothing of what was ticked is held any more: somebody released it meanwhile.")
    return items


def _ticked() -> tuple[str, ...]:
    return tuple(dict.fromkeys(request.values.getlist("id")))


def _sure_of(items: Sequence[QueueItem]) -> tuple[str, str]:
    """Say what has to be typed again before a release, and what it is: the name of one thing, the number of several."""
    return ("name", items[0].named) if len(items) == 1 else ("number of lines", str(len(items)))


def _told(items: Sequence[QueueItem], results: Sequence[ItemResult], done: str) -> Done | ResponseReturnValue:
    if len(results) == 1 and results[0].outcome == DONE:
        return Done(f"{items[0].named} was {done}.", QUEUE)
    names = {one.id: one.named for one in items}
    return render("queue_results.html", results=results, names=names, done=done)
