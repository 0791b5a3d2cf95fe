# SPDX-License-Identifier: Apache-2.0
"""Is the history the one that was seen outside? What is missing may be the very hold that keeps a node out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class LossCause(StrEnum):
    """How the records differ from what was seen of them outside."""

    ENDS_EARLY = "ends_early"
    """The history ends before an entry that was seen: an older copy was put back, or its end was cut off."""
    OTHER_HISTORY = "other_history"
    """Another entry stands where one was seen: the history went on differently from some entry on."""


@dataclass(frozen=True, slots=True)
class Head:
    """One entry by its place and hash: what a checkpoint names. All entries before it follow from the hash."""

    sequence: int
    hash: str


@dataclass(frozen=True, slots=True)
class Loss:
    """What is not, or not certainly, in the records any more: entries `first` to `last`."""

    cause: LossCause
    first: int
    last: int


def find_loss(seen: Sequence[Head], head: int, hash_at: Callable[[int], str | None]) -> Loss | None:
    """Compare the records with heads that were seen outside, the newest first; None when the newest is in them.

    `head` is the sequence of the newest entry here, `hash_at` gives the hash of any of them.
    """
    if not seen or hash_at(seen[0].sequence) == seen[0].hash:
        return None
    strange = [one for one in seen if one.sequence <= head and hash_at(one.sequence) != one.hash]
    kept = max((one.sequence for one in seen if hash_at(one.sequence) == one.hash), default=0)
    if strange:
        return Loss(LossCause.OTHER_HISTORY, kept + 1, max(one.sequence for one in seen))
    return Loss(LossCause.ENDS_EARLY, head + 1, max(one.sequence for one in seen))
