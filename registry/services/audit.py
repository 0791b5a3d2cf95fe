# SPDX-License-Identifier: Apache-2.0
"""Is the history whole, and the one that was signed?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from registry.domain.checkpoints import Checkpoint, KeyChain, Rotation, Statement, UnknownKey, parse_statement
from registry.domain.errors import FieldError, InvalidField
from registry.services import checkpoints
from registry.services.keys import KeySettings
from registry.services.signing import is_signed
from registry.store import checkpoints as store
from registry.store.database import Database
from registry.store.migrations import NotReady
from registry.store.verifying import Evidence, verify_chain


@dataclass(frozen=True, slots=True)
class Held:
    """What somebody kept outside of the database. `unreadable` counts the lines that hold no statement."""

    checkpoints: tuple[Checkpoint, ...] = ()
    rotations: tuple[Rotation, ...] = ()
    unreadable: int = 0


def read_held(text: str) -> Held:
    """Read one checkpoint as JSON, or a file with one statement a line.

    Raises InvalidField when no checkpoint is in it.
    """
    try:
        found: list[Statement] = [parse_statement(json.loads(text))]
        unreadable = 0
    except ValueError:
        found, unreadable = _read_lines(text.splitlines())
    signed = tuple(one for one in found if isinstance(one, Checkpoint))
    if not signed:
        raise InvalidField("there is no checkpoint in the file")
    return Held(signed, tuple(one for one in found if isinstance(one, Rotation)), unreadable)


def own_key(settings: KeySettings) -> str | None:
    """Return the public half of the key that signs here; None where there is none."""
    try:
        return checkpoints.load_signer(settings)[0].key
    except NotReady:
        return None


def verify(
    db: Database,
    *,
    held: Held = Held(),
    key: str | None = None,
    after: int = 0,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Recompute the history in one snapshot, with flat memory; `progress` is told how many entries are done.

    It is held against the checkpoints in it, and against those `held`, whose signatures must be of the public `key` or
    of one that it vouches for. Without a key, checkpoints in the history are not looked at. `after` and `limit` look at
    a part only. Returns `ok`, `entries`, `head_sequence`, `head_hash`, `bad` and `reason` of the first fault or null,
    how many `checkpoints` agreed, and `next`, the entry to go on after or null.

    Raises InvalidField for a held checkpoint whose signature cannot be believed, and for an `after` that is
    beyond the head.
    """
    with db.read() as snapshot:
        if after > (head := snapshot.sequence()):
            detail = f"the history has {head} entries"
            raise InvalidField(f"after: {detail}", errors=(FieldError("/after", detail),))
        chain = _chain(key, (*held.rotations, *store.list_rotations(snapshot)))
        for one in held.checkpoints:
            _check_held(chain, one)
        evidence = Evidence(held.checkpoints, chain.check if chain else None)
        return verify_chain(snapshot, evidence=evidence, after=after, limit=limit, progress=progress).to_json()


def _chain(key: str | None, rotations: Iterable[Rotation]) -> KeyChain | None:
    if key is None:
        return None
    try:
        return KeyChain(key, rotations, is_signed)
    except UnknownKey as error:
        raise InvalidField(f"the keys cannot be told apart: {error}") from error


def _check_held(chain: KeyChain | None, signed: Checkpoint) -> None:
    if chain is None:
        raise InvalidField("there is no key to check the signature of the checkpoint with")
    try:
        chain.check(signed)
    except UnknownKey as error:
        raise InvalidField(str(error)) from error


def _read_lines(lines: Sequence[str]) -> tuple[list[Statement], int]:
    found, unreadable = [], 0
    for line in lines:
        try:
            found.append(parse_statement(json.loads(line)))
        except ValueError:
            unreadable += bool(line.strip())
    return found, unreadable
