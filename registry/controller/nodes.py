# SPDX-License-Identifier: Apache-2.0
"""Which managed nodes are there, as they were seen last, and which of them changed?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from registry.controller.seen import NodeSeen


class Nodes:
    """The nodes by name. The watch says who is there; whoever patches may see one newer. `ring` is called at news."""

    def __init__(self, ring: Callable[[], None] = lambda: None) -> None:
        self._ring = ring
        self._lock = threading.Lock()
        self._seen: dict[str, NodeSeen] = {}
        self._changed: set[str] = set()
        self._is_complete = False

    def replace(self, listed: Iterable[NodeSeen]) -> None:
        """Take a whole list: who is not in it is gone."""
        with self._lock:
            fresh = {one.name: one for one in listed}
            self._changed |= {name for name, one in fresh.items() if self._is_news(one)}
            self._seen, self._is_complete = fresh, True
        self._ring()

    def put(self, node: NodeSeen) -> None:
        """Take one node as it is now."""
        with self._lock:
            is_news = self._is_news(node)
            self._seen[node.name] = node
            if is_news:
                self._changed.add(node.name)
        if is_news:
            self._ring()

    def update(self, node: NodeSeen) -> None:
        """Take one as an answer to ourselves shows it: news only where it is to be asked about otherwise.

        Such an answer may come after the watch told that the node is gone, or another, or changed since: then it says
        nothing any more.
        """
        with self._lock:
            known = self._seen.get(node.name)
            if known is None or known.uid != node.uid or not node.is_newer_than(known):
                return
            self._seen[node.name] = node
            is_news = not node.is_asked_like(known)
            if is_news:
                self._changed.add(node.name)
        if is_news:
            self._ring()

    def remove(self, name: str) -> None:
        """Forget a node that is gone, or ours no longer."""
        with self._lock:
            self._seen.pop(name, None)
            self._changed.discard(name)

    def all(self) -> dict[str, NodeSeen]:
        """Return every node that is ours; empty before the first whole list."""
        with self._lock:
            return {name: one for name, one in self._seen.items() if one.is_managed} if self._is_complete else {}

    def take_changed(self) -> set[str]:
        """Return the names of the nodes that changed since the last time."""
        with self._lock:
            changed, self._changed = self._changed, set()
            return changed

    def _is_news(self, node: NodeSeen) -> bool:
        known = self._seen.get(node.name)
        return known is None or node.is_news_to(known)
