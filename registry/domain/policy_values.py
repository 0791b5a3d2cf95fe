# SPDX-License-Identifier: Apache-2.0
"""Is one value of a policy file what it should be? Each reader gives a usable value, and notes what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

WITHIN_MAX_SECONDS = 366 * 86_400

_WITHIN = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """What is wrong at one key of the file. `key` is the path to it, as `rules[0].count`."""

    key: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.key}: {self.remedy}"


class Values:
    """Reads values of the file and collects what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[PolicyProblem] = []

    def say(self, key: str, remedy: str) -> None:
        """Note what is wrong at a key, and what to write there."""
        self.problems.append(PolicyProblem(key, remedy))

    def table(self, key: str, value: object) -> Mapping[str, Any]:
        """Read a table."""
        if isinstance(value, dict):
            return value
        self.say(key, f"write it as a table, [{key}].")
        return {}

    def refuse_unknown(self, path: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        """Note every key that means nothing."""
        for key in table:
            if key not in known:
                self.say(f"{path}{key}", f"there is no such key; known are {', '.join(known)}.")

    def within(self, key: str, value: object) -> int:
        """Read a length of time, in seconds."""
        found = _WITHIN.fullmatch(value) if isinstance(value, str) else None
        seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
        if not 0 < seconds <= WITHIN_MAX_SECONDS:
            self.say(key, 'write a length of time as "90s", "10m", "3h" or "28d", at most 366d.')
        return seconds

    def texts(self, key: str, value: object, is_good: Callable[[str], bool], remedy: str) -> tuple[str, ...]:
        """Read a list of texts, each once."""
        if not isinstance(value, list) or not value:
            self.say(key, "write a list of texts that is not empty.")
            return ()
        for at, one in enumerate(value):
            if not isinstance(one, str) or not is_good(one):
                self.say(f"{key}[{at}]", f"{one!r} {remedy}")
        return tuple(dict.fromkeys(one for one in value if isinstance(one, str)))

    def number(self, key: str, value: object, least: int, most: int) -> int:
        """Read a whole number within bounds."""
        # bool is an int to Python: `true` would become one.
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.say(key, f"write a whole number from {least} to {most}.")
        return least

    def word(self, key: str, value: object, words: type[E]) -> E | None:
        """Read a word of an enum."""
        said = self.one_of(key, value, tuple(words))
        return words(said) if said is not None else None

    def one_of(self, key: str, value: object, words: tuple[str, ...]) -> str | None:
        """Read one of these words."""
        if isinstance(value, str) and value in words:
            return value
        self.say(key, f"write one of {', '.join(words)}.")
        return None
