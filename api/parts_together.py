# SPDX-License-Identifier: Apache-2.0
"""What do several outputs of one node say together? One list of each kind, and every finding at its device.

Of several lists of a kind one speaks, and the others add what they saw of the same devices. A list speaks for its own
kind only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from api.reports_body import refuse
from registry.collectors.kernel_log import CHECK as KERNEL_LOG
from registry.domain.errors import FieldError
from registry.domain.naming import Roll, is_counted, label, told_in_boot
from registry.domain.reports import (
    CheckResult,
    CheckStatus,
    DeviceEntry,
    Findings,
    Inventory,
    Kind,
    Reading,
    Report,
    ReportedFailure,
)

_IDENTITY = ("slot", "serial", "uuid", "model", "part_number", "module_id", "name", "mac", "gid", "node_guid")


def with_gpus(report: Report, inventories: Sequence[Inventory]) -> Report:
    """Let the first inventory speak for the GPUs; what the others found about the same GPUs is added.

    Raises InvalidField when GPUs are listed beside it.
    """
    first, *others = inventories
    known = max((inventory.attached or 0) for inventory in inventories)
    checks = (*first.checks, *_checks_beside(first, others))
    return _with_list(report, first.entries, inventories, checks, is_partial=len(first.entries) < known)


def with_efas(report: Report, inventories: Sequence[Inventory]) -> Report:
    """Let one inventory list the EFAs: the first that has a slot for each, else the first that lists any.

    The others fill in what it lacks, and name EFAs in slots that it has not; where one of them still lists more, the
    list is partial. Raises InvalidField when EFAs are listed beside it.
    """
    listing = next((one for one in inventories if one.entries and _has_slots(one)), None)
    speaker = listing or next((one for one in inventories if one.entries), inventories[0])
    others = [one for one in inventories if one is not speaker]
    entries = [_filled(entry, others) for entry in speaker.entries]
    if all(entry.slot for entry in entries):
        entries += _in_other_slots(entries, others)
    roll = Roll.of(entries)
    said = [roll.settle(check) for one in (speaker, *others) for check in one.checks]
    is_partial = any(len(one.entries) > len(entries) for one in others)
    return _with_list(report, entries, inventories, _best_known(said), is_partial=is_partial)


def with_findings(report: Report, findings: Sequence[Findings]) -> Report:
    """Add what the parts found that are no lists. Devices are named as the report's own list names them.

    One that is only counted (`gpu:3`) stays so: what its number means, all the lists of its boot decide together.
    """
    roll = Roll.of(report.entries or (), report.partial)
    checks = tuple(_settled(check, roll) for found in findings for check in _untold(found))
    told = (told_in_boot(failure, report.boot_id) for found in findings for failure in found.failures)
    return replace(
        report,
        entries=_with_readings(report.entries, roll, findings),
        checks=(*report.checks, *checks),
        failures=(*report.failures, *(replace(_placed(failure, roll), node=report.node) for failure in told)),
        host=_with_host(report.host, findings),
        warnings=(*report.warnings, *(notice for found in findings for notice in found.warnings)),
    )


def _settled(check: CheckResult, roll: Roll) -> CheckResult:
    return check if is_counted(check.device) else roll.settle(check)


def _placed(failure: ReportedFailure, roll: Roll) -> ReportedFailure:
    return failure if is_counted(failure.device) else roll.place(failure)


def _with_list(
    report: Report,
    entries: Sequence[DeviceEntry],
    inventories: Sequence[Inventory],
    checks: Iterable[CheckResult],
    *,
    is_partial: bool,
) -> Report:
    kind, listed = Kind(inventories[0].kind), report.entries or ()
    detail = f"a device of kind {kind} must not be listed beside raw output, which speaks for all of them"
    refuse([FieldError(f"/devices/{at}", detail) for at, entry in enumerate(listed) if entry.kind == kind])
    spoken_for = report.covers if report.covers is not None else frozenset(entry.kind for entry in listed)
    failures = {failure.failure_id: failure for one in inventories for failure in one.failures}
    stamps = (one.stamp for one in inventories if one.stamp)
    return replace(
        report,
        entries=(*entries, *listed),
        covers=spoken_for | {str(kind)},
        partial=report.partial | ({str(kind)} if is_partial else set()),
        checks=(*checks, *report.checks),
        failures=(*report.failures, *(replace(failure, node=report.node) for failure in failures.values())),
        stamps=tuple(dict.fromkeys([*report.stamps, *stamps])),
        warnings=(*report.warnings, *(notice for one in inventories for notice in one.warnings)),
    )


# --- GPUs -----------------------------------------------------------------------------------------------------------


def _checks_beside(first: Inventory, others: Sequence[Inventory]) -> list[CheckResult]:
    """Return what the other outputs found about the GPUs of the first.

    Where an output that says less could not look, the one that says more has the word; what it saw counts.
    """
    roll = Roll.of(first.entries)
    found = {(check.name, roll.settle(check).device) for check in first.checks}
    added: list[CheckResult] = []
    for other in others:
        for check in other.checks:
            names = (*_names(other, check.device), check.device)
            entry = next((one for one in map(roll.find, names) if one is not None), None)
            if check.device is not None and entry is None:
                continue
            name = label(entry) if entry else None
            if check.status is CheckStatus.UNKNOWN and (check.name, name) in found:
                continue
            added.append(replace(check, device=name) if name else check)
    return added


def _names(inventory: Inventory, device: str | None) -> tuple[str | None, ...]:
    """Give everything that the output which names a device prints of it: first what tells hardware, last its place."""
    entry = Roll.of(inventory.entries).find(device)
    return (entry.uuid, entry.serial, entry.slot) if entry else ()


# --- EFAs -----------------------------------------------------------------------------------------------------------


def _has_slots(inventory: Inventory) -> bool:
    return all(entry.slot for entry in inventory.entries)


def _is_same(one: DeviceEntry, other: DeviceEntry) -> bool:
    """Tell by the slot, or where one of them has none by the name, whether two lines are of one EFA."""
    if one.slot and other.slot:
        return one.slot == other.slot
    return one.name is not None and one.name == other.name


def _filled(entry: DeviceEntry, others: Iterable[Inventory]) -> DeviceEntry:
    """Fill in what an entry lacks from the lines of the other lists that are of the same EFA."""
    for other in (line for one in others for line in one.entries if _is_same(entry, line)):
        missing = {name: getattr(other, name) for name in _IDENTITY if getattr(entry, name) is None}
        entry = replace(
            entry,
            firmware={**other.firmware, **entry.firmware},
            readings={**other.readings, **entry.readings},
            **missing,
        )
    return entry


def _in_other_slots(entries: Iterable[DeviceEntry], others: Iterable[Inventory]) -> list[DeviceEntry]:
    slots, added = {entry.slot for entry in entries}, []
    for line in (line for one in others for line in one.entries):
        if line.slot and line.slot not in slots:
            slots.add(line.slot)
            added.append(line)
    return added


def _best_known(checks: Sequence[CheckResult]) -> list[CheckResult]:
    """Leave out that one output could not look where another did."""
    looked = {(check.name, check.device) for check in checks if check.status is not CheckStatus.UNKNOWN}
    return [one for one in checks if one.status is not CheckStatus.UNKNOWN or (one.name, one.device) not in looked]


# --- what is no list ------------------------------------------------------------------------------------------------


def _untold(found: Findings) -> Iterable[CheckResult]:
    """Leave the code out where a kernel log tells of the fault by itself: a failing check with one is a fault too.

    Such a line may carry no time, or the time of another day: it and its check would be counted as two.
    """
    told = {one.code for one in found.failures}
    return (replace(one, code=None) if one.name == KERNEL_LOG and one.code in told else one for one in found.checks)


def _with_readings(
    entries: tuple[DeviceEntry, ...] | None, roll: Roll, findings: Iterable[Findings]
) -> tuple[DeviceEntry, ...] | None:
    more: dict[int, dict[str, Reading]] = {}
    for ref, readings in ((ref, readings) for found in findings for ref, readings in found.readings.items()):
        entry = roll.find(ref)
        if entry is not None:
            more.setdefault(id(entry), {}).update(readings)
    if not entries or not more:
        return entries
    return tuple(replace(one, readings={**one.readings, **more.get(id(one), {})}) for one in entries)


def _with_host(host: Mapping[str, Mapping[str, str]], findings: Iterable[Findings]) -> Mapping[str, Mapping[str, str]]:
    """What the report says of its host itself stands before what a part says of the same source."""
    together = {source: dict(values) for source, values in host.items()}
    for source, values in ((source, values) for found in findings for source, values in found.host.items()):
        if values:
            together[source] = {**values, **together.get(source, {})}
    return together
