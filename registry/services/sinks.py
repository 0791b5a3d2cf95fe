# SPDX-License-Identifier: Apache-2.0
"""How do checkpoints get out of the database? Line by line into a file, one by one to an address, each in order.

The history itself is the queue: a sink that was away gets what it lacks, and nobody waits for it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Protocol

from registry.domain.checkpoints import Statement, parse_statement
from registry.services import sending
from registry.services.keys import sync_folder
from registry.services.sending import NotSent
from registry.store import checkpoints as store
from registry.store.alarms import find_alarm
from registry.store.checkpoints import SinkState
from registry.store.database import Database

log = logging.getLogger(__name__)

AT_ONCE = 1000
"""Statements that a file takes in one round."""

SENT_AT_ONCE = 10
"""Statements that are sent in one round: each may take as long as the time-out."""

CLAIM = timedelta(seconds=SENT_AT_ONCE * sending.TIMEOUT_SECONDS * 2)
"""For how long whoever sends keeps the others from sending the same."""

RETRY_SECONDS_MAX = 3600
TAIL_BYTES = 64 * 1024
"""How much of the end of a file is read: a statement has less than 700 bytes."""


class SinkSettings(Protocol):
    """What the settings say about where checkpoints go."""

    @property
    def checkpoint_file(self) -> Path | None:
        """The file that they are added to."""

    @property
    def checkpoint_url(self) -> str | None:
        """The address that they are sent to."""

    @property
    def allow_private_sinks(self) -> tuple[str, ...]:
        """Hosts and networks that they may be sent to although they are not public."""


class SinkFailed(Exception):
    """A sink did not take what it should. The sentence says why."""


def tend(db: Database, settings: SinkSettings, *, now: datetime) -> list[str]:
    """Give each sink what it lacks; return what stood in the way, which is logged as well. Raises StoreUnavailable."""
    failed = []
    for what, work in (("file", _tend_file), ("address", _tend_address)):
        try:
            work(db, settings, now)
        except (SinkFailed, ValueError) as error:
            sentence = str(error) if isinstance(error, SinkFailed) else f"a checkpoint cannot be read: {error}"
            log.warning("the %s of checkpoints: %s", what, sentence)
            failed.append(sentence)
    return failed


def _tend_file(db: Database, settings: SinkSettings, _now: datetime) -> None:
    append_to_file(db, settings.checkpoint_file)


def _tend_address(db: Database, settings: SinkSettings, now: datetime) -> None:
    send_pending(db, settings.checkpoint_url, settings.allow_private_sinks, now=now)


def write_line(statement: Statement) -> str:
    """Write a statement as the line that a file of checkpoints has of it."""
    return json.dumps(statement.to_json(), separators=(",", ":")) + "\n"


def append_to_file(db: Database, path: Path | None) -> int:
    """Add to the file what it lacks, durably; return how many lines that was. Several processes may do it at once.

    Raises SinkFailed when the file cannot be written, and when its last line is of another history: it is evidence
    then, and nothing is added to it.
    """
    if path is None:
        return 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644), "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - TAIL_BYTES, 0))
            tail = file.read(TAIL_BYTES)
            lines = [write_line(one) for one in _lacking(db, path, tail)]
            if lines:
                # A line that a power loss has cut off is left as it is, and ended.
                cut = b"\n" if tail and not tail.endswith(b"\n") else b""
                _write(file, cut + "".join(lines).encode())
            if not size:
                sync_folder(path.parent)  # else the file may lose its name with the power
    except OSError as error:
        raise SinkFailed(f"the file {path} cannot be written: {error.strerror}") from error
    return len(lines)


def _write(file: BinaryIO, data: bytes) -> None:
    """Write all of it, durably. Raises OSError, also for a disk that takes a part only."""
    if file.write(data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(file.fileno())


def _read_end(tail: bytes) -> Iterator[Statement]:
    """Yield the statements at the end of a file, the last first. A line that a power loss cut off says nothing."""
    for line in reversed(tail.splitlines()):
        try:
            yield parse_statement(json.loads(line))
        except ValueError:
            continue


def _lacking(db: Database, path: Path, tail: bytes) -> list[Statement]:
    """Return what follows the last line of a file. Raises SinkFailed."""
    after, is_first = 0, True
    with db.read() as snapshot:
        for kept in _read_end(tail):
            # The event of a statement follows the entry that it is about.
            found = store.list_statements(snapshot, kept.sequence, 1)
            if found == [(kept.sequence + 1, kept)]:
                after = kept.sequence + 1
                break
            # What was taken note of in safe mode is behind us; anything else must be looked into.
            alarm = find_alarm(snapshot, kept.hash) if is_first else None
            if is_first and (alarm is None or alarm.ended_at is None):
                raise SinkFailed(f"the last line of {path}, of entry {kept.sequence}, is of another history than this")
            is_first = False
        return [one for _, one in store.list_statements(snapshot, after, AT_ONCE)]


def send_pending(
    db: Database,
    url: str | None,
    allowed: Sequence[str],
    *,
    now: datetime,
    post: Callable[..., None] = sending.post,
) -> int:
    """Send what an address has not taken yet, one after the other; return how many it took. Raises SinkFailed.

    One that refuses is asked again after a while, twice as long each time. What was sent may come again.
    """
    if url is None:
        return 0
    name = name_of(url)
    claimed = _claim(db, name, now)
    if claimed is None:
        return 0
    state, pending = claimed
    sent, failed = 0, None
    for event, statement in pending:
        try:
            post(url, write_line(statement).encode(), allowed=allowed)
        except NotSent as error:
            failed = str(error)
            break
        state, sent = replace(state, event=event), sent + 1
    with db.write(now) as transaction:
        store.save_sink(transaction, name, _after(state, failed, now))
    if failed is not None:
        raise SinkFailed(failed)
    return sent


def name_of(url: str) -> str:
    """Name an address in the database without telling it: its path may be a secret."""
    return hashlib.sha256(url.encode()).hexdigest()


def _claim(db: Database, name: str, now: datetime) -> tuple[SinkState, list[tuple[int, Statement]]] | None:
    """Take the sending upon us, so that no other process sends the same. None when there is nothing to send now."""
    with db.read() as snapshot:
        state = store.find_sink(snapshot, name)
        pending = store.list_statements(snapshot, state.event, SENT_AT_ONCE)
    if not pending or (state.retry_at is not None and state.retry_at > now):
        return None
    with db.write(now) as transaction:
        if store.find_sink(transaction, name) != state:
            return None
        store.save_sink(transaction, name, replace(state, retry_at=now + CLAIM))
    return state, pending


def _after(state: SinkState, failed: str | None, now: datetime) -> SinkState:
    if failed is None:
        return SinkState(state.event)
    wait = min(2**state.attempts * 5, RETRY_SECONDS_MAX)
    return SinkState(state.event, min(state.attempts + 1, 20), now + timedelta(seconds=wait), failed)
