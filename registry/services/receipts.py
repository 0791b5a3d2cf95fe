# SPDX-License-Identifier: Apache-2.0
"""Did this report come before, and what was it told about its pass? The newest of a node's, in one column of its row.

One line a report: hash of its id, hash of its body, then the verdict. Searching text costs less than parsing JSON on a
path that every report takes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from registry.domain.decision import Decision
from registry.domain.errors import ReportIdReused
from registry.domain.passes import Because, Verdict
from registry.domain.reports import Notice, Report

_HASH = 22


@dataclass(frozen=True, slots=True)
class PassAnswer:
    """What a report is told about its run."""

    counted: bool
    because: str | None
    detail: str | None
    have: int
    need: int

    @classmethod
    def of(cls, verdict: Verdict, *, have: int, need: int) -> PassAnswer:
        """Make the answer from the rule's verdict."""
        because = str(verdict.because) if verdict.because else None
        return cls(verdict.counted, because, verdict.detail, have, need)

    def to_json(self) -> dict[str, Any]:
        """Give the `pass` of an answer."""
        return {
            "counted": self.counted,
            "because": self.because,
            "detail": self.detail,
            "have": self.have,
            "need": self.need,
        }


def answer(
    report: Report, told: PassAnswer, decision: Decision, notices: Iterable[Notice], *, replayed: bool = False
) -> dict[str, Any]:
    """Give the answer to a report; `notices` are warnings beside those of the report's reader."""
    return {
        "report_id": report.report_id,
        "replayed": replayed,
        "pass": told.to_json(),
        "admission": decision.to_json(),
        "warnings": [{"code": one.code, "message": one.message} for one in (*report.warnings, *notices)],
    }


def find(receipts: str, report: Report) -> PassAnswer | None:
    """Return what this very report was told before, or None. Raises ReportIdReused for another body under its id."""
    start = receipts.find(f"\n{_short(report.report_id)} ")
    if start < 0:
        return None
    line = receipts[start + 1 : receipts.index("\n", start + 1)]
    _, body, because, have, need, detail = line.split(" ", 5)
    if body != _short(report.body_digest):
        raise ReportIdReused(
            f"The report_id {report.report_id!r} came before with another body: give each report its own."
        )
    counted = because == "-"
    return PassAnswer(counted, None if counted else str(Because(because)), detail or None, int(have), int(need))


def add(receipts: str, report: Report, answer: PassAnswer, *, keep: int) -> str:
    """Put a report's line at the end and let the oldest go."""
    detail = " ".join((answer.detail or "").split())
    key = f"{_short(report.report_id)} {_short(report.body_digest)}"
    line = f"{key} {answer.because or '-'} {answer.have} {answer.need} {detail}"
    kept = receipts or "\n"
    for _ in range(kept.count("\n") - keep):
        kept = kept[kept.index("\n", 1) :]
    return f"{kept}{line}\n"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH]
