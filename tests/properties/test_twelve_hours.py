# SPDX-License-Identifier: Apache-2.0
"""Do the rules, for twelve hours of a large fleet, hold exactly what is bad, also when a bad check comes in between?

The rules themselves are driven, with no store: faults come singly, some devices break for good; then a check that is
wrong fails on every node at once, flaps here and there, is taken back, and people settle what it did.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from registry.domain.breaker import Share, exceeded
from registry.domain.failures import Effect
from registry.domain.policy import Policy

NODES, GPUS, ZONES = 10_000, 8, 8
PROFILES = ("p5.48xlarge", "p4d.24xlarge")
HOURS, MINUTE = 12, 60
FAULTS_PER_HOUR = 40
BAD_CHECK_AT, TAKEN_BACK_AT, RELEASED_AT = 4 * 3600, 5 * 3600, 5 * 3600 + 1800
CURE_SECONDS = 1800
"""From a fault to two clean runs after a boot."""

FLAPPING = 20
"""Nodes on which the bad check comes right for a moment and fails anew, each minute."""

BAD_CODE = "gpu.diag_failed"
CURABLE, BROKEN, HARMLESS = ("xid_48", "xid_63", "xid_95"), ("xid_79", "xid_64"), ("xid_13", "xid_43", "xid_94")


@dataclass
class Simulation:
    """What stands: holds by (device, code), what was withheld, and the nodes newly held of late."""

    policy: Policy
    held: dict[tuple[int, str], int] = field(default_factory=dict)
    withheld: dict[tuple[int, str], int] = field(default_factory=dict)
    newly: list[tuple[int, int]] = field(default_factory=list)
    most_in_window: int = 0

    def see(self, device: int, code: str, now: int) -> None:
        """Evidence of a fault arrives."""
        kind = self.policy.look_up(code)
        if kind.effect.rank < Effect.QUARANTINE.rank or (device, code) in self.held:
            return
        node = device // GPUS
        recent = {other for at, other in self.newly if at > now - self.policy.breaker_window_seconds}
        is_permanent = kind.effect is Effect.PERMANENT
        shares = () if node in recent else self.shares(node, recent)
        if exceeded(shares, is_permanent=is_permanent, policy=self.policy) is not None:
            self.withheld[device, code] = now
            return
        self.held[device, code] = now
        self.withheld.pop((device, code), None)
        self.newly.append((now, node))
        self.most_in_window = max(self.most_in_window, len(recent | {node}))

    def shares(self, node: int, recent: set[int]) -> Iterator[Share]:
        yield Share("the fleet", self.policy.breaker_fleet_percent, NODES, len(recent))
        alike = sum(other % 2 == node % 2 for other in recent)
        yield Share(PROFILES[node % 2], self.policy.breaker_profile_percent, NODES // 2, alike)
        near = sum(other % ZONES == node % ZONES for other in recent)
        yield Share(f"zone {node % ZONES}", self.policy.breaker_zone_percent, NODES // ZONES, near)

    def cure(self, now: int) -> None:
        """Clean runs after a restart end what waits for them, held or withheld."""
        for stands in (self.held, self.withheld):
            done = [
                (device, code)
                for (device, code), at in stands.items()
                if self.policy.look_up(code).release_policy == "after_passes"
                and code != BAD_CODE
                and now - at >= CURE_SECONDS
            ]
            for one in done:
                del stands[one]

    def settle_bad_check(self) -> int:
        """People release what the check held and settle what it would have held. Nobody limits them."""
        found = 0
        for stands in (self.held, self.withheld):
            for one in [one for one in stands if one[1] == BAD_CODE]:
                del stands[one]
                found += 1
        return found


def single_faults(world: Simulation, chance: random.Random, now: int) -> set[int]:
    """Let one device fail now and then; returns those that are broken for good. What is broken shows it again."""
    for one in [one for one in world.withheld if one[1] in BROKEN and chance.random() < 0.1]:
        world.see(*one, now)
    if chance.random() >= FAULTS_PER_HOUR * MINUTE / 3600:
        return set()
    device, code = chance.randrange(NODES * GPUS), chance.choice((*CURABLE, *BROKEN, *HARMLESS))
    world.see(device, code, now)
    return {device} if code in BROKEN else set()


def wrong_ones(stands: dict[tuple[int, str], int]) -> set[int]:
    """The nodes against which the bad check speaks."""
    return {device // GPUS for device, code in stands if code == BAD_CODE}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_twelve_hours_of_ten_thousand_nodes_hold_exactly_what_is_bad(seed: int) -> None:
    chance = random.Random(seed)
    world = Simulation(Policy())
    limit = NODES * world.policy.breaker_fleet_percent // 100
    broken: set[int] = set()
    for now in range(0, HOURS * 3600, MINUTE):
        world.newly = [one for one in world.newly if one[0] > now - world.policy.breaker_window_seconds]
        world.cure(now)
        broken |= single_faults(world, chance, now)
        if now == BAD_CHECK_AT:
            for node in range(NODES):
                world.see(node * GPUS, BAD_CODE, now)
            assert 0 < len(wrong_ones(world.held)) <= limit
            assert len(wrong_ones(world.held) | wrong_ones(world.withheld)) == NODES
        if BAD_CHECK_AT < now < TAKEN_BACK_AT:
            for node in chance.sample(range(NODES), FLAPPING):
                world.see(node * GPUS, BAD_CODE, now)
        if now == RELEASED_AT:
            assert len(wrong_ones(world.held)) < 7 * limit  # one limit for each window of the hour: never all
            assert world.settle_bad_check() == NODES
    assert {device for device, code in world.held if code not in CURABLE} == broken
    assert all(now - at < CURE_SECONDS + MINUTE for (_, code), at in world.held.items() if code in CURABLE)
    assert world.withheld == {}
    assert world.most_in_window <= limit
