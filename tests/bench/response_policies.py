# SPDX-License-Identifier: Apache-2.0
"""What do people do who remember nothing? Two ways to answer a fault, to compare with."""

from __future__ import annotations

from functools import partial

from registry.domain.repair import Action
from tests.bench.response_faults import Wave
from tests.bench.response_fleet import Key, Node
from tests.bench.response_world import World


class Forgetful:
    """Restart and forget: when a job was interrupted, what fails on its nodes is booted, and what is well is used.

    What still fails after the boot is given back. Nothing that works is touched, and nothing is known of yesterday.
    """

    name, tests = "restart and forget", False

    def __init__(self, world: World) -> None:
        self._world = world

    def saw(self, node: Node, _key: Key, _code: str | None, *, is_bad: bool) -> None:
        """What fails meanwhile takes no new work, and may when it is well."""
        self._world.reckon(node)
        if not is_bad:
            self._world.scheduler.offer()

    def lost(self, node: Node) -> None:
        """Wait until it is back."""

    def booted(self, node: Node) -> None:
        """Look at what it shows now, and at nothing else."""

    def interrupted(self, nodes: list[Node]) -> None:
        """Boot what fails."""
        for node in nodes:
            if node.bad and node.is_up and node.working is None and not node.is_at_work:
                self._world.act(node, Action.REBOOT_NODE, None, partial(self._booted, node), saves=False)

    def mended(self, wave: Wave) -> None:
        """Nobody remembers what it said."""

    def may_work(self, node: Node) -> bool:
        """Only now counts."""
        return not node.bad

    def _booted(self, node: Node) -> None:
        if node.bad:
            self._world.act(node, Action.REPLACE_NODE, None, _nothing, saves=False)


class AtOnce:
    """Replace at once: whatever fails a check or falls silent is given back, and what comes instead is used."""

    name, tests = "replace at once", False

    def __init__(self, world: World) -> None:
        self._world = world

    def saw(self, node: Node, _key: Key, _code: str | None, *, is_bad: bool) -> None:
        """Replace."""
        if is_bad:
            self._replace(node)

    def lost(self, node: Node) -> None:
        """Replace what is silent, too."""
        self._replace(node)

    def booted(self, node: Node) -> None:
        """Replace again when it begins badly."""
        if node.bad:
            self._replace(node)

    def interrupted(self, nodes: list[Node]) -> None:
        """Everything that shows was replaced before."""

    def mended(self, wave: Wave) -> None:
        """Nobody remembers what it said."""

    def may_work(self, node: Node) -> bool:
        """Only now counts."""
        return not node.bad

    def _replace(self, node: Node) -> None:
        if node.working is None:
            self._world.act(node, Action.REPLACE_NODE, None, _nothing, saves=False)


def _nothing() -> None:
    """Nobody waits for the end of it."""
