# SPDX-License-Identifier: Apache-2.0
"""How does one hash vouch for the whole history, so that a few others prove that a single entry is in it?

The tree is that of RFC 9162, section 2.1 (https://www.rfc-editor.org/rfc/rfc9162#section-2.1), with SHA-256. Its leaves
are the entries in the order of their sequences, from 1 on; what stands in a leaf is the entry's own hash, as 32 bytes:

    leaf = SHA-256(0x00 || hash of the entry)        node = SHA-256(0x01 || left || right)

The entry's hash covers its body and the hash before it, so a leaf vouches for both. This is the format for ever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

EMPTY_ROOT = hashlib.sha256(b"").digest()
"""The root of a tree without leaves."""

Range: TypeAlias = tuple[int, int]
"""Leaves `start` to `end`, counted from 0, the end exclusive."""

HashOf: TypeAlias = Callable[[int, int], bytes]
"""Gives the root over the leaves of a range."""


def leaf_of(entry_hash: str) -> bytes:
    """Hash what stands in a leaf: the hash of an entry, as hexadecimal digits. Raises ValueError for anything else."""
    return hashlib.sha256(b"\x00" + bytes.fromhex(entry_hash)).digest()


def join(left: bytes, right: bytes) -> bytes:
    """Hash two neighbours into the node above them."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Frontier:
    """A tree that leaves are added to. It keeps one hash for each bit of its size, and nothing else.

    `peaks` are the roots of the complete subtrees that the leaves so far fall into, the largest first.
    """

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        """Begin empty, or where another stopped. Raises ValueError unless there is a peak for each bit of the size."""
        if len(peaks) != size.bit_count():
            raise ValueError(f"{len(peaks)} peaks cannot be those of {size} leaves")
        self.size = size
        self.peaks = list(peaks)

    def append(self, leaf: bytes) -> list[bytes]:
        """Add a leaf; return the roots of all complete subtrees that end with it: of one leaf, of two, of four."""
        complete, left = [leaf], self.size
        while left & 1:
            leaf = join(self.peaks.pop(), leaf)
            complete.append(leaf)
            left >>= 1
        self.peaks.append(leaf)
        self.size += 1
        return complete

    def root(self) -> bytes:
        """Give the hash over all leaves."""
        if not self.peaks:
            return EMPTY_ROOT
        *others, root = self.peaks
        for peak in reversed(others):
            root = join(peak, root)
        return root


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Give the root over some leaves."""
    tree = Frontier()
    for leaf in leaves:
        tree.append(leaf)
    return tree.root()


def split(start: int, end: int) -> int:
    """Say where the tree over a range of two leaves or more is cut: the left part is the largest power of two."""
    return start + (1 << (end - start - 1).bit_length() - 1)


def peaks_of(size: int) -> Iterator[Range]:
    """Yield the complete subtrees that a tree of this size is made of, the largest first."""
    start = 0
    for bit in reversed(range(size.bit_length())):
        if size >> bit & 1:
            yield start, start + (1 << bit)
            start += 1 << bit


def inclusion_path(index: int, size: int, hash_of: HashOf) -> list[bytes]:
    """Prove that leaf `index`, from 0, stands in the tree of `size` leaves. Raises ValueError when it does not.

    The order is that of RFC 9162, 2.1.3.1: from the leaf up to the root.
    """
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size}")
    path: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = split(start, end)
        if index < middle:
            path.append(hash_of(middle, end))
            end = middle
        else:
            path.append(hash_of(start, middle))
            start = middle
    return path[::-1]


def consistency_path(first: int, second: int, hash_of: HashOf) -> list[bytes]:
    """Prove that the tree of `second` leaves begins with the tree of `first`. Raises ValueError unless 0 < first.

    The order is that of RFC 9162, 2.1.4.1; trees of equal size need no proof.
    """
    if not 0 < first <= second:
        raise ValueError(f"a tree of {second} does not go on from one of {first}")
    path: list[bytes] = []
    start, end, is_whole = 0, second, True
    while end > first:
        middle = split(start, end)
        if first <= middle:
            path.append(hash_of(middle, end))
            end = middle
        else:
            path.append(hash_of(start, middle))
            start, is_whole = middle, False
    if not is_whole:
        path.append(hash_of(start, end))
    return path[::-1]


def root_by_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """Compute the root that a proof of inclusion leads to; None when the proof has not the length it must have.

    RFC 9162, 2.1.3.2. The proof holds when this is the root of the tree.
    """
    if not 0 <= index < size:
        return None
    here, last = index, size - 1
    for hash_ in path:
        if last == 0:
            return None
        if here & 1 or here == last:
            leaf = join(hash_, leaf)
            while not here & 1 and here:
                here, last = here >> 1, last >> 1
        else:
            leaf = join(leaf, hash_)
        here, last = here >> 1, last >> 1
    return leaf if last == 0 else None


def is_consistent(first: int, first_root: bytes, second: int, second_root: bytes, path: Sequence[bytes]) -> bool:
    """Say whether a proof shows that the second tree only goes on from the first: RFC 9162, 2.1.4.2."""
    if first == second:
        return first_root == second_root and not path
    if not 0 < first < second or not path:
        return False
    hashes = [first_root, *path] if first & (first - 1) == 0 else list(path)
    here, last = first - 1, second - 1
    while here & 1:
        here, last = here >> 1, last >> 1
    old = new = hashes[0]
    for hash_ in hashes[1:]:
        if last == 0:
            return False
        if here & 1 or here == last:
            old, new = join(hash_, old), join(hash_, new)
            while not here & 1 and here:
                here, last = here >> 1, last >> 1
        else:
            new = join(new, hash_)
        here, last = here >> 1, last >> 1
    return last == 0 and (old, new) == (first_root, second_root)
