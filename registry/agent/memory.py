# SPDX-License-Identifier: Apache-2.0
"""What must the agent still know after it was killed? Which faults of this boot it has told, and what the log showed.

Kept in one small file that is replaced as a whole. Losing it costs nothing but repetition: the server knows a fault
that is told again by its id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import astuple, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from registry.agent.spool import BEGUN, FOLDER_MODE, SPOILT, write_whole
from registry.domain.reports import CheckStatus
from registry.domain.times import parse_rfc3339, rfc3339_or_none

TOLD_MAX = 10_000
"""Most ids kept; a log that holds more faults of one boot than that repeats itself."""


@dataclass(frozen=True, slots=True)
class Told:
    """What was told under an id: of which code and place, how many sights, up to when, and since when.

    `mark` is the time since boot of the last sight in microseconds, else its date, else None. `occurred_at` is told
    again as it was: one id stands for one story, also after the clock was set.
    """

    of: str
    count: int
    mark: int | str | None
    occurred_at: str | None


class Memory:
    """What is known of one boot. A new boot begins with an empty one."""

    def __init__(self, file: Path | None, boot_id: str, say: Callable[[str], None] = lambda _: None) -> None:
        """Read the file; one that is missing or of another boot counts as empty, one that is spoilt is set aside and
        said. Without a file nothing is kept.
        """
        self._file = file
        self.boot_id = boot_id
        self.told: dict[str, Told] = {}
        self.failing: list[dict[str, Any]] = []
        self.standing: dict[str, int] = {}
        self.is_diagnosed = False
        self.was_admitted = False
        self.acted: list[str] = []
        """What the command for a changed decision was last run for (`Actor.done`)."""
        self.booted_at: datetime | None = None
        self._saved = b""
        self._unsafe: dict[str, Told | None] = {}
        try:
            self._take(_read(file))
        except _SPOILT as error:
            say(_set_aside(file, error))

    def keep_boot_time(self, booted_at: datetime | None) -> datetime | None:
        """Return when the boot began as it was computed first: computed anew it moves with the clock, and with it the
        id of every line that was told already.
        """
        self.booted_at = self.booted_at or booted_at
        return self.booted_at

    def news(self, failure: dict[str, Any]) -> dict[str, Any] | None:
        """Give a fault of a message as it is to be told, None when all of it was told before.

        What was told under its id and has gone on since is told again. So is nothing that was told under another id: a
        log that is read on names a sight by itself, the whole log by the first of them.
        """
        known = self.told.get(failure["failure_id"])
        if known is None:
            return failure
        mark = _mark(failure)
        if mark is None:
            has_grown = failure.get("count", 1) > known.count
        else:
            marks = (one.mark for one in self.told.values() if one.of == known.of)
            has_grown = all(not _is_reached(mark, one) for one in marks)
        if not has_grown:
            return None
        return failure if known.occurred_at is None else {**failure, "occurred_at": known.occurred_at}

    def note_told(self, failures: Iterable[dict[str, Any]], *, is_safe: bool = True) -> None:
        """Remember that these faults are with the server or in the spool.

        Those that are not safe there are not told again by this agent, and are by one that comes after it, until
        `settle` says that they have become safe.
        """
        for one in failures:
            id_ = one["failure_id"]
            if is_safe:
                self._unsafe.pop(id_, None)
            else:
                self._unsafe.setdefault(id_, self.told.get(id_))
            self.told[id_] = Told(_of(one), one.get("count", 1), _mark(one), one.get("occurred_at"))
        for oldest in list(self.told)[:-TOLD_MAX]:
            del self.told[oldest]

    def settle(self) -> None:
        """Remember that all faults told so far are safe."""
        self._unsafe.clear()

    def note_standing(self, ids: Collection[str], number: int, *, is_whole: bool) -> None:
        """Keep which faults without a time the tools show now, each with the number at which it appeared.

        One that a whole look does not show is over: when it comes back it is another.
        """
        if is_whole:
            self.standing = {id_: at for id_, at in self.standing.items() if id_ in ids}
        for id_ in ids:
            self.standing.setdefault(id_, number)

    def save(self) -> None:
        """Bring it to the disk where it differs from what is there. Raises OSError."""
        safe = {id_: self._unsafe.get(id_, one) for id_, one in self.told.items()}
        known = {
            "boot_id": self.boot_id,
            "told": {id_: astuple(one) for id_, one in safe.items() if one is not None},
            "failing": self.failing,
            "standing": self.standing,
            "is_diagnosed": self.is_diagnosed,
            "was_admitted": self.was_admitted,
            "acted": self.acted,
            "booted_at": rfc3339_or_none(self.booted_at),
        }
        content = json.dumps(known).encode()
        if self._file is not None and content != self._saved:
            self._file.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            write_whole(self._file, content, self._file.with_suffix(BEGUN))
            self._saved = content

    def _take(self, known: dict[str, Any]) -> None:
        """Take what was kept of this boot, all of it or nothing. Raises for what was never written so."""
        if known.get("boot_id") != self.boot_id:
            return
        told = {id_: Told(*one) for id_, one in known["told"].items()}
        if not all(type(one.of) is str and type(one.count) is int for one in told.values()):
            raise ValueError("what was told is not written as it should be")
        failing = [{**one, "status": str(CheckStatus(one["status"]))} for one in known["failing"]]
        standing = {id_: int(number) for id_, number in known["standing"].items()}
        booted_at = parse_rfc3339(known["booted_at"]) if known["booted_at"] is not None else None
        self.told, self.failing, self.standing, self.booted_at = told, failing, standing, booted_at
        self.is_diagnosed = known["is_diagnosed"] is True
        self.was_admitted = known["was_admitted"] is True
        self.acted = [str(one) for one in known["acted"]]


_SPOILT = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError)


def _read(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        known: dict[str, Any] = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    return known


def _set_aside(file: Path | None, error: Exception) -> str:
    """Put the file where it is in nobody's way, and give the sentence about it."""
    assert file is not None  # noqa: S101 - only a file can be spoilt
    reason = error.strerror if isinstance(error, OSError) else "it is not as it was written"
    try:
        file.rename(file.with_name(file.name + SPOILT))
    except OSError as again:
        return f"{file} cannot be used ({reason}) nor set aside ({again.strerror}): what it held is told again"
    return f"{file} cannot be used ({reason}) and is set aside as {file.name}{SPOILT}: what it held is told again"


def _of(failure: dict[str, Any]) -> str:
    return f"{failure['code']} {failure.get('slot') or failure.get('device') or ''}"


def _mark(failure: dict[str, Any]) -> int | str | None:
    evidence = failure.get("evidence") or {}
    for name in ("last_uptime_microseconds", "uptime_microseconds"):
        if isinstance(evidence.get(name), int):
            return int(evidence[name])
    return failure.get("last_at") or failure.get("occurred_at")


def _is_reached(mark: int | str, told: int | str | None) -> bool:
    """Was something told that is no older? Marks of two sorts cannot be compared."""
    if isinstance(mark, int) and isinstance(told, int):
        return told >= mark
    return isinstance(mark, str) and isinstance(told, str) and told >= mark
