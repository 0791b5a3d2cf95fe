# SPDX-License-Identifier: Apache-2.0
"""Are checkpoints signed in time, and do they get out? What the doctor sees of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from registry.admin.findings import Finding, State, age_of
from registry.config import Settings
from registry.domain.checkpoints import Checkpoint
from registry.domain.times import parse_rfc3339
from registry.services.outside import newest_outside_checkpoint
from registry.services.sinks import name_of
from registry.store import checkpoints as store
from registry.store.database import Snapshot
from registry.store.migrations import NotReady

LATE = 2
"""An entry that has waited so many times as long as it should, waits for a server that does not sign."""


def look_at_checkpoints(settings: Settings, snapshot: Snapshot, now: datetime) -> Iterator[Finding]:
    """See how old the newest checkpoint is, and whether the file and the address of checkpoints have it."""
    try:
        newest = store.find_newest(snapshot)
    except ValueError as error:
        yield Finding("checkpoint", State.FAIL, f"the newest cannot be read: {error}", "Run `pratique audit verify`.")
        return
    yield _newest(settings, snapshot, newest, now)
    yield _file(settings, snapshot, newest)
    yield _address(settings, snapshot)


def _newest(settings: Settings, snapshot: Snapshot, newest: Checkpoint | None, now: datetime) -> Finding:
    found = "none yet"
    if newest is not None:
        found = f"the newest is {age_of(now - parse_rfc3339(newest.signed_at))} old, of {newest.signed_at}"
    waiting = store.count_uncovered(snapshot, newest)
    longest = timedelta(seconds=LATE * settings.checkpoint_seconds)
    if waiting.oldest_at is None or now - waiting.oldest_at <= longest:
        return Finding("checkpoint", State.OK, found)
    late = f"{found}; {waiting.count} entries wait for one, the first for {age_of(now - waiting.oldest_at)}"
    return Finding("checkpoint", State.WARN, late, "Look into the server's log, or run `pratique audit checkpoint`.")


def _file(settings: Settings, snapshot: Snapshot, newest: Checkpoint | None) -> Finding:
    name, file = "checkpoint_file", settings.checkpoint_file
    if file is None:
        return Finding(name, State.SKIPPED, "turned off")
    try:
        outside = newest_outside_checkpoint(file)
    except NotReady as error:
        return Finding(name, State.FAIL, " ".join(error.sentences), "Restore it from where it is copied to.")
    if outside is not None and store.find_hash(snapshot, outside.sequence) != outside.hash:
        found = f"{file} ends with entry {outside.sequence} of another history, or of one that was longer"
        remedy = "Nothing is added until it is taken note of: run `pratique audit verify --checkpoint` with the file."
        return Finding(name, State.WARN, found, remedy)
    told = f"{file} goes up to entry {outside.sequence}" if outside else f"{file} has none yet"
    if newest is not None and (outside is None or outside.sequence < newest.sequence):
        return Finding(name, State.WARN, f"{told}, and lacks newer ones", "See whether it can be written.")
    return Finding(name, State.OK, told)


def _address(settings: Settings, snapshot: Snapshot) -> Finding:
    name = "checkpoint_url"
    if settings.checkpoint_url is None:
        return Finding(name, State.SKIPPED, "not set")
    state = store.find_sink(snapshot, name_of(settings.checkpoint_url))
    try:
        waiting = len(store.list_statements(snapshot, state.event, 100))
    except ValueError as error:
        return Finding(name, State.FAIL, f"one that waits cannot be read: {error}", "Run `pratique audit verify`.")
    told = f"{waiting if waiting < 100 else 'a hundred or more'} wait to be sent" if waiting else "it has all of them"
    if state.error is not None:
        return Finding(name, State.WARN, f"{told}: {state.error}", "See whether it can be reached and takes them.")
    return Finding(name, State.OK, told)
