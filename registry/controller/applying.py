# SPDX-License-Identifier: Apache-2.0
"""How is a Node marked with what was decided? Its taints over the version that was read, its condition by its type.

A node that somebody changed meanwhile is read again and judged anew; whoever lost the lease writes nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from registry.controller.api_server import MERGE_PATCH, STRATEGIC_PATCH, ApiError, ApiServer, Conflict, Missing
from registry.controller.logs import Say
from registry.controller.meters import Meters
from registry.controller.nodes import Nodes
from registry.controller.seen import NodeSeen, read_node
from registry.controller.watching import NODES
from registry.domain.admitted_condition import condition_after, tell
from registry.domain.node_naming import Naming
from registry.domain.tainting import Answer, Keep, taints_after
from registry.domain.taints import TAINT_KEY

TRIES = 6
"""How often a node that others keep changing is tried; the next round begins anew."""

PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Order:
    """What to do with a node: by an `answer`, or, with a reason to `keep`, nothing but to say so, with `detail`."""

    answer: Answer | None
    keep: Keep | None = None
    detail: str = ""


@dataclass(slots=True)
class Applier:
    """Marks nodes. May be shared by threads. `may_act` is asked before every write."""

    api: ApiServer
    nodes: Nodes
    naming: Naming
    say: Say
    meters: Meters
    now: Callable[[], datetime]
    may_act: Callable[[], bool]
    evicts: bool = False
    sleep: Callable[[float], None] = time.sleep

    def settle(self, node: NodeSeen, order: Order) -> None:
        """Bring a node to what is ordered. What the API server refuses is told, and tried again by a later round."""
        seen: NodeSeen | None = node
        for _ in range(TRIES):
            try:
                if seen is None or seen.uid != node.uid or not seen.is_managed or not self.may_act():
                    return
                self._write_condition(self._write_taints(seen, order), order)
            except Conflict:
                self.meters.add("conflicts_total")
                self.sleep(PAUSE_SECONDS * random.random())  # noqa: S311 - spreads load, guards nothing
                seen = self._read_again(node)
            except Missing:
                self.nodes.remove(node.name)
                return
            except ApiError as error:
                self._refused(node, error)
                return
            else:
                return
        self._refused(node, ApiError("others keep changing it", 409))

    def _write_taints(self, node: NodeSeen, order: Order) -> NodeSeen:
        """Raises ApiError."""
        wanted = taints_after(node.taints, order.answer, evicts=self.evicts, keep=order.keep, now=self.now())
        if wanted is None:
            return node
        change = {
            "metadata": {"uid": node.uid, "resourceVersion": node.version},
            "spec": {"taints": wanted or None},
        }
        written = self._patch(node, "", change, MERGE_PATCH)
        before, after = (_ours(one) for one in (node, written))
        self.meters.add("changes_total", f'what="taint_{"removed" if len(after) < len(before) else "set"}"')
        disposition = str(order.answer.disposition) if order.answer else ""
        codes = [code for code, _ in order.answer.reasons] if order.answer else []
        self.say("taints changed", node=node.name, before=before, after=after, disposition=disposition, codes=codes)
        return written

    def _write_condition(self, node: NodeSeen, order: Order) -> None:
        """Raises ApiError."""
        told = tell(order.answer, order.keep, order.detail)
        wanted = condition_after(node.condition, told, self.now())
        if wanted is None or not self.may_act():
            return
        # By uid, not by version: the list is merged by type, and the kubelet writes its own entries all the time.
        change = {"metadata": {"uid": node.uid}, "status": {"conditions": [wanted]}}
        self._patch(node, "/status", change, STRATEGIC_PATCH)
        self.meters.add("changes_total", 'what="condition"')
        if node.condition is None or node.condition.get("status") != wanted["status"]:
            self.say("condition changed", node=node.name, status=wanted["status"], reason=wanted["reason"])

    def _patch(self, node: NodeSeen, part: str, change: dict[str, object], kind: str) -> NodeSeen:
        written = self._seen(self.api.patch(f"{NODES}/{quote(node.name, safe='')}{part}", change, kind))
        self.nodes.put(written, is_ours=True)
        return written

    def _read_again(self, node: NodeSeen) -> NodeSeen | None:
        """Read a node that is not what it was; None where it is gone, or nobody answers: a later round sees it."""
        try:
            seen = self._seen(self.api.get(f"{NODES}/{quote(node.name, safe='')}"))
        except Missing:
            self.nodes.remove(node.name)
            return None
        except ApiError as error:
            self._refused(node, error)
            return None
        self.nodes.put(seen, is_ours=seen.uid == node.uid)
        return seen

    def _seen(self, document: dict[str, object]) -> NodeSeen:
        try:
            return read_node(document, self.naming)
        except ValueError as error:
            raise ApiError(f"the API server answered with no Node: {error}") from error

    def _refused(self, node: NodeSeen, error: ApiError) -> None:
        self.meters.add("change_errors_total", f'status="{error.status}"')
        self.say(
            "a node could not be marked", level="warning", node=node.name, status=error.status, detail=error.detail
        )


def _ours(node: NodeSeen) -> list[str]:
    return sorted(str(one.get("effect")) for one in node.taints if one.get("key") == TAINT_KEY)
