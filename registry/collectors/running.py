# SPDX-License-Identifier: Apache-2.0
"""How is a tool run? Collectors get a `Runner`, so that a test can answer for the tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

Runner: TypeAlias = Callable[[Sequence[str]], bytes]
"""Runs a command line and gives its standard output, whatever its exit code. Raises ToolMissing, ToolFailed."""


class ToolMissing(Exception):
    """There is no such program here: nothing can be said, and nothing is wrong."""


class ToolFailed(Exception):
    """The program is there and gave no answer: it hung, was killed, or printed nothing. What it looks at is unknown."""
