# SPDX-License-Identifier: Apache-2.0
"""How does a Kubernetes Node show that it may take no work yet, and which change of it would open it?

What the words mean: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

TAINT_KEY = "pratique.dev/unadmitted"
"""The key of the taint that a node bears until it is admitted. No other key is ever touched."""

MANAGED_LABEL = "pratique.dev/managed"
"""The label of the nodes that are ours; its value is `MANAGED`. Nodes without it are left alone."""

MANAGED = "true"

CONDITION = "PratiqueAdmitted"
"""The type of the node condition that says what was decided and why."""


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    """No new ones."""
    NO_EXECUTE = "NoExecute"
    """No new ones, and those that run are evicted."""


@dataclass(frozen=True, slots=True)
class NodeMarks:
    """What of a Node object concerns us.

    `is_closed`: it bears our taint, with an effect that keeps new pods away. `is_cordoned` is anybody's cordon.
    """

    is_managed: bool
    is_closed: bool
    is_cordoned: bool


class Opening(StrEnum):
    """How a change would let work onto a node that we keep closed."""

    TAINT_REMOVED = "taint_removed"
    """Our taint goes, or keeps nobody away any more."""
    LABEL_REMOVED = "label_removed"
    """The node would no longer be ours, so nobody would keep it closed."""


def read_marks(node: Mapping[str, Any]) -> NodeMarks:
    """Read a Node object. Raises ValueError with a sentence where it is none."""
    labels = _member(_member(node, "metadata"), "labels")
    spec = _member(node, "spec")
    return NodeMarks(
        is_managed=labels.get(MANAGED_LABEL) == MANAGED,
        is_closed=any(_keeps_away(taint) for taint in read_taints(node)),
        is_cordoned=spec.get("unschedulable") is True,
    )


def read_taints(node: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the taints of a Node object, everybody's. Raises ValueError with a sentence where it is none."""
    taints = _member(node, "spec").get("taints")
    if taints is None:
        return ()
    if not isinstance(taints, list) or not all(isinstance(taint, Mapping) for taint in taints):
        raise ValueError("the node's taints are no list of objects")
    return tuple(taints)


def find_openings(before: NodeMarks, after: NodeMarks) -> tuple[Opening, ...]:
    """Say in which ways a change of a node would open it; empty for a node that is not ours."""
    if not before.is_managed:
        return ()
    found = []
    if before.is_closed and not after.is_closed:
        found.append(Opening.TAINT_REMOVED)
    if not after.is_managed:
        found.append(Opening.LABEL_REMOVED)
    return tuple(found)


def closing_patch(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the JSON Patch (RFC 6902) that closes a node of ours; empty where it is closed or not ours.

    Raises ValueError with a sentence where it is no Node object.
    """
    marks = read_marks(node)
    if marks.is_closed or not marks.is_managed:
        return []
    taint = {"key": TAINT_KEY, "effect": str(TaintEffect.NO_SCHEDULE)}
    if not isinstance(node.get("spec"), Mapping):
        return [{"op": "add", "path": "/spec", "value": {"taints": [taint]}}]
    if node["spec"].get("taints") is None:
        return [{"op": "add", "path": "/spec/taints", "value": [taint]}]
    return [{"op": "add", "path": "/spec/taints/-", "value": taint}]


def _keeps_away(taint: Mapping[str, Any]) -> bool:
    return taint.get("key") == TAINT_KEY and taint.get("effect") in tuple(TaintEffect)


def _member(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object inside an object; one that is left out is empty, as the API server writes it."""
    found = holder.get(name)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ValueError(f"the node's {name} is no object")  # noqa: TRY004 - what is wrong is the message, not a type
    return found
