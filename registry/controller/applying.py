# SPDX-License-Identifier: Apache-2.0
"""How is a Node marked with what was decided? Its taints over the version that was read, its condition by its type.

A node that somebody changed meanwhile is read again and judged anew; whoever lost the lease writes nothing, and nothing
is written by an answer that is old. What is refused of one part keeps the other from nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

from registry.controller.api_server import MERGE_PATCH, STRATEGIC_PATCH, ApiError, ApiServer, Conflict, Missing
from registry.controller.logs import Say
from registry.controller.meters import Meters
from registry.controller.nodes import Nodes
from registry.controller.refusals import Refusals
from registry.controller.seen import NodeSeen, read_node
from registry.controller.watching import NODES
from registry.domain.admitted_condition import condition_after, tell
from registry.domain.node_naming import Naming
from registry.domain.tainting import Answer, Keep, taints_after
from registry.domain.taints import TAINT_KEY

TRIES = 6
"""How often a node that others keep changing is tried; the next round begins anew."""

PAUSE_SECONDS = 0.05

ORDER_SECONDS = 10.0
"""How old an answer may be when a node is marked by it. With a slow API server the last of many nodes would be opened
by what was decided minutes ago; it is asked about again instead."""

TAINTS, CONDITION = "taints", "condition"
"""The two parts of a node that are written, each by itself."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to do with a node: by an `answer`, or, with a reason to `keep`, nothing but to say so, with `detail`.

    `heard_at` is when the answer came, or was missed, on the clock that only goes up.
    """

    answer: Answer | None
    heard_at: float
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
    monotonic: Callable[[], float]
    may_act: Callable[[], bool]
    evicts: bool = False
    sleep: Callable[[float], None] = time.sleep
    refusals: Refusals = field(init=False)

    def __post_init__(self) -> None:
        self.refusals = Refusals(self.monotonic)

    def settle(self, node: NodeSeen, order: Order) -> None:
        """Bring a node to what is ordered. What the API server refuses is told, and tried again by a later round."""
        seen: NodeSeen | None = node
        for _ in range(TRIES):
            try:
                if seen is None or not self._is_meant(seen, node, order):
                    return
                self._write_condition(self._write_taints(seen, order), order)
            except Conflict:
                self.meters.add("conflicts_total")
                self.sleep(PAUSE_SECONDS * random.random())  # noqa: S311 - spreads load, guards nothing
                seen = self._read_again(node)
            except ApiError:
                return  # it was told where it happened
            else:
                return
        self._refused(node, TAINTS, Conflict("others keep changing it", 409))

    def _is_meant(self, seen: NodeSeen, node: NodeSeen, order: Order) -> bool:
        """Is the order still one for this node, and for us?"""
        is_fresh = self.monotonic() - order.heard_at <= ORDER_SECONDS
        return is_fresh and seen.is_managed and seen.is_asked_like(node) and self.may_act()

    def _write_taints(self, node: NodeSeen, order: Order) -> NodeSeen:
        """Return the node as it then is: also as it was, where the API server refuses. Raises ApiError."""
        wanted = taints_after(node.taints, order.answer, evicts=self.evicts, keep=order.keep, now=self.now())
        if wanted is None or self.refusals.is_resting(node.name, TAINTS):
            return node
        change = {
            "metadata": {"uid": node.uid, "resourceVersion": node.version},
            "spec": {"taints": wanted or None},
        }
        try:
            written = self._patch(node, TAINTS, change)
        except ApiError as error:
            if isinstance(error, (Conflict, Missing)) or not error.is_refusal:
                raise
            return node
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
        if wanted is None or self.refusals.is_resting(node.name, CONDITION) or not self.may_act():
            return
        # By uid, not by version: the list is merged by type, and the kubelet writes its own entries all the time.
        change = {"metadata": {"uid": node.uid}, "status": {"conditions": [wanted]}}
        self._patch(node, CONDITION, change)
        self.meters.add("changes_total", 'what="condition"')
        if node.condition is None or node.condition.get("status") != wanted["status"]:
            self.say("condition changed", node=node.name, status=wanted["status"], reason=wanted["reason"])

    def _patch(self, node: NodeSeen, part: str, change: dict[str, object]) -> NodeSeen:
        """Raises ApiError, which is told already unless it is a Conflict."""
        where, kind = ("/status", STRATEGIC_PATCH) if part == CONDITION else ("", MERGE_PATCH)
        try:
            written = self._seen(self.api.patch(f"{NODES}/{quote(node.name, safe='')}{where}", change, kind))
        except Conflict:
            raise
        except ApiError as error:
            self._refused(node, part, error)
            raise
        self.refusals.settled(node.name, part)
        self.nodes.update(written)
        return written

    def _read_again(self, node: NodeSeen) -> NodeSeen | None:
        """Read a node that is not what it was; None where it is gone, or nobody answers: a later round sees it."""
        try:
            seen = self._seen(self.api.get(f"{NODES}/{quote(node.name, safe='')}"))
        except ApiError as error:
            self._refused(node, TAINTS, error)
            return None
        self.nodes.update(seen)
        return seen

    def _seen(self, document: dict[str, object]) -> NodeSeen:
        try:
            return read_node(document, self.naming)
        except ValueError as error:
            raise ApiError(f"the API server answered with no Node: {error}") from error

    def _refused(self, node: NodeSeen, part: str, error: ApiError) -> None:
        """Let it rest, and tell of it once. Of a node that is gone the watch tells soon: that is no error."""
        is_news = self.refusals.note(node.name, part, error)
        if isinstance(error, Missing):
            return
        self.meters.add("change_errors_total", f'status="{error.status}"')
        if is_news:
            about = {"node": node.name, "part": part, "status": error.status, "detail": error.detail}
            self.say("a node could not be marked", level="warning", **about)


def _ours(node: NodeSeen) -> list[str]:
    return sorted(str(one.get("effect")) for one in node.taints if one.get("key") == TAINT_KEY)
