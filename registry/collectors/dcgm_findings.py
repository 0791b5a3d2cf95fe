# SPDX-License-Identifier: Apache-2.0
"""What do all the results of one run of dcgmi come to, device by device?"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from registry.collectors.dcgm_errors import Complaint
from registry.collectors.nvidia_smi_text import MAX_DEVICES
from registry.domain.checks import WORST_FIRST
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckResult, CheckStatus, Findings, ReportedFailure

_MAX_NODE_FAILURES = 64


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a result is about. `device` is None for the node and for what is no whole GPU; `label` names the latter."""

    device: str | None = None
    label: str = ""


@dataclass(slots=True)
class Tally:
    """Adds up the results of one check: the worst of each device, and each fault once."""

    check: str
    version: str = ""
    _found: dict[str | None, CheckResult] = field(default_factory=dict)
    _more: dict[str | None, int] = field(default_factory=dict)
    _failures: dict[tuple[str | None, str, str], ReportedFailure] = field(default_factory=dict)

    def note(self, subject: Subject, status: CheckStatus, code: str | None = None, message: str = "") -> None:
        """Keep a result when it is the worst of its device so far. Raises PartUnreadable for too many devices."""
        said = f"{subject.label}: {message}" if subject.label and message else message or subject.label
        known = self._found.get(subject.device)
        if known is None or WORST_FIRST.index(status) < WORST_FIRST.index(known.status):
            self._found[subject.device] = CheckResult(self.check, status, subject.device, code, said or None)
            self._more[subject.device] = 0
        elif status is known.status:
            self._more[subject.device] += 1
        if len(self._found) > MAX_DEVICES:
            raise PartUnreadable(f"the output speaks of more than {MAX_DEVICES} GPUs, which no machine has")

    def fail(self, subject: Subject, code: str, complaint: Complaint, test: str) -> None:
        """Keep a fault, once per device and code. Its id is the same whenever the same result is read again."""
        key = (subject.device, code, subject.label)
        if key in self._failures or (subject.device is None and self._is_full()):
            return
        said = "\n".join([self.check, *(part or "" for part in key), test, complaint.text])
        evidence: Mapping[str, str | int | None] = {
            "check": self.check,
            "test": test,
            "entity": subject.label or subject.device,
            "error": complaint.name,
            "severity": complaint.severity,
            "category": complaint.category,
            "dcgm_version": self.version or None,
        }
        self._failures[key] = ReportedFailure(
            failure_id=f"dcgm-{hashlib.sha256(said.encode()).hexdigest()[:32]}",
            code=code,
            device=subject.device,
            message=f"{test}: {complaint.text}" if complaint.text else f"{test} failed",
            evidence={name: value for name, value in evidence.items() if value is not None},
        )

    def findings(self) -> Findings:
        """Return the results, devices first in the order in which they were spoken of."""
        checks = sorted((self._told(one) for one in self._found.values()), key=lambda check: check.device is None)
        return Findings(checks=tuple(checks), failures=tuple(self._failures.values()))

    def worst(self) -> CheckStatus | None:
        """Return the worst status so far, None when nothing was said."""
        return min((one.status for one in self._found.values()), key=WORST_FIRST.index, default=None)

    def _told(self, result: CheckResult) -> CheckResult:
        """Add how many more there are of what the first one says. Where no test applied, none was run."""
        if result.status is CheckStatus.NOT_APPLICABLE:
            result = replace(result, status=CheckStatus.SKIPPED)
        more = self._more[result.device]
        return replace(result, message=f"{result.message} (and {more} more)") if more and result.message else result

    def _is_full(self) -> bool:
        return sum(device is None for device, _, _ in self._failures) >= _MAX_NODE_FAILURES


def could_not_look(check: str, words: str) -> Findings:
    """Return what is known when the tool gave no answer: nothing, of no device."""
    return Findings(checks=(CheckResult(check, CheckStatus.UNKNOWN, message=words or "dcgmi gave no answer"),))
