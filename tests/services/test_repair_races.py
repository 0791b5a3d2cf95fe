# SPDX-License-Identifier: Apache-2.0
"""Is the budget kept at every moment, whoever plans, claims, completes or dies at the same time?"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from registry.domain.errors import NotOpen
from registry.services import repairs
from registry.services.repair_planning import tend
from registry.store import repairs as store
from tests.fleet import ALICE, EVERYTHING, Fleet, uuid
from tests.racing import together
from tests.services.test_repairs import EAGER, failing, work, world

NODES, FLEET, ZONE = 12, 3, 2
POLICY = replace(
    EAGER,
    repair_fleet_nodes=FLEET,
    repair_fleet_percent=100,
    repair_profile_percent=100,
    repair_zone_nodes=ZONE,
    repair_zone_percent=100,
    repair_hour_nodes=1000,
    detector_nodes=NODES,
)


class Crowd:
    """Executors that share one credential and a clock; some die with what they have claimed."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self.fleet, self.random = fleet, random.Random(seed)
        self.claims: Counter[tuple[str, int]] = Counter()
        self.done: Counter[str] = Counter()

    def tell_bad(self, number: int) -> None:
        zone = "a" if number < NODES // 2 else "b"
        self.fleet.report(**world(number, zone=zone, checks=failing(uuid(4 * number))))

    def executor(self, holder: str, fate: float) -> Callable[[], None]:
        def act() -> None:
            ready = repairs.list_repairs(self.fleet.db, {"state": "ready"}, EVERYTHING).items
            for one in ready:
                self._try(one["id"], holder, fate)

        return act

    def _try(self, order_id: str, holder: str, fate: float) -> None:
        who = {"holder": holder, "actor": ALICE, "now": self.fleet.clock.now}
        try:
            token = repairs.claim_repair(self.fleet.db, order_id, policy=self.fleet.policy, **who)["token"]
        except NotOpen:
            return
        self.claims[order_id, token] += 1
        if fate < 0.5:
            return  # it dies here
        try:
            repairs.complete_repair(self.fleet.db, order_id, is_done=fate > 0.7, token=token, **who)
            self.done[order_id] += 1
        except NotOpen:
            return

    def worker(self) -> None:
        tend(self.fleet.db, policy=self.fleet.policy, now=self.fleet.clock.now)
        self.check()

    def check(self) -> None:
        with self.fleet.db.read() as snapshot:
            places = store.list_disturbed(snapshot)
        assert len(places) <= FLEET
        assert max(Counter(one.zone for one in places).values(), default=0) <= ZONE


@pytest.mark.parametrize("seed", [1, 2])
def test_the_budget_holds_with_many_executors_of_whom_some_die(fleet: Fleet, seed: int) -> None:
    fleet.policy = POLICY
    crowd = Crowd(fleet, seed)
    for number in range(NODES):
        crowd.tell_bad(number)
    work(fleet)
    for _ in range(6):
        acts = [crowd.executor(f"robot-{at}", crowd.random.random()) for at in range(4)]
        together(crowd.worker, *acts, crowd.worker, crowd.check)
        crowd.check()
        fleet.clock.advance(crowd.random.choice([30, 950, 1900]))
        for number in crowd.random.sample(range(NODES), 4):
            crowd.tell_bad(number)

    assert crowd.claims
    assert set(crowd.claims.values()) == {1}
    assert set(crowd.done.values()) <= {1}


def test_of_many_that_claim_one_repair_one_gets_it(fleet: Fleet) -> None:
    fleet.policy = POLICY
    crowd = Crowd(fleet, 1)
    crowd.tell_bad(0)
    work(fleet)

    together(*(crowd.executor("robot", 0.0) for _ in range(6)))

    assert sum(crowd.claims.values()) == 1
