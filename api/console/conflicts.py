# SPDX-License-Identifier: Apache-2.0
"""Where does what was printed contradict what is on record, and how is that resolved?"""

from __future__ import annotations

from flask import Blueprint
from flask.typing import ResponseReturnValue

from api.console import forms
from api.console.pages import PERSONS, Done, action, page, render
from api.context import actor, database, now
from api.pagination import Words, cursor_of, listing
from registry.domain.conflict_sides import DIFFERENT, SAME
from registry.domain.known import ConflictRule
from registry.domain.roles import Role
from registry.services import conflict_view, conflicts
from registry.services.conflict_view import ConflictCard
from registry.services.pages import Page

bp = Blueprint("console_conflicts", __name__)

FILTERS = frozenset({"state", "node", "device", "rule"})
WORDS: Words = {"state": ("open", "resolved", "all"), "rule": ConflictRule}
"""The values of the filters that have few."""

CARDS = 20
"""Conflicts on one page, unless the address asks for more or fewer."""

CONFLICTS = "/console/conflicts"


@bp.get("/conflicts")
@page(*PERSONS)
def index() -> ResponseReturnValue:
    """List the conflicts side by side with the records, newest first; the open ones unless others are asked for."""
    asked, part = listing(FILTERS, WORDS, limit=CARDS)
    state = asked.get("state", "open")
    filters = {name: text for name, text in asked.items() if name != "state"}
    filters |= {"state": state} if state != "all" else {}
    found = conflict_view.list_cards(database(), filters, part, now=now())
    return render(
        "conflicts.html",
        cards=found.cards,
        next=cursor_of(Page([], found.next)),
        filters=asked,
        state=state,
        rules=[str(one) for one in ConflictRule],
    )


@bp.get("/conflicts/<conflict>")
@page(*PERSONS)
def show(conflict: str) -> ResponseReturnValue:
    """Show one conflict, with the form that rules on it. Raises NotFound."""
    card = conflict_view.get_card(database(), conflict, now=now())
    return render("conflict.html", card=card, sure=_sure_of(card))


@bp.post("/conflicts/<conflict>/resolve")
@action(Role.OPERATOR, on=show)
def resolve(conflict: str) -> Done:
    """Rule that what was printed is the recorded device, or another one."""
    card = conflict_view.get_card(database(), conflict, now=now())
    forms.retyped(_sure_of(card)[1])
    as_ = forms.choice("as", (SAME, DIFFERENT))
    conflicts.resolve_conflict(database(), conflict, reason=forms.prose(), as_=as_, actor=actor(), now=now())
    return Done(f"The conflict on {card.conflict['node']} was resolved as {as_.replace('_', ' ')}.", CONFLICTS)


def _sure_of(card: ConflictCard) -> tuple[str, str]:
    """Say what has to be typed again to rule on a conflict, and what it is: what was printed, else where."""
    entry = card.conflict["entry"]
    for name in ("serial", "uuid", "slot"):
        if entry[name]:
            return name, str(entry[name])
    return "name of the node", str(card.conflict["node"])
