# SPDX-License-Identifier: Apache-2.0
"""What must be known of a node to decide about it? Everything left out speaks against it, or says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from registry.domain.actors import Actor
from registry.domain.checks import CheckState
from registry.domain.condition_shown import Condition, ConditionStatus
from registry.domain.decision import DeviceRef
from registry.domain.profiles import Profile
from registry.domain.quarantine import HoldMatch
from registry.domain.reports import Kind

Conflict: TypeAlias = tuple[DeviceRef | None, str]
"""The entry in conflict, where one can be named, and the sentence that says what contradicts what."""

Unattached: TypeAlias = tuple[str, str | None, datetime]
"""A fault without a device: code, slot, and when it occurred."""


@dataclass(frozen=True, slots=True)
class HoldOn:
    """A hold in force that meets this node: by one of its devices, or as a machine when `device` is None."""

    hold_id: str
    device: DeviceRef | None
    owner: Actor
    reason: str
    opened_at: datetime
    match: HoldMatch = HoldMatch.HARDWARE
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Withheld:
    """A hold that a rule wanted here and the breaker did not let through."""

    rule: str
    reason: str
    device: DeviceRef | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node in one snapshot of the records. With nothing but a name it is a node nobody knows.

    `silence_seconds` is the age of the last report without our own outages, None when none came. `listed_counts` are
    the lengths of the last lists of this instance, None where no list came; `expected` has waivers applied. `devices`
    are the units placed here, so that findings can be put to them. `checks` are those of the current boot.
    `required_checks` are the profile's unless given. `asking` is an instance that is not the one on record. `sequence`
    is that of the newest event in the records, where it was read with them.
    """

    node: str
    is_known: bool = False
    asking: str | None = None
    profile_name: str | None = None
    profile: Profile | None = None
    silence_seconds: float | None = None
    holds: tuple[HoldOn, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    devices: tuple[DeviceRef, ...] = ()
    missing: tuple[DeviceRef, ...] = ()
    listed_counts: Mapping[str, int | None] = field(default_factory=dict)
    expected: Mapping[str, int | None] = field(default_factory=dict)
    unidentified: tuple[DeviceRef, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    unattached: tuple[Unattached, ...] = ()
    checks: Mapping[str, CheckState] = field(default_factory=dict)
    required_checks: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    have: int = 0
    last_counted_start: datetime | None = None
    maintenance_until: datetime | None = None
    maintenance_reason: str | None = None
    safe_mode: bool = False
    sequence: int | None = None

    @property
    def condition_failures(self) -> tuple[Condition, ...]:
        """The conditions that have lasted longer than is tolerated."""
        return tuple(one for one in self.conditions if one.status is ConditionStatus.FAILURE)

    @property
    def needed_checks(self) -> tuple[str, ...]:
        """The checks required in every run."""
        if self.required_checks or self.profile is None:
            return self.required_checks
        return self.profile.required_checks

    @property
    def expected_counts(self) -> dict[str, int | None]:
        """How many devices there should be, GPUs first: `expected`, and the profile for the kinds it leaves out."""
        by_profile = {kind.value: self.profile.expected(kind) for kind in Kind} if self.profile else {}
        return {**by_profile, **{str(kind): count for kind, count in self.expected.items()}}

    def device_named(self, text: str) -> DeviceRef | None:
        """Find the placed device that a finding names by id, serial, UUID or slot.

        None when no device fits, or several do (a board's serial): then the text says more than a guess would.
        """
        found = [one for one in self.devices if text in {one.id, one.serial, one.uuid, one.slot}]
        return found[0] if len(found) == 1 else None
