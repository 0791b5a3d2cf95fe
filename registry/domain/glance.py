# SPDX-License-Identifier: Apache-2.0
"""Does a report say what an earlier one said? Digests tell, before any line of its list is read.

Nearly all reports of a fleet repeat the last one, and reading forty lines costs more than all that follows from them.
What digests alike was read when it came first, so it need not be read again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from registry.domain.reports import DeviceEntry, Reading, Report


@dataclass(frozen=True, slots=True)
class Glance:
    """A report without its lines. `report.entries` is None or not to be used; `kinds` are those of its lines in order.

    `kinds` is None for a report without a list. `list_digest` covers the lines without readings and firmware: two
    lists of one digest are matched alike. `firmware_digest` covers what is flashed on the devices, line by line.
    Digests are compared between messages that came in one form only (JSON, or raw output).
    """

    report: Report
    kinds: tuple[str, ...] | None
    readings: tuple[Mapping[str, Reading], ...]
    list_digest: str
    firmware_digest: str

    @property
    def look(self) -> str:
        """Digest what was found, not who sent it: the same look again is no new one. 16 hex digits."""
        return _digest(self._found())[:16]

    @property
    def said(self) -> str:
        """Digest what the report says, without what may change from look to look: ids, times, readings, messages."""
        report = self.report
        return _digest(
            [
                report.provider_id,
                report.boot_id,
                report.profile,
                report.zone,
                # Without `covers` a list may have to be refused that is taken with it.
                None if report.covers is None else sorted(report.covers),
                sorted(report.partial),
                *self._found(),
            ]
        )

    def _found(self) -> list[Any]:
        checks = [
            [one.name, one.device, one.status, one.code, *([] if one.count is None else [one.count])]
            for one in self.report.checks
        ]
        return [self.list_digest, self.firmware_digest, checks]


def glance_of(report: Report) -> Glance:
    """Glance at a report whose lines were read already."""
    entries = report.entries or ()
    return glance_at(
        report,
        lines=[[getattr(one, name) for name in _LINE] for one in entries],
        kinds=None if report.entries is None else tuple(one.kind for one in entries),
        firmware=[sorted(one.firmware.items()) for one in entries],
        readings=tuple(one.readings for one in entries),
    )


def glance_at(
    report: Report,
    *,
    lines: Sequence[Any],
    kinds: tuple[str, ...] | None,
    firmware: Sequence[Any],
    readings: tuple[Mapping[str, Reading], ...],
) -> Glance:
    """Glance at a report by its lines as they came, without their firmware and readings, which are given apart."""
    # The one reading that matching looks at, so that a list is not taken for one which would be matched otherwise.
    boards = [one.get("multigpu_board") for one in readings]
    whole = [lines, boards, sorted(report.partial)]  # the same lines mean less when more devices are known to be there
    return Glance(report, kinds, readings, _digest(whole), _digest(firmware))


_LINE = tuple(one.name for one in fields(DeviceEntry) if one.name not in {"firmware", "readings"})


def _digest(said: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(said, separators=(",", ":")).encode()).hexdigest()
