# SPDX-License-Identifier: Apache-2.0
"""What does the state of a check say of each device, in one word: well, bad, or that nobody could look?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from registry.domain.checks import CLEAN, CheckState
from registry.domain.reports import CheckResult, CheckStatus

FAILING, BLIND = "check_failing", "check_unknown"
"""The reasons where a check names no code."""


class Word(StrEnum):
    """What the newest look said."""

    WELL = "well"
    """The check looked and found nothing wrong."""
    BAD = "bad"
    """The check fails."""
    UNKNOWN = "unknown"
    """Nobody could look, or nobody did."""


@dataclass(frozen=True, slots=True)
class Said:
    """Why a word was said: a code, or one of our own reasons, and a sentence for people."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Heard:
    """What one check says: of the devices that it names, of the node (None), and of everything else that it covers."""

    named: Mapping[str | None, tuple[Word, Said]]
    others: Word

    def of(self, device: str | None) -> tuple[Word, Said]:
        """Give the word on a device, by the text that names it."""
        return self.named.get(device, (self.others, Said(BLIND, "")))


def words_of(check: CheckState) -> Heard:
    """Read what a check says of each device. What it does not name is well, unless nobody could look at the whole."""
    if check.status in CLEAN:
        return Heard({}, Word.WELL)
    by_device: dict[str | None, list[CheckResult]] = {}
    for one in check.findings:
        if one.status is CheckStatus.FAIL or one.status in _BLIND:
            by_device.setdefault(one.device, []).append(one)
    named = {device: _worst_of(found) for device, found in by_device.items()}
    statuses = {one.status for found in by_device.values() for one in found}
    if check.status not in statuses:  # its findings do not show it, because there were too many or none
        named[None] = (Word.BAD, Said(FAILING, "")) if check.status is CheckStatus.FAIL else (Word.UNKNOWN, _NO_LOOK)
    is_blind = any(one.status in _BLIND for one in by_device.get(None, ())) or named.get(None) == (
        Word.UNKNOWN,
        _NO_LOOK,
    )
    return Heard(named, Word.UNKNOWN if is_blind else Word.WELL)


_BLIND = frozenset({CheckStatus.UNKNOWN, CheckStatus.SKIPPED})
_NO_LOOK = Said(BLIND, "")


def _worst_of(found: Sequence[CheckResult]) -> tuple[Word, Said]:
    """Give the word on one device: bad when anything failed. Of several reasons the first by the alphabet is told."""
    failed = [one for one in found if one.status is CheckStatus.FAIL]
    told = min(failed or found, key=lambda one: (one.code is None, one.code or "", one.message or ""))
    word, reason = (Word.BAD, FAILING) if failed else (Word.UNKNOWN, BLIND)
    return word, Said(told.code or reason, told.message or "")


def is_same_news(before: Mapping[str, CheckState], after: Mapping[str, CheckState]) -> bool:
    """Tell whether checks of which none changed its status also fail on the same devices as before."""
    return all(_named(before.get(name)) == _named(one) for name, one in after.items() if one.findings)


def _named(check: CheckState | None) -> set[tuple[str | None, CheckStatus]]:
    return {(one.device, one.status) for one in check.findings} if check else set()
