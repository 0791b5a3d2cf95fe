# SPDX-License-Identifier: Apache-2.0
"""What do many callers do to a few devices at the same time, and what would a register have answered them?

The register is the set of (device, owner) that are held. Holding answers which were new; releasing ends every owner's
hold on a device; what is held can be read as a list of holds, as a decision about the node, and of many nodes at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

from tests.live.machines import Node
from tests.live.machines import serial as serial_of
from tests.live.server import Caller
from tests.racing import together
from tests.scorecard.linear import Operation

Held: TypeAlias = frozenset[tuple[int, str]]
THREADS, EACH = 4, 8
"""Callers of one history, and what each of them does: as much as is searched in milliseconds."""


class Callers:
    """Operators who act on the devices of one node. `width` is how many devices one act may name."""

    def __init__(self, node: Node, operators: list[Caller], width: int, random: Random) -> None:
        self._node, self._operators, self._width, self._random = node, operators, width, random

    def history(self) -> list[Operation]:
        """Let them act at once, and return what they did."""
        plans = [self._plan() for _ in range(THREADS)]
        done = together(*(lambda plan=plan: [self._do(*one) for one in plan] for plan in plans))
        return [one for part in done for one in part]

    def _plan(self) -> list[tuple[str, Caller, list[int]]]:
        acts = ["hold", "release", "list", "decision", "decisions"]
        return [
            (
                self._random.choice(acts),
                self._random.choice(self._operators),
                sorted(self._random.sample(range(self._width), self._random.randint(1, self._width))),
            )
            for _ in range(EACH)
        ]

    def _do(self, what: str, operator: Caller, slots: list[int]) -> Operation:
        acts: dict[str, Callable[[Caller, list[int]], Any]] = {
            "hold": self._hold,
            "release": self._release,
            "list": self._list,
            "decision": self._decision,
            "decisions": self._decisions,
        }
        begun = time.monotonic_ns()
        answer = acts[what](operator, slots)
        ended = time.monotonic_ns()
        argument = (f"operator:{operator.name}", tuple(slots))
        return Operation(begun, ended, what, argument, answer)

    def _targets(self, slots: list[int]) -> list[dict[str, str]]:
        return [{"device": serial_of(self._node.gpus[slot])} for slot in slots]

    def _hold(self, operator: Caller, slots: list[int]) -> tuple[str, ...]:
        body = {"targets": self._targets(slots), "reason": "it smells"}
        return _outcomes(operator.post("/v1/quarantines", body, fresh=True).json())

    def _release(self, operator: Caller, slots: list[int]) -> tuple[str, ...]:
        body = {"targets": self._targets(slots), "reason": "tested"}
        return _outcomes(operator.post("/v1/quarantines/release", body, fresh=True).json())

    def _list(self, operator: Caller, slots: list[int]) -> frozenset[str]:
        """The owners of the open holds on the first device named."""
        params = {"device": serial_of(self._node.gpus[slots[0]]), "state": "open"}
        items = operator.get("/v1/quarantines", params=params, fresh=True)["items"]
        return frozenset(one["owner"] for one in items)

    def _decision(self, operator: Caller, _: list[int]) -> frozenset[int]:
        return self._slots(operator.get(f"/v1/nodes/{self._node.name}/admission", fresh=True))

    def _decisions(self, operator: Caller, _: list[int]) -> frozenset[int]:
        body = {"candidates": [{"node": self._node.name}]}
        return self._slots(operator.post("/v1/admissions", body, fresh=True).json()["items"][0])

    def _slots(self, decision: dict[str, Any]) -> frozenset[int]:
        serials = {serial_of(number): slot for slot, number in enumerate(self._node.gpus)}
        held = [one for one in decision["reasons"] if one["code"] == "device_quarantined"]
        return frozenset(serials[one["device"]["serial"]] for one in held)


def _outcomes(answer: dict[str, Any]) -> tuple[str, ...]:
    return tuple(one["outcome"] for one in answer["items"])


def step(held: Held, one: Operation) -> Held | None:
    """What the register would have answered, and what it holds then."""
    owner, slots = one.argument
    match one.what:
        case "hold":
            fits = one.answer == tuple("already_open" if (slot, owner) in held else "opened" for slot in slots)
            after = held | {(slot, owner) for slot in slots}
        case "release":
            here = {slot for slot, _ in held}
            fits = one.answer == tuple("released" if slot in here else "not_held" for slot in slots)
            after = frozenset(pair for pair in held if pair[0] not in slots)
        case "list":
            fits, after = one.answer == {who for slot, who in held if slot == slots[0]}, held
        case _:
            fits, after = one.answer == {slot for slot, _ in held}, held
    return after if fits else None
