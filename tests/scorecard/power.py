# SPDX-License-Identifier: Apache-2.0
"""What may a disk hold after the power failed? All that was synced, and any part of what was not.

What was not synced may be there or not, each write by itself (which is what a reordering disk leaves), and what is
there may be torn: some of its sectors are new and some are old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random

from registry.store.migrations import migrate
from tests.scorecard.ground import folder
from tests.scorecard.strace import Act, record

DATABASE, LOG, ACKS = "registry.db", "registry.db-wal", "acks"
SECTORS = (512, 4096)
KEPT_SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
TORN_SHARES = (0.0, 0.3)
AFTER_PROMISE_SHARE = 0.5
"""How many of the losses come right after a promise; the others come anywhere."""

ACTS_EACH = 12
"""What each writer of a recording does; it fills the log more than once, so that checkpoints are in it."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What was on the disk before, and all that was done to it."""

    before: dict[str, bytes]
    acts: Sequence[Act]


@dataclass(frozen=True, slots=True)
class Loss:
    """A disk after the power failed, and what was promised by then: (type of event, its mark)."""

    files: dict[str, bytes]
    promised: frozenset[tuple[str, str]]


@dataclass
class _Disk:
    """What is kept of each file for sure, and what is not."""

    kept: dict[str, bytearray]
    pending: dict[str, list[Act]] = field(default_factory=lambda: {DATABASE: [], LOG: []})
    syncing: dict[str, dict[int, int]] = field(default_factory=lambda: {DATABASE: {}, LOG: {}})

    def do(self, act: Act) -> None:
        """Follow one act."""
        if act.file not in self.pending:
            return
        pending, syncing = self.pending[act.file], self.syncing[act.file]
        if act.what == "sync begun":
            syncing[act.number] = len(pending)
        elif act.what == "sync":
            # What was written while it ran may have missed it.
            count = syncing.pop(act.number)
            for one in pending[:count]:
                apply(self.kept[act.file], one)
            del pending[:count]
            # Another sync of the same file that runs beside has only to wait for the rest.
            for number, at in syncing.items():
                syncing[number] = max(0, at - count)
        else:
            pending.append(act)


@contextmanager
def recording(fault: str = "none") -> Iterator[Recording]:
    """Record writers on fresh records, with a fault put into them."""
    with folder() as here:
        database, acks = here / DATABASE, here / ACKS
        migrate(f"sqlite:///{database}")
        files = [database, here / LOG]
        before = {path.name: path.read_bytes() if path.exists() else b"" for path in files}
        command = ["-m", "tests.scorecard.power_writer", str(database), str(acks), str(ACTS_EACH), fault]
        yield Recording(before, record(command, [*files, acks], here / "trace"))


def losses(recorded: Recording, n: int, random: Random) -> Iterator[Loss]:
    """Let the power fail `n` times, in the order of the recording."""
    acts = recorded.acts
    promises = [at for at, act in enumerate(acts) if act.file == ACKS]
    if not promises:
        raise AssertionError("nothing was promised in this recording")
    whens = sorted(
        random.choice(promises) + 1 if random.random() < AFTER_PROMISE_SHARE else random.randrange(len(acts) + 1)
        for _ in range(n)
    )
    disk = _Disk({name: bytearray(content) for name, content in recorded.before.items()})
    promised: set[tuple[str, str]] = set()
    done = 0
    for when in whens:
        for act in acts[done:when]:
            disk.do(act)
            if act.file == ACKS:
                type_, _, mark = act.data.decode().strip().partition(" ")
                promised.add((type_, mark))
        done = when
        yield Loss(_fail(disk, random), frozenset(promised))


def _fail(disk: _Disk, random: Random) -> dict[str, bytes]:
    kept_share, torn_share, sector = random.choice(KEPT_SHARES), random.choice(TORN_SHARES), random.choice(SECTORS)
    left = {}
    for name, kept in disk.kept.items():
        content = bytearray(kept)
        for act in disk.pending[name]:
            if random.random() >= kept_share:
                continue
            for piece in _torn(act, sector, random) if random.random() < torn_share else (act,):
                apply(content, piece)
        left[name] = bytes(content)
    return left


def _torn(act: Act, sector: int, random: Random) -> Iterable[Act]:
    """Some of the sectors of a write; a file is cut whole or not at all."""
    if act.what == "truncate":
        return [act]
    start, end = act.number, act.number + len(act.data)
    edges = [start, *range(start - start % sector + sector, end, sector), end]
    pieces = [Act("write", act.file, act.data[left - start : right - start], left) for left, right in pairwise(edges)]
    return [piece for piece in pieces if random.random() < 0.5]


def apply(content: bytearray, act: Act) -> None:
    """Do to the content of a file what was done to the file."""
    if act.what == "truncate":
        del content[act.number :]
        content.extend(b"\0" * (act.number - len(content)))
        return
    if act.number > len(content):
        content.extend(b"\0" * (act.number - len(content)))
    content[act.number : act.number + len(act.data)] = act.data


def lay_out(loss: Loss, here: Path) -> str:
    """Write what is left into a folder, and return the address of the database."""
    for name, content in loss.files.items():
        (here / name).write_bytes(content)
    return f"sqlite:///{here / DATABASE}"
