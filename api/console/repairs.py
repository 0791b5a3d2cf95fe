# SPDX-License-Identifier: Apache-2.0
"""What should be repaired, what does it wait for, and who stopped it? With forms to claim it and to say how it went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Blueprint
from flask.typing import ResponseReturnValue

from api.console import forms
from api.console.pages import PERSONS, Done, action, page, render
from api.context import actor, database, now, policy
from api.pagination import Words, cursor_of, listing
from api.schemas.repairs import CANCELLED
from registry.domain.repair import Action
from registry.domain.repair_orders import OrderState, Outcome
from registry.domain.roles import Role
from registry.services import repairs
from registry.services.pages import PageRequest

bp = Blueprint("console_repairs", __name__)

FILTERS = frozenset({"state", "action", "node", "device", "condition", "waits_for"})
WORDS: Words = {"state": OrderState, "action": Action}
"""The values of the filters that have few."""

LINES = 50
"""Orders on one page, or of one state; unless the address asks for more or fewer."""

OPEN = (OrderState.CLAIMED, OrderState.READY, OrderState.PLANNED)
"""What is not over: first what somebody has in hand."""

REPAIRS = "/console/repairs"
GIVEN_AWAY = frozenset(str(one) for one in Action if one.opens_quarantine)
"""What gives hardware away: a claim of it puts that into quarantine."""


@bp.get("/repairs")
@page(*PERSONS)
def index() -> ResponseReturnValue:
    """Show the budget and what is open by state; with a filter, the orders that it leaves. Raises InvalidField."""
    asked, part = listing(FILTERS, WORDS, limit=LINES)
    budget = repairs.show_budget(database(), policy=policy(), now=now())
    values: dict[str, Any] = {"budget": budget, "filters": asked, "states": [str(one) for one in OrderState]}
    if asked or part.after:
        found = repairs.list_repairs(database(), asked, part)
        return render("repairs.html", groups=[("narrowed", found.items, False)], next=cursor_of(found), **values)
    return render("repairs.html", groups=[_group(state) for state in OPEN], next=None, **values)


def _group(state: OrderState) -> tuple[str, list[dict[str, Any]], bool]:
    """The orders of one state that were planned first, and whether there are more."""
    found = repairs.list_repairs(database(), {"state": str(state)}, PageRequest(LINES, None, newest_first=False))
    return str(state), found.items, found.next is not None


@bp.get("/repairs/<repair>")
@page(*PERSONS)
def show(repair: str) -> ResponseReturnValue:
    """Show one order, with what may be said of it. Raises NotFound."""
    order = repairs.show_repair(database(), repair)
    return render(
        "repair.html",
        order=order,
        is_mine=order["claimed_by"] == str(actor()),
        sure=_sure_of(order) if order["action"] in GIVEN_AWAY else None,
        outcomes=[str(one) for one in CANCELLED],
    )


@bp.post("/repairs/<repair>/claim")
@action(Role.OPERATOR, on=show)
def claim(repair: str) -> Done:
    """Take an order up, or renew its lease. What gives hardware away asks for its name."""
    order = repairs.show_repair(database(), repair)
    token = order["token"] if order["state"] == OrderState.CLAIMED else None
    if order["action"] in GIVEN_AWAY and token is None:
        forms.retyped(_sure_of(order)[1])
    told = repairs.claim_repair(database(), repair, token=token, actor=actor(), policy=policy(), now=now())
    return Done(f"{_said(told)} is yours until {told['lease_until'][:19]}Z.", f"{REPAIRS}/{repair}")


@bp.post("/repairs/<repair>/complete")
@action(Role.OPERATOR, on=show)
def complete(repair: str) -> Done:
    """Say how the order that one has claimed went."""
    is_done = forms.choice("outcome", ("done", "failed")) == "done"
    token = forms.field("token")
    if not (token.isascii() and token.isdigit() and len(token) < 10):
        raise forms.refuse("token", "is not what the page sent: load the page again")
    reason = forms.optional("reason", most=4096, is_prose=True)
    if not is_done and reason is None:
        raise forms.refuse("reason", "is empty: say what stood in the way")
    told = repairs.complete_repair(
        database(), repair, is_done=is_done, reason=reason, token=int(token), actor=actor(), now=now()
    )
    return Done(f"{_said(told)} is {'done' if is_done else 'not possible'}.", REPAIRS)


@bp.post("/repairs/<repair>/cancel")
@action(Role.OPERATOR, on=show)
def cancel(repair: str) -> Done:
    """Say that an order is not to be carried out."""
    outcome = Outcome(forms.choice("outcome", tuple(str(one) for one in CANCELLED)))
    told = repairs.cancel_repair(database(), repair, reason=forms.prose(), outcome=outcome, actor=actor(), now=now())
    return Done(f"{_said(told)} is cancelled.", REPAIRS)


@bp.post("/repairs/stop")
@action(Role.OPERATOR, on=index)
def stop() -> Done:
    """Let no repair begin until somebody says so."""
    repairs.stop_repairs(database(), reason=forms.prose(), actor=actor(), policy=policy(), now=now())
    return Done("Repairs are stopped. What is claimed goes on.", REPAIRS)


@bp.post("/repairs/resume")
@action(Role.OPERATOR, on=index)
def resume() -> Done:
    """Let repairs go on; with a condition, believe its check again."""
    condition = forms.optional("condition")
    repairs.resume_repairs(
        database(), reason=forms.prose(), condition=condition, actor=actor(), policy=policy(), now=now()
    )
    what = f"The check {condition} is believed again" if condition else "Repairs go on"
    return Done(f"{what}: what waited begins as the budget lets it.", REPAIRS)


def _sure_of(order: Mapping[str, Any]) -> tuple[str, str]:
    device = order["device"] or {}
    for name in ("serial", "uuid"):
        if device.get(name):
            return name, str(device[name])
    return "name of the node", str(order["node"])


def _said(order: Mapping[str, Any]) -> str:
    return f"{str(order['action']).replace('_', ' ').capitalize()} on {order['node']}"
