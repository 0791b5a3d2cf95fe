# SPDX-License-Identifier: Apache-2.0
"""Was the history tampered with? Every entry is hashed again, and held against all that was signed of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from heapq import merge
from typing import Any, TypeAlias

from registry.domain.checkpoints import Checkpoint
from registry.domain.events import GENESIS, EventType, SubjectRow, unseal, verify_entry
from registry.domain.merkle import Frontier, leaf_of
from registry.store.engines import unhurried
from registry.store.history import entry_of
from registry.store.snapshots import Row, Snapshot
from registry.store.subtrees import LEVEL, iterate_rows

PROGRESS_EVERY = 1000
"""After how many entries `verify_chain` tells how far it is."""

_EVENTS = "SELECT sequence, at, type, body, prev_hash, hash FROM event WHERE sequence > ? AND sequence <= ?"
_SUBJECTS = "SELECT event, kind, id, ordinal FROM event_subject WHERE event > ? AND event <= ? ORDER BY event"
# The rows of a stretch whose subject has no earlier event that counts one less.
_GAPS = (
    "SELECT s.event, s.kind, s.id, s.ordinal, p.event FROM event_subject s LEFT JOIN event_subject p "
    "ON p.kind = s.kind AND p.id = s.id AND p.ordinal = s.ordinal - 1 "
    "WHERE s.event > ? AND s.event <= ? AND s.ordinal <> 1 AND (p.event IS NULL OR p.event >= s.event) "
    "ORDER BY s.event, s.ordinal LIMIT 1"
)
ALL = 2**63 - 1
"""Beyond every sequence."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `verify_chain` found. `bad` is the sequence of the first entry that is wrong or absent, with the reason.

    Where hashes were made to fit again, `bad` is the first entry that nothing vouches for. `checkpoints` is how many
    signed ones the entries were held against, `next` the entry to go on after where not all were looked at.
    """

    ok: bool
    entries: int
    head_sequence: int
    head_hash: str
    bad: int | None = None
    reason: str | None = None
    checkpoints: int = 0
    next: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Give the report as a document."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the entries are held against: checkpoints that were kept elsewhere, whose signatures hold, and a judge of
    those in the history itself, who raises ValueError for one that nobody should believe.
    """

    held: Sequence[Checkpoint] = ()
    judge: Callable[[Checkpoint], None] | None = None


@dataclass(frozen=True, slots=True)
class _Doubtful:
    """An entry of the history that says it is a checkpoint, and nobody should believe it."""

    sequence: int
    reason: str


Witness: TypeAlias = Checkpoint | _Doubtful


class _Bad(Exception):
    """The first fault of the history."""

    def __init__(self, sequence: int, reason: str) -> None:
        super().__init__(reason)
        self.sequence = sequence
        self.reason = reason


def verify_chain(
    snapshot: Snapshot,
    *,
    evidence: Evidence | None = None,
    after: int = 0,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> VerifyReport:
    """Recompute the history from the bodies of its entries, with flat memory.

    Finds any entry or subject row that was edited, deleted, inserted or moved. A history that was written anew from
    some entry on, hashes included, or whose end was cut off together with the head, is found by a held checkpoint
    that covers it, and only by one. `progress` is told how many entries are done.

    Only a part is looked at with `after` or `limit`: entry `after` is believed then, and the roots of checkpoints
    are left to a round that begins with the first entry (their hashes are not).
    """
    if statement := unhurried(snapshot.engine):
        snapshot.execute(statement)
    head = snapshot.one("SELECT sequence, hash FROM chain_head WHERE id = 1")
    if head is None:
        return VerifyReport(False, 0, 0, GENESIS, 1, "the head of the history is gone")  # noqa: FBT003 - `ok`
    head_sequence, head_hash = head
    last = ALL if limit is None or after + limit >= head_sequence else after + limit
    walk = _Round(snapshot, evidence or Evidence(), after, last, progress or (lambda _: None))
    try:
        walk.events()
        if last == ALL:
            walk.meet_head(head_sequence, head_hash)
        _check_ordinals(snapshot, after, last)
    except _Bad as fault:
        found = VerifyReport(False, walk.done, head_sequence, head_hash, fault.sequence, fault.reason)  # noqa: FBT003
    else:
        found = VerifyReport(True, walk.done, head_sequence, head_hash, next=None if last == ALL else last)  # noqa: FBT003
    return _with(found, walk.vouched)


def _with(report: VerifyReport, checkpoints: int) -> VerifyReport:
    return VerifyReport(**{**asdict(report), "checkpoints": checkpoints})


class _Round:
    """Goes along the entries and, beside them, along subject rows, kept subtrees and checkpoints."""

    def __init__(
        self, snapshot: Snapshot, evidence: Evidence, after: int, last: int, progress: Callable[[int], None]
    ) -> None:
        self.done = 0
        self.vouched = 0
        self._after, self._at = after, after
        self._vouched_to = after
        self._hash = self._first_hash(snapshot, after)
        self._tree = Frontier() if after == 0 else None
        self._progress = progress
        self._rows = snapshot.iterate(f"{_EVENTS} ORDER BY sequence", (after or -ALL, last))
        self._subjects = snapshot.iterate(_SUBJECTS, (after or -ALL, last))
        self._kept = iterate_rows(snapshot) if after == 0 else iter(())
        self._witnesses = _witnesses(snapshot, evidence, after, last)
        self._subject: Row | None = None
        self._subtree: Row | None = None
        self._witness: Witness | None = None
        self._is_whole = last == ALL

    def events(self) -> None:
        """Check every entry with what belongs to it. Raises _Bad at the first fault."""
        self._subject = next(self._subjects, None)
        self._subtree = next(self._kept, None)
        self._witness = self._next_witness()
        self._meet_witnesses()
        for row in self._rows:
            self._check(row)
            self.done += 1
            if self.done % PROGRESS_EVERY == 0:
                self._progress(self.done)
        if self._subject is not None:
            raise _Bad(self._subject[0], "a subject row belongs to no event")
        if self._is_whole and self._witness is not None:
            raise _Bad(self._at + 1, f"the history ends here, and {_told(self._witness)} covers more")
        if self._is_whole and self._subtree is not None:
            raise _Bad(self._at + 1, f"the history ends here, and a subtree up to {self._subtree[0]} is kept")
        self._progress(self.done)

    def meet_head(self, sequence: int, hash_: str) -> None:
        """Check that the head is the last entry. Raises _Bad."""
        if self._at < sequence:
            raise _Bad(self._at + 1, f"the event is missing: the head of the history is {sequence}")
        if self._at > sequence:
            raise _Bad(sequence + 1, f"the event stands behind the head of the history, which is {sequence}")
        if self._hash != hash_:
            raise _Bad(sequence, "the head of the history has another hash than the last event")

    def _first_hash(self, snapshot: Snapshot, after: int) -> str:
        if after == 0:
            return GENESIS
        row = snapshot.one("SELECT hash FROM event WHERE sequence = ?", (after,))
        return str(row[0]) if row else ""  # what comes after a missing entry follows from nothing

    def _check(self, row: Row) -> None:
        expected = self._at + 1
        if row[0] != expected:
            self._refuse_sequence(row[0], expected)
        try:
            entry = entry_of(row)
        except (OverflowError, TypeError):
            raise _Bad(expected, "at is not a time") from None
        subjects = self._take_subjects(expected)
        reason = verify_entry(entry, expected_sequence=expected, expected_prev_hash=self._hash, subjects=subjects)
        if reason is not None:
            raise _Bad(expected, reason)
        self._hash, self._at = entry.hash, expected
        if self._tree is not None:
            self._grow(self._tree)
        if self._witness is not None and self._witness.sequence <= expected:
            self._meet_witnesses()

    def _refuse_sequence(self, found: object, expected: int) -> None:
        if isinstance(found, int) and found > expected:
            raise _Bad(expected, f"the event is missing: {found} stands in its place")
        raise _Bad(expected, f"sequence {found!r} stands where {expected} belongs")

    def _take_subjects(self, sequence: int) -> list[SubjectRow]:
        taken: list[SubjectRow] = []
        while self._subject is not None and self._subject[0] <= sequence:
            if self._subject[0] != sequence:
                raise _Bad(self._subject[0], "a subject row belongs to no event")
            taken.append(self._subject[1:])
            self._subject = next(self._subjects, None)
        return taken

    def _grow(self, tree: Frontier) -> None:
        complete = tree.append(leaf_of(self._hash))
        while self._subtree is not None and self._subtree[0] <= tree.size:
            upto, level, hash_ = self._subtree
            is_there = upto == tree.size and LEVEL <= level < len(complete)
            if not is_there or complete[level].hex() != hash_:
                raise _Bad(self._vouched_to + 1, f"the kept subtree of level {level} up to {upto} is of other entries")
            self._subtree = next(self._kept, None)

    def _meet_witnesses(self) -> None:
        """Hold the entries so far against the checkpoints that end with the last of them. Raises _Bad."""
        while (signed := self._witness) is not None and signed.sequence <= self._at:
            if isinstance(signed, _Doubtful):
                raise _Bad(signed.sequence, signed.reason)
            is_same_root = self._tree is None or self._tree.root().hex() == signed.root
            if signed.hash != self._hash or not is_same_root:
                first = self._vouched_to + 1
                reason = f"{_told(signed)} is of other entries: something from {first} to {signed.sequence} was changed"
                raise _Bad(min(first, max(signed.sequence, 1)), reason)
            self._vouched_to = signed.sequence
            self.vouched += 1
            self._witness = self._next_witness()

    def _next_witness(self) -> Witness | None:
        return next(self._witnesses, None)


def _witnesses(snapshot: Snapshot, evidence: Evidence, after: int, last: int) -> Iterator[Witness]:
    """Give the checkpoints of entries in a stretch, from elsewhere and from the history, in the order of entries."""
    held = sorted(evidence.held, key=lambda one: one.sequence)
    within: list[Witness] = [one for one in held if after < one.sequence <= last or one.sequence == after == 0]
    return merge(within, _recorded(snapshot, evidence, after, last), key=lambda one: one.sequence)


def _recorded(snapshot: Snapshot, evidence: Evidence, after: int, last: int) -> Iterator[Witness]:
    if evidence.judge is None:
        return
    sql = (
        "SELECT sequence, at, type, body, prev_hash, hash FROM event WHERE type = ? AND sequence > ? ORDER BY sequence"
    )
    for row in snapshot.iterate(sql, (str(EventType.CHECKPOINT_SIGNED), after)):
        if row[0] > last:
            return
        yield _read(row, evidence.judge)


def _read(row: Row, judge: Callable[[Checkpoint], None]) -> Witness:
    """Read a checkpoint out of an entry that is still to be verified itself."""
    try:
        signed = Checkpoint.parse(unseal(entry_of(row)).data)
        if signed.sequence + 1 != row[0]:
            raise ValueError(f"the checkpoint is of entry {signed.sequence}, and not of the one before")  # noqa: TRY301
        judge(signed)
    except (ValueError, TypeError, OverflowError) as error:
        return _Doubtful(row[0], str(error))
    return signed


def _told(signed: Witness) -> str:
    when = f", signed {signed.signed_at}," if isinstance(signed, Checkpoint) else ""
    return f"the checkpoint of entry {signed.sequence}{when}"


def _check_ordinals(snapshot: Snapshot, after: int, last: int) -> None:
    """Check that each subject counts its events 1, 2, 3 …, in the order of the history. Raises _Bad."""
    row = snapshot.one(_GAPS, (after or -ALL, last))
    if row is None:
        return
    event, kind, id_, ordinal, before = row
    if before is None:
        raise _Bad(event, f"{kind} {id_} counts {ordinal}, and nothing counts {ordinal - 1}: events of it are missing")
    raise _Bad(event, f"{kind} {id_} counts {ordinal} before {ordinal - 1}: events of it changed places")
