# SPDX-License-Identifier: Apache-2.0
"""What was measured already? One JSON file, written after each part, so that a run that was interrupted goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.project import ROOT
from tests.scorecard.measured import Measured, together

ROOMS = ("api", "migrations", "registry", "tests/scorecard")
"""Whose code decides what a row comes to."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one row came to on one engine. `wanted` is the N asked for, `parts` what is done of it."""

    wanted: int
    seed: int
    code: str
    where: Mapping[str, str]
    parts: tuple[Measured, ...] = field(default_factory=tuple)
    not_run: str | None = None

    @property
    def measured(self) -> Measured:
        """All parts together."""
        return together(self.parts)

    @property
    def is_done(self) -> bool:
        """True when there is nothing left to do."""
        return self.measured.n >= self.wanted

    def is_same_work(self, wanted: int, seed: int, code: str) -> bool:
        """True when this is what would be done again."""
        return self.not_run is None and (self.wanted, self.seed, self.code) == (wanted, seed, code)

    def plus(self, part: Measured) -> Entry:
        """Add one part."""
        return replace(self, parts=(*self.parts, part))


class Ledger:
    """Entries by row and engine, kept in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: dict[str, Entry] = {}
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            self.entries = {key: _read(one) for key, one in kept.items()}

    def get(self, row: str, engine: str) -> Entry | None:
        """What is known of a row."""
        return self.entries.get(f"{row} {engine}")

    def put(self, row: str, engine: str, entry: Entry) -> None:
        """Keep an entry, at once and whole."""
        self.entries[f"{row} {engine}"] = entry
        text = json.dumps({key: asdict(one) for key, one in sorted(self.entries.items())}, indent=1) + "\n"
        new = self.path.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        os.replace(new, self.path)  # noqa: PTH105 - says that it replaces


def _read(kept: dict[str, Any]) -> Entry:
    parts = tuple(Measured(**one) for one in kept.pop("parts"))
    return Entry(**kept, parts=parts)


@cache
def code_digest() -> str:
    """Twelve digits that change with the code of the service or of the harness."""
    digest = hashlib.sha256()
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in {".py", ".c"} and not path.name.startswith("test_"):
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]
