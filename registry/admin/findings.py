# SPDX-License-Identifier: Apache-2.0
"""What does the doctor look at on a server's host? Each look gives one finding, with a remedy where one is needed."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from registry.config import Settings
from registry.domain.times import rfc3339
from registry.services import keys, safe_mode
from registry.services.outside import outside_checkpoints
from registry.store import fingerprints, history, life, migrations, server_facts
from registry.store.database import Database, Snapshot, sqlite_gate
from registry.store.migrations import NotReady

GIB = 1024**3
DISK_LOW_BYTES, DISK_FULL_BYTES = 2 * GIB, GIB // 4
"""Free space that is worth a word, and that is too little: the write-ahead log alone may grow by some 100 MiB while
a long export reads, and a full disk refuses every report."""

FSYNC_COUNT = 21
FSYNC_SLOW_SECONDS = 0.02
"""A median above it allows fewer than 50 changes a second; a cloud disk needs about 4 ms, a disk of its own below 1."""

BLOCK = bytes(4096)
"""One page, as SQLite writes it."""

STEP = timedelta(seconds=0.5)
"""A clock that disagrees with the monotonic one by more, within one look, was set and not slewed."""


class State(StrEnum):
    """What a finding says."""

    OK = "ok"
    """As it should be."""
    WARN = "warn"
    """It works, and somebody should see to it."""
    FAIL = "fail"
    """It must not be served like this, or will not work."""
    SKIPPED = "skipped"
    """It cannot be seen from here."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look found."""

    name: str
    state: State
    found: str
    remedy: str | None = None

    def to_json(self) -> dict[str, str | None]:
        """Give the finding as a document."""
        return asdict(self)


def look_at_disk(folder: Path) -> Iterator[Finding]:
    """See how much room there is beside the database, and how long the disk takes to promise something."""
    usage = shutil.disk_usage(folder)
    state = State.FAIL if usage.free < DISK_FULL_BYTES else State.WARN if usage.free < DISK_LOW_BYTES else State.OK
    found = f"{usage.free / GIB:.1f} of {usage.total / GIB:.1f} GiB free below {folder}"
    yield Finding("disk", state, found, None if state is State.OK else "Make room before the disk is full.")
    try:
        times = measure_fsync(folder)
    except OSError as error:
        yield Finding(
            "fsync", State.FAIL, f"{folder} cannot be written: {error.strerror}", "Give the server its folder."
        )
        return
    median, worst = statistics.median(times), max(times)
    is_slow = median > FSYNC_SLOW_SECONDS
    yield Finding(
        "fsync",
        State.WARN if is_slow else State.OK,
        f"median {median * 1000:.2f} ms, worst {worst * 1000:.2f} ms of {len(times)}",
        "Every change waits for one: use a faster disk." if is_slow else None,
    )


def measure_fsync(folder: Path) -> list[float]:
    """Write a page and wait until it is durable, some times over; the seconds that each took. Raises OSError."""
    times = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(FSYNC_COUNT):
            file.write(BLOCK)
            begun = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begun)
    return times


def look_at_engine(snapshot: Snapshot) -> Iterator[Finding]:
    """See which database this is, and whether it keeps its word."""
    facts = server_facts.describe(snapshot)
    if snapshot.engine == "sqlite":
        gate = sqlite_gate()
        is_well = gate.is_safe and facts.journal == gate.journal
        found = f"SQLite {facts.version}, journal {facts.journal}"
        remedy = "Several writers can corrupt a WAL database of this version, so a slower journal is used."
        yield Finding("database", State.OK if is_well else State.WARN, found, None if is_well else remedy)
        return
    found = f"PostgreSQL {facts.version}" + "".join(f", {name} is off" for name in facts.lax_settings)
    remedy = "A power loss may take what was acknowledged: turn it on."
    is_lax = bool(facts.lax_settings)
    yield Finding("database", State.FAIL if is_lax else State.OK, found, remedy if is_lax else None)
    if facts.may_lift_guards:
        found, remedy = (
            "this role may disable the triggers that guard the history",
            "Serve as a role that owns nothing.",
        )
        yield Finding("owner", State.WARN, found, remedy)
    else:
        yield Finding("owner", State.OK, "this role cannot disable the triggers that guard the history")


def look_at_schema(database: Database) -> Iterator[Finding]:
    """See whether schema and guards are those of this program."""
    newer, lacking = migrations.unknown(database), migrations.pending(database)
    if newer:
        yield Finding(
            "migrations", State.FAIL, f"newer than this program: {', '.join(newer)}", "Install the newer release."
        )
    elif lacking:
        yield Finding("migrations", State.FAIL, f"pending: {', '.join(lacking)}", "Run `pratique migrate`.")
    else:
        yield Finding("migrations", State.OK, f"up to date: {migrations.known()[-1]}")
    missing = migrations.check_guards(database)
    remedy = "Find out who removed them, run `pratique audit verify`, and restore them."
    found = f"missing or disabled: {', '.join(missing)}" if missing else "every trigger that guards the history stands"
    yield Finding("guards", State.FAIL if missing else State.OK, found, remedy if missing else None)


def look_at_keys(settings: Settings, snapshot: Snapshot) -> Finding:
    """See whether the keys are there, are those of this database, and are nobody else's to read."""
    try:
        ours = keys.list_fingerprints(settings)
    except NotReady as error:
        return Finding("keys", State.FAIL, " ".join(error.sentences), "Restore the keys with the database.")
    stored = fingerprints.list_fingerprints(snapshot)
    if foreign := [name for name, value in sorted(ours.items()) if stored.get(name, value) != value]:
        found = f"not those this database was made with: {', '.join(foreign)}"
        return Finding("keys", State.FAIL, found, "Restore the keys with the database.")
    files = [settings.data_dir / file for file in keys.FILES.values()]
    if open_ones := [str(file) for file in files if file.exists() and file.stat().st_mode & 0o077]:
        return Finding("keys", State.WARN, f"readable by others: {', '.join(open_ones)}", "chmod 600 them.")
    return Finding("keys", State.OK, "those this database was made with" if stored else "bound to no database yet")


def look_at_history(snapshot: Snapshot, clock: Callable[[], datetime], longest_silence: timedelta) -> Iterator[Finding]:
    """See when things last happened: any event, a sign of life of a server."""
    newest = next(iter(history.page_events(snapshot, limit=1, newest_first=True)), None)
    now = clock()  # only now: a server that runs beside us goes on writing
    ahead = newest.at - now if newest else timedelta()
    if newest and ahead > timedelta():
        found = f"{ahead.total_seconds():.1f} s behind the newest event, of {rfc3339(newest.at)}"
        yield Finding("clock", State.FAIL, found, "Set the clock right: the history must not run backwards.")
    else:
        told = f"event {newest.sequence} of {rfc3339(newest.at)}" if newest else "none yet"
        yield Finding("clock", State.OK, f"not behind the newest event ({told})")
    yield _life(life.find_last_sign(snapshot), now, longest_silence)


def look_at_safe_mode(settings: Settings, snapshot: Snapshot) -> Finding:
    """See whether the history is the one that was seen outside, and whether somebody took note where it is not."""
    try:
        loss = safe_mode.find_new_loss(snapshot, outside_checkpoints(settings.checkpoint_file))
    except NotReady as error:
        return Finding("safe_mode", State.FAIL, " ".join(error.sentences), "The server will not start like this.")
    found = [safe_mode.describe(one) for one in safe_mode.list_standing(snapshot)]
    if loss is not None:
        found.append(f"Entries {loss.first} to {loss.last} were seen outside and are not in here ({loss.cause}).")
    if found:
        remedy = "See what is lost, then `pratique service acknowledge`: until then nobody is admitted."
        return Finding("safe_mode", State.WARN, " ".join(found), remedy)
    return Finding("safe_mode", State.OK, "the history is not known to lack anything")


def look_at_clock_steps(wall: timedelta, monotonic: timedelta) -> Finding:
    """See whether the clock was set while the doctor looked: both are how long that took."""
    step = wall - monotonic
    if abs(step) > STEP:
        found = f"it was set by {step.total_seconds():+.1f} s within {monotonic.total_seconds():.1f} s"
        return Finding("clock_steps", State.WARN, found, "Let the clock be slewed, not stepped.")
    return Finding("clock_steps", State.OK, "it went on evenly while this was looked at")


def _life(last: datetime | None, now: datetime, longest_silence: timedelta) -> Finding:
    if last is None:
        return Finding("life_sign", State.OK, "none yet")
    found = f"{age_of(now - last)} ago, at {rfc3339(last)}"
    is_silent = now - last > longest_silence
    remedy = "No server runs on this database; start one with `pratique serve`." if is_silent else None
    return Finding("life_sign", State.WARN if is_silent else State.OK, found, remedy)


def age_of(age: timedelta) -> str:
    """Write how long something is ago, in whole seconds."""
    return str(timedelta(seconds=max(0, int(age.total_seconds()))))
