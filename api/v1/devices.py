# SPDX-License-Identifier: Apache-2.0
"""Which device is this, where has it been, and what happened to it?"""

from __future__ import annotations

from flask import Blueprint, Response

from api.answers import answer
from api.auth import READERS, require
from api.context import database, now
from api.pagination import listing, page_answer, query
from registry.services import devices, history

bp = Blueprint("devices", __name__)

FILTERS = frozenset(
    {
        *("id", "kind", "vendor", "serial", "uuid", "slot", "node", "state"),
        *("model", "part_number", "module_id", "name", "asset_tag"),
    }
)


@bp.get("/devices")
@require(*READERS)
def index() -> Response:
    """List the devices, newest first."""
    filters, page = listing(FILTERS)
    return page_answer(devices.list_devices(database(), filters, page, now=now()))


# A reference may hold a slash: old slice names do.
@bp.get("/devices/<path:ref>")
@require(*READERS)
def show(ref: str) -> Response:
    """Show one device, by our id, its serial or its UUID."""
    query(())
    return answer(devices.show_device(database(), ref, now=now()))


@bp.get("/devices/<path:ref>/history")
@require(*READERS)
def past(ref: str) -> Response:
    """Tell what happened to every device that the reference fits, oldest first."""
    _, page = listing((), newest_first=False)
    return page_answer(history.device_history(database(), ref, page, now=now()))
