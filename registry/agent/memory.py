# SPDX-License-Identifier: Apache-2.0
"""What must the agent still know after it was killed? Which faults of this boot it has told, and what the log showed.

Kept in one small file that is replaced as a whole. Losing it costs nothing but repetition: the server knows a fault
that is told again by its id.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from registry.agent.spool import BEGUN, write_whole
from registry.domain.times import parse_rfc3339, rfc3339_or_none

TOLD_MAX = 10_000
"""Most ids kept; a log that holds more faults of one boot than that repeats itself."""


class Memory:
    """What is known of one boot. A new boot begins with an empty one."""

    def __init__(self, file: Path, boot_id: str) -> None:
        """Read the file; one that is missing, of another boot or no longer readable counts as empty."""
        self._file = file
        self.boot_id = boot_id
        self.told: dict[str, None] = {}
        self.failing: list[dict[str, Any]] = []
        self.standing: dict[str, int] = {}
        self.is_diagnosed = False
        self.booted_at: datetime | None = None
        self._saved = b""
        known = _read(file)
        if known.get("boot_id") != boot_id:
            return
        told, failing = known.get("told"), known.get("failing")
        self.told = dict.fromkeys(told) if isinstance(told, list) else {}
        self.failing = [one for one in failing if isinstance(one, dict)] if isinstance(failing, list) else []
        standing = known.get("standing")
        self.standing = standing if isinstance(standing, dict) else {}
        self.is_diagnosed = known.get("is_diagnosed") is True
        self.booted_at = _time(known.get("booted_at"))

    def keep_boot_time(self, booted_at: datetime | None) -> datetime | None:
        """Return when the boot began as it was computed first: computed anew it moves with the clock, and with it the
        time of every line that was told already.
        """
        self.booted_at = self.booted_at or booted_at
        return self.booted_at

    def note_told(self, failure_ids: Iterable[str]) -> None:
        """Remember that these faults are with the server or in the spool."""
        self.told.update(dict.fromkeys(failure_ids))
        for oldest in list(self.told)[:-TOLD_MAX]:
            del self.told[oldest]

    def note_standing(self, ids: Collection[str], number: int, *, is_whole: bool) -> None:
        """Keep which faults without a time the tools show now, each with the number at which it appeared.

        One that a whole look does not show is over: when it comes back it is another.
        """
        if is_whole:
            self.standing = {id_: at for id_, at in self.standing.items() if id_ in ids}
        for id_ in ids:
            self.standing.setdefault(id_, number)

    def save(self) -> None:
        """Bring it to the disk where it differs from what is there. Raises OSError."""
        known = {
            "boot_id": self.boot_id,
            "told": list(self.told),
            "failing": self.failing,
            "standing": self.standing,
            "is_diagnosed": self.is_diagnosed,
            "booted_at": rfc3339_or_none(self.booted_at),
        }
        content = json.dumps(known).encode()
        if content != self._saved:
            write_whole(self._file, content, self._file.with_suffix(BEGUN))
            self._saved = content


def _time(kept: object) -> datetime | None:
    try:
        return parse_rfc3339(kept) if isinstance(kept, str) else None
    except ValueError:
        return None


def _read(file: Path) -> dict[str, Any]:
    try:
        known = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
