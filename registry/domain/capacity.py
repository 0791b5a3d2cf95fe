# SPDX-License-Identifier: Apache-2.0
"""What is a node's time worth to the fleet right now, and if nothing, whose doing is that?

A node is one thing: when one of its GPUs is held, all of them are out of work, and all of their time counts so. The
gravest of a node's reasons says where its time goes, in the order of `_PLACES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from registry.domain.checks import CheckState
from registry.domain.decision import Decision, Reason, ReasonCode
from registry.domain.failures import Cause
from registry.domain.policy import Policy


class CapacityState(StrEnum):
    """Where the time of a node goes."""

    AVAILABLE = "available"
    """It may take work."""
    WAITING_FOR_PASSES = "waiting_for_passes"
    """Nothing is wrong any more, only clean passes are lacking."""
    QUARANTINED = "quarantined"
    """The machine or a device on it is on hold, or the breaker kept a rule from holding it."""
    FAILING = "failing"
    """A check or condition fails, a device is missing, or it is not certain what is there."""
    STALE = "stale"
    """Nobody has heard of it for too long."""
    UNDER_REPAIR = "under_repair"
    """An operator keeps it in maintenance, or somebody carries a repair out on it."""
    SAFE_MODE = "safe_mode"
    """The service is not sure of its records."""


class Place(NamedTuple):
    """Where a node's time goes, and by whose doing; nobody's while it is available."""

    state: CapacityState
    cause: Cause | None


_HELD = (ReasonCode.DEVICE_QUARANTINED, ReasonCode.NODE_QUARANTINED, ReasonCode.QUARANTINE_WITHHELD)
_WRONG = (
    *(ReasonCode.CONDITION_FAILURE, ReasonCode.CHECK_FAILING, ReasonCode.DEVICE_MISSING, ReasonCode.FAULT_UNATTACHED),
    *(ReasonCode.IDENTITY_CONFLICT, ReasonCode.DEVICE_UNIDENTIFIED, ReasonCode.DEVICE_UNEXPECTED),
    *(ReasonCode.PROFILE_UNKNOWN, ReasonCode.CHECK_UNKNOWN),
)
_PLACES: tuple[tuple[CapacityState, tuple[ReasonCode, ...]], ...] = (
    (CapacityState.SAFE_MODE, (ReasonCode.SERVICE_SAFE_MODE,)),
    (CapacityState.UNDER_REPAIR, (ReasonCode.MAINTENANCE,)),
    (CapacityState.QUARANTINED, _HELD),
    (CapacityState.STALE, (ReasonCode.REPORT_STALE, ReasonCode.NODE_UNKNOWN)),
    (CapacityState.FAILING, _WRONG),
    (CapacityState.WAITING_FOR_PASSES, (ReasonCode.PASSES_INSUFFICIENT,)),
)

_STATES = {code: state for state, codes in _PLACES for code in codes}
_ORDER = tuple(_STATES)

_CAUSES: Mapping[ReasonCode, Cause] = {
    ReasonCode.SERVICE_SAFE_MODE: Cause.PLATFORM,
    ReasonCode.MAINTENANCE: Cause.PLATFORM,
    ReasonCode.DEVICE_MISSING: Cause.HARDWARE,
    ReasonCode.FAULT_UNATTACHED: Cause.HARDWARE,
    ReasonCode.IDENTITY_CONFLICT: Cause.PLATFORM,
    ReasonCode.DEVICE_UNIDENTIFIED: Cause.PLATFORM,
    ReasonCode.DEVICE_UNEXPECTED: Cause.PLATFORM,
    ReasonCode.PROFILE_UNKNOWN: Cause.PLATFORM,
}
"""Whose doing a reason is by itself. Of a silent node and of a check that could not tell nobody knows."""

_OF_DEVICES = ("gpu.", "efa.", "dcgm.")


def place_of(
    decision: Decision,
    *,
    hold_causes: Mapping[str, str | None],
    checks: Mapping[str, CheckState],
    fault_cause: Callable[[], str | None],
    policy: Policy,
    is_repaired: bool = False,
) -> Place:
    """Say where the time of a node goes by the decision about it.

    A node `is_repaired` while an order on it is claimed: its time goes there, by the doing of whatever is repaired.
    `hold_causes` are those of its holds by id. `fault_cause` is asked of a node that waits, and gives that of its
    newest blocking fault: what it waits for is the proof that this is over. Without one, it is how this platform works.
    """
    if decision.admitted:
        return Place(CapacityState.AVAILABLE, None)
    found = min(decision.reasons, key=lambda one: _ORDER.index(one.code))
    place = _of_reason(found, hold_causes, checks, fault_cause, policy)
    is_there = is_repaired and place.state is not CapacityState.SAFE_MODE
    return place._replace(state=CapacityState.UNDER_REPAIR) if is_there else place


def _of_reason(
    found: Reason,
    hold_causes: Mapping[str, str | None],
    checks: Mapping[str, CheckState],
    fault_cause: Callable[[], str | None],
    policy: Policy,
) -> Place:
    """Say where the time of a node goes whose gravest reason is this one."""
    state = _STATES[found.code]
    if state is CapacityState.WAITING_FOR_PASSES:
        fault = fault_cause()
        return Place(state, _word(fault) if fault else Cause.PLATFORM)
    if found.quarantine is not None:
        return Place(state, _word(hold_causes.get(found.quarantine)))
    if found.check is not None and found.code is not ReasonCode.CHECK_UNKNOWN:
        return Place(state, _cause_of_check(found.check, checks, policy))
    return Place(state, _CAUSES.get(found.code, Cause.UNKNOWN))


def _word(said: str | None) -> Cause:
    """Read a cause that a person may have written."""
    return Cause(said) if said in set(Cause) else Cause.UNKNOWN


def _cause_of_check(name: str, checks: Mapping[str, CheckState], policy: Policy) -> Cause:
    """Say whose doing it is that a check fails: its code says it, else what it looks at."""
    findings = checks[name].findings if name in checks else ()
    coded = [policy.look_up(one.code).cause for one in findings if one.code and policy.knows(one.code)]
    if coded:
        return coded[0]
    return Cause.HARDWARE if name.startswith(_OF_DEVICES) else Cause.PLATFORM
