# SPDX-License-Identifier: Apache-2.0
"""How do two nodes of the tests come to contradict each other, and how does a person rule on it?"""

from __future__ import annotations

from typing import Any

from registry.services.conflicts import list_conflicts, resolve_conflict
from tests.fleet import ALICE, EVERYTHING, Fleet, gpu

GPUS = frozenset({"gpu"})


def b(fleet: Fleet, *devices: Any) -> dict[str, Any]:
    """Node-b lists these GPUs."""
    return fleet.report("node-b", instance="i-b", boot="boot-b", devices=devices, covers=GPUS)


def a(fleet: Fleet, *devices: Any) -> dict[str, Any]:
    """Node-a lists these GPUs."""
    return fleet.report(devices=devices, covers=GPUS)


def conflicts(fleet: Fleet, **filters: str) -> list[dict[str, Any]]:
    """The conflicts that these filters leave."""
    return list_conflicts(fleet.db, filters, EVERYTHING).items


def rule(fleet: Fleet, as_: str, reason: str = "looked at it") -> dict[str, Any]:
    """Rule on the one open conflict."""
    (conflict,) = conflicts(fleet, state="open")
    return resolve_conflict(fleet.db, conflict["id"], reason=reason, as_=as_, actor=ALICE, now=fleet.clock.now)


def is_disputed(fleet: Fleet, node: str = "node-a") -> bool:
    """Whether a node is kept out by a conflict."""
    return "identity_conflict" in fleet.codes(node)


def contest(fleet: Fleet) -> None:
    """Let node-b list again what it lost to node-a."""
    b(fleet, gpu(1))
    a(fleet, gpu(1))
    b(fleet, gpu(1))
