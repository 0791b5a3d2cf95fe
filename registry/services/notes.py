# SPDX-License-Identifier: Apache-2.0
"""What do people say about a device? A note is an event, so that nobody can take it back, and is kept beside it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from registry.domain.actors import Actor
from registry.domain.errors import FieldError, InvalidField
from registry.domain.events import Draft, EventType
from registry.domain.times import rfc3339
from registry.services.subjects import of_devices, told_in_place
from registry.services.targets import get_unit
from registry.store import device_past
from registry.store.database import Database
from registry.store.device_past import Note
from registry.store.placements import open_of


def note_device(db: Database, ref: str, *, text: str, actor: Actor, now: datetime) -> dict[str, Any]:
    """Keep what a person writes about a device. Raises NotFound, DeviceAmbiguous, InvalidField for an empty text."""
    if not text.strip():
        detail = "A note needs a text."
        raise InvalidField(detail, errors=(FieldError("/text", detail),))
    with db.write(now) as tx:
        device = get_unit(tx, ref)
        note = device_past.insert_note(tx, device.id, text.strip(), by=str(actor))
        place = open_of(tx, [device.id]).get(device.id)
        data = {**told_in_place(device, place), "note": note.id, "text": note.text}
        subjects = of_devices([device], nodes=[place.node if place else None])
        tx.record(Draft(EventType.DEVICE_NOTED, actor, subjects, data))
        return shown(note)


def shown(note: Note) -> dict[str, Any]:
    """Give a note as the API answers it."""
    return {
        "id": note.id,
        "device": note.device_id,
        "text": note.text,
        "noted_by": note.noted_by,
        "noted_at": rfc3339(note.noted_at),
    }
