# SPDX-License-Identifier: Apache-2.0
"""A node carries two bad GPUs and one of them is held at every moment: does any reader ever see the node admitted?

Whoever reads the holds in pieces can see the one before it is held and the other after it is released.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.live.machines import Node, codes, held, quarantine, release
from tests.live.server import Caller, LiveServer

SECONDS = 3.0
LOOKS_LEAST = 100
SWAPS_LEAST = 10


def test_no_door_sees_the_node_admitted_while_a_hold_passes_from_one_gpu_to_the_other(
    server: LiveServer, operator: Caller
) -> None:
    node = Node(server)
    node.admit()
    (first,) = quarantine(operator, held(node, 0))
    over = threading.Event()
    seen: Counter[tuple[str, str]] = Counter()

    def look(door: str, ask: Callable[[], str]) -> None:
        while not over.is_set():
            seen[door, ask()] += 1

    ways = doors(node, operator)
    with ThreadPoolExecutor(len(ways)) as pool:
        readers = [pool.submit(look, door, ask) for door, ask in ways.items()]
        try:
            swaps, last = pass_the_hold_on(node, operator, first["quarantine"]["id"])
        finally:
            over.set()
        for reader in readers:
            reader.result()

    assert {told for _, told in seen} == {"held"}, seen
    assert sum(seen.values()) > LOOKS_LEAST
    assert swaps >= SWAPS_LEAST
    # It was the holds, and nothing else, that kept it out.
    node.report()
    assert codes(node.report()["admission"]) == ["device_quarantined"]
    release(operator, last)
    node.admit()


def pass_the_hold_on(node: Node, operator: Caller, hold_id: str) -> tuple[int, str]:
    """Hold the other GPU, and only then release the one. Returns how often that was done, and the last hold."""
    swaps = 0
    until = time.monotonic() + SECONDS
    # A busy machine takes longer for as many: what is proved must not depend on its load.
    while swaps < SWAPS_LEAST or time.monotonic() < until:
        swaps += 1
        (other,) = quarantine(operator, held(node, swaps % 2), fresh=True)
        assert other["outcome"] == "opened"
        release(operator, hold_id)
        hold_id = other["quarantine"]["id"]
    return swaps, hold_id


def doors(node: Node, operator: Caller) -> dict[str, Callable[[], str]]:
    """Every way to learn whether the node may take work, each through whichever worker takes the connection."""
    path = f"/v1/nodes/{node.name}"

    def word(decision: dict[str, object]) -> str:
        return "held" if "device_quarantined" in codes(decision) and not decision["admitted"] else str(decision)

    def line() -> str:
        text = node.caller.ask("GET", f"{path}/admission", headers={"Accept": "text/plain"}, fresh=True).text
        return "held" if text.startswith("hold 10 device_quarantined") else text

    def ask_many() -> str:
        answer = operator.post("/v1/admissions", {"candidates": [{"node": node.name}]}, fresh=True)
        return word(answer.json()["items"][0])

    return {
        "admission": lambda: word(node.decision(fresh=True)),
        "line": line,
        "admissions": ask_many,
        "node": lambda: word(operator.get(path, fresh=True)["admission"]),
        "report": lambda: word(node.caller.post(node.path, node.body(), fresh=True).json()["admission"]),
    }
