# SPDX-License-Identifier: Apache-2.0
"""What does a backup say about itself? Beside the file stands what it holds, and a hash that shows any change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from registry.domain.safe_mode import Head
from registry.store import fingerprints, history, migrations, server_facts
from registry.store.database import Snapshot
from registry.store.migrations import NotReady

FORMAT = 1
PIECE_BYTES = 1024 * 1024

Progress = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is done, and of how much; 0 when that is not known."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What one moment of the records holds: migrations, the newest entry, the engine, and fingerprints of the keys."""

    engine: str
    version: str
    migrations: tuple[str, ...]
    head: Head
    keys: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A backup's own description. `taken_at` is RFC 3339; `keys` are fingerprints, never the keys."""

    taken_at: str
    bytes: int
    sha256: str
    contents: Contents

    def to_json(self) -> dict[str, Any]:
        """Give it as it is written."""
        shown = asdict(self)
        contents = shown.pop("contents")
        applied = list(self.contents.migrations)
        return {"format": FORMAT, **shown, **contents, "migrations": applied, "schema": applied[-1]}


def place_of(backup: Path) -> Path:
    """Where the manifest of a backup is: beside it."""
    return backup.with_name(f"{backup.name}.json")


def read_manifest(backup: Path) -> Manifest:
    """Read the manifest of a backup. Raises NotReady with what is wrong."""
    place = place_of(backup)
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise NotReady(
                [f"{place} is of format {found['format']}: install the release that made it, or a newer one."]
            )
        head = Head(int(found["head"]["sequence"]), str(found["head"]["hash"]))
        contents = Contents(
            str(found["engine"]), str(found["version"]), tuple(map(str, found["migrations"])), head, dict(found["keys"])
        )
        return Manifest(str(found["taken_at"]), int(found["bytes"]), str(found["sha256"]), contents)
    except FileNotFoundError:
        raise NotReady([f"{place} is missing: without it nobody can tell whether the backup is whole."]) from None
    except OSError as error:
        raise NotReady([f"{place} cannot be read: {error.strerror}."]) from error
    except (ValueError, KeyError, TypeError) as error:
        raise NotReady([f"{place} is no manifest of a backup: {error}."]) from error


def read_contents(snapshot: Snapshot) -> Contents:
    """Say what a view of the records holds. Raises NotReady when a guard is missing or the history has no good end."""
    if missing := migrations.find_missing_guards(snapshot):
        raise NotReady([f"The history is not guarded: {', '.join(missing)} is missing or disabled."])
    head = history.find_head(snapshot)
    if head is None:
        raise NotReady(["The history does not end where its head says: run `pratique audit verify`."])
    return Contents(
        engine=snapshot.engine,
        version=server_facts.describe(snapshot).version,
        migrations=tuple(sorted(migrations.list_applied(snapshot))),
        head=head,
        keys=fingerprints.list_fingerprints(snapshot),
    )


def check_contents(manifest: Manifest, found: Contents) -> None:
    """Compare what a file holds with what its manifest says. Raises NotReady."""
    said = manifest.contents
    for name in ("migrations", "head", "keys"):
        if getattr(said, name) != getattr(found, name):
            raise NotReady([f"The backup's {name} are not those of its manifest."])


def hash_file(file: Path, progress: Progress, *, into: Path | None = None) -> tuple[int, str]:
    """Return the length and the SHA-256 of a file; `into` gets a copy on the way, which is not yet durable.

    Raises OSError.
    """
    total, done, digest = file.stat().st_size, 0, hashlib.sha256()
    with file.open("rb") as source, (into or Path("/dev/null")).open("wb") as target:
        while piece := source.read(PIECE_BYTES):
            digest.update(piece)
            target.write(piece)
            done += len(piece)
            progress("copying" if into else "hashing", done, total)
    return done, digest.hexdigest()


def check_hash(backup: Path, manifest: Manifest, progress: Progress, *, into: Path | None = None) -> None:
    """Read the whole backup, and copy it to `into` where given. Raises NotReady when it is not what was written."""
    try:
        length, digest = hash_file(backup, progress, into=into)
    except OSError as error:
        raise NotReady([f"{error.filename or backup} cannot be read or written: {error.strerror}."]) from error
    if (length, digest) != (manifest.bytes, manifest.sha256):
        raise NotReady([f"{backup} is not what was written: its SHA-256 is {digest}, {length:,} bytes."])
