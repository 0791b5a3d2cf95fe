# SPDX-License-Identifier: Apache-2.0
"""How do the records come back from a backup? Checked first, then whole and at once; what was there is kept aside."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from registry.domain.actors import SYSTEM, Subject, SubjectKind
from registry.domain.errors import StoreUnavailable
from registry.domain.events import JSON, Draft, EventType
from registry.domain.safe_mode import Head
from registry.domain.times import rfc3339
from registry.services import keys, safe_mode
from registry.services.backup import examine_file, sync
from registry.services.keys import KeySettings
from registry.services.life import SERVICE
from registry.services.manifest import Manifest, Progress, check_contents, check_hash, read_contents, read_manifest
from registry.services.outside import outside_checkpoints
from registry.store import copies, dumps, history, migrations
from registry.store.database import Database, open_database
from registry.store.engines import WriterQueue
from registry.store.migrations import NotReady
from registry.store.serving import ServingLock

BESIDE = ("", "-wal", "-shm", "-journal")
"""A SQLite database and what may stand beside it: https://www.sqlite.org/tempfiles.html."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What was put back. `aside` is where the database that was there is now."""

    manifest: Manifest
    aside: Path | None
    alarms: list[dict[str, Any]]
    is_compared: bool
    """Whether anything was known of the history outside, so that a loss could show."""


def restore(
    url: str,
    settings: KeySettings,
    backup: Path,
    *,
    checkpoint_file: Path | None,
    is_replacing: bool = False,
    now: datetime,
    progress: Progress,
) -> Restored:
    """Put the records of a backup into an empty or absent database, all of them or nothing.

    `is_replacing` lets a SQLite database be there: it is kept aside under another name. Where the history was seen to
    be longer, or to be another, by the checkpoints outside or by the database that was there, the service will begin
    in safe mode. Raises NotReady with what stands against it, before anything was touched; StoreUnavailable.
    """
    manifest = read_manifest(backup)
    db = open_database(url)
    try:
        _refuse_unfit(db, settings, manifest)
        seen = outside_checkpoints(checkpoint_file)
        if db.path is None:
            return _load(db, backup, manifest, seen, now=now, progress=progress)
        db.path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(db.path):
            old = _find_old(db, is_replacing=is_replacing)
            return _put(db, backup, manifest, (old, seen), now=now, progress=progress)
    except OSError as error:
        raise StoreUnavailable(f"the backup cannot be put back: {error.strerror}") from error
    finally:
        db.close_all()


def _refuse_unfit(db: Database, settings: KeySettings, manifest: Manifest) -> None:
    said = manifest.contents
    if said.engine != db.engine:
        raise NotReady([f"The backup is of {said.engine}, the database address is of {db.engine}."])
    if newer := sorted(set(said.migrations) - set(migrations.known())):
        raise NotReady([f"The backup is newer than this program: it has {', '.join(newer)}."])
    ours = keys.list_fingerprints(settings)
    if foreign := [name for name, value in sorted(said.keys.items()) if ours.get(name, value) != value]:
        raise NotReady([f"The {name} key here is not the backup's: put that one back first." for name in foreign])


def _find_old(db: Database, *, is_replacing: bool) -> Head | None:
    """Return the head of the database that is there, as far as it can be read. Raises NotReady if it must stay."""
    try:
        if migrations.is_new(db):
            return None
        if not is_replacing:
            raise NotReady(
                [f"There is a database at {db.path}. Restore into an empty place, or replace it with --replace."]
            )
        with db.read() as snapshot:
            return history.find_head(snapshot)
    except StoreUnavailable:
        if is_replacing:
            return None  # damaged: that is why it is replaced
        raise
    finally:
        db.close_all()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let no server start, and nobody write, until the database is put back. Raises NotReady while a server runs."""
    lock = ServingLock(path)
    if not lock.take(is_shared=False):
        raise NotReady([f"A server runs on {path}, or another restore does. Stop it first."])
    try:
        yield
    finally:
        lock.let_go()


def _put(
    db: Database,
    backup: Path,
    manifest: Manifest,
    known: tuple[Head | None, Sequence[Head]],
    *,
    now: datetime,
    progress: Progress,
) -> Restored:
    """Make the whole database in a folder beside, and then give it its name."""
    assert db.path is not None  # noqa: S101 - the caller looked
    path = db.path
    prefix = f".{path.name}.restore-"
    for left in path.parent.glob(f"{prefix}*"):
        shutil.rmtree(left)  # we are alone: whoever made it was killed
    work = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    try:
        made = work / path.name
        made.touch(0o600)
        check_hash(backup, manifest, progress, into=made)
        progress("checking", 0, 0)
        check_contents(manifest, examine_file(made))
        alarms = _finish(f"sqlite:///{made}", manifest, known, now)
        if not copies.merge_log(made):
            raise StoreUnavailable("the restored database cannot be closed")
        sync(made)
        with closing(WriterQueue(path)) as queue, queue.turn():
            aside = _swap(made, path, now)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Restored(manifest, aside, alarms, is_compared=any(known))


def _finish(
    url: str, manifest: Manifest, known: tuple[Head | None, Sequence[Head]], now: datetime
) -> list[dict[str, Any]]:
    """Bring the restored records up to date, and note in them where they come from and what they lack."""
    migrations.migrate(url)
    old, seen = known
    db = open_database(url)
    try:
        with db.write(now) as tx:
            for heads in ([old] if old else [], seen):
                safe_mode.assess(db, heads, now=now)
            head = manifest.contents.head
            data: dict[str, JSON] = {"taken_at": manifest.taken_at, "sequence": head.sequence, "hash": head.hash}
            tx.record(Draft(EventType.SERVICE_RESTORED, SYSTEM, (Subject(SubjectKind.SERVICE, SERVICE),), data))
            return safe_mode.shown(safe_mode.list_standing(tx))
    finally:
        db.close_all()


def _swap(made: Path, path: Path, now: datetime) -> Path | None:
    """Put a database in the place of another, which is kept under a name that says when."""
    aside = _name_aside(path, now)
    if path.exists():
        copies.merge_log(path)
    strays = [end for end in BESIDE if path.with_name(path.name + end).exists()]
    if strays == [""]:
        aside.hardlink_to(path)  # so that at every moment there is one database or the other
    else:
        # Its log cannot be merged. Without it the old one is not whole, and the new one would take it for its own.
        for end in strays:
            path.with_name(path.name + end).replace(aside.with_name(aside.name + end))
    sync(path.parent)
    made.replace(path)
    sync(path.parent)
    return aside if "" in strays else None


def _name_aside(path: Path, now: datetime) -> Path:
    """Find a free name that says when; a second name of the database, of a restore that was killed, is taken away."""
    for left in path.parent.glob(f"{path.name}.replaced-*"):
        if path.exists() and left.samefile(path):
            left.unlink()
    stamp = rfc3339(now).replace(":", "").replace("-", "").partition(".")[0]
    names = (f"{path.name}.replaced-{stamp}{f'-{number}' if number else ''}" for number in count())
    return next(one for name in names if not (one := path.with_name(name)).exists())


def _load(
    db: Database, backup: Path, manifest: Manifest, seen: Sequence[Head], *, now: datetime, progress: Progress
) -> Restored:
    with db.read() as snapshot:
        if not dumps.is_empty(snapshot):
            raise NotReady(
                ["The database is not empty. Make a new one for what is restored; the old one stays as it is."]
            )
    check_hash(backup, manifest, progress)
    dumps.check(backup)
    progress("restoring", 0, 0)
    dumps.load(db.url, backup)
    with db.read() as snapshot:
        check_contents(manifest, read_contents(snapshot))
    alarms = _finish(db.url, manifest, (None, seen), now)
    return Restored(manifest, None, alarms, is_compared=bool(seen))
