# SPDX-License-Identifier: Apache-2.0
"""Does a line that the kernel's log still shows speak against its device? A log keeps what is over as long as the rest.

What a line tells of ends with the boot, with a reset that cures it, with maintenance around it, or with the word of a
person.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from registry.domain.failures import INJECTED, Effect

CHECK, SOURCE = "gpu.xid", "kernel_log"
"""The check that the log decides, and what the evidence of a fault names when a line tells of it."""


ZONE_ASSUMED = "zone_assumed_utc"
"""What the evidence says under `time` where a stamp named no zone and was read as UTC."""
_WESTMOST = timedelta(hours=12)
"""How far local time lies behind UTC at most: https://data.iana.org/time-zones/tzdb/etcetera, `Etc/GMT+12`."""


def is_line(evidence: Any) -> bool:
    """Tell whether the evidence of a fault is a line of the kernel's log."""
    return isinstance(evidence, dict) and evidence.get("source") == SOURCE


def latest_at(seen_at: datetime, evidence: Any) -> datetime:
    """Return the latest time that a sight can be of: of a stamp without a zone nobody knows how far west it was made.

    So it proves that a fault is older than something else only by more than that.
    """
    return seen_at + _WESTMOST if _is_zone_assumed(evidence) else seen_at


def heard_at(seen_at: datetime, recorded_at: datetime, evidence: Any) -> datetime:
    """Return the time by which what ended a fault has to be newer: of a stamp without a zone, when it was first told.

    By its own words such a line may be hours older than a release or a reset, and be news all the same; where no zone
    can make it newer, its words count.
    """
    return min(max(seen_at, recorded_at), latest_at(seen_at, evidence))


def _is_zone_assumed(evidence: Any) -> bool:
    return isinstance(evidence, dict) and evidence.get("time") == ZONE_ASSUMED


@dataclass(frozen=True, slots=True)
class Line:
    """What is on record of a fault that the log shows.

    `effect` is the milder of what it had when it was recorded and what the policy in force gives its code; `seen_at`
    is its newest sight. `is_of_boot` is False for what was first told in another boot.
    """

    code: str
    effect: Effect
    seen_at: datetime
    is_withdrawn: bool
    muted: str | None
    is_of_boot: bool


def why_over(
    line: Line, *, booted_at: datetime, restarted_at: datetime | None, is_known_to_a_person: bool
) -> str | None:
    """Say why a line speaks no more; None while it does.

    `booted_at` is when the running boot was first heard of, `restarted_at` when the device was last reset or its
    driver loaded in it. `is_known_to_a_person`: one has released the device since the newest sight.
    """
    if line.is_withdrawn:
        return "somebody has withdrawn it"
    if line.muted is not None:
        return "a test put it in" if line.muted == INJECTED else "it was during maintenance"
    if not line.effect.is_blocking:
        return "by the policy it is only recorded"
    if not line.is_of_boot and line.seen_at < booted_at:
        return "it is of an earlier boot"
    if line.effect is not Effect.PERMANENT and restarted_at is not None and restarted_at > line.seen_at:
        return "the device was reset since"
    return "a person has released the device since" if is_known_to_a_person else None
