# SPDX-License-Identifier: Apache-2.0
"""What do the sources of this machine say together? One look: a list for each kind that could be read, and findings.

A source that is not here says nothing. One that is here and gives no answer makes its checks `unknown` and lists
nothing: it is never read as "the devices are gone".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from registry.collectors.running import ToolFailed, ToolMissing
from registry.domain.errors import PartUnreadable
from registry.domain.naming import Roll, is_counted, label, without_device
from registry.domain.reports import (
    CheckResult,
    CheckStatus,
    DeviceEntry,
    Findings,
    Inventory,
    Reading,
    ReportedFailure,
)

Said: TypeAlias = Inventory | Findings


@dataclass(frozen=True, slots=True)
class Source:
    """A place to look: what it is called, how it is read, and which checks nobody makes when it cannot be read."""

    name: str
    read: Callable[[], Said]
    checks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found. `lists` holds the entries of each kind whose list was read, also when there are none.

    `partial` holds the kinds of which the tool itself knows more than it listed. `troubles` says by source what kept
    it from being read.
    """

    lists: Mapping[str, tuple[DeviceEntry, ...]] = field(default_factory=dict)
    partial: frozenset[str] = frozenset()
    checks: tuple[CheckResult, ...] = ()
    failures: tuple[ReportedFailure, ...] = ()
    host: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    troubles: Mapping[str, str] = field(default_factory=dict)


def look_at(sources: Iterable[Source], known: Mapping[str, Sequence[DeviceEntry]]) -> Look:
    """Read the sources one after the other. `known` holds the longest lists of this boot, for names by index."""
    found: list[Said] = []
    unknown: list[CheckResult] = []
    troubles: dict[str, str] = {}
    for source in sources:
        try:
            found.append(source.read())
        except ToolMissing:
            continue
        except (ToolFailed, PartUnreadable, OSError) as error:
            troubles[source.name] = f"{source.name}: {_reason(error)}"
            unknown += [_unknown(name, troubles[source.name]) for name in source.checks]
    return _together(found, known, tuple(unknown), troubles)


def _together(
    found: Sequence[Said],
    known: Mapping[str, Sequence[DeviceEntry]],
    unknown: tuple[CheckResult, ...],
    troubles: Mapping[str, str],
) -> Look:
    inventories = [one for one in found if isinstance(one, Inventory)]
    findings = [one for one in found if isinstance(one, Findings)]
    lists = {str(one.kind): one.entries for one in inventories}
    partial = frozenset(str(one.kind) for one in inventories if one.is_partial)
    roll = _roll({**known, **lists}, partial, shorter=frozenset(lists) - longest(known, lists).keys())
    readings: dict[str, dict[str, Reading]] = {}
    for one in findings:
        for device, values in one.readings.items():
            line = roll.find(device)
            readings.setdefault((label(line) if line else None) or device, {}).update(values)
    return Look(
        lists={kind: tuple(_with_readings(entry, readings) for entry in entries) for kind, entries in lists.items()},
        partial=partial,
        checks=tuple(_settled(check, roll) for one in found for check in one.checks) + unknown,
        failures=tuple(_placed(failure, roll) for one in found for failure in one.failures),
        host={source: values for one in findings for source, values in one.host.items() if values},
        troubles=troubles,
    )


def longest(
    known: Mapping[str, Sequence[DeviceEntry]], lists: Mapping[str, tuple[DeviceEntry, ...]]
) -> dict[str, tuple[DeviceEntry, ...]]:
    """Return the lists that are no shorter than the ones known: by a shorter one nobody can count."""
    return {kind: entries for kind, entries in lists.items() if len(entries) >= len(known.get(kind, ()))}


def _roll(lists: Mapping[str, Sequence[DeviceEntry]], partial: frozenset[str], *, shorter: frozenset[str]) -> Roll:
    """Tools that count may go on counting what has gone, so neither the order nor an index of what is left tells."""
    entries = [
        replace(entry, readings={}) if kind in shorter else entry for kind, listed in lists.items() for entry in listed
    ]
    return Roll.of(entries, partial | shorter)


def _with_readings(entry: DeviceEntry, readings: Mapping[str, Mapping[str, Reading]]) -> DeviceEntry:
    more = readings.get(label(entry) or "")
    return replace(entry, readings={**entry.readings, **more}) if more else entry


def _settled(check: CheckResult, roll: Roll) -> CheckResult:
    """Let a result name its device as the list does. Where no list can tell which one, it is the node's."""
    settled = roll.settle(check)
    if not is_counted(settled.device):
        return settled
    about = f"{settled.device}: {settled.message}" if settled.message else settled.device
    return replace(settled, device=None, message=about)


def _placed(failure: ReportedFailure, roll: Roll) -> ReportedFailure:
    placed = roll.place(failure)
    return without_device(placed) if is_counted(placed.device) else placed


def _unknown(name: str, reason: str) -> CheckResult:
    return CheckResult(name, CheckStatus.UNKNOWN, message=reason)


def _reason(error: Exception) -> str:
    if isinstance(error, PartUnreadable):
        return error.detail
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'} cannot be read: {error.strerror}"
    return str(error)
