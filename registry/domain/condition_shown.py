# SPDX-License-Identifier: Apache-2.0
"""How is a condition of a node told, in which order, and which words does it have?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from registry.domain.decision import DeviceRef
from registry.domain.times import rfc3339

FLAPS = "flapping"
"""The reason of a condition that is nothing but the coming and going of another."""


class ConditionStatus(StrEnum):
    """Where a condition stands."""

    OK = "ok"
    """All is well. A failure that is over is this only after a while."""
    PROBLEM = "problem"
    """Something is wrong: the node takes no new work, and what runs may run on."""
    FAILURE = "failure"
    """It has lasted longer than is tolerated: what runs should be moved away."""
    UNKNOWN = "unknown"
    """Nobody can look. It speaks for nothing and against nothing."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition as an answer tells it. `device` is None for one of the node.

    `failure_at` is when it became a failure, or becomes one if it goes on; `clears_at` is when a failure whose check is
    well again, or flapping, is over if it stays so. `tolerance_seconds` is None where it never becomes a failure.
    """

    name: str
    status: ConditionStatus
    since: datetime
    reason: str
    message: str
    device: DeviceRef | None = None
    tolerance_seconds: int | None = None
    failure_at: datetime | None = None
    clears_at: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        """Give the fields that are known; the tolerance always, null for one that never ends."""
        fields: dict[str, Any] = {
            "name": self.name,
            "status": str(self.status),
            "since": rfc3339(self.since),
            "failure_at": rfc3339(self.failure_at) if self.failure_at else None,
            "clears_at": rfc3339(self.clears_at) if self.clears_at else None,
            "reason": self.reason,
            "message": self.message,
            "device": self.device.to_json() if self.device else None,
        }
        return {
            **{name: value for name, value in fields.items() if value is not None},
            "tolerance_seconds": self.tolerance_seconds,
        }


def worst_first(found: Iterable[Condition]) -> list[Condition]:
    """Put conditions in the order of an answer: failures, problems, unknown ones; by name and device within these."""
    return sorted(found, key=lambda one: (_ORDER.index(one.status), one.name, str(one.device or "")))


_ORDER = (ConditionStatus.FAILURE, ConditionStatus.PROBLEM, ConditionStatus.UNKNOWN, ConditionStatus.OK)
