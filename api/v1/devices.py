# SPDX-License-Identifier: Apache-2.0
"""Which device is this, where has it been, and what happened to it?"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from api.answers import answer, change
from api.auth import READERS, require
from api.body import body
from api.context import actor, database, now, policy
from api.contract import says
from api.pagination import Words, listing, page_answer, query
from api.schemas.notes import NOTE
from api.schemas.shown import DEVICE_STATES, page
from api.schemas.shown import ref as named
from api.v1 import pasts
from registry.domain.reports import Kind
from registry.domain.roles import Role
from registry.services import device_bundle, devices, history, notes

bp = Blueprint("devices", __name__)

FILTERS = frozenset(
    {
        *("id", "kind", "vendor", "serial", "uuid", "board", "slot", "node", "state", "registered_at"),
        *("model", "part_number", "module_id", "name", "asset_tag"),
    }
)
ZIP = "application/zip"
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


@bp.get("/devices/<path:ref>/bundle")
@says({200: {ZIP: {"type": "string", "format": "binary"}}}, problems=("device_ambiguous",))
@require(*READERS)
def bundle(ref: str) -> Response:
    """Give all that is known of one device as a zip file, its history proved: what goes with it when it is returned."""
    query(())
    evidence = device_bundle.gather(database(), ref, policy=policy(), now=now())
    answered = Response(device_bundle.stream(database(), evidence), content_type=ZIP)
    answered.headers["Content-Disposition"] = f'attachment; filename="{device_bundle.file_name(evidence)}"'
    return answered


@bp.post("/devices/<path:ref>/notes")
@says({201: named("Note")}, problems=("device_ambiguous",), example={"text": "reseated on the bench"}, is_change=True)
@require(Role.OPERATOR)
@body(NOTE)
def note(data: dict[str, Any], ref: str) -> Response:
    """Write a note about one device. It stays in its history."""
    query(())
    return change(lambda: (201, notes.note_device(database(), ref, text=data["text"], actor=actor(), now=now())))
