# SPDX-License-Identifier: Apache-2.0
"""A report brings a list: is it one that was matched before, and which checks does the server make of it?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from registry.domain.actors import Actor
from registry.domain.checks import awaited_until, count_check, identity_check
from registry.domain.errors import CoversRequired, FieldError, InvalidField
from registry.domain.glance import Glance
from registry.domain.identifiers import identifiers_of
from registry.domain.known import MatchedBy, Outcome
from registry.domain.policy import Policy
from registry.domain.profiles import Profile
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Kind, Report
from registry.services import heartbeat, passes, runs
from registry.services.failures import attach_waiting
from registry.services.listing import WEAK, Applied, Listing, apply_list, note_attributes
from registry.services.lives import Arrival
from registry.store import devices, nodes
from registry.store.database import Transaction, to_micros
from registry.store.lines import lines_of, save_lines
from registry.store.placements import open_here, units_here
from registry.store.profiles import waivers_of

PROVEN_WITH = ("driver", "vbios")
"""What passes were earned with: with another driver or VBIOS they say nothing of the device."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a list amounted to: the checks made of it, and the units it showed, by kind.

    `is_plain`: every entry is a unit by its own identifiers and none is awaited, so that the same list would come to
    the same. `is_known`: it was matched before, and not again.
    """

    derived: tuple[CheckResult, ...] = ()
    listed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    is_plain: bool = True
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a node should carry: its profile, and the count of each kind with waivers in force."""

    profile: Profile | None
    counts: Mapping[str, int | None]


def covered_kinds(seen: Glance, profile: Profile | None) -> frozenset[str]:
    """Say which kinds a report's list speaks for; none when it brings no list. Raises CoversRequired, InvalidField."""
    if seen.kinds is None:
        return frozenset()
    report, present = seen.report, frozenset(seen.kinds)
    if report.covers is not None:
        stray = sorted(present - report.covers)
        if stray:
            errors = (FieldError("/covers", f"{', '.join(stray)} is listed and not covered"),)
            raise InvalidField(f"The list has {', '.join(stray)} devices that `covers` does not name.", errors=errors)
        return report.covers
    wanted = set(profile.expected_kinds) if profile else set()
    lacking = sorted(wanted - present)
    if lacking:
        errors = (FieldError("/covers", f"the profile {report.profile} expects {', '.join(lacking)}"),)
        raise CoversRequired(
            f"The list has no {', '.join(lacking)} device, and the profile {report.profile} expects some. Add "
            '`"covers"` with the kinds that this list speaks for: one without an entry says there are none.',
            errors=errors,
        )
    return present | frozenset(wanted)


def take_list(
    tx: Transaction,
    arrival: Arrival,
    seen: Glance,
    read: Callable[[], Report],
    covers: frozenset[str],
    expected: Expectation,
    *,
    actor: Actor,
    policy: Policy,
) -> Taken:
    """Bring the records in line with the list of a report, if it has one. `read` gives its lines when they are needed.

    A list that was matched before is not matched again: whatever changes what it means lets it be forgotten.
    """
    state = arrival.state
    if not covers:
        return Taken()
    if not heartbeat.is_known_list(state, seen, covers):
        return _take_new(tx, arrival, read(), covers, expected, actor, policy)
    if not heartbeat.is_known_firmware(state, seen, covers):
        _learn_firmware(tx, arrival, read(), covers, actor)
    runs.keep_readings(state, seen, covers)
    placed = units_here(tx, arrival.instance.id)
    listed = {kind: frozenset(placed.get(kind, ())) for kind in covers}
    return Taken(heartbeat.derived_before(state, covers), listed, is_known=True)


def _learn_firmware(tx: Transaction, arrival: Arrival, report: Report, covers: frozenset[str], actor: Actor) -> None:
    """Note what was flashed on devices of a list that is otherwise known."""
    listing = _listing(tx, arrival, report, covers, actor)
    lines = lines_of(tx, arrival.node.id)
    for kind in covers:
        entries = [one for one in listing.entries if one.kind == kind]
        changed = [
            (entry, line)
            for entry, line in zip(entries, lines[kind], strict=True)
            if line["firmware"] != entry.firmware
        ]
        _reset_if_renewed(tx, arrival, [(line["firmware"], entry) for entry, line in changed], actor)
        for entry, line in changed:
            line["firmware"] = dict(entry.firmware)
            if line["matched_by"] not in WEAK:
                note_attributes(tx, listing, entry, devices.get_devices(tx, [line["id"]])[line["id"]])
        if changed:
            save_lines(tx, arrival.node.id, kind, lines[kind])


def _reset_if_renewed(
    tx: Transaction, arrival: Arrival, pairs: Iterable[tuple[Mapping[str, str], DeviceEntry]], actor: Actor
) -> None:
    """Set the passes to zero when a device runs another driver or VBIOS than before: with that nothing has passed yet.

    `pairs` are what was printed of a device before, and its entry now; what only one of them says proves nothing.
    """
    renewed = sorted(
        {
            f"{name} {before[name]} to {entry.firmware[name]}"
            for before, entry in pairs
            for name in PROVEN_WITH
            if before.get(name) and entry.firmware.get(name) and before[name] != entry.firmware[name]
        }
    )
    if renewed:
        detail = "; ".join(renewed)
        passes.reset(tx, arrival.node.name, arrival.state, why="firmware_changed", detail=detail, actor=actor)
        arrival.state.counted_start = arrival.state.counted_end = None


def _listing(tx: Transaction, arrival: Arrival, report: Report, covers: frozenset[str], actor: Actor) -> Listing:
    waived = frozenset(waivers_of(tx, arrival.node.id, tx.now))
    return Listing(arrival.node, arrival.instance, report.entries or (), covers, report.partial, waived, actor)


def _take_new(
    tx: Transaction,
    arrival: Arrival,
    report: Report,
    covers: frozenset[str],
    expected: Expectation,
    actor: Actor,
    policy: Policy,
) -> Taken:
    state = arrival.state
    before = _placed_ids(tx, arrival, covers)
    fresh = covers - state.listed.keys()
    nodes.save_state(tx, state)  # what follows from a list may write the row, so it is read again below
    printed = {one["id"]: one["firmware"] for lines in lines_of(tx, arrival.node.id).values() for one in lines}
    applied = apply_list(tx, _listing(tx, arrival, report, covers, actor), policy)
    if fresh:
        attach_waiting(tx, arrival.node, arrival.boot, fresh, actor, policy)
    arrival.reload(tx)
    state = arrival.state
    after = _placed_ids(tx, arrival, covers)
    if before != after:
        passes.reset(tx, arrival.node.name, state, why="devices_changed", detail=None, actor=actor)
        state.counted_start = state.counted_end = None
    pairs = [(printed.get(unit.id, {}), applied.matches[at].entry) for at, unit in applied.units.items()]
    _reset_if_renewed(tx, arrival, pairs, actor)
    _keep_lines(tx, arrival, report, covers, applied)
    awaited = {kind: awaited_until(kind, arrival.boot.started_at, policy, tx.now) for kind in covers}
    derived = _derive(report, applied, covers, expected, awaited)
    ways = {one.matched_by for one in applied.matches}
    outcomes = {one.outcome for one in applied.matches}
    return Taken(
        derived,
        {kind: applied.unit_ids(kind) for kind in covers},
        # An entry that is a unit by somebody's ruling may print what a later hold is waiting for, and a list that lacks
        # devices which may still come means something else when the wait is over.
        is_plain=outcomes <= {Outcome.KNOWN, Outcome.NEW}
        and MatchedBy.RULING not in ways
        and not _is_awaiting(derived),
    )


def _placed_ids(tx: Transaction, arrival: Arrival, covers: frozenset[str]) -> set[str]:
    placed = units_here(tx, arrival.instance.id)
    return {one for kind in covers for one in placed.get(kind, [])}


# --- which checks it makes ------------------------------------------------------------------------------------------


def _derive(
    report: Report,
    applied: Applied,
    covers: frozenset[str],
    expected: Expectation,
    awaited: Mapping[str, datetime | None],
) -> tuple[CheckResult, ...]:
    derived = []
    for kind in sorted(covers):
        entries = [one.entry for one in applied.listed(kind)]
        counted = count_check(
            kind,
            len(entries),
            expected.counts.get(kind),
            is_partial=kind in report.partial,
            awaited_until=awaited[kind],
        )
        derived += [counted] if counted else []
        derived += _model_checks(kind, entries, expected.profile)
    if Kind.GPU in covers:
        derived.append(identity_check(Kind.GPU, applied.matches))
    return tuple(derived)


def _is_awaiting(derived: tuple[CheckResult, ...]) -> bool:
    return any(one.status is CheckStatus.UNKNOWN and one.name.endswith(".count") for one in derived)


def _model_checks(kind: str, entries: list[DeviceEntry], profile: Profile | None) -> list[CheckResult]:
    """A GPU of a model that the profile does not name is not one of those that it counts."""
    if kind != Kind.GPU or profile is None:
        return []
    wrong = [one for one in entries if one.model is not None and not profile.model_matches(one.model)]
    allowed = ", ".join(profile.gpu_models)
    return [
        CheckResult(
            "gpu.count", CheckStatus.FAIL, one.slot or one.uuid or one.serial, None, f"{one.model} is not {allowed}"
        )
        for one in wrong
    ]


# --- what is kept of it ---------------------------------------------------------------------------------------------


def _keep_lines(tx: Transaction, arrival: Arrival, report: Report, covers: frozenset[str], applied: Applied) -> None:
    """Keep what the list said, line by line, and what it amounted to."""
    state = arrival.state
    slots = {one.device_id: one.slot for one in open_here(tx, state.instance_id)}
    for kind in covers:
        lines = [_line(applied, match.index, slots) for match in applied.listed(kind)]
        save_lines(tx, arrival.node.id, kind, lines)
        state.readings[kind] = [dict(match.entry.readings) for match in applied.listed(kind)]
        state.listed[kind] = {
            "first": state.listed.get(kind, {}).get("first", to_micros(tx.now)),
            "count": len(lines),
            "most": max(len(lines), state.listed.get(kind, {}).get("most", 0)),
            "partial": kind in report.partial,
            "hot": state.listed.get(kind, {}).get("hot", {}),
            "unidentified": [
                {"kind": kind, "serial": one["serial"], "uuid": one["uuid"], "slot": one["slot"]}
                for one in lines
                if one["outcome"] == Outcome.UNIDENTIFIED
            ],
        }


def _line(applied: Applied, index: int, slots: Mapping[str, str | None]) -> dict[str, Any]:
    """One line of a list as the node page shows it: usable values by name, everything printed beside them."""
    match = applied.matches[index]
    entry, unit = match.entry, applied.units.get(index)
    printed = identifiers_of(entry)
    usable = {one.type.value: one.value for one in printed if one.is_usable}
    is_taught = unit is not None and match.matched_by is not MatchedBy.RULING
    return {
        "id": unit.id if unit else None,
        "outcome": str(match.outcome),
        "matched_by": str(match.matched_by),
        "kind": entry.kind,
        "vendor": entry.vendor,
        "serial": usable.get("serial") or (unit.serial if unit and is_taught else None),
        "uuid": usable.get("uuid") or (unit.uuid if unit and is_taught else None),
        "slot": entry.slot or (slots.get(unit.id) if unit else None),
        "name": entry.name,
        "model": entry.model or (unit.model if unit else None),
        "part_number": entry.part_number or (unit.part_number if unit else None),
        "module_id": usable.get("module_id"),
        "firmware": dict(entry.firmware),
        "identifiers": [{"type": one.type, "value": one.value, "usable": one.is_usable} for one in printed],
        "reason": match.reason if unit is None else None,
    }
