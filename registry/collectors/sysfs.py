# SPDX-License-Identifier: Apache-2.0
"""How is a sysfs tree read, live or out of a tar? One way to ask both; nothing is unpacked, no link leads outside.

Paths are relative to `/sys`, without a leading slash. A text is one page at most, as sysfs gives it.
"""

from __future__ import annotations

import os
import tarfile
import zlib
from io import BytesIO
from pathlib import Path
from typing import Protocol

from registry.domain.errors import PartUnreadable

PAGE_BYTES = 4096
"""The most that one attribute holds: https://docs.kernel.org/filesystems/sysfs.html"""
MAX_TAR_BYTES = 64 * 1024 * 1024
"""32 adapters of 80 files, each padded to a page by tar, take 12 MiB unpacked."""
MAX_MEMBERS = 20_000
_MAX_PATH = 1024
_MAX_DEPTH = 40
_MAX_LINKS = 40
"""Links followed on one path, as in Linux itself: path_resolution(7)."""

_BLOCK = 512
_BROKEN = (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, RecursionError)
"""What the standard library raises on bytes that are no tar."""


class Tree(Protocol):
    """A sysfs tree."""

    def names(self, path: str) -> tuple[str, ...] | None:
        """Return what a directory holds, sorted; None when there is none, or it cannot be read."""

    def text(self, path: str) -> str | None:
        """Return an attribute without blanks around it; None when there is none, or it cannot be read."""

    def real(self, path: str) -> str | None:
        """Return where the path leads when all links are followed, whether that is there or not; None for outside."""


class DirectoryTree:
    """The tree below `root`/sys: of this machine, or a copy."""

    def __init__(self, root: Path) -> None:
        self._base = Path(os.path.realpath(root / "sys"))

    def names(self, path: str) -> tuple[str, ...] | None:
        """See Tree."""
        place = self._place(path)
        try:
            return tuple(sorted(entry.name for entry in place.iterdir())) if place else None
        except OSError:
            return None

    def text(self, path: str) -> str | None:
        """See Tree."""
        place = self._place(path)
        try:
            if place is None or not place.is_file():
                return None
            with place.open("rb") as file:
                return _text(file.read(PAGE_BYTES))
        except OSError:
            return None

    def real(self, path: str) -> str | None:
        """See Tree."""
        place = self._place(path)
        return place.relative_to(self._base).as_posix() if place else None

    def _place(self, path: str) -> Path | None:
        place = Path(os.path.realpath(self._base / path))
        return place if place.is_relative_to(self._base) else None


class TarTree:
    """A tree inside a tar, plain or compressed by gzip, held in memory.

    The tar may begin at `/`, `/sys`, `/sys/class`, or be of `/sys/class/infiniband` alone.
    """

    def __init__(self, data: bytes) -> None:
        """Raises PartUnreadable for what is no tar, is cut off, is too large, or names a path outside of itself."""
        self._files: dict[str, str] = {}
        self._links: dict[str, str] = {}
        self._folders: dict[str, set[str]] = {"": set()}
        members = _read_members(_unpack(data))
        above = _mount_point({path for path, _ in members})
        for path, member in members:
            self._add(_mounted(path, above), member, above)

    def names(self, path: str) -> tuple[str, ...] | None:
        """See Tree."""
        real = self.real(path)
        found = None if real is None else self._folders.get(real, self._folders.get(path))
        return None if found is None else tuple(sorted(found))

    def text(self, path: str) -> str | None:
        """See Tree."""
        real = self.real(path)
        # A tar may hold a link and, under the same path, what was packed through it.
        return None if real is None else self._files.get(real, self._files.get(path))

    def real(self, path: str) -> str | None:
        """See Tree."""
        left = path.split("/")[::-1]
        done: list[str] = []
        links = 0
        while left:
            part = left.pop()
            if part == ".." and not done:
                return None
            if part == "..":
                done.pop()
            elif part not in {"", "."}:
                done.append(part)
                target = self._links.get("/".join(done))
                if target is not None:
                    links += 1
                    if links > _MAX_LINKS or target.startswith("/"):
                        return None
                    done.pop()
                    left.extend(target.split("/")[::-1])
        return "/".join(done)

    def _add(self, path: str | None, member: str | tuple[str, bool] | None, above: str) -> None:
        """Add a text, a link (`(target, is_hard)`) or a folder (None), and the folders around it."""
        if not path:
            return
        if isinstance(member, str):
            self._files[path] = member
        elif member is None:
            self._folders.setdefault(path, set())
        elif member[1]:
            same = _mounted(_plain(member[0]), above)
            self._files[path] = self._files.get(same or "", "")
        else:
            self._links[path] = member[0]
        while path:
            folder, _, name = path.rpartition("/")
            inside = self._folders.setdefault(folder, set())
            if name in inside:
                return
            inside.add(name)
            path = folder


def _unpack(data: bytes) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        return data
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        unpacked = unpacker.decompress(data, MAX_TAR_BYTES + 1)
    except zlib.error as error:
        raise PartUnreadable(f"the gzip data is damaged ({error}); send what tar wrote") from error
    if len(unpacked) > MAX_TAR_BYTES:
        raise PartUnreadable(f"the tar has more than {MAX_TAR_BYTES} bytes unpacked; send the attributes only")
    if not unpacker.eof:
        raise PartUnreadable("the gzip data is cut off; send the whole file")
    return unpacked


def _read_members(data: bytes) -> list[tuple[str, str | tuple[str, bool] | None]]:
    """Return all members as paths with a text, a link or None for a folder; other sorts are left out."""
    members: list[tuple[str, str | tuple[str, bool] | None]] = []
    try:
        with tarfile.open(fileobj=BytesIO(data), mode="r:") as tar:
            while (member := tar.next()) is not None:
                members.append((_plain(member.name), _content(tar, member)))
                if len(members) > MAX_MEMBERS:
                    raise PartUnreadable(f"the tar has more than {MAX_MEMBERS} members; send the attributes only")
            end = tar.offset
    except _BROKEN as error:
        raise PartUnreadable(f"this is no whole tar, plain or gzip ({error}); send what tar wrote") from error
    # Python ends quietly where a header is damaged or missing; an archive ends with zeros.
    if data[end : end + _BLOCK] != bytes(_BLOCK):
        raise PartUnreadable("the tar is cut off or damaged: it has no end mark; send the whole file")
    return members


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str | tuple[str, bool] | None:
    if member.issym() or member.islnk():
        return (member.linkname[:_MAX_PATH], member.islnk())
    if not member.isreg() or member.issparse():
        return None
    file = tar.extractfile(member)
    return _text(file.read(PAGE_BYTES)) if file else ""


def _plain(path: str) -> str:
    """Return a member's path without `/` or `./` before it. Raises PartUnreadable for one that leaves the tar."""
    parts = [part for part in path[: _MAX_PATH + 1].split("/") if part not in {"", "."}]
    if len(path) > _MAX_PATH or len(parts) > _MAX_DEPTH or ".." in parts:
        raise PartUnreadable("the tar holds a path that is too long or leads outside; send what tar wrote of /sys")
    return "/".join(parts)


def _mount_point(paths: set[str]) -> str:
    """Return what to put before each path (`+…`) or to cut off (`-…`) so that it is relative to `/sys`."""
    found = ((path, f"/{path}/".find("/class/infiniband/")) for path in paths)
    above = [path[:at] for path, at in found if at >= 0]
    if above:
        return f"-{min(above, key=len)}"
    if any(path.split("/")[0] == "infiniband" for path in paths):
        return "+class/"
    if any(path.count("/") == 1 and path.endswith(("/ports", "/node_guid", "/fw_ver", "/device")) for path in paths):
        return "+class/infiniband/"
    return "-"


def _mounted(path: str, above: str) -> str | None:
    if above[0] == "+":
        return f"{above[1:]}{path}"
    return path[len(above) - 1 :] if path.startswith(above[1:]) else None


def _text(content: bytes) -> str:
    """Return an attribute's text. tar fills what sysfs gives less than it announces with zeros."""
    return content.decode("utf-8", "replace").strip("\0 \t\r\n")
