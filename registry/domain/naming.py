# SPDX-License-Identifier: Apache-2.0
"""Which line of a list does a tool mean that has its own name for a device, or only counts them (`gpu:3`)?

Lines are named in the one way that holds for a whole instance, by their slot; a line without one by UUID or serial.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from registry.domain.identifiers import is_mig_name, normalise_slot, usable_serial, usable_uuid
from registry.domain.reports import CheckResult, DeviceEntry, Report, ReportedFailure, device_by_index

_COUNTED = re.compile(r"([a-z]{1,16}):(0|[1-9][0-9]{0,8})")


def names_another(ref: str | None, *, serial: str | None, uuid: str | None) -> bool:
    """Tell whether a reference contradicts what is known of the unit in a slot: then it means another card.

    What is no usable identifier, or of a sort that the unit is not known by, contradicts nothing.
    """
    if ref is None or is_counted(ref) or is_mig_name(ref) or normalise_slot(ref) is not None:
        return False
    as_uuid = usable_uuid(ref)
    if as_uuid is not None and as_uuid.startswith("GPU-"):
        return uuid is not None and uuid != as_uuid
    return serial is not None and usable_serial(ref) not in (None, serial)


def is_counted(ref: str | None) -> bool:
    """Tell whether a reference only counts (`device_by_index`)."""
    return ref is not None and _COUNTED.fullmatch(ref) is not None


def has_counted(report: Report) -> bool:
    """Tell whether a report speaks of a device that only the lines of a list can name."""
    refs = [*(one.device for one in report.checks), *(one.device for one in report.failures)]
    return any(map(is_counted, refs))


@dataclass(frozen=True, slots=True)
class Roll:
    """The lines of one list, or of several kinds, and what each may be called."""

    _by_name: dict[str, DeviceEntry] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Sequence[DeviceEntry], partial: frozenset[str] = frozenset()) -> Roll:
        """Make the roll of a list. A name that fits several lines fits none.

        Of a kind in `partial` more devices are there than are listed, so that counting its lines counts wrongly.
        """
        names = [(name, entry) for entry in entries for name in _names(entry)]
        for kind in dict.fromkeys(str(entry.kind) for entry in entries):
            lines = [entry for entry in entries if entry.kind == kind]
            names += _counted(kind, lines, is_whole=kind not in partial)
        times = Counter(name for name, _ in names)
        return cls({name: entry for name, entry in names if times[name] == 1})

    def find(self, ref: str | None) -> DeviceEntry | None:
        """Return the line that a reference means, None when it means none of them."""
        return None if ref is None else self._by_name.get(ref)

    def settle(self, check: CheckResult) -> CheckResult:
        """Let a result name its device as the list does; one that means no line stays as it is."""
        entry = self.find(check.device)
        name = label(entry) if entry is not None else None
        return check if name is None or name == check.device else replace(check, device=name)

    def place(self, failure: ReportedFailure) -> ReportedFailure:
        """Let a fault say where its device is, by the list; one that means no line stays as it is."""
        entry = self.find(failure.device)
        name = label(entry) if entry is not None else None
        if entry is None or name is None or failure.slot is not None:
            return failure
        if entry.slot is None:
            return failure if name == failure.device else _retold(replace(failure, device=name))
        return _retold(replace(failure, device=None, slot=entry.slot))


def label(entry: DeviceEntry) -> str | None:
    """Return the name under which results speak of a line."""
    return entry.slot or entry.uuid or entry.serial


def lay_to_node(report: Report) -> Report:
    """Lay to the node what speaks of a device that is merely counted, when no list can tell which one that was.

    That one of its devices is bad must not get lost.
    """
    if not has_counted(report):
        return report
    return replace(
        report,
        checks=tuple(
            replace(one, device=None, message=_about(one.device, one.message)) if is_counted(one.device) else one
            for one in report.checks
        ),
        failures=tuple(without_device(one) if is_counted(one.device) else one for one in report.failures),
    )


def without_device(failure: ReportedFailure) -> ReportedFailure:
    """Return a fault of the node, or of its slot, in whose message the device stands as the tool named it."""
    return _retold(replace(failure, device=None, message=_about(failure.device, failure.message)))


def told_in_boot(failure: ReportedFailure, boot_id: str) -> ReportedFailure:
    """Return a fault under an id that is good for one boot, when its tool gave no time by which to tell two apart.

    Such a tool says what is so now, at each look again: one fault, until its check came out clean in between.
    """
    return failure if failure.occurred_at is not None else _retold(failure, boot_id)


def _names(entry: DeviceEntry) -> list[str]:
    named = (entry.slot, entry.uuid, entry.serial, entry.name, *entry.slices)
    return list(dict.fromkeys(name for name in named if name))


def _counted(kind: str, lines: Sequence[DeviceEntry], *, is_whole: bool) -> list[tuple[str, DeviceEntry]]:
    """Count the lines as the tools do: by the index that was printed, else in the order of the bus.

    Nothing is counted where a line is missing, or nobody knows where one that does not answer has its place.
    """
    printed = [(one, one.readings.get("index")) for one in lines]
    if any(isinstance(index, int) for _, index in printed):
        return [(device_by_index(kind, index), one) for one, index in printed if isinstance(index, int)]
    silent = [one for one in lines if not (one.uuid or one.serial)]
    if not is_whole or (silent and not all(one.slot for one in lines)):
        return []
    in_order = sorted(lines, key=lambda one: one.slot or "") if silent else lines
    return [(device_by_index(kind, place), one) for place, one in enumerate(in_order)]


def _about(device: str | None, message: str | None) -> str:
    return ": ".join(text for text in (device, message) if text)


def _retold(failure: ReportedFailure, *more: str) -> ReportedFailure:
    """Give an id that tells what was made of the fault: the same message may be understood better later."""
    parts = (failure.failure_id, failure.device or "", failure.slot or "", *more)
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return replace(failure, failure_id=f"{failure.failure_id[:40]}-{digest[:24]}")
