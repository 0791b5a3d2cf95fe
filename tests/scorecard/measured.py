# SPDX-License-Identifier: Apache-2.0
"""What does a row come to? So many trials, what went wrong in them, and what was counted beside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Progress: TypeAlias = Callable[[int], None]
"""Told how many more trials are done."""

Run: TypeAlias = Callable[[int, int, str, Progress], "Measured"]
"""Does `n` trials from a seed on an engine. Raises NotRun when they cannot be done here."""


class NotRun(Exception):
    """The row cannot be measured here; the text says why."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What `n` trials came to.

    `wrong` names all that must not happen and how often it did, zeros included; `seen` what shows that the trials were
    of some use: how often a call was cut off, how many answers said no.
    """

    n: int
    wrong: Mapping[str, int]
    seen: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Counters count on when they are added to; what was measured stays.
        object.__setattr__(self, "wrong", dict(self.wrong))
        object.__setattr__(self, "seen", dict(self.seen))

    @property
    def is_met(self) -> bool:
        """True when something was tried and nothing went wrong."""
        return self.n > 0 and not any(self.wrong.values())


def together(parts: Iterable[Measured]) -> Measured:
    """Add up the parts of one row."""
    n, wrong, seen = 0, Counter[str](), Counter[str]()
    for one in parts:
        n += one.n
        wrong.update(one.wrong)
        seen.update(one.seen)
    return Measured(n, dict(wrong), dict(seen))
