# SPDX-License-Identifier: Apache-2.0
"""What does the controller do, round after round? Ask about the nodes that are due, and mark them with the answers."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from registry.client import ClientError, pause_before
from registry.controller.applying import Applier, Order
from registry.controller.asking import Asker, Heard
from registry.controller.bell import Bell
from registry.controller.lease import Lease
from registry.controller.logs import Say
from registry.controller.meters import Meters
from registry.controller.nodes import Nodes
from registry.controller.seen import NodeSeen
from registry.domain.admitted_condition import REPORT_STALE, ConditionStatus
from registry.domain.decision import Disposition
from registry.domain.tainting import SILENCE_WINDOW, Answer, Keep, fell_silent_lately, is_mass_silence

INTERVAL_SECONDS = 5.0
"""Seconds between two questions about a node: how late a hold may reach the cluster."""

DECISIONS_PER_SECOND = 500
"""How many are asked for at most: a third of what one core of a server decides. Of 12,500 nodes each is asked about
every 25 seconds then."""

TOGETHER_SHARE = 0.1
"""The part of the interval by which nodes are asked about early so that one question does for all of them: as much as
chance puts between them."""

PATIENCE_SECONDS = 60.0
"""How old the last decision about a node may become before its condition says that there is none."""

IDLE_SECONDS = 0.5
"""How long the loop rests at most."""

STANDSTILL_SECONDS = 120.0
"""A round that takes longer than this does not go on any more."""

MARKERS = 4
"""Nodes that are marked at once."""

MASS_DETAIL = "Too many nodes fell silent at once to believe it of each; its taints stay as they are."

Settle: TypeAlias = Callable[[Iterable[tuple[NodeSeen, Order]]], object]
"""Brings nodes to what is ordered of each."""


@dataclass(slots=True)
class Controller:
    """Marks the nodes of one cluster, as long as the lease is held and until the bell says stop."""

    nodes: Nodes
    asker: Asker
    applier: Applier
    lease: Lease
    bell: Bell
    say: Say
    meters: Meters
    monotonic: Callable[[], float]
    now: Callable[[], datetime]
    interval: float = INTERVAL_SECONDS
    patience: float = PATIENCE_SECONDS
    _due: dict[str, float] = field(default_factory=dict)
    _answers: dict[str, Answer] = field(default_factory=dict)
    _heard_at: dict[str, float] = field(default_factory=dict)
    _closed_at: dict[str, float] = field(default_factory=dict)
    _asks_from: float = -math.inf
    _failures: int = 0
    _is_mass: bool = False
    _turned_at: float = 0.0

    def run(self) -> None:
        """Go round until told to stop."""
        with ThreadPoolExecutor(MARKERS) as markers:
            while not self.bell.is_stopping():
                self._turned_at = self.monotonic()
                self.meters.set("leader", {"": float(self.lease.is_held())})
                if self.lease.is_held():
                    self.round(lambda work: list(markers.map(lambda one: self.applier.settle(*one), work)))
                else:
                    self._forget()
                self.bell.wait(self._pause())

    def is_alive(self) -> bool:
        """Does the loop still turn?"""
        return self.monotonic() - self._turned_at < STANDSTILL_SECONDS

    def round(self, settle: Settle) -> None:
        """Ask about every node that is due, and have `settle` bring each to what follows."""
        nodes = self.nodes.all()
        self._keep_up(nodes)
        due = [nodes[name] for name in self._find_due()]
        names = Counter(one.asked_as for one in nodes.values() if one.asked_as is not None)
        # Of a node without a name nothing is ever known, so it is not counted among those that may be silent.
        named = {name: one for name, one in nodes.items() if one.asked_as is not None and names[one.asked_as] == 1}
        nameless = [one for one in due if one.name not in named]
        asked = {one.asked_as: one for one in due if one.asked_as is not None and one.name in named}
        if nameless:
            settle([(one, _without_name(one, self.monotonic())) for one in nameless])
            self._put_off(nameless, self.interval)
        if asked:
            self._ask(asked, named, settle)
        if due:
            self._count(nodes)

    def _ask(self, asked: Mapping[str, NodeSeen], nodes: Mapping[str, NodeSeen], settle: Settle) -> None:
        silent: list[NodeSeen] = []
        unheard, detail, retry_after = dict(asked), "", None
        try:
            for batch in self.asker.ask({name: one.boot_id for name, one in asked.items()}):
                heard = [(unheard.pop(name), one) for name, one in batch.items()]
                for node, one in heard:
                    self._hear(node.name, one)
                silent += [node for node, _ in heard if self._is_silent_and_open(node)]
                clear = [(node, self._by_answer(node)) for node, _ in heard if not self._is_silent_and_open(node)]
                settle(sorted(clear, key=_may_wait))
                self._turned_at = self.monotonic()
        except ClientError as error:
            detail, retry_after = error.detail, error.retry_after
        self._note(detail)
        settle(self._close_silent(silent, nodes))
        missed = _without_decision(detail, self.monotonic())
        settle([(one, missed) for one in unheard.values() if self._is_forsaken(one)])
        pause = pause_before(min(self._failures, 5), retry_after)
        self._put_off(unheard.values(), pause)
        self._asks_from = self.monotonic() + (pause if detail else 0.0)

    def _note(self, detail: str) -> None:
        """Say when decisions stop coming, and when they come again."""
        if self.bell.is_stopping():
            return  # the question was cut short by ourselves
        if detail:
            self.meters.add("decision_errors_total")
            if self._failures == 0:
                self.say("Pratique gives no decisions; all taints stay as they are", level="warning", detail=detail)
            self._failures += 1
        elif self._failures:
            self.say("Pratique decides again")
            self._failures = 0

    def _hear(self, node: str, heard: Heard) -> None:
        now = self.monotonic()
        self._answers[node], self._heard_at[node] = heard.answer, now
        self.meters.add("decisions_total", f'disposition="{heard.answer.disposition}"')
        chance = random.uniform(1 - TOGETHER_SHARE, 1.0)  # noqa: S311 - spreads load, guards nothing
        interval = max(self.interval, len(self._due) / DECISIONS_PER_SECOND)
        self._due[node] = now + (interval * chance if heard.again is None else max(heard.again, interval / 4))

    def _close_silent(self, silent: Iterable[NodeSeen], nodes: Mapping[str, NodeSeen]) -> list[tuple[NodeSeen, Order]]:
        """Say what to do with nodes that are open and silent: close them, unless so many fell silent together that it
        is not believed of each. As long as not every node was asked about, that is not known, and nothing is done.
        """
        now = self.now()
        kept = {name for name, one in nodes.items() if self._is_silent_and_open(one)}
        lately = {name for name, one in nodes.items() if fell_silent_lately(one.condition, REPORT_STALE, now)}
        lately |= self._closed_lately()
        fallen, unknown = len(kept | lately), len(nodes.keys() - self._answers.keys())
        is_mass = is_mass_silence(len(nodes), fallen)
        self.meters.set("silent_nodes_kept", {"": float(len(kept) if is_mass else 0)})
        if is_mass != self._is_mass:
            said, level = ("are not closed for it", "warning") if is_mass else ("are closed for it again", "info")
            self.say(f"nodes that fall silent {said}", level=level, silent=fallen, managed=len(nodes))
        self._is_mass = is_mass
        if not is_mass and is_mass_silence(len(nodes), fallen + unknown):
            return []
        if is_mass:
            return [(one, self._by_answer(one, Keep.MASS_SILENCE, MASS_DETAIL)) for one in silent]
        orders = [(one, self._by_answer(one)) for one in silent]
        self._closed_at |= {one.name: self.monotonic() for one, _ in orders}
        return orders

    def _closed_lately(self) -> set[str]:
        """Find the nodes that we closed for their silence within the window. Their conditions say it to whoever leads
        next, but not where the API server lets nobody write them, or when the clock of the day is set.
        """
        since = self.monotonic() - SILENCE_WINDOW.total_seconds()
        return {name for name, at in self._closed_at.items() if at >= since and self._answers[name].is_silence}

    def _by_answer(self, node: NodeSeen, keep: Keep | None = None, detail: str = "") -> Order:
        return Order(self._answers[node.name], self._heard_at[node.name], keep, detail)

    def _is_silent_and_open(self, node: NodeSeen) -> bool:
        answer = self._answers.get(node.name)
        return answer is not None and answer.is_silence and not node.is_closed

    def _keep_up(self, nodes: Mapping[str, NodeSeen]) -> None:
        """Let nodes that are gone go, and let those that are new or changed be due at once."""
        for known in self._known():
            for name in known.keys() - nodes.keys():
                del known[name]
        self.applier.refusals.keep_only(nodes)
        now = self.monotonic()
        for name in nodes:
            self._due.setdefault(name, max(now, self._asks_from))  # nobody new asks one that is to be left alone
            self._heard_at.setdefault(name, now)
        if self._failures == 0:  # while nobody decides there is nothing to hurry for
            self._due |= {name: now for name in self.nodes.take_changed() if name in nodes}

    def _find_due(self) -> list[str]:
        """Name the nodes to ask about now: with those whose time has come, those whose time comes soon."""
        now = self.monotonic()
        if min(self._due.values(), default=math.inf) > now:
            return []
        return [name for name, at in self._due.items() if at <= now + self.interval * TOGETHER_SHARE]

    def _forget(self) -> None:
        """Whoever does not act remembers nothing, and shows nothing: it begins from what stands when it does."""
        for known in self._known():
            known.clear()
        self._is_mass = False
        for gauge in ("nodes", "silent_nodes_kept"):
            self.meters.set(gauge, {})

    def _known(self) -> tuple[dict[str, Any], ...]:
        return (self._due, self._answers, self._heard_at, self._closed_at)

    def _put_off(self, nodes: Iterable[NodeSeen], seconds: float) -> None:
        self._due |= {one.name: self.monotonic() + seconds for one in nodes}

    def _is_forsaken(self, node: NodeSeen) -> bool:
        return self.monotonic() - self._heard_at.get(node.name, self.monotonic()) >= self.patience

    def _pause(self) -> float:
        wait = min(self._due.values(), default=self.monotonic() + IDLE_SECONDS) - self.monotonic()
        return min(max(wait, 0.01), IDLE_SECONDS)

    def _count(self, nodes: Mapping[str, NodeSeen]) -> None:
        counts = Counter({str(status): 0 for status in ConditionStatus})
        for one in nodes.values():
            counts[str((one.condition or {}).get("status", ConditionStatus.UNKNOWN))] += 1
        self.meters.set("nodes", {f'admitted="{status}"': float(counts[status]) for status in ConditionStatus})


def _may_wait(work: tuple[NodeSeen, Order]) -> bool:
    """Does nothing have to be closed? What has to be comes first: a slow API server may leave no time for the rest."""
    node, order = work
    return node.is_closed or order.answer is None or order.answer.disposition is Disposition.ADMIT


def _without_decision(detail: str, now: float) -> Order:
    return Order(None, now, Keep.NO_DECISION, f"Pratique gives no decision ({detail}); the taints stay as they are.")


def _without_name(node: NodeSeen, now: float) -> Order:
    why = "its name at Pratique cannot be told" if node.asked_as is None else f"others are {node.asked_as} too"
    return Order(None, now, Keep.NO_NAME, f"No decision is asked for, because {why}; the taints stay as they are.")
