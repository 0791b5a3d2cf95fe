# SPDX-License-Identifier: Apache-2.0
"""How does the controller stay up to date about nodes? It lists them, watches from there, and lists again when lost.

https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from registry.client import pause_before
from registry.controller.api_server import ApiError, ApiServer, Gone
from registry.controller.logs import Say
from registry.controller.meters import Meters
from registry.controller.nodes import Nodes
from registry.controller.seen import NodeSeen, read_node
from registry.domain.node_naming import Naming
from registry.domain.taints import MANAGED, MANAGED_LABEL

NODES = "/api/v1/nodes"
SELECTOR = {"labelSelector": f"{MANAGED_LABEL}={MANAGED}"}
PAGE = "500"
WATCH_SECONDS = 300
"""How long a watch is asked to last; chance adds up to as much again, so that not all are renewed at one moment."""

RESYNC_SECONDS = 600.0
"""How old the last whole list is when the watch that then ends is not taken up again: one that lost an event without a
word is set right by the next list, after twenty minutes at most."""


@dataclass(slots=True)
class Watcher:
    """Keeps `nodes` as the API server has them, until `is_stopping`."""

    api: ApiServer
    nodes: Nodes
    naming: Naming
    say: Say
    meters: Meters
    is_stopping: Callable[[], bool] = lambda: False
    sleep: Callable[[float], object] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    _failures: int = 0
    _unreadable: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """List and watch, over and over. Ends only when all ends: nothing an API server says stops it."""
        while not self.is_stopping():
            retry_after = None
            try:
                self.follow()
            except Gone as error:
                self.say("the watch is too old, all nodes are read again", detail=error.detail)
            except ApiError as error:
                self.say("the nodes cannot be followed", level="warning", detail=error.detail, status=error.status)
                retry_after = error.retry_after
            self.meters.add("watch_restarts_total")
            self.sleep(pause_before(min(self._failures, 6), retry_after))
            self._failures += 1

    def follow(self) -> None:
        """List once and watch from there, until the list is too old. Raises ApiError, Gone."""
        version, listed_at = self.list(), self.monotonic()
        while not self.is_stopping() and self.monotonic() - listed_at < RESYNC_SECONDS:
            version = self._watch(version)
            self._failures = 0

    def list(self) -> str:
        """Read all managed nodes and return the version from which to watch. Raises ApiError."""
        found: list[NodeSeen] = []
        params = {**SELECTOR, "limit": PAGE}
        while True:
            page = self.api.list(NODES, params)
            items, about = page.get("items"), page.get("metadata")
            if not isinstance(about, dict) or not (items is None or isinstance(items, list)):
                raise ApiError("the API server's list of nodes is no list")
            found += [seen for one in items or () if (seen := self._read(one)) is not None and seen.is_managed]
            if not about.get("continue"):
                self.nodes.replace(found)
                return str(about.get("resourceVersion") or "")
            params["continue"] = str(about["continue"])

    def _watch(self, version: str) -> str:
        """Follow changes from a version on, and return the newest one heard of. Raises ApiError, Gone."""
        seconds = str(WATCH_SECONDS + random.randrange(WATCH_SECONDS))  # noqa: S311 - spreads load, guards nothing
        params = {**SELECTOR, "resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": seconds}
        for event in self.api.watch(NODES, params):
            self._failures = 0
            self._take(str(event.get("type")), event["object"])
            about = event["object"].get("metadata")
            version = str((about if isinstance(about, dict) else {}).get("resourceVersion") or version)
            if self.is_stopping():
                break
        return version

    def _take(self, kind: str, node: Mapping[str, Any]) -> None:
        seen = None if kind == "BOOKMARK" else self._read(node)
        if seen is None:
            return
        if kind == "DELETED" or not seen.is_managed:
            # The object is gone, not the machine: it may be registered again, so nothing is retired at Pratique.
            self.nodes.remove(seen.name)
        else:
            self.nodes.put(seen)

    def _read(self, node: object) -> NodeSeen | None:
        """Read a Node; one that cannot be read is left as it is, and said once."""
        name = _name_of(node)
        try:
            if not isinstance(node, Mapping):
                raise ValueError("it is no object")  # noqa: TRY004, TRY301 - told as all that cannot be read
            seen = read_node(node, self.naming)
        except ValueError as error:
            if self._unreadable.get(name) != str(error):
                self._unreadable[name] = str(error)
                self.say("a Node cannot be read and is left alone", level="warning", node=name, detail=str(error))
            return None
        self._unreadable.pop(name, None)
        return seen


def _name_of(node: object) -> str:
    metadata = node.get("metadata") if isinstance(node, Mapping) else None
    return str(metadata.get("name")) if isinstance(metadata, Mapping) else "?"
