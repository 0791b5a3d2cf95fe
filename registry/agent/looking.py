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
from registry.domain.reports import (
    CheckResult,
    CheckStatus,
    DeviceEntry,
    Findings,
    Inventory,
    Reading,
    ReportedFailure,
    device_by_index,
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
    """Read the sources one after the other. `known` holds the last lists of this boot, for names by index."""
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
    names = _names_by_index({**known, **lists})
    readings: dict[str, dict[str, Reading]] = {}
    for one in findings:
        for device, values in one.readings.items():
            readings.setdefault(names.get(device, device), {}).update(values)
    return Look(
        lists={kind: tuple(_with_readings(entry, readings) for entry in entries) for kind, entries in lists.items()},
        partial=frozenset(str(one.kind) for one in inventories if one.is_partial),
        checks=tuple(_check_named(check, names) for one in found for check in one.checks) + unknown,
        failures=tuple(_failure_named(failure, names) for one in found for failure in one.failures),
        host={source: values for one in findings for source, values in one.host.items() if values},
        troubles=troubles,
    )


def _names_by_index(lists: Mapping[str, Sequence[DeviceEntry]]) -> dict[str, str]:
    """Give each device that a tool may merely count its name in the list: the tools count in the list's order."""
    names = {}
    for kind, entries in lists.items():
        for place, entry in enumerate(entries):
            index = entry.readings.get("index")
            name = entry.slot or entry.uuid or entry.serial
            if name:
                names[device_by_index(kind, index if isinstance(index, int) else place)] = name
    return names


def _with_readings(entry: DeviceEntry, readings: Mapping[str, Mapping[str, Reading]]) -> DeviceEntry:
    more = {name: value for key in _keys(entry) for name, value in readings.get(key, {}).items()}
    return replace(entry, readings={**entry.readings, **more}) if more else entry


def _keys(entry: DeviceEntry) -> list[str]:
    return [name for name in (entry.slot, entry.uuid, entry.serial, entry.name) if name]


def _check_named(check: CheckResult, names: Mapping[str, str]) -> CheckResult:
    if check.device is None or not _is_index(check.device):
        return check
    name = names.get(check.device)
    # Without a list nobody knows which device was meant; that one of them is bad must not get lost.
    return replace(check, device=name, message=check.message if name else _about(check.device, check.message))


def _failure_named(failure: ReportedFailure, names: Mapping[str, str]) -> ReportedFailure:
    if failure.device is None or not _is_index(failure.device):
        return failure
    name = names.get(failure.device)
    return replace(failure, device=name, message=failure.message if name else _about(failure.device, failure.message))


def _is_index(device: str) -> bool:
    kind, found, index = device.partition(":")
    return bool(found) and kind.isalpha() and index.isdigit() and device == device_by_index(kind, int(index))


def _about(device: str, message: str | None) -> str:
    return f"{device}: {message}" if message else device


def _unknown(name: str, reason: str) -> CheckResult:
    return CheckResult(name, CheckStatus.UNKNOWN, message=reason)


def _reason(error: Exception) -> str:
    if isinstance(error, PartUnreadable):
        return error.detail
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'} cannot be read: {error.strerror}"
    return str(error)
