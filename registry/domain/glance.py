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
        None if report.entries is None else tuple(one.kind for one in entries),
        tuple(one.readings for one in entries),
        lines=_write([[getattr(one, name) for name in _LINE] for one in entries]),
        firmware=_write([sorted(one.firmware.items()) for one in entries]),
    )


def glance_at(
    report: Report,
    kinds: tuple[str, ...] | None,
    readings: tuple[Mapping[str, Reading], ...],
    *,
    lines: bytes,
    firmware: bytes,
) -> Glance:
    """Glance at a report by its lines as they came, without their firmware and readings, which are given apart.

    `lines` and `firmware` are written in any way that writes the same alike.
    """
    # The one reading that matching looks at, so that a list is not taken for one which would be matched otherwise.
    boards = [(at, one["multigpu_board"]) for at, one in enumerate(readings) if "multigpu_board" in one]
    # The same lines mean less when more devices are known to be there.
    beside = _write([boards, sorted(report.partial)])
    return Glance(report, kinds, readings, _hash(lines + beside), _hash(firmware))


_LINE = tuple(one.name for one in fields(DeviceEntry) if one.name not in {"firmware", "readings"})


def _digest(said: Sequence[Any]) -> str:
    return _hash(_write(said))


def _write(said: Sequence[Any]) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode()


def _hash(written: bytes) -> str:
    return hashlib.sha256(written).hexdigest()
