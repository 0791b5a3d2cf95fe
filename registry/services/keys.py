# SPDX-License-Identifier: Apache-2.0
"""Where do the pepper of the tokens and the key that signs checkpoints come from, and are they the right ones?

Given by settings, else kept in the data folder, where `migrate` makes them. Servers that share a PostgreSQL database
must be given the same ones.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Protocol

from registry.store import fingerprints as store
from registry.store.database import Database
from registry.store.migrations import NotReady, is_new

PEPPER, SIGNING = "secret", "signing"
FILES = {PEPPER: "pratique.pepper", SIGNING: "pratique.signing"}
KEY_BYTES = 32
"""The length of an Ed25519 private key, and as much for the pepper."""


class KeySettings(Protocol):
    """What the settings say about keys."""

    @property
    def data_dir(self) -> Path:
        """The folder that keys are kept in."""

    @property
    def secret_key(self) -> str | None:
        """The pepper, where it is given."""

    @property
    def signing_key(self) -> str | None:
        """The signing key as hex, where it is given."""

    @property
    def is_postgresql(self) -> bool:
        """Whether other servers may share the database, so that keys must be given."""


def ensure_keys(settings: KeySettings, *, is_bound: bool = False) -> list[Path]:
    """Make the keys that are neither given nor there, readable by their owner only; return the files that were made.

    Raises NotReady for a database that is bound to keys already, with PostgreSQL, whose servers must share keys, or
    when the folder cannot be written.
    """
    made = []
    for name, file in FILES.items():
        path = settings.data_dir / file
        if _given(settings, name) is not None or path.exists():
            continue
        if settings.is_postgresql:
            raise NotReady([_missing(settings, name)])
        if is_bound:
            raise NotReady(
                [f"The {name} key {path} of this database is missing: restore the file. Another does not fit."]
            )
        try:
            make_key(path)
        except OSError as error:
            raise NotReady([f"The key {path} cannot be made: {error.strerror}."]) from error
        made.append(path)
    return made


def load_pepper(settings: KeySettings) -> bytes:
    """Return the key that tokens are hashed with. Raises NotReady when there is none."""
    return _load(settings, PEPPER).encode()


def load_signing_key(settings: KeySettings) -> bytes:
    """Return the 32 bytes of the Ed25519 private key that signs checkpoints. Raises NotReady when there is none."""
    return _signing_key_of(_load(settings, SIGNING))


def read_key(path: Path) -> bytes:
    """Read a signing key from a file. Raises NotReady when there is none in it."""
    try:
        return _signing_key_of(path.read_text(encoding="ascii").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise NotReady([f"The key {path} cannot be read: {error}."]) from error


def _signing_key_of(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise NotReady([f"The signing key is not {KEY_BYTES} bytes in hexadecimal digits."])
    return key


def list_fingerprints(settings: KeySettings) -> dict[str, str]:
    """Return the SHA-256 of each key, by its name. Raises NotReady when one is missing."""
    keys = {PEPPER: load_pepper(settings), SIGNING: load_signing_key(settings)}
    return {name: fingerprint_of(name, key) for name, key in keys.items()}


def fingerprint_of(name: str, key: bytes) -> str:
    """Return what the database knows a key by: it tells whether the key is the same, and nothing of the key."""
    return hashlib.sha256(f"pratique:{name}:".encode() + key).hexdigest()


def is_bound(db: Database) -> bool:
    """Tell whether a database knows the keys it was made with. A database that is still empty knows none."""
    if is_new(db):
        return False
    with db.read() as snapshot:
        return bool(store.list_fingerprints(snapshot))


def check_fingerprints(db: Database, settings: KeySettings, now: datetime) -> None:
    """Bind a new database to its keys; refuse another key for one that is bound. Raises NotReady.

    With another pepper every token would be unknown, and with another signing key checkpoints would change hands.
    """
    ours = list_fingerprints(settings)
    with db.read() as snapshot:
        stored = store.list_fingerprints(snapshot)
    if ours.keys() - stored.keys():
        with db.write(now) as transaction:
            for name, value in ours.items():
                store.insert_fingerprint(transaction, name, value)
            stored = store.list_fingerprints(transaction)
    faults = [
        f"The {name} key is not the one this database was made with: restore {_place(settings, name)}."
        for name, value in ours.items()
        if stored[name] != value
    ]
    if faults:
        raise NotReady(faults)


def _given(settings: KeySettings, name: str) -> str | None:
    return settings.secret_key if name == PEPPER else settings.signing_key


def _load(settings: KeySettings, name: str) -> str:
    given = _given(settings, name)
    if given is not None:
        return given
    try:
        text = (settings.data_dir / FILES[name]).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise NotReady([_missing(settings, name)]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise NotReady([f"The key {settings.data_dir / FILES[name]} cannot be read: {error}."]) from error
    if not text:
        raise NotReady([f"The key {settings.data_dir / FILES[name]} is empty: restore it."])
    return text


def _place(settings: KeySettings, name: str) -> str:
    return _variable(name) if _given(settings, name) is not None else str(settings.data_dir / FILES[name])


def _variable(name: str) -> str:
    return f"PRATIQUE_{name.upper()}_KEY"


def _missing(settings: KeySettings, name: str) -> str:
    if settings.is_postgresql:
        return f"The {name} key is missing: with PostgreSQL, give it in {_variable(name)} or {_variable(name)}_FILE."
    return f"The {name} key {settings.data_dir / FILES[name]} is missing: run `pratique migrate`, or restore the file."


def make_key(path: Path) -> None:
    """Write a new key, whole or not at all; one that another process made meanwhile stays. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".", dir=path.parent)  # readable by its owner only
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(draft)  # fails, unlike a rename, when there is one
        except FileExistsError:
            return
        sync_folder(path.parent)
    finally:
        draft.unlink()


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power loss: tokens that are handed out next depend on it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
