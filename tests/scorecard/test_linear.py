# SPDX-License-Identifier: Apache-2.0
"""Does the checker tell histories that a register could have had from those that none could?"""

from __future__ import annotations

import pytest

from tests.scorecard.histories import step
from tests.scorecard.linear import Operation, is_linearizable

ALICE, BOB = ("operator:alice", (0,)), ("operator:bob", (0,))
BOTH = ("operator:alice", (0, 1))


def hold(begun: int, ended: int, who: tuple[str, tuple[int, ...]] = ALICE, *told: str) -> Operation:
    return Operation(begun, ended, "hold", who, told or ("opened",))


def release(begun: int, ended: int, *told: str) -> Operation:
    return Operation(begun, ended, "release", BOTH if len(told) > 1 else ALICE, told)


def look(begun: int, ended: int, *slots: int) -> Operation:
    return Operation(begun, ended, "decision", ALICE, frozenset(slots))


def owners(begun: int, ended: int, *names: str) -> Operation:
    return Operation(begun, ended, "list", ALICE, frozenset(names))


POSSIBLE = {
    "one after the other": [hold(0, 1), look(2, 3, 0), release(4, 5, "released"), look(6, 7)],
    "a reading beside the hold sees it": [hold(0, 9), look(1, 2, 0)],
    "a reading beside the hold does not see it": [hold(0, 9), look(1, 2)],
    "two owners": [hold(0, 1), hold(2, 3, BOB), owners(4, 5, "operator:alice", "operator:bob")],
    "of two at once one is first": [hold(0, 9), hold(0, 9, ALICE, "already_open")],
    "several at once": [hold(0, 9, BOTH, "opened", "opened"), look(1, 2), look(3, 4, 0, 1)],
}
IMPOSSIBLE = {
    "a reading after the hold misses it": [hold(0, 1), look(2, 3)],
    "a reading before the hold sees it": [look(0, 1, 0), hold(2, 3)],
    "seen, and then not yet": [hold(0, 9), look(1, 2, 0), look(3, 4)],
    "opened twice": [hold(0, 9), hold(0, 9)],
    "released, and still held": [hold(0, 1), release(2, 3, "released"), look(4, 5, 0)],
    "an owner is forgotten": [hold(0, 1), hold(2, 3, BOB), owners(4, 5, "operator:bob")],
    "half of one act is seen": [hold(0, 9, BOTH, "opened", "opened"), look(1, 2, 0)],
}


@pytest.mark.parametrize("history", POSSIBLE.values(), ids=POSSIBLE.keys())
def test_what_a_register_could_have_answered_is_linearizable(history: list[Operation]) -> None:
    assert is_linearizable(history, frozenset(), step)


@pytest.mark.parametrize("history", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_what_no_register_could_have_answered_is_not(history: list[Operation]) -> None:
    assert not is_linearizable(history, frozenset(), step)
