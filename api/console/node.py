# SPDX-License-Identifier: Apache-2.0
"""How does it stand with one node, why, and what can be done about it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from flask import Blueprint, Response

from api.console.forms import choice, field, flag, later, optional, prose, refuse, retyped
from api.console.holding import keep_out, let_go
from api.console.pages import PERSONS, Done, action, page, render
from api.console.words import clock, segment, tell
from api.context import actor, caller, database, now, policy
from api.pagination import Words, cursor_of, listing
from api.schemas.quarantines import REF_LENGTH
from registry.domain.events import EventType
from registry.domain.failures import Cause
from registry.domain.profiles import COUNT_MAX
from registry.domain.quarantine import TargetKind
from registry.domain.reports import Kind
from registry.domain.roles import Role
from registry.domain.times import rfc3339
from registry.services import history, nodes, quarantine
from registry.services.node_view import TENANTS_MAX, view_node
from registry.services.quarantine import OpenQuarantines

bp = Blueprint("console_node", __name__)

PAST_FILTERS = frozenset({"sequence", "type", "actor", "since", "until"})
PAST_WORDS: Words = {"type": EventType}
EVENTS = 50
"""Events on one page of a node's history, unless the address asks for more or fewer."""

SPANS = (("1", "1 hour"), ("4", "4 hours"), ("24", "1 day"), ("168", "7 days"))
"""How long something shall last, in hours, for whoever has no time to look at a calendar."""

CAUSES = tuple(str(cause) for cause in Cause)

NEXT = " Next: "
"""Where the sentence of a reason goes on with what to do."""

_TOLD = (
    *(
        "serial",
        "slot",
        "code",
        "severity",
        "check",
        "from",
        "to",
        "have",
        "need",
        "why",
        "detail",
        "reason",
        "message",
    ),
    *("until", "from_node", "from_slot", "provider_id", "boot_id", "action", "condition", "outcome"),
)
"""What of an event is said in its line; all of it stands below."""


@bp.get("/nodes/<node>")
@page(*PERSONS)
def show(node: str) -> Response:
    """Show one node. Raises NotFound."""
    view = view_node(database(), node, policy=policy(), now=now())
    return render(
        "node.html",
        view=view,
        node=view.node,
        name=node,
        tenants=[one for one in view.tenants if one.is_hardware],
        adapters=[one for one in view.tenants if not one.is_hardware],
        reasons=list(_reasons(view.node["admission"]["reasons"])),
        holds=[{**one, "mark": _mark_of(one, node)} for one in view.holds],
        failing_first=sorted(view.node["checks"], key=lambda one: (one["status"] in _CLEAN, one["name"])),
        spans=SPANS,
        tenants_max=TENANTS_MAX,
        causes=[("", "not said"), *CAUSES],
        kinds=[str(kind) for kind in Kind],
        may_act=caller().role in {Role.OPERATOR, Role.ADMIN},
    )


_CLEAN = frozenset({"pass", "not_applicable"})


def _reasons(told: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Tell what is wrong apart from what to do next."""
    for one in told:
        wrong, _, next_step = str(one["message"]).partition(NEXT)
        again = one.get("retry_at")
        # A time that is over says no more than that anybody may ask now.
        later = again if again and again > rfc3339(now()) else None
        yield {"quarantine": None, "device": None, **one, "retry_at": later, "wrong": wrong, "next": next_step}


@bp.get("/nodes/<node>/history")
@page(*PERSONS)
def past(node: str) -> Response:
    """Tell what happened on a node, newest first. Raises NotFound, InvalidField."""
    filters, part = listing(PAST_FILTERS, PAST_WORDS, limit=EVENTS)
    found = history.node_history(database(), node, filters, part)
    return render(
        "node_history.html",
        name=node,
        events=[{**one, "told": _told(one["data"])} for one in found.items],
        next=cursor_of(found),
        types=[("", "all"), *((str(type_), str(type_)) for type_ in EventType)],
        filters=filters,
    )


def _told(data: Mapping[str, Any]) -> str:
    """Say an event in one line; its device, where it has one, is shown beside it."""
    names = _TOLD if isinstance(data.get("device"), str) else ("serial", *_TOLD)
    return tell(data, names)


# --- the ways out -----------------------------------------------------------------------------------------------------


@bp.post("/nodes/<node>/maintenance")
@action(Role.OPERATOR, on=show)
def maintain(node: str) -> Done:
    """Keep the node out of work until a time."""
    until, reason = _until(), prose()
    _set_maintenance(node, until, reason)
    return Done(f"{node} is in maintenance until {clock(until)}.", _address(node))


@bp.post("/nodes/<node>/maintenance/end")
@action(Role.OPERATOR, on=show)
def end_maintenance(node: str) -> Done:
    """Let the node out of maintenance."""
    _set_maintenance(node, now(), prose())
    return Done(f"The maintenance of {node} has ended.", _address(node))


def _set_maintenance(node: str, until: datetime, reason: str) -> None:
    nodes.set_maintenance(database(), node, until=until, reason=reason, actor=actor(), policy=policy(), now=now())


@bp.post("/nodes/<node>/waiver")
@action(Role.OPERATOR, on=show)
def waive(node: str) -> Done:
    """Let fewer devices be enough until a time."""
    kind, count, until, reason = choice("kind", tuple(Kind)), _count(), _until(), prose()
    nodes.grant_waiver(database(), node, kind=kind, count=count, until=until, reason=reason, actor=actor(), now=now())
    return Done(f"{count} {kind.upper()} devices are enough on {node} until {clock(until)}.", _address(node))


@bp.post("/nodes/<node>/waiver/end")
@action(Role.OPERATOR, on=show)
def end_waiver(node: str) -> Done:
    """Expect of the node what its profile says."""
    kind, reason = choice("kind", tuple(Kind)), prose()
    nodes.grant_waiver(database(), node, kind=kind, count=0, until=now(), reason=reason, actor=actor(), now=now())
    return Done(f"The waiver for {kind.upper()} devices on {node} has ended.", _address(node))


@bp.post("/nodes/<node>/retire")
@action(Role.OPERATOR, on=show)
def retire(node: str) -> Done:
    """Say that the node will not come back."""
    reason = prose()
    retyped(node)
    nodes.retire_node(database(), node, reason=reason, actor=actor(), policy=policy(), now=now())
    return Done(f"{node} is retired. A later report would bring it back.", _address(node))


@bp.post("/nodes/<node>/hold")
@action(Role.OPERATOR, on=show)
def hold(node: str) -> Done:
    """Keep the machine out, whatever name it comes back under."""
    reason = prose()
    cause = choice("cause", CAUSES) if optional("cause") else None
    command = OpenQuarantines(
        targets=({"node": node},),
        reason=reason,
        cause=cause,
        ticket=optional("ticket", most=REF_LENGTH),
        review_at=later("review_at"),
        drain=flag("drain"),
    )
    retyped(node)
    return Done(keep_out(command, kind="machine", name=node, about="node"), _address(node))


@bp.post("/nodes/<node>/holds/<quarantine_id>/release")
@action(Role.OPERATOR, on=lambda node, quarantine_id: show(node))  # noqa: ARG005 - the page is the node's
def release(node: str, quarantine_id: str) -> Done:
    """End a hold that meets this node."""
    found = quarantine.show_quarantine(database(), quarantine_id, now=now())
    reason = prose()
    retyped(_mark_of(found, node))
    let_go(quarantine_id, reason)
    return Done(f"The hold on {_mark_of(found, node)} is released. New passes are needed.", _address(node))


def _mark_of(shown: Mapping[str, Any], node: str) -> str:
    """What is typed again to release a hold: the node's name, or a serial or UUID of what it holds."""
    if shown["target_kind"] == TargetKind.NODE:
        return node
    by_type = {one["type"]: str(one["value"]) for one in reversed(shown["identifiers"])}
    return by_type.get("serial") or by_type.get("uuid") or str(shown["id"])


def _until() -> datetime:
    """Read until when: a moment that was typed in, or so many hours from now. Raises InvalidField."""
    given = later("until")
    if given is not None:
        return given
    return now() + timedelta(hours=int(choice("hours", tuple(hours for hours, _ in SPANS))))


def _count() -> int:
    given = field("count")
    if not (given.isascii() and given.isdigit() and len(given) < 5 and int(given) <= COUNT_MAX):
        raise refuse("count", f"must be a whole number from 0 to {COUNT_MAX}")
    return int(given)


def _address(node: str) -> str:
    return f"/console/nodes/{segment(node)}"
