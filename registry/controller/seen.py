# SPDX-License-Identifier: Apache-2.0
"""What does a Node object say that concerns us, and under which name does Pratique know the node?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from registry.domain.node_naming import Naming
from registry.domain.taints import CONDITION, read_marks, read_taints

BOOT_ID_MAX = 256
"""Characters of a boot id that the service takes."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A Node as it was read. `version` is its resourceVersion, `asked_as` its name at Pratique.

    `boot_id` is the kernel's, as the kubelet read it. `taints` are everybody's; `is_closed`: one of ours keeps new pods
    away.
    """

    name: str
    uid: str
    version: str
    asked_as: str | None
    boot_id: str | None
    taints: tuple[Mapping[str, Any], ...]
    condition: Mapping[str, Any] | None
    is_managed: bool
    is_closed: bool

    def is_news_to(self, other: NodeSeen) -> bool:
        """Does it differ in what we act upon? A kubelet writes its status every few minutes, which is no news."""
        return not self.is_asked_like(other) or (self.taints, self.condition) != (other.taints, other.condition)

    def is_newer_than(self, other: NodeSeen) -> bool:
        """Was it written later? False where that cannot be told, because a version is not the number that grows:
        https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions.
        """
        mine, others = self.version, other.version
        are_numbers = all(one.isascii() and one.isdecimal() for one in (mine, others))
        return are_numbers and (len(mine), mine) > (len(others), others)

    def is_asked_like(self, other: NodeSeen) -> bool:
        """Is an answer about the one good for the other: the same node in the same boot, under the same name?"""
        return (self.uid, self.asked_as, self.boot_id) == (other.uid, other.asked_as, other.boot_id)


def read_node(node: Mapping[str, Any], naming: Naming) -> NodeSeen:
    """Read a Node object. Raises ValueError with a sentence where it is none that could be worked with."""
    metadata = node.get("metadata")
    if not isinstance(metadata, Mapping):
        raise ValueError("it has no metadata")  # noqa: TRY004 - what is wrong is the message, not a type
    texts = tuple(metadata.get(name) for name in ("name", "uid", "resourceVersion"))
    if not all(isinstance(one, str) and one for one in texts):
        raise ValueError("it lacks a name, a uid or a resourceVersion")
    name, uid, version = map(str, texts)
    marks = read_marks(node)
    return NodeSeen(
        name,
        uid,
        version,
        naming.of(node),
        _boot_id(node),
        read_taints(node),
        _condition(node),
        is_managed=marks.is_managed,
        is_closed=marks.is_closed,
    )


def _boot_id(node: Mapping[str, Any]) -> str | None:
    status = node.get("status")
    about = status.get("nodeInfo") if isinstance(status, Mapping) else None
    found = about.get("bootID") if isinstance(about, Mapping) else None
    return found if isinstance(found, str) and found.isprintable() and 0 < len(found) <= BOOT_ID_MAX else None


def _condition(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Find our condition; what others wrote into the list is none of our business, however odd."""
    status = node.get("status")
    listed = status.get("conditions") if isinstance(status, Mapping) else None
    ours = [
        one
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, Mapping) and one.get("type") == CONDITION
    ]
    return ours[0] if ours else None
