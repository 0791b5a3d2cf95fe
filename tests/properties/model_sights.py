# SPDX-License-Identifier: Apache-2.0
"""Is a fault that somebody tells of a new one, one more sight of an old one, or nothing new? And does it count?"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from tests.properties.model_records import Unit


@dataclass
class Seen:
    """A fault on record: on which unit, in which boot if that is certain, and when it was seen."""

    unit: Unit
    code: str
    boot: str | None
    occurred: datetime | None
    is_muted: bool = False
    times: set[datetime] = field(default_factory=set)


class Sights:
    """Every fault that has a unit."""

    def __init__(self) -> None:
        self._seen: list[Seen] = []

    def note(self, seen: Seen, at: datetime) -> None:
        """A new fault, or one that found its unit."""
        seen.times.add(at)
        self._seen.append(seen)

    def take(self, seen: Seen, at: datetime) -> str:
        """Say what a sight is: `new`, `again` (newer than the last one), `older`, or `known`."""
        alike = [one for one in self._seen if (one.unit, one.code) == (seen.unit, seen.code)]
        then = [one for one in alike if seen.occurred is not None and one.occurred == seen.occurred]
        now = [one for one in alike if seen.boot and (one.boot, one.is_muted) == (seen.boot, seen.is_muted)]
        found = next(iter([*then, *now]), None)
        if found is None:
            self.note(seen, at)
            return "new"
        if seen.occurred is not None and at in found.times:
            return "known"
        is_newer = at > max(found.times)
        found.times.add(at)
        return "again" if is_newer else "older"
