# SPDX-License-Identifier: Apache-2.0
"""What does the tree over the history hash to, between any two entries? Read from kept subtrees, in bounded work.

A row of `subtree` holds the root over the 2^level entries that end with entry `upto`. They are kept from BLOCK entries
on, when a checkpoint is made, so that no write waits for them; what is smaller is hashed from the entries themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

from registry.domain.merkle import Frontier, Range, join, leaf_of, peaks_of, root_of, split
from registry.store.snapshots import Row, Snapshot, Transaction

LEVEL = 8
BLOCK = 1 << LEVEL
"""Entries below the smallest subtree that is kept: a proof hashes at most so many, and five million entries have
39,000 rows."""

PIECE = 64 * BLOCK
"""Entries that are read at once to complete the kept subtrees."""


class Tree:
    """The tree over the entries of one snapshot, as far as anybody asks for it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._kept = covered(snapshot)
        self._blocks: dict[int, list[bytes]] = {}
        self._known: dict[Range, bytes] = {}

    def root(self, size: int) -> bytes:
        """Give the root over the first so many entries, all of which must be there."""
        tree = Frontier(size, [self.hash_of(start, end) for start, end in peaks_of(size)])
        return tree.root()

    def hash_of(self, start: int, end: int) -> bytes:
        """Give the root over leaves `start` to `end`, from 0, the end exclusive: a subtree, or the right edge of one.

        Raises LookupError when an entry or a kept subtree in it is missing.
        """
        if (start, end) not in self._known:
            self._known[start, end] = self._find(start, end)
        return self._known[start, end]

    def _find(self, start: int, end: int) -> bytes:
        size = end - start
        if size >= BLOCK and not size & (size - 1) and end <= self._kept:
            return self._read(end, size.bit_length() - 1)
        if size <= BLOCK:
            return root_of(self._leaves(start, end))
        middle = split(start, end)
        return join(self.hash_of(start, middle), self.hash_of(middle, end))

    def _read(self, upto: int, level: int) -> bytes:
        row = self._snapshot.one("SELECT hash FROM subtree WHERE upto = ? AND level = ?", (upto, level))
        if row is None:
            raise LookupError(f"the subtree of level {level} up to entry {upto} is missing")
        return bytes.fromhex(row[0])

    def _leaves(self, start: int, end: int) -> list[bytes]:
        """Give the leaves of a range, which never reaches over the edge of a block."""
        block = start // BLOCK
        if block not in self._blocks:
            first = block * BLOCK
            rows = _hashes(self._snapshot, first, first + BLOCK)
            self._blocks = {block: [leaf_of(hash_) for (hash_,) in rows]}  # one is enough: pages go along the history
        found = self._blocks[block][start % BLOCK : start % BLOCK + end - start]
        if len(found) != end - start:
            raise LookupError(f"entries between {start + 1} and {end} are missing")
        return found


def covered(snapshot: Snapshot) -> int:
    """Return up to which entry subtrees are kept; 0 before the first."""
    row = snapshot.one("SELECT MAX(upto) FROM subtree")
    return int(row[0] or 0) if row else 0


def next_rows(snapshot: Snapshot) -> list[Row]:
    """Compute the rows that the next entries complete, of at most PIECE entries; none when all are kept."""
    kept = covered(snapshot)
    end = min(kept + PIECE, snapshot.sequence() // BLOCK * BLOCK)
    if end <= kept:
        return []
    tree = Tree(snapshot)
    growing = Frontier(kept, [tree.hash_of(*peak) for peak in peaks_of(kept)])
    found: list[Row] = []
    for (hash_,) in _hashes(snapshot, kept, end):
        complete = growing.append(leaf_of(hash_))
        found += [(growing.size, LEVEL + above, one.hex()) for above, one in enumerate(complete[LEVEL:])]
    return found


def insert_rows(transaction: Transaction, rows: list[Row]) -> bool:
    """Keep rows that `next_rows` gave, unless somebody else has kept them meanwhile; says whether it did."""
    if covered(transaction) >= rows[0][0]:
        return False
    transaction.many("INSERT INTO subtree (upto, level, hash) VALUES (?, ?, ?)", rows)
    return True


def iterate_rows(snapshot: Snapshot) -> Iterator[Row]:
    """Yield (upto, level, hash) of all kept subtrees, in the order in which entries complete them."""
    return snapshot.iterate("SELECT upto, level, hash FROM subtree ORDER BY upto, level")


def _hashes(snapshot: Snapshot, start: int, end: int) -> list[Row]:
    sql = "SELECT hash FROM event WHERE sequence > ? AND sequence <= ? ORDER BY sequence"
    return snapshot.all(sql, (start, end))
