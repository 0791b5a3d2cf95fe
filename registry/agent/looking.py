# SPDX-License-Identifier: Apache-2.0
"""What do the sources of this machine say together? One look: a list for each kind that could be read, and findings.

A source that is not here says nothing. One that is here and gives no answer makes its checks `unknown` and lists
nothing: it is never read as "the devices are gone".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
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

LOOKERS = 4
"""Most sources that are read at a time, beside the first; each is one tool, which waits more than it works."""

PATIENCE_SECONDS = 3.0
"""How long faults wait for the other sources: longer than tools take that are well."""

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


def look_at(
    sources: Sequence[Source],
    known: Mapping[str, Sequence[DeviceEntry]],
    hurry: Callable[[Look], None] = lambda _: None,
) -> Look:
    """Read the sources beside each other. `known` holds the longest lists of this boot, for names by index.

    Where the first one tells of faults and another one lets wait for more than PATIENCE_SECONDS, `hurry` gets the
    faults before the rest is there; the look holds them again.
    """
    with ThreadPoolExecutor(LOOKERS) as pool:
        tasks = [pool.submit(_read, source) for source in sources[1:]]
        first = _read(sources[0])
        early = _all_together(sources[:1], [first], known)
        if early.failures and wait(tasks, PATIENCE_SECONDS).not_done:
            hurry(Look(failures=early.failures))
        return _all_together(sources, [first, *(task.result() for task in tasks)], known)


def _read(source: Source) -> Said | str | None:
    """Give what a source says, None when it is not here, or the reason why it cannot be read."""
    try:
        return source.read()
    except ToolMissing:
        return None
    except (ToolFailed, PartUnreadable, OSError) as error:
        return f"{source.name}: {_reason(error)}"


def _all_together(
    sources: Sequence[Source], said: Sequence[Said | str | None], known: Mapping[str, Sequence[DeviceEntry]]
) -> Look:
    answers = list(zip(sources, said, strict=True))
    troubles = {source.name: answer for source, answer in answers if isinstance(answer, str)}
    unknown = [_unknown(name, troubles[one.name]) for one in sources if one.name in troubles for name in one.checks]
    found = [answer for _, answer in answers if isinstance(answer, Inventory | Findings)]
    return _together(found, known, tuple(unknown), troubles)


def _together(
    found: Sequence[Said],
    known: Mapping[str, Sequence[DeviceEntry]],
    unknown: tuple[CheckResult, ...],
    troubles: Mapping[str, str],
) -> Look:
    inventories = [one for one in found if isinstance(one, Inventory)]
    findings = [one for one in found if isinstance(one, Findings)]
    lists = {str(one.kind): one.entries for one in inventories if one.is_list}
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
