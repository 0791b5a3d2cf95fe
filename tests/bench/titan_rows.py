# SPDX-License-Identifier: Apache-2.0
"""Where was each GPU of a fleet from when to when, and which of its failures are known? As the file of Titan tells it.

The file is the `gc_full.csv` of https://github.com/olcf/TitanGPULife, the data behind "GPU Lifetimes on Titan
Supercomputer" (Ostrouchov et al., SC20). It is no part of this project. One row is one stay of a serial at a location,
with the failure that ended it if one did; a row without `insert` is a further failure. Its times name no zone: taken
for UTC they give the published sum of GPU-years.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

CODES = {"DBE": "xid_48", "OTB": "xid_79"}
"""Double-bit ECC error, and off the bus, as the driver counts them: https://docs.nvidia.com/deploy/xid-errors/"""

COLUMNS = ("SN", "location", "insert", "remove", "duration", "out", "event")


@dataclass(frozen=True, slots=True)
class Spell:
    """One stay of a GPU at a location, until it was last seen there."""

    serial: str
    location: str
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure of a GPU. `count` lines of the log say it of the same second."""

    serial: str
    location: str
    code: str
    at: datetime
    count: int = 1


@dataclass(frozen=True, slots=True)
class Lives:
    """All stays and failures, and when the fleet was looked at last: what is there until `end` is there still."""

    spells: tuple[Spell, ...]
    faults: tuple[Fault, ...]
    serials: frozenset[str]
    locations: frozenset[str]
    end: datetime


def read_lives(path: Path, limit: int | None = None) -> Lives:
    """Read the file, or its first rows. Raises ValueError, with the line, for one that is no such row."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(f"{path} is no table of {','.join(COLUMNS)}")
        return lives_of(enumerate(islice(reader, limit), start=2))


def lives_of(rows: Iterable[tuple[int, Mapping[str, str]]]) -> Lives:
    """Make sense of rows, each with the number of its line."""
    spells: list[Spell] = []
    lines: Counter[tuple[str, str, str, datetime]] = Counter()
    seen: list[tuple[str, str, datetime]] = []
    for number, row in rows:
        serial, location, event = row["SN"], row["location"], row["event"]
        since, at = _time(number, row["insert"]), _time(number, row["remove"])
        if not serial or not location or at is None or (event and event not in CODES):
            raise ValueError(f"line {number}: no serial, no location, no time or an unknown event")
        seen.append((serial, location, at))
        if since is not None:
            spells.append(Spell(serial, location, since, at))
        if event:
            lines[serial, location, CODES[event], at] += 1
    if not seen:
        raise ValueError("there are no rows")
    return Lives(
        tuple(spells),
        tuple(Fault(*what, count) for what, count in lines.items()),
        frozenset(serial for serial, _, _ in seen),
        frozenset(location for _, location, _ in seen),
        max(at for _, _, at in seen),
    )


def _time(number: int, text: str) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        raise ValueError(f"line {number}: {text!r} is no time") from None
