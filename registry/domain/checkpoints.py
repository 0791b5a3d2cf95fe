# SPDX-License-Identifier: Apache-2.0
"""What does a signature vouch for? A checkpoint for the history up to an entry, a rotation for the key that comes next.

Both are signed with Ed25519 (https://www.rfc-editor.org/rfc/rfc8032) over canonical JSON of their members without the
signatures, in UTF-8. A key is named by its 32 public bytes, and every byte string is written as hexadecimal digits.
This is the format for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from registry.domain.canonical import JSON, canonical
from registry.domain.times import parse_rfc3339

IsSigned: TypeAlias = Callable[[str, str, str], bool]
"""Says whether a key (public, hexadecimal) made a signature (hexadecimal) of a text."""

_HEX32 = re.compile(r"[0-9a-f]{64}")
_HEX64 = re.compile(r"[0-9a-f]{128}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of the history as it was signed. `root` is that of the tree over entries 1 to `sequence`."""

    sequence: int
    hash: str
    root: str
    signed_at: str
    key: str
    signature: str = ""

    def text(self) -> str:
        """Give what is signed."""
        return _text_without(self, "signature")

    def to_json(self) -> dict[str, JSON]:
        """Give the checkpoint as a document."""
        return asdict(self)

    @classmethod
    def parse(cls, value: object) -> Checkpoint:
        """Read a document. Raises ValueError, saying what is wrong with it; the signature is not looked at."""
        members = _members(cls, value)
        _check(members, when="signed_at", short=("hash", "root", "key"), long=("signature",))
        return cls(**members)


@dataclass(frozen=True, slots=True)
class Rotation:
    """One key handed over to another after entry `sequence`: each signed the same text, which names both."""

    sequence: int
    hash: str
    rotated_at: str
    old_key: str
    new_key: str
    old_signature: str = ""
    new_signature: str = ""

    def text(self) -> str:
        """Give what both keys sign."""
        return _text_without(self, "old_signature", "new_signature")

    def to_json(self) -> dict[str, JSON]:
        """Give the rotation as a document."""
        return asdict(self)

    def is_signed(self, verify: IsSigned) -> bool:
        """Say whether both keys signed it."""
        text = self.text()
        return verify(self.old_key, self.old_signature, text) and verify(self.new_key, self.new_signature, text)

    @classmethod
    def parse(cls, value: object) -> Rotation:
        """Read a document. Raises ValueError, saying what is wrong with it; the signatures are not looked at."""
        members = _members(cls, value)
        _check(
            members,
            when="rotated_at",
            short=("hash", "old_key", "new_key"),
            long=("old_signature", "new_signature"),
        )
        return cls(**members)


Statement: TypeAlias = Checkpoint | Rotation
"""What is kept outside of the database."""


def parse_statement(value: object) -> Statement:
    """Read a checkpoint or a rotation, whichever it is. Raises ValueError."""
    kind: type[Statement] = Rotation if isinstance(value, Mapping) and "old_key" in value else Checkpoint
    return kind.parse(value)


class UnknownKey(ValueError):
    """A signature is not of a key that is trusted for that entry."""


class KeyChain:
    """The keys that one trusted key vouches for, directly or not, each for a stretch of the history."""

    def __init__(self, anchor: str, rotations: Iterable[Rotation], verify: IsSigned) -> None:
        """Follow rotations from a trusted key in both directions. One that is not signed by both keys is left out.

        Raises UnknownKey when a key was handed over twice, or taken up again: then nobody can say which is meant.
        """
        self._verify = verify
        sound = {one for one in rotations if one.is_signed(verify)}
        leaving, entering = _by_key(sound, "old_key"), _by_key(sound, "new_key")
        self._first: dict[str, int] = {}
        self._last: dict[str, int] = {}
        known, key = {anchor}, anchor
        while (one := entering.get(key)) is not None:
            self._first[key] = self._last[one.old_key] = one.sequence
            key = _step(known, one.old_key)
        key = anchor
        while (one := leaving.get(key)) is not None:
            self._last[key] = self._first[one.new_key] = one.sequence
            key = _step(known, one.new_key)
        self.keys = frozenset(known)

    def check(self, checkpoint: Checkpoint) -> None:
        """Refuse a checkpoint that no key signed which is good for its entry. Raises UnknownKey."""
        key, sequence = checkpoint.key, checkpoint.sequence
        if key not in self.keys:
            raise UnknownKey(f"the checkpoint of entry {sequence} is signed by key {key}, which nothing vouches for")
        if not self._first.get(key, 0) <= sequence <= self._last.get(key, sequence):
            raise UnknownKey(f"the checkpoint of entry {sequence} is signed by key {key}, which is of another time")
        if not self._verify(key, checkpoint.signature, checkpoint.text()):
            raise UnknownKey(f"the signature of the checkpoint of entry {sequence} is wrong")


def is_due(uncovered: int, oldest_at: datetime | None, now: datetime, *, events: int, seconds: int) -> bool:
    """Say whether a checkpoint is due: when so many entries have none, or the oldest of them has waited so long."""
    if not uncovered or oldest_at is None:
        return False
    return uncovered >= events or now - oldest_at >= timedelta(seconds=seconds)


def _step(known: set[str], key: str) -> str:
    if key in known:
        raise UnknownKey(f"key {key} was taken up again")
    known.add(key)
    return key


def _by_key(rotations: Iterable[Rotation], side: str) -> dict[str, Rotation]:
    found: dict[str, Rotation] = {}
    for one in rotations:
        key = getattr(one, side)
        if found.setdefault(key, one) != one:
            raise UnknownKey(f"two rotations name key {key} as {side}")
    return found


def _text_without(statement: Statement, *left_out: str) -> str:
    return canonical({name: value for name, value in asdict(statement).items() if name not in left_out})


def _members(kind: type[Statement], value: object) -> dict[str, Any]:
    names = {one.name for one in fields(kind)}
    if not isinstance(value, Mapping) or set(value) != names:
        raise ValueError(f"not an object of {', '.join(sorted(names))}")
    return dict(value)


def _check(members: Mapping[str, Any], *, when: str, short: Iterable[str], long: Iterable[str]) -> None:
    sequence = members["sequence"]
    if isinstance(sequence, bool) or not isinstance(sequence, int) or sequence < 0:
        raise ValueError("sequence is no whole number from 0")
    for form, names in ((_HEX32, short), (_HEX64, long)):
        for name in names:
            if not isinstance(members[name], str) or not form.fullmatch(members[name]):
                raise ValueError(f"{name} is not written in lower-case hexadecimal digits of the right number")
    if not isinstance(members[when], str):
        raise ValueError(f"{when} is no time")  # noqa: TRY004 - a document is wrong, not a program
    parse_rfc3339(members[when])
