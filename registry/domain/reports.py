# SPDX-License-Identifier: Apache-2.0
"""What did a node say? Entries of its lists, results of its checks, faults it saw: as values, not yet judged.

Collectors make these from text, the API makes them from JSON, and the rules of this package read them.
Identifiers are carried as seen: whether a serial or UUID is usable is decided in `identity`, nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias, TypeGuard

Reading: TypeAlias = str | int | float | bool | None
"""One value read from a device: a number in the unit its name says, a word as the tool printed it, or nothing."""


class Kind(StrEnum):
    """What sort of device: decided by vendor and driver, never by a name."""

    GPU = "gpu"
    EFA = "efa"


class CheckStatus(StrEnum):
    """The outcome of one check. Only the first two and the last can be part of a clean pass."""

    PASS = "pass"  # noqa: S105 - a status
    """Looked, and found it right."""
    WARN = "warn"
    """Looked, and found something worth noting that hinders nothing."""
    FAIL = "fail"
    """Looked, and found it wrong."""
    UNKNOWN = "unknown"
    """Could not look, or could not read what was seen."""
    SKIPPED = "skipped"
    """Did not look."""
    NOT_APPLICABLE = "not_applicable"
    """There is nothing of the kind to look at."""


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """One line of a node's list.

    `slot` is normalised (`identity.normalise_slot`) or None where the tool printed none. `serial`, `uuid` and the
    other identifiers are the text as seen, placeholders included; None where nothing was printed.
    `slices` are the `MIG-…` names of the slices that the list showed under this GPU.
    """

    kind: str
    vendor: str
    slot: str | None = None
    serial: str | None = None
    uuid: str | None = None
    model: str | None = None
    part_number: str | None = None
    module_id: str | None = None
    unique_id: str | None = None
    asset_tag: str | None = None
    name: str | None = None
    mac: str | None = None
    gid: str | None = None
    node_guid: str | None = None
    firmware: Mapping[str, str] = field(default_factory=dict)
    readings: Mapping[str, Reading] = field(default_factory=dict)
    slices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One result of one check. `device` is a serial, UUID or slot of the same report, or None for the whole node.

    `count` is where the counter stands that a failing check looked at, if it looked at one: more than before is news.
    """

    name: str
    status: CheckStatus
    device: str | None = None
    code: str | None = None
    message: str | None = None
    count: int | None = None


_LASTED_MAX = 366 * 86_400 * 1_000_000
"""Longer than any window in which faults are counted, in microseconds."""


def _is_uptime(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


@dataclass(frozen=True, slots=True)
class ReportedFailure:
    """A fault somebody saw. `device` is any identifier; else `node` and `slot` say where it was at `occurred_at`.

    `failure_id` makes the message idempotent. `occurred_at` is the reporter's claim and None where it made none.
    A burst is one failure: seen `count` times, first at `occurred_at` and last at `last_at`.
    """

    failure_id: str
    code: str
    device: str | None = None
    node: str | None = None
    slot: str | None = None
    occurred_at: datetime | None = None
    message: str | None = None
    evidence: Mapping[str, Any] | None = None
    count: int = 1
    last_at: datetime | None = None
    slow_by: timedelta = timedelta(0)
    """How far the clock that these times were read from is behind ours, as the message that brought them shows; less
    than zero where it is ahead."""

    @property
    def lasted(self) -> timedelta:
        """How long a burst went on, also where only the time since boot of its lines is known; zero where nothing is.

        A log without dates says in its evidence when its first and last line were, in microseconds of one clock.
        """
        if self.occurred_at is not None and self.last_at is not None:
            return max(self.last_at - self.occurred_at, timedelta(0))
        first, last = self.uptimes or (0, 0)
        return timedelta(microseconds=min(max(last - first, 0), _LASTED_MAX))

    @property
    def uptimes(self) -> tuple[int, int] | None:
        """When its first and last line were, in microseconds since the boot; None where the evidence does not say."""
        evidence = self.evidence or {}
        first = evidence.get("uptime_microseconds")
        last = evidence.get("last_uptime_microseconds", first)
        if not (_is_uptime(first) and _is_uptime(last)):
            return None
        return first, last


@dataclass(frozen=True, slots=True)
class Notice:
    """Something in the input that was not understood and did not hinder. Goes back to the sender."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """What one tool output says: its list for one kind, the checks it allows, the faults it names.

    `attached` is how many devices the tool itself says there are, where it says so: fewer entries make the list
    partial (nobody else is called missing). `stamp` is the output's own timestamp text: the same text again is the
    same look, not a new one. Without `is_list` the tool was asked for other devices only: that it shows none of this
    kind does not mean that there are none.
    """

    kind: str
    entries: tuple[DeviceEntry, ...]
    checks: tuple[CheckResult, ...] = ()
    failures: tuple[ReportedFailure, ...] = ()
    attached: int | None = None
    stamp: str | None = None
    warnings: tuple[Notice, ...] = ()
    is_list: bool = True

    @property
    def is_partial(self) -> bool:
        """True when the tool knows of more devices than it listed."""
        return self.attached is not None and len(self.entries) < self.attached


@dataclass(frozen=True, slots=True)
class Findings:
    """What one tool output says beside any list: checks, faults, readings, what the host is.

    A device is named by serial, UUID or slot; a tool that only counts its GPUs is quoted as `gpu:<index>`
    (`device_by_index`), and whoever has the list of the same boot puts the entry's name in its place. `readings` is
    keyed the same way. A `failure_id` is the same whenever the same line or result is read again.
    """

    checks: tuple[CheckResult, ...] = ()
    failures: tuple[ReportedFailure, ...] = ()
    readings: Mapping[str, Mapping[str, Reading]] = field(default_factory=dict)
    host: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stamp: str | None = None
    warnings: tuple[Notice, ...] = ()


def device_by_index(kind: str, index: int) -> str:
    """Name a device that a tool only counts: `gpu:3`. No serial, UUID or slot has this form."""
    return f"{kind}:{index}"


@dataclass(frozen=True, slots=True)
class Report:
    """One message of a node, as it came. Times are the reporter's claims; the service adds the receipt.

    `entries` is None when the message carries no list at all; `covers` names the kinds the list speaks for, None
    when the sender did not say. `partial` holds the kinds whose list is known to be incomplete. `stamps` are the
    timestamp texts of raw inventories. `booted_at` is when the boot began, by the node's own clock. `earlier_boots` are
    ids of boots that ended before this one, of which messages may still come.
    """

    node: str
    report_id: str
    boot_id: str
    provider_id: str
    profile: str
    run_id: str | None = None
    seq: int | None = None
    zone: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    sent_at: datetime | None = None
    booted_at: datetime | None = None
    covers: frozenset[str] | None = None
    entries: tuple[DeviceEntry, ...] | None = None
    partial: frozenset[str] = frozenset()
    checks: tuple[CheckResult, ...] = ()
    failures: tuple[ReportedFailure, ...] = ()
    stamps: tuple[str, ...] = ()
    host: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    earlier_boots: tuple[str, ...] = ()
    warnings: tuple[Notice, ...] = ()
    body_digest: str = ""
