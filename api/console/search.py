# SPDX-License-Identifier: Apache-2.0
"""Where is what somebody copied from a log, a label or a ticket? One box, one text; a single hit is gone to at once."""

from __future__ import annotations

from http import HTTPStatus

from flask import Blueprint, redirect, request
from flask.typing import ResponseReturnValue

from api.console.pages import PERSONS, page, render
from api.console.words import segment
from api.context import database
from api.text import ID_LENGTH, why_not_text
from registry.domain.errors import InvalidField
from registry.services.lookup import Found, Kind, look_up

bp = Blueprint("console_search", __name__)


@bp.get("/search")
@page(*PERSONS)
def results() -> ResponseReturnValue:
    """Go to what is called this, or list what may be meant. Raises InvalidField."""
    asked = request.args.get("q", "").strip()
    reason = why_not_text(asked, ID_LENGTH)
    if reason is not None:
        raise InvalidField(f"what to search for {reason}")
    found, more = look_up(database(), asked)
    if len(found) == 1:
        return redirect(address_of(found[0]), HTTPStatus.SEE_OTHER)
    listed = [{"kind": one.kind, "name": one.name, "said": one.said, "href": address_of(one)} for one in found]
    return render("search.html", asked=asked, found=listed, more=more)


def address_of(found: Found) -> str:
    """Return the page of what was found."""
    ref = segment(found.ref)
    match found.kind:
        case Kind.DEVICE:
            return f"/console/devices/{ref}"
        case Kind.TICKET:
            return f"/console/queue?ticket={ref}"
        case Kind.HOLD:
            return f"/console/audit?quarantine={ref}"
        case Kind.NODE | Kind.INSTANCE:
            return f"/console/nodes/{ref}"
