# SPDX-License-Identifier: Apache-2.0
"""What does the end of a job's log say, line by line, and on which of its nodes?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from registry.domain.failures import Cause, look_up
from registry.domain.findings import CONTAINED, CONTAINED_KINDS, Finding, Origin, base_of
from registry.domain.job_failures import Grade, JobFailure, Retry
from registry.domain.log_patterns import PATTERNS, Pattern

LINES_MAX = 2000
"""How many lines are read, the last ones: where a log breaks off, it is the end that counts."""

LINE_LENGTH = 1000
"""How much of a line is read, half of it from its beginning and half from its end.

A pattern that looks for two words takes time by the square of a line's length: a progress bar of 60,000 characters
without a line's end would stop everybody for half a minute.
"""

QUOTE_LENGTH = 120
"""How much of a line is shown."""

_REMARK = re.compile(r"\w*Warning: ")
"""A warning of Python's, which ends nothing: https://docs.python.org/3/library/warnings.html"""

_XID_LINE = re.compile(r"NVRM: Xid \(PCI:[0-9A-Fa-f:.]+\): ([0-9]+)")
"""A line of the kernel's log about an Xid: https://docs.nvidia.com/deploy/xid-errors/"""

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RANK = re.compile(r"\[rank ?([0-9]{1,7})\]")


@dataclass(frozen=True, slots=True)
class Places:
    """How texts name the nodes of a job: in full, by the host's short name where that is one node's, by a rank."""

    names: Mapping[str, str]
    ranks: Mapping[int, str]
    only: str | None

    @classmethod
    def of(cls, job: JobFailure) -> Places:
        """Learn the names of a job's nodes, and the ranks from the signals that tell both."""
        short = Counter(name.partition(".")[0] for name in job.nodes)
        names = {name.partition(".")[0]: name for name in job.nodes if short[name.partition(".")[0]] == 1}
        told: dict[int, set[str]] = {}
        for one in job.signals:
            if one.rank is not None and one.node is not None:
                told.setdefault(one.rank, set()).add(one.node)
        ranks = {rank: min(nodes) for rank, nodes in told.items() if len(nodes) == 1}
        return cls(
            {**names, **{name: name for name in job.nodes}}, ranks, job.nodes[0] if len(job.nodes) == 1 else None
        )

    def named_in(self, text: str, *, besides: str | None = None) -> str | None:
        """Return the first node, other than one, that a text names."""
        found = (self.meant_by(word) for word in _WORD.findall(text))
        return next((name for name in found if name is not None and name != besides), None)

    def writer_of(self, line: str) -> str | None:
        """Return the node that wrote a line: named at its beginning, or by the rank; or the only one there is."""
        first = _WORD.search(line)
        named = self.meant_by(first[0]) if first else None
        rank = _RANK.search(line)
        return named or (self.ranks.get(int(rank[1])) if rank else None) or self.only

    def meant_by(self, word: str) -> str | None:
        """Return the node that a word means; a host in full may be a node by its short name."""
        found = self.names.get(word)
        if found is not None or "." not in word:
            return found
        short = word.partition(".")[0]
        return self.names.get(word.rstrip(".")) or (short if self.names.get(short) == short else None)


def read_log(job: JobFailure, places: Places) -> Iterator[Finding]:
    """Give what the log says. The same said again of the same node is said once."""
    said: set[tuple[str | None, ...]] = set()
    for order, line in enumerate((job.log_excerpt or "").splitlines()[-LINES_MAX:]):
        found = read_line(line, job, places, order)
        if found is None or (found.kind, found.node, found.toward) in said:
            continue
        said.add((found.kind, found.node, found.toward))
        yield found


def read_line(line: str, job: JobFailure, places: Places, order: int = 0) -> Finding | None:
    """Return what one line says, or None where it says nothing that is known. It is dated as the failure itself."""
    line = _bounded(line)
    xid = _XID_LINE.search(line)
    if xid is not None:
        return _of_xid(f"xid_{int(xid[1])}", line, job, places.writer_of(line), order)
    if _REMARK.search(line):
        return None
    pattern = next((one for one in PATTERNS if one.text.search(line)), None)
    if pattern is None:
        return None
    writer = places.writer_of(line)
    return _of_pattern(pattern, line, job, (writer, places.named_in(line, besides=writer)), order)


def _of_pattern(
    pattern: Pattern, line: str, job: JobFailure, where: tuple[str | None, str | None], order: int
) -> Finding:
    here, toward = where
    is_elsewhere = pattern.cause is Cause.PLATFORM and not pattern.is_placed
    return Finding(
        origin=Origin.LOG,
        cause=pattern.cause,
        weight=pattern.weight,
        grade=pattern.grade,
        what=f"the log: {pattern.what} ({quote(line)})",
        at=job.failed_at,
        order=order,
        node=here if pattern.is_placed or pattern.grade is Grade.WITNESS else None,
        kind=pattern.what,
        toward=toward if pattern.grade is Grade.WITNESS else None,
        teller=here,
        retry=Retry.AS_IS if is_elsewhere else None,
    )


def _of_xid(code: str, line: str, job: JobFailure, here: str | None, order: int) -> Finding:
    """An Xid in the log says what one on record does, but for the device."""
    kind = look_up(code)
    cause, weight, grade = base_of(code, kind.cause, kind.severity)
    is_contained = kind.kind in CONTAINED_KINDS
    return Finding(
        origin=Origin.LOG,
        cause=cause,
        weight=CONTAINED if is_contained else weight,
        grade=grade,
        what=f"the log: {code}, {kind.title.lower()} ({quote(line)})",
        at=job.failed_at,
        order=order,
        node=here,
        kind=kind.kind or code,
        retry=Retry.AS_IS if is_contained else None,
    )


def _bounded(line: str) -> str:
    half = LINE_LENGTH // 2
    return line if len(line) <= LINE_LENGTH else f"{line[:half]} … {line[-half:]}"


def quote(line: str) -> str:
    """Show a line as one that cannot steer a terminal, cut where it is long."""
    plain = "".join(sign if sign.isprintable() else " " for sign in line.strip())
    return plain if len(plain) <= QUOTE_LENGTH else f"{plain[:QUOTE_LENGTH]}…"
