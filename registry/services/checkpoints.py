# SPDX-License-Identifier: Apache-2.0
"""When is the head of the history signed, with which key, and what stands in the way?

Nothing here is on the way of a write: subtrees are completed in pieces of their own, and the transaction that signs
reads a few hundred hashes.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from registry.domain.actors import SYSTEM, Subject, SubjectKind
from registry.domain.checkpoints import Checkpoint, is_due
from registry.domain.errors import FieldError, InvalidField, NotFound, StoreUnavailable
from registry.domain.events import Draft, EventType
from registry.domain.merkle import consistency_path
from registry.domain.times import rfc3339
from registry.services import keys
from registry.services.keys import KeySettings
from registry.services.life import SERVICE
from registry.services.signing import Signer
from registry.store import checkpoints as store
from registry.store import fingerprints, subtrees
from registry.store.database import Database, Snapshot, Transaction
from registry.store.migrations import NotReady

log = logging.getLogger(__name__)

SUBJECTS = (Subject(SubjectKind.SERVICE, SERVICE),)


class CheckpointSettings(KeySettings, Protocol):
    """What the settings say about checkpoints."""

    @property
    def checkpoint_events(self) -> int:
        """How many entries may wait for a checkpoint."""

    @property
    def checkpoint_seconds(self) -> int:
        """How long one entry may wait for a checkpoint."""


def show_newest(db: Database, *, since: int | None = None) -> dict[str, Any]:
    """Return the newest checkpoint as a document.

    `since` is the sequence of an older one: `proof` shows then that the history only went on from there. Raises
    NotFound before the first, InvalidField for a `since` that is not covered, StoreUnavailable.
    """
    with db.read() as snapshot:
        try:
            found = store.find_newest(snapshot)
        except ValueError as error:
            raise StoreUnavailable("the newest checkpoint cannot be read: run `pratique audit verify`") from error
        if found is None:
            raise NotFound("No checkpoint has been signed yet.")
        return found.to_json() if since is None else {**found.to_json(), "proof": _prove(snapshot, since, found)}


def _prove(snapshot: Snapshot, since: int, newest: Checkpoint) -> dict[str, Any]:
    if not 0 < since <= newest.sequence:
        detail = f"give the sequence of a checkpoint from 1 to {newest.sequence}"
        raise InvalidField(f"proof: {detail}", errors=(FieldError("/proof", detail),))
    path = consistency_path(since, newest.sequence, subtrees.Tree(snapshot).hash_of)
    return {"size": since, "path": [one.hex() for one in path]}


def sign(db: Database, settings: KeySettings, *, now: datetime) -> Checkpoint:
    """Sign the head now, and record it.

    Raises NotReady for a key that is not the one of this database, and for a history that does not go on from its
    newest checkpoint: that must be looked into, and not be signed.
    """
    signer, mark = load_signer(settings)
    keep_subtrees(db, now=now)
    with db.write(now) as transaction:
        return _sign(transaction, signer, mark)


def sign_if_due(db: Database, settings: CheckpointSettings, *, now: datetime) -> Checkpoint | None:
    """Sign the head if entries have waited long enough; return the checkpoint that was made. Raises as `sign` does.

    Any number of processes may call it.
    """
    with db.read() as snapshot:
        if not _is_due(snapshot, settings, now):
            return None
    signer, mark = load_signer(settings)
    keep_subtrees(db, now=now)
    with db.write(now) as transaction:
        # Again: another process may have signed meanwhile.
        return _sign(transaction, signer, mark) if _is_due(transaction, settings, now) else None


def keep_signed(db: Database, settings: CheckpointSettings, *, now: datetime) -> None:
    """Sign the head if it is time. What stands in the way is logged. Raises StoreUnavailable."""
    try:
        sign_if_due(db, settings, now=now)
    except NotReady as error:
        log.error("no checkpoint is signed: %s", error)  # noqa: TRY400 - a sentence for the operator, no trace


def keep_subtrees(db: Database, *, now: datetime) -> None:
    """Complete the kept subtrees up to the head. The hashing is done outside of the transactions that write."""
    while True:
        with db.read() as snapshot:
            rows = subtrees.next_rows(snapshot)
        if not rows:
            return
        with db.write(now) as transaction:
            subtrees.insert_rows(transaction, rows)


def load_signer(settings: KeySettings) -> tuple[Signer, str]:
    """Return whoever signs, and the fingerprint by which the database knows the key. Raises NotReady without a key."""
    private = keys.load_signing_key(settings)
    return Signer(private), keys.fingerprint_of(keys.SIGNING, private)


def refuse_other_key(snapshot: Snapshot, mark: str) -> None:
    """Refuse a key that the database is not bound to, as after a rotation elsewhere. Raises NotReady."""
    if fingerprints.list_fingerprints(snapshot).get(keys.SIGNING, mark) != mark:
        raise NotReady(["The signing key was handed over to another: give this server the new one, and start it anew."])


def _sign(transaction: Transaction, signer: Signer, mark: str) -> Checkpoint:
    refuse_other_key(transaction, mark)
    tree = subtrees.Tree(transaction)
    sequence, hash_ = store.find_head(transaction)
    try:
        _refuse_fork(transaction, tree)
        root = tree.root(sequence).hex()
    except (LookupError, ValueError) as error:
        raise NotReady([f"The history cannot be signed: {error}. Run `pratique audit verify`."]) from error
    draft = Checkpoint(sequence, hash_, root, rfc3339(transaction.now), signer.key)
    signed = replace(draft, signature=signer.sign(draft.text()))
    transaction.record(Draft(EventType.CHECKPOINT_SIGNED, SYSTEM, SUBJECTS, signed.to_json()))
    return signed


def _refuse_fork(snapshot: Snapshot, tree: subtrees.Tree) -> None:
    """Refuse a history that is not the one that was signed last. Raises LookupError, ValueError."""
    newest = store.find_newest(snapshot)
    if newest is None:
        return
    is_same = newest.sequence == 0 or store.find_hash(snapshot, newest.sequence) == newest.hash
    if not is_same or tree.root(newest.sequence).hex() != newest.root:
        raise ValueError(f"it does not go on from the checkpoint of entry {newest.sequence}")


def _is_due(snapshot: Snapshot, settings: CheckpointSettings, now: datetime) -> bool:
    try:
        waiting = store.count_uncovered(snapshot, store.find_newest(snapshot))
    except ValueError as error:
        raise NotReady([f"The newest checkpoint cannot be read: {error}. Run `pratique audit verify`."]) from error
    return is_due(
        waiting.count,
        waiting.oldest_at,
        now,
        events=settings.checkpoint_events,
        seconds=settings.checkpoint_seconds,
    )
