# SPDX-License-Identifier: Apache-2.0
"""Is the budget kept, and what is over left alone, whatever nodes, executors and people do in whatever order?"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from registry.domain.errors import NotOpen
from registry.domain.times import parse_rfc3339
from registry.services import repairs
from tests.clock import Clock
from tests.fleet import ALICE, EVERYTHING, Fleet
from tests.fleet import uuid as gpu_uuid
from tests.postgres import Server
from tests.properties.stories import Opener, depth, on_postgresql, on_sqlite, tell
from tests.services.test_repairs import EAGER, failing, work, world

NODES, FLEET, ZONE = 5, 2, 1
LEASE, SETTLE = 600, 300
POLICY = replace(
    EAGER,
    repair_fleet_nodes=FLEET,
    repair_fleet_percent=100,
    repair_profile_percent=100,
    repair_zone_nodes=ZONE,
    repair_zone_percent=100,
    repair_lease_seconds=LEASE,
    repair_settle_seconds=SETTLE,
    detector_nodes=NODES,
)
ZONES = ("a", "a", "b", "b", "c")
OVER = {"done", "failed", "cancelled"}

numbers = st.integers(0, NODES - 1)
picks = st.integers(0, 50)


class Repairing(RuleBasedStateMachine):
    """Nodes that turn bad and well, executors that claim and die, people who stop and cancel."""

    def __init__(self, open_db: Opener) -> None:
        super().__init__()
        db, self.close_db = open_db()
        self.fleet = Fleet(db, Clock(), POLICY)
        self.claims: list[tuple[str, str, int]] = []
        self.newest: dict[str, int] = {}
        self.ended: dict[str, dict[str, Any]] = {}

    @initialize()
    def begin(self) -> None:
        for number in range(NODES):
            self.report(number, is_bad=number % 2 == 0)

    @rule(number=numbers, is_bad=st.booleans())
    def report(self, number: int, is_bad: bool) -> None:
        bad = {"checks": failing(gpu_uuid(4 * number))} if is_bad else {}
        self.fleet.report(**world(number, zone=ZONES[number], **bad))

    @rule(seconds=st.sampled_from([1, 31, 120, SETTLE, LEASE]))
    def wait(self, seconds: int) -> None:
        self.fleet.clock.advance(seconds)

    @rule()
    def work(self) -> None:
        work(self.fleet)

    @rule(pick=picks, holder=st.sampled_from(["robot-1", "robot-2"]))
    def claim(self, pick: int, holder: str) -> None:
        order = self.pick(pick)
        if order is None:
            return
        try:
            found = repairs.claim_repair(
                self.fleet.db, order["id"], holder=holder, actor=ALICE, policy=POLICY, now=self.fleet.clock.now
            )
        except NotOpen:
            return
        assert order["state"] in {"ready", "claimed"}
        if order["state"] == "claimed":
            assert parse_rfc3339(order["lease_until"]) <= self.fleet.clock.now
        assert found["token"] == self.newest.get(order["id"], 0) + 1
        self.newest[order["id"]] = found["token"]
        self.claims.append((order["id"], holder, found["token"]))

    @rule(pick=picks, is_done=st.booleans())
    def complete(self, pick: int, is_done: bool) -> None:
        if not self.claims:
            return
        order_id, holder, token = self.claims[pick % len(self.claims)]
        who = {"holder": holder, "token": token, "actor": ALICE, "now": self.fleet.clock.now}
        try:
            repairs.complete_repair(self.fleet.db, order_id, is_done=is_done, **who)
        except NotOpen:
            return
        assert token == self.newest[order_id]
        assert order_id not in self.ended

    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        order = self.pick(pick)
        if order is not None and order["state"] not in OVER:
            repairs.cancel_repair(self.fleet.db, order["id"], reason="x", actor=ALICE, now=self.fleet.clock.now)

    @rule(is_stop=st.booleans())
    def switch(self, is_stop: bool) -> None:
        act = repairs.stop_repairs if is_stop else repairs.resume_repairs
        try:
            act(self.fleet.db, reason="x", actor=ALICE, policy=POLICY, now=self.fleet.clock.now)
        except NotOpen:
            return

    @invariant()
    def the_budget_is_kept(self) -> None:
        disturbed = {one["node"] for one in self.listed() if self.is_disturbing(one)}
        assert len(disturbed) <= FLEET
        assert max(Counter(ZONES[int(name[-1])] for name in disturbed).values(), default=0) <= ZONE
        told = repairs.show_budget(self.fleet.db, policy=POLICY, now=self.fleet.clock.now)
        assert told["fleet"]["disturbed"] == len(disturbed)

    @invariant()
    def what_is_over_stays_as_it_ended(self) -> None:
        for one in self.listed():
            kept = {name: value for name, value in one.items() if name not in {"settled_at", "device"}}
            assert self.ended.get(one["id"], kept) == kept
            if one["state"] in OVER:
                self.ended[one["id"]] = kept

    @invariant()
    def of_one_failure_there_is_one_order(self) -> None:
        open_ = [(one["node"], one["condition"]) for one in self.listed() if one["state"] not in OVER]
        assert len(open_) == len(set(open_))

    def is_disturbing(self, order: dict[str, Any]) -> bool:
        """As the page for operators has it."""
        if order["state"] in {"ready", "claimed"}:
            return True
        return order["state"] in OVER and order["token"] > 0 and order["settled_at"] is None

    def pick(self, number: int) -> dict[str, Any] | None:
        found = self.listed()
        return found[number % len(found)] if found else None

    def listed(self) -> list[dict[str, Any]]:
        return repairs.list_repairs(self.fleet.db, {}, EVERYTHING).items

    def teardown(self) -> None:
        self.close_db()


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_no_story_exceeds_the_budget_on_sqlite(sqlite_template: Path, tmp_path: Path) -> None:
    tell(Repairing, on_sqlite(sqlite_template, tmp_path), depth(40))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_no_story_exceeds_the_budget_on_postgresql(postgres: Server, postgres_template: str) -> None:
    tell(Repairing, on_postgresql(postgres, postgres_template), depth(8))
