# SPDX-License-Identifier: Apache-2.0
"""Which boards of a simulated fleet does a rule or a person keep out, under whatever name they turn up?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from registry.domain.actors import Actor, ActorKind
from registry.domain.admission import Withheld
from registry.domain.breaker import Share, exceeded
from registry.domain.decision import DeviceRef
from registry.domain.failures import Effect
from registry.domain.policy import Policy
from registry.domain.quarantine import (
    Hold,
    HoldState,
    ReleasePolicy,
    RuleHold,
    TargetKind,
    after_passes_done,
    rule_hold_for,
)
from registry.domain.rules import Over, Rule, Sight, fires
from registry.domain.tolerances import FLAPPING
from tests.bench.response_faults import DAY, HOUR, Wave
from tests.bench.response_fleet import Node, moment
from tests.bench.response_world import World


class Holds:
    """What is remembered of boards by their serials. `changed` is told of a node whose holds are others now."""

    def __init__(self, world: World, policy: Policy, changed: Callable[[Node], None]) -> None:
        self._world, self._policy, self._changed = world, policy, changed
        self._holds: dict[str, list[Hold]] = {}
        self._withheld: dict[str, list[Withheld]] = {}
        self._sights: dict[str, list[tuple[str, Sight]]] = {}
        self._releases: dict[str, list[datetime]] = {}
        self._held: list[tuple[datetime, Node]] = []

    @property
    def _now(self) -> datetime:
        return moment(self._world.now)

    def is_held(self, node: Node) -> bool:
        """Tell whether a board of a node is on hold."""
        return any(self.open_on(one.serial) for one in node.machine.boards)

    def open_on(self, serial: str) -> list[Hold]:
        """Give the holds on a board that are in force."""
        return [one for one in self._holds.get(serial, ()) if one.state is HoldState.OPEN]

    def withheld_on(self, serial: str) -> list[Withheld]:
        """Give the holds on a board that the breaker kept back."""
        return self._withheld.get(serial, [])

    def take(self, node: Node, serial: str, code: str | None) -> None:
        """Take a fault in, and open what it, or its repetition, asks for."""
        if code is None:
            return
        now, kind = self._now, self._policy.look_up(code)
        newest = Sight(serial, node.name, now, now)
        sights = self._sights.setdefault(serial, [])
        sights.append((code, newest))
        asked = [rule_hold_for(kind)] if kind.effect.rank >= Effect.QUARANTINE.rank else []
        for rule in self._policy.rules:
            mine = [one for told, one in sights if self._concerns(rule, told)]
            is_hit = rule.over is Over.DEVICE and self._concerns(rule, code)
            if is_hit and fires(rule, mine, newest, releases=self._releases.get(serial, ())):
                asked.append(rule_hold_for(kind, rule=rule))
        for one in asked:
            if one is not None:
                self._open(node, serial, one)

    def _concerns(self, rule: Rule, code: str) -> bool:
        kind = self._policy.look_up(code)
        return rule.concerns(code, kind.kind, kind.effect)

    def _open(self, node: Node, serial: str, wanted: RuleHold) -> None:
        """Open a hold, or let the breaker keep it back."""
        now = self._now
        window = timedelta(seconds=self._policy.breaker_window_seconds)
        self._held = [one for one in self._held if one[0] > now - window]
        shares = self._shares(node)
        device = DeviceRef(serial, "gpu", serial)
        if exceeded(shares, is_permanent=wanted.is_permanent, policy=self._policy) is not None:
            name = wanted.owner.name
            self._withheld.setdefault(serial, []).append(Withheld(name, wanted.reason, device, now))
            return
        self._held.append((now, node))
        self._add(serial, wanted.owner, wanted.reason, wanted.release_policy)

    def _shares(self, node: Node) -> tuple[Share, ...]:
        policy, nodes = self._policy, self._world.nodes
        held = {one.index: one for _, one in self._held if one is not node}
        here = [one for one in nodes if one.zone == node.zone]
        many = sum(one.zone == node.zone for one in held.values())
        return (
            Share("the fleet", policy.breaker_fleet_percent, len(nodes), len(held)),
            Share("its profile", policy.breaker_profile_percent, len(nodes), len(held)),
            Share(node.zone, policy.breaker_zone_percent, len(here), many),
        )

    def _add(self, serial: str, owner: Actor, reason: str, ends: ReleasePolicy) -> None:
        mine = self._holds.setdefault(serial, [])
        is_held = any(one.owner == owner and one.state is HoldState.OPEN for one in mine)
        if not is_held:
            id_ = f"q-{serial}-{len(mine)}"
            mine.append(Hold(id_, owner, TargetKind.BOARD, serial, reason, self._now, release_policy=ends))
        if ends is ReleasePolicy.MANUAL:
            self._world.after(DAY, lambda: self._look(serial))

    def hold_for_repair(self, serial: str, condition: str) -> None:
        """Hold a board that is given away, until a person releases it."""
        self._add(serial, Actor(ActorKind.RULE, condition), "it was given away as broken", ReleasePolicy.MANUAL)

    def _look(self, serial: str) -> None:
        """A person looks at a held board, where it is in the fleet: it is sent back, or released when it is well."""
        node = next((one for one in self._world.nodes if any(b.serial == serial for b in one.machine.boards)), None)
        if node is None or not self.open_on(serial):
            return
        if node.working is not None:
            self._world.after(HOUR, lambda: self._look(serial))
            return
        board = next(one for one in node.machine.boards if one.serial == serial)
        if board.broken is not None:
            self._world.mend_in_place(node, serial)
            return
        self._release(serial)
        self._changed(node)

    def _release(self, serial: str, *, only: ReleasePolicy | None = None) -> None:
        mine = self._holds.get(serial, [])
        self._holds[serial] = [
            replace(one, state=HoldState.RELEASED) if only is None or one.release_policy is only else one
            for one in mine
        ]
        self._releases.setdefault(serial, []).append(self._now)
        self._withheld.pop(serial, None)

    def cure(self, node: Node, clean_runs: int, restart_at: datetime | None) -> None:
        """End the holds that so many clean runs after a restart end."""
        for serial in (one.serial for one in node.machine.boards):
            sights = self._sights.get(serial)
            if sights and any(self._is_done(one, clean_runs, restart_at, sights) for one in self.open_on(serial)):
                self._release(serial, only=ReleasePolicy.AFTER_PASSES)

    def _is_done(self, hold: Hold, runs: int, restart_at: datetime | None, sights: list[tuple[str, Sight]]) -> bool:
        return after_passes_done(
            hold, clean_runs_since=runs, restart_at=restart_at, fault_at=sights[-1][1].at, policy=self._policy
        )

    def withdraw(self, wave: Wave, proven: set[str]) -> None:
        """Take back what a wrong check said: its faults, and the holds that were opened for them or for a repair.

        Not for boards that a test has proven broken since.
        """
        since = moment(wave.at)
        owners = {wave.check, f"{wave.check}{FLAPPING}", wave.code}
        for serial in dict.fromkeys((*self._withheld, *self._holds)):
            held = self.open_on(serial)
            if serial not in proven and all(one.opened_at >= since and one.owner.name in owners for one in held):
                sights = self._sights.get(serial, [])
                self._sights[serial] = [one for one in sights if one[0] != wave.code or one[1].at < since]
                self._release(serial)
        for node in self._world.nodes:
            self._changed(node)
