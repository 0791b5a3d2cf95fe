# SPDX-License-Identifier: Apache-2.0
"""How does another key take over the signing? The old one signs the new one, the new one signs the old one, for all
to see; then the database is bound to the new one.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from registry.domain.actors import SYSTEM
from registry.domain.checkpoints import Rotation
from registry.domain.events import Draft, EventType
from registry.domain.times import rfc3339
from registry.services import keys
from registry.services.checkpoints import SUBJECTS, load_signer, refuse_other_key
from registry.services.keys import KeySettings
from registry.services.signing import Signer
from registry.store import checkpoints as store
from registry.store import fingerprints
from registry.store.database import Database


def rotate(db: Database, settings: KeySettings, new: bytes, *, now: datetime) -> Rotation:
    """Hand the signing over to another private key and record it; from then on the database takes only that one.

    Raises NotReady for an old key that is not the one of this database, ValueError for one that is handed to itself.
    """
    old, mark = load_signer(settings)
    heir = Signer(new)
    if heir.key == old.key:
        raise ValueError("the new key is the old one")
    with db.write(now) as transaction:
        refuse_other_key(transaction, mark)
        sequence, hash_ = store.find_head(transaction)
        draft = Rotation(sequence, hash_, rfc3339(now), old.key, heir.key)
        text = draft.text()
        rotation = replace(draft, old_signature=old.sign(text), new_signature=heir.sign(text))
        transaction.record(Draft(EventType.KEY_ROTATED, SYSTEM, SUBJECTS, rotation.to_json()))
        fingerprints.replace_fingerprint(transaction, keys.SIGNING, keys.fingerprint_of(keys.SIGNING, new))
    return rotation


def rotate_kept(db: Database, settings: KeySettings, *, now: datetime) -> Rotation:
    """Make a new key in the data folder, hand over to it, and put it in the place of the old one.

    The old one stays beside it under another name: a backup from before needs it. Broken off anywhere, `finish` puts
    it right. Raises NotReady.
    """
    waiting = waiting_file(settings)
    waiting.unlink(missing_ok=True)
    keys.make_key(waiting)
    rotation = rotate(db, settings, keys.read_key(waiting), now=now)
    _put_in_place(settings)
    return rotation


def finish(db: Database, settings: KeySettings) -> bool:
    """Put a new key in its place that the database is bound to already; says whether there was one."""
    waiting = waiting_file(settings)
    if not waiting.exists():
        return False
    mark = keys.fingerprint_of(keys.SIGNING, keys.read_key(waiting))
    with db.read() as snapshot:
        is_bound = fingerprints.list_fingerprints(snapshot).get(keys.SIGNING) == mark
    if is_bound:
        _put_in_place(settings)
    return is_bound


def waiting_file(settings: KeySettings) -> Path:
    """Name the file of a key that is to take over."""
    return settings.data_dir / f"{keys.FILES[keys.SIGNING]}.next"


def _put_in_place(settings: KeySettings) -> None:
    place = settings.data_dir / keys.FILES[keys.SIGNING]
    aside = place.with_name(f"{place.name}.{Signer(keys.read_key(place)).key[:16]}")
    if not aside.exists():
        aside.hardlink_to(place)
    os.replace(waiting_file(settings), place)  # noqa: PTH105 - the rename that replaces
    keys.sync_folder(settings.data_dir)
