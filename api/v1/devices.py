# SPDX-License-Identifier: Apache-2.0
"""Which device is this, where has it been, and what happened to it?"""

from __future__ import annotations

from flask import Blueprint, Response

from api.answers import answer
from api.auth import READERS, require
from api.context import database, now
from api.contract import says
from api.pagination import Words, listing, page_answer, query
from api.schemas.shown import DEVICE_STATES, page
from api.schemas.shown import ref as named
from api.v1 import pasts
from registry.domain.reports import Kind
from registry.services import devices, history

bp = Blueprint("devices", __name__)

FILTERS = frozenset(
    {
        *("id", "kind", "vendor", "serial", "uuid", "board", "slot", "node", "state", "registered_at"),
        *("model", "part_number", "module_id", "name", "asset_tag"),
    }
)
PAST = pasts.FILTERS | {"proof"}
WORDS: Words = {"kind": Kind, "state": DEVICE_STATES}
"""The values of the filters that have few."""


@bp.get("/devices")
@says({200: page("Device")}, filters=FILTERS, words=WORDS, pages=True)
@require(*READERS)
def index() -> Response:
    """List the devices, newest first."""
    filters, part = listing(FILTERS, WORDS)
    return page_answer(devices.list_devices(database(), filters, part, now=now()))


# A reference may hold a slash: old slice names do.
@bp.get("/devices/<path:ref>")
@says({200: named("DevicePage")}, problems=("device_ambiguous",))
@require(*READERS)
def show(ref: str) -> Response:
    """Show one device, by our id, its serial or its UUID."""
    query(())
    return answer(devices.show_device(database(), ref, now=now()))


@bp.get("/devices/<path:ref>/history")
@says({200: page("Event")}, filters=PAST, words=pasts.WORDS, pages=True)
@require(*READERS)
def past(ref: str) -> Response:
    """Tell what happened to every device that the reference fits, oldest first. With the sequence of a checkpoint as
    `proof`, each entry has the hashes that prove it to whoever holds that checkpoint.
    """
    filters, part = listing(PAST, pasts.WORDS, newest_first=False)
    return page_answer(history.device_history(database(), ref, filters, part))
