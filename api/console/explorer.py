# SPDX-License-Identifier: Apache-2.0
"""What would you say to these? Nodes, serials and UUIDs are pasted, and each is answered with its reasons."""

from __future__ import annotations

from collections import Counter

from flask import Blueprint, Response

from api.console.forms import choice, field
from api.console.pages import PERSONS, action, page, render
from api.console.spreadsheet import csv_answer
from api.context import database, now, policy
from registry.domain.pasted import ASKED_MAX, parse_pasted
from registry.services.explorer import explore, table_of

bp = Blueprint("console_explorer", __name__)

NAMES_LENGTH = ASKED_MAX * 300
"""Longest list: a thousand lines of a table, each with a name, a serial and a UUID."""


@bp.get("/explorer")
@page(*PERSONS)
def ask() -> Response:
    """Show the box to paste into."""
    return render("explorer.html", found=None, counts={}, most=ASKED_MAX)


@bp.post("/explorer")
@action(*PERSONS, on=ask)
def answer() -> Response:
    """Answer each name, as a page or as a table to take away. Writes nothing. Raises InvalidField."""
    asked = parse_pasted(field("names", most=NAMES_LENGTH, is_prose=True))
    how = choice("as", ("page", "csv"))
    found = explore(database(), asked, policy=policy(), now=now())
    if how == "csv":
        return csv_answer(table_of(found), "admissions.csv")
    counts = Counter("unknown" if one.decision is None else one.verdict for one in found)
    return render("explorer.html", found=found, counts=counts, most=ASKED_MAX)
