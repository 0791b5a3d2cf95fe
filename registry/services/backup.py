# SPDX-License-Identifier: Apache-2.0
"""How are the records kept elsewhere while the service runs? As one moment of them, which is checked first."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from registry.domain.errors import StoreUnavailable
from registry.domain.times import rfc3339
from registry.services.manifest import (
    Contents,
    Manifest,
    Progress,
    check_contents,
    check_hash,
    hash_file,
    place_of,
    read_contents,
    read_manifest,
)
from registry.store import copies, dumps, verifying
from registry.store.database import Database
from registry.store.migrations import NotReady


def take_backup(db: Database, path: Path, *, now: datetime, progress: Progress) -> Manifest:
    """Write the records as they are at one moment to a new file, and its manifest beside it.

    Others may read and write meanwhile. The file gets its name when all in it was checked and is durable: whatever ends
    this sooner leaves no file of that name. Raises NotReady when there is one already, or the records are damaged,
    StoreUnavailable when they cannot be read or the disk is full.
    """
    refuse_taken(path)
    with _draft(path) as draft:
        contents = (_copy if db.path is not None else _dump)(db, draft, progress)
        try:
            length, digest = hash_file(draft, progress)
            manifest = Manifest(rfc3339(now), length, digest, contents)
            _publish(draft, path, manifest)
        except OSError as error:
            raise StoreUnavailable(f"the backup cannot be written: {error.strerror}") from error
    return manifest


def verify_backup(path: Path, progress: Progress) -> Manifest:
    """Check that a backup is whole, and all that can be checked in it without restoring it; return its manifest.

    Of SQLite every page, and the whole history from its first entry; of PostgreSQL that its contents can be listed.
    Raises NotReady with what is wrong.
    """
    manifest = read_manifest(path)
    check_hash(path, manifest, progress)
    if manifest.contents.engine == "postgresql":
        dumps.check(path)
        return manifest
    check_contents(manifest, examine_file(path))
    last = manifest.contents.head.sequence
    with copies.look_into(path) as snapshot:
        found = verifying.verify_chain(snapshot, progress=lambda done: progress("verifying", done, last))
    if not found.ok:
        raise NotReady([f"The history in {path} is broken at entry {found.bad}: {found.reason}."])
    return manifest


def examine_file(file: Path) -> Contents:
    """Look into a SQLite file that nobody writes. Raises NotReady when anything in it is wrong."""
    try:
        with copies.look_into(file) as snapshot:
            if (damage := copies.find_damage(snapshot)) is not None:
                raise NotReady([f"{file} is damaged: {damage}."])
            return read_contents(snapshot)
    except StoreUnavailable as error:
        raise NotReady([f"{file} cannot be read: {error.detail}."]) from error


def refuse_taken(path: Path) -> None:
    """Raise NotReady when there is a file of this name, or no folder for it."""
    if path.exists():
        raise NotReady([f"{path} exists: a backup never overwrites anything. Choose another name."])
    if not path.parent.is_dir():
        raise NotReady([f"There is no folder {path.parent}."])


def _copy(db: Database, draft: Path, progress: Progress) -> Contents:
    assert db.path is not None  # noqa: S101 - the caller looked
    copies.copy_database(db.path, draft, lambda done, total: progress("copying", done, total))
    progress("checking", 0, 0)
    return examine_file(draft)


def _dump(db: Database, draft: Path, progress: Progress) -> Contents:
    with db.read() as snapshot:
        view = dumps.export_view(snapshot)
        contents = read_contents(snapshot)
        dumps.dump(db.url, view, draft, lambda size: progress("dumping", size, 0))
    dumps.check(draft)
    return contents


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """Give a file beside the one to be, for its owner only, which is gone afterwards; and clear old ones away."""
    prefix = f".{path.name}.draft-"
    for left in path.parent.glob(f"{prefix}*"):
        _clear(left)
    try:
        descriptor, name = tempfile.mkstemp(prefix=prefix, dir=path.parent)
    except OSError as error:
        raise NotReady([f"{path.parent} cannot be written: {error.strerror}."]) from error
    draft = Path(name)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield draft
    finally:
        os.close(descriptor)
        for end in ("", "-journal", "-wal", "-shm"):
            draft.with_name(draft.name + end).unlink(missing_ok=True)


def _clear(left: Path) -> None:
    """Remove a draft whose maker was killed; one that is still being made is locked."""
    with suppress(OSError), left.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        left.unlink()


def _publish(draft: Path, path: Path, manifest: Manifest) -> None:
    """Give the backup its name. The manifest is there before it, so that a file of this name is always whole."""
    folder = os.open(path.parent, os.O_RDONLY)
    note = draft.with_name(f"{draft.name}.json")
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # another backup may be about to get the same name
        refuse_taken(path)
        note.touch(0o600)
        note.write_text(json.dumps(manifest.to_json(), indent=2) + "\n", encoding="utf-8")
        for one in (draft, note):
            sync(one)
        note.replace(place_of(path))
        os.fsync(folder)
        draft.replace(path)
        os.fsync(folder)
    finally:
        note.unlink(missing_ok=True)
        os.close(folder)


def sync(file: Path) -> None:
    """Wait until a file or folder is durable. Raises OSError."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
