# SPDX-License-Identifier: Apache-2.0
"""Could one register have answered as the service did, had it been asked one thing after the other?

The search of Wing and Gong (Testing and Verifying Concurrent Objects, 1993) with Lowe's memory of what was tried: take
any operation that no other had to come before, ask the register, and go back where it answers otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

State: TypeAlias = Hashable
Step: TypeAlias = Callable[[Any, "Operation"], Any]
"""The state after an operation, or None where the register would not have answered so."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What was asked, what was answered, and between which moments."""

    begun: int
    ended: int
    what: str
    argument: Any
    answer: Any


def is_linearizable(history: Sequence[Operation], first: State, step: Step) -> bool:
    """Is there an order that agrees with time and with the register?"""
    todo = sorted(history, key=lambda one: one.begun)
    tried: set[tuple[int, State]] = set()
    stack: list[tuple[int, State]] = [(0, first)]
    everything = (1 << len(todo)) - 1
    while stack:
        done, state = stack.pop()
        if done == everything:
            return True
        if (done, state) in tried:
            continue
        tried.add((done, state))
        for at in _next(todo, done):
            after = step(state, todo[at])
            if after is not None:
                stack.append((done | 1 << at, after))
    return False


def _next(todo: Sequence[Operation], done: int) -> list[int]:
    """The operations that may come next: none that is left had ended before they began."""
    left = [at for at in range(len(todo)) if not done >> at & 1]
    first_end = min(todo[at].ended for at in left)
    return [at for at in left if todo[at].begun <= first_end]
