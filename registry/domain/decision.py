# SPDX-License-Identifier: Apache-2.0
"""What does an answer to "may this node take work?" look like, in JSON, on one line, and as an exit code?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

from registry.domain.times import rfc3339


class ReasonCode(StrEnum):
    """Every reason not to admit, in the order in which an answer lists them."""

    NODE_UNKNOWN = "node_unknown"
    """Nothing ever reported under this name, or it is retired."""
    PROFILE_UNKNOWN = "profile_unknown"
    """Nobody said what such a node should carry."""
    REPORT_STALE = "report_stale"
    """The node has been silent for too long."""
    DEVICE_QUARANTINED = "device_quarantined"
    """A device on it is on hold."""
    NODE_QUARANTINED = "node_quarantined"
    """The machine is on hold."""
    QUARANTINE_WITHHELD = "quarantine_withheld"
    """A rule wanted to open a hold and the breaker kept it from doing so."""
    DEVICE_MISSING = "device_missing"
    """There are fewer devices than expected."""
    DEVICE_UNEXPECTED = "device_unexpected"
    """There are more devices than expected."""
    DEVICE_UNIDENTIFIED = "device_unidentified"
    """A device cannot be told apart from others."""
    IDENTITY_CONFLICT = "identity_conflict"
    """What a device says contradicts what is known of it."""
    FAULT_UNATTACHED = "fault_unattached"
    """A fault was seen in a place where no device is known."""
    CHECK_FAILING = "check_failing"
    """The newest result of a check in this boot is a failure, or it comes and goes too often."""
    CHECK_UNKNOWN = "check_unknown"
    """A required check could not tell or was skipped."""
    CONDITION_FAILURE = "condition_failure"
    """A condition of the node or of a device has lasted longer than is tolerated."""
    PASSES_INSUFFICIENT = "passes_insufficient"
    """Not enough clean passes yet."""
    MAINTENANCE = "maintenance"
    """An operator keeps the node out for a while."""
    SERVICE_SAFE_MODE = "service_safe_mode"
    """The service itself is not sure of its records and admits nobody."""


class Disposition(StrEnum):
    """What to do with the node."""

    ADMIT = "admit"
    """It may take work."""
    HOLD = "hold"
    """It takes no new work; what runs may run on."""
    DRAIN = "drain"
    """It takes no new work, and what runs should be moved away."""


class ExitCode(IntEnum):
    """What `pratique admit` ends with for each kind of decision. Never used with another meaning."""

    ADMITTED = 0
    """Admitted."""
    QUARANTINED = 10
    """A device or the node is in quarantine."""
    WAITING = 11
    """Nothing is wrong, only passes are lacking: ask again."""
    IDENTITY = 12
    """It is not certain which devices these are."""
    REFUSED = 13
    """Any other refusal."""


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """A device as an answer names it; what is not known is None."""

    id: str | None = None
    kind: str | None = None
    serial: str | None = None
    uuid: str | None = None
    slot: str | None = None

    def __str__(self) -> str:
        kind = {"gpu": "GPU", "efa": "EFA adapter"}.get(self.kind or "", "Device")
        name = self.serial or self.uuid or self.id or "without identity"
        place = f" in {self.slot}" if self.slot else ""
        return f"{kind} {name}{place}"

    @classmethod
    def named(cls, text: str, kind: str | None = None) -> DeviceRef:
        """Name a device of which nothing is known but one text: its UUID, slot or serial, by the look of it."""
        if text.startswith("GPU-"):
            return cls(kind=kind, uuid=text)
        if ":" in text:
            return cls(kind=kind, slot=text)
        return cls(kind=kind, serial=text)

    def to_json(self) -> dict[str, str | None]:
        """Give all five fields, unknown ones as null."""
        return {"id": self.id, "kind": self.kind, "serial": self.serial, "uuid": self.uuid, "slot": self.slot}


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason not to admit. `message` says to a person what is wrong and what to do next; the rest is for programs.

    `retry_at` is the earliest time at which asking again can help; `until` is when the reason ends by itself.
    """

    code: ReasonCode
    message: str
    device: DeviceRef | None = None
    quarantine: str | None = None
    match: str | None = None
    check: str | None = None
    have: int | None = None
    need: int | None = None
    retry_at: datetime | None = None
    until: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        """Give the fields that are known."""
        fields: dict[str, Any] = {
            "code": str(self.code),
            "message": self.message,
            "device": self.device.to_json() if self.device else None,
            "quarantine": self.quarantine,
            "match": str(self.match) if self.match else None,
            "check": self.check,
            "have": self.have,
            "need": self.need,
            "retry_at": rfc3339(self.retry_at) if self.retry_at else None,
            "until": rfc3339(self.until) if self.until else None,
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer for one node at one moment. `policy` is the digest of the thresholds, `sequence` the newest event."""

    node: str
    admitted: bool
    disposition: Disposition
    reasons: tuple[Reason, ...]
    have: int
    need: int
    policy: str
    sequence: int
    decided_at: datetime

    @property
    def retry_at(self) -> datetime | None:
        """When asking again can help at the earliest; None when only a change of something else helps."""
        return next((reason.retry_at for reason in self.reasons if reason.retry_at), None)

    def to_json(self) -> dict[str, Any]:
        """Give the one shape that a decision has behind every door."""
        return {
            "node": self.node,
            "admitted": self.admitted,
            "disposition": str(self.disposition),
            "reasons": [reason.to_json() for reason in self.reasons],
            "passes": {"have": self.have, "need": self.need},
            "policy": self.policy,
            "sequence": self.sequence,
            "decided_at": rfc3339(self.decided_at),
        }

    def as_line(self) -> str:
        """Give `<disposition> <exit code> <codes> <retry_at>` for a shell; each code once, `-` for nothing."""
        codes = ",".join(dict.fromkeys(reason.code for reason in self.reasons)) or "-"
        again = rfc3339(self.retry_at) if self.retry_at else "-"
        return f"{self.disposition} {int(exit_code(self))} {codes} {again}"


_IDENTITY = {ReasonCode.IDENTITY_CONFLICT, ReasonCode.DEVICE_UNIDENTIFIED}
_QUARANTINE = {ReasonCode.DEVICE_QUARANTINED, ReasonCode.NODE_QUARANTINED}


def exit_code(decision: Decision) -> ExitCode:
    """Give the exit code of a decision: the gravest of its reasons decides, waiting is the mildest."""
    return exit_code_for(decision.admitted, (reason.code for reason in decision.reasons))


def exit_code_for(admitted: bool, codes: Iterable[str]) -> ExitCode:  # noqa: FBT001 - a fact of the answer, not a switch
    """Give the exit code of an answer as it came over the wire; codes of a newer server count as any other refusal."""
    given = set(codes)
    if admitted:
        return ExitCode.ADMITTED
    if given & _IDENTITY:
        return ExitCode.IDENTITY
    if given & _QUARANTINE:
        return ExitCode.QUARANTINED
    if given == {ReasonCode.PASSES_INSUFFICIENT}:
        return ExitCode.WAITING
    return ExitCode.REFUSED
