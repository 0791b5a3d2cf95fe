# SPDX-License-Identifier: Apache-2.0
"""What could not be sent, and survives until it can? One file a message, whole or not there, in the order they came.

A file is written beside, brought to the disk, and then given its name; so neither `kill -9` nor a power cut leaves
half a message under a name. A checksum finds what the disk itself spoilt. Faults are never given up for room: the
oldest messages without news go first. What nobody will ever take is set aside, for a person to look at.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

FAULT, CALM = "fault", "calm"
BEGUN = ".begun"
SPOILT = ".spoilt"
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
BYTES_MAX = 64 * 1024 * 1024
"""Room for some 2,500 reports of 8 GPUs and 32 EFAs, 26 KB each: most of a day without a server."""

HELD_MAX = 1000
"""Most messages with faults that are kept in memory while the disk takes none."""

ASIDE = "set-aside"
ASIDE_MAX = 1000
"""Most messages that are kept aside; the oldest go first. At 26 KB each they take 26 MB."""

FOLDER_MODE = 0o700
_NAME = re.compile(rf"[0-9]{{1,18}}\.({FAULT}|{CALM})")


@dataclass(frozen=True, slots=True)
class Entry:
    """A message that waits. `number` is its place in the order; `path` is None while the disk does not take it."""

    number: int
    is_fault: bool
    body: bytes
    path: Path | None


class Spool:
    """The messages that wait in a folder. Only one agent may use a folder. `say` gets a sentence for the log."""

    def __init__(self, folder: Path, *, say: Callable[[str], None], limit: int = BYTES_MAX) -> None:
        """Open the folder, making it if need be, and clear away what an interrupted write left. Raises OSError."""
        self.folder = folder
        self._say = say
        self._limit = limit
        self._held: list[Entry] = []
        self._done_with: set[int] = set()  # sent or given up, while the disk forgets nothing
        self._is_full = False
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        for path in sorted(folder.iterdir()):
            self._tidy(path)
        self._number = max((int(path.stem) for path in self._paths()), default=0)

    def __len__(self) -> int:
        """Count the messages that wait."""
        return len(self._paths()) + len(self._held)

    @property
    def is_holding(self) -> bool:
        """Is there a fault that only memory holds, because the disk does not take it?"""
        return bool(self._held)

    def put(self, body: bytes, *, is_fault: bool, bare: bytes | None = None) -> None:
        """Keep a message, and make room. `bare` is a smaller one that tells the same faults.

        On a full disk the oldest reports without news are given up for it, and then a fault is kept bare. What the disk
        refuses for all that is said; a fault stays in memory then.
        """
        self._number += 1
        entry = Entry(self._number, is_fault, body, None)
        self._settle_held()
        try:
            given_up = self._write_for_sure(entry, bare)
            self._make_room()
        except OSError as error:
            self._hold(entry, error)
            return
        if given_up and not self._is_full:
            self._say(f"the disk of {self.folder} is full: the oldest reports without news are given up for new ones")
        self._is_full = given_up

    def set_aside(self, message: Entry | bytes, reason: str) -> None:
        """Put a message that nobody will ever take where it is in nobody's way, and say it. Never raises."""
        try:
            (self.folder / ASIDE).mkdir(mode=FOLDER_MODE, exist_ok=True)
            if isinstance(message, Entry) and message.path is not None:
                self._move_aside(message.path, reason)
            else:
                body = message.body if isinstance(message, Entry) else message
                self._number += 1
                place = self.folder / ASIDE / f"{self._number:012d}.json"
                write_whole(place, body, place.with_suffix(BEGUN))
                self._say(f"a message is set aside as {place}: {reason}")
            self._bound_aside()
        except OSError as error:
            self._say(f"a message cannot be set aside ({error.strerror}): {reason}")
            if isinstance(message, Entry):
                self._done_with.add(message.number)
        if isinstance(message, Entry):
            self._held = [held for held in self._held if held.number != message.number]

    def waiting(self, most: int) -> list[Entry]:
        """Give the first messages to send: those with faults before all others, each sort from the oldest on.

        A file that is not what was written is set aside, and said.
        """
        found = itertools.islice(self.on_disk(), most)
        return sorted([*self._held, *found], key=lambda entry: (not entry.is_fault, entry.number))[:most]

    def on_disk(self) -> Iterator[Entry]:
        """Read the messages in the folder one by one, in the same order, and set aside what is not what was written."""
        for path in sorted(self._paths(), key=lambda path: (path.suffix != f".{FAULT}", path.name)):
            entry = self._read(path)
            if entry is not None:
                yield entry

    def remove(self, entry: Entry) -> None:
        """Forget a message that was sent. Where the disk does not forget it, an agent that comes after sends it again,
        which changes nothing.
        """
        self._held = [held for held in self._held if held.number != entry.number]
        try:
            if entry.path is not None:
                entry.path.unlink(missing_ok=True)
        except OSError as error:
            self._done_with.add(entry.number)
            self._say(f"{entry.path} was sent and cannot be removed: {error.strerror}")

    def _paths(self) -> list[Path]:
        """The files of messages. A folder that cannot be read holds none that can be sent; the next write says why."""
        try:
            paths = [path for path in self.folder.iterdir() if _NAME.fullmatch(path.name)]
        except OSError:
            return []
        return [path for path in paths if int(path.stem) not in self._done_with]

    def _tidy(self, path: Path) -> None:
        """Clear away what was begun, and set aside what no agent has written."""
        try:
            if path.name.endswith(BEGUN) and path.is_file():
                path.unlink()
            elif not (_NAME.fullmatch(path.name) and path.is_file()) and path.name != ASIDE:
                self._move_aside(path, "no agent has written it")
        except OSError as error:
            self._say(f"{path} is none of the spool's and cannot be moved away: {error.strerror}")

    def _move_aside(self, path: Path, reason: str) -> None:
        folder = self.folder / ASIDE
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        place = folder / path.name
        for number in itertools.count(1):
            if not os.path.lexists(place):
                break
            place = folder / f"{path.name}.{number}"
        path.rename(place)
        self._say(f"{path} is set aside in {folder}: {reason}")

    def _bound_aside(self) -> None:
        kept = [path for path in (self.folder / ASIDE).iterdir() if path.is_file()]
        for path in sorted(kept, key=lambda path: path.stat().st_mtime_ns)[:-ASIDE_MAX]:
            path.unlink()

    def _settle_held(self) -> None:
        """Try the disk again with what it refused."""
        for entry in list(self._held):
            try:
                self._write(entry)
            except OSError:
                return
            self._held.remove(entry)

    def _hold(self, entry: Entry, error: OSError) -> None:
        kept = "this one is kept in memory" if entry.is_fault else "what has no news is given up"
        if entry.is_fault or not self._is_full:
            self._say(f"{self.folder} takes no message ({error.strerror}): {kept}")
        self._is_full = self._is_full or not entry.is_fault
        if entry.is_fault:
            self._held = [*self._held, entry]
        if len(self._held) > HELD_MAX:
            del self._held[0]
            self._say(f"more than {HELD_MAX} messages with faults wait in memory: the oldest is given up")

    def _write_for_sure(self, entry: Entry, bare: bytes | None) -> bool:
        """Write a message, and tell whether that was at the cost of older ones without news. Raises OSError."""
        has_given_up = False
        while True:
            try:
                self._write(entry)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                calm = sorted(path for path in self._paths() if path.suffix == f".{CALM}")
                if calm:
                    calm[0].unlink()
                    has_given_up = True
                elif bare is not None:
                    entry, bare = replace(entry, body=bare), None
                else:
                    raise
            else:
                return has_given_up

    def _write(self, entry: Entry) -> None:
        path = self.folder / f"{entry.number:012d}.{FAULT if entry.is_fault else CALM}"
        begun = path.with_suffix(BEGUN)
        self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)  # somebody may have cleared it away
        write_whole(path, b"%08x %b" % (zlib.crc32(entry.body), entry.body), begun)

    def _read(self, path: Path) -> Entry | None:
        try:
            checksum, _, body = path.read_bytes().partition(b" ")
            if checksum != b"%08x" % zlib.crc32(body):
                self._move_aside(path, "it is not as it was written")
                return None
        except IsADirectoryError:
            self._tidy(path)
            return None
        except OSError as error:
            self._say(f"{path} cannot be read ({error.strerror}) and is left for later")
            return None
        return Entry(int(path.stem), path.suffix == f".{FAULT}", body, path)

    def _make_room(self) -> None:
        """Give up the oldest messages without news until the rest is within the limit."""
        sizes = {path: path.stat().st_size for path in self._paths()}
        excess = sum(sizes.values()) - self._limit
        given_up = 0
        for path in sorted(path for path in sizes if path.suffix == f".{CALM}"):
            if excess <= 0:
                break
            path.unlink()
            excess -= sizes[path]
            given_up += 1
        if given_up:
            self._say(f"the spool is full: {given_up} of the oldest reports without news were given up")


def write_whole(path: Path, content: bytes, begun: Path, mode: int = 0o600) -> None:
    """Write a file so that its name shows the old content or the new, never a part. Raises OSError."""
    handle = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        os.fchmod(handle, mode)
        left = memoryview(content)
        while left:
            left = left[os.write(handle, left) :]
        os.fsync(handle)
    except OSError:
        begun.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)
    begun.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
