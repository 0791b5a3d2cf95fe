# SPDX-License-Identifier: Apache-2.0
"""Which devices are there, how does it stand with each, and what is it held for? A list narrowed in its address."""

from __future__ import annotations

from flask import Blueprint, Response

from api.console.pages import PERSONS, page, render
from api.context import database, now
from api.pagination import Words, cursor_of, listing
from api.schemas.shown import DEVICE_STATES
from registry.domain.reports import Kind
from registry.services.device_view import list_view

bp = Blueprint("console_devices", __name__)

FILTERS = frozenset({"state", "model", "node", "cause", "kind", "slot", "serial", "uuid", "board"})
WORDS: Words = {"state": DEVICE_STATES, "kind": Kind}
"""The values of the filters that have few."""
LINES = 50
"""Devices on one page, unless the address asks for more or fewer."""


@bp.get("/devices")
@page(*PERSONS)
def index() -> Response:
    """List the devices, newest first. Raises InvalidField."""
    filters, part = listing(FILTERS, WORDS, limit=LINES)
    found, models = list_view(database(), filters, part, now=now())
    return render(
        "devices.html",
        devices=found.items,
        next=cursor_of(found),
        filters=filters,
        states=DEVICE_STATES,
        kinds=[str(kind) for kind in Kind],
        models=models,
    )
