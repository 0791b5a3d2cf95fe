# SPDX-License-Identifier: Apache-2.0
"""What is told to the service and to the model alike, and what must be so after every act?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from registry.domain.actors import Actor, ActorKind
from registry.domain.errors import PratiqueError
from registry.domain.policy import Policy
from registry.domain.profiles import EFA_CHECKS, GPU_CHECKS
from registry.domain.reports import DeviceEntry, Report
from registry.services import audit
from registry.services.profiles import set_profile
from registry.services.reports import accept_report
from registry.store.database import Database
from tests.clock import Clock
from tests.fleet import Fleet, passing
from tests.properties.hardware import World, show
from tests.properties.model import Model, Refused
from tests.properties.model_faults import Profile

Close: TypeAlias = Callable[[], None]

NODES = ("a", "b", "c")
ALICE, BOB = Actor(ActorKind.OPERATOR, "alice"), Actor(ActorKind.OPERATOR, "bob")
REPORTED = ("gpu.ecc", "gpu.row_remap", "gpu.xid", "efa.link")
PROFILES: dict[str, dict[str, Any]] = {
    "small": {"gpu": {"count": 2}, "efa": {"count": 1}},
    "slow": {"gpu": {"count": 2}, "efa": {"count": 1}, "per_boot_checks": ["dcgm.diag"]},
    "plain": {"gpu": {"count": 2}},
}
EXPECTED: dict[str, Profile] = {
    "small": ({"gpu": 2, "efa": 1}, {*GPU_CHECKS, *EFA_CHECKS}, set[str]()),
    "slow": ({"gpu": 2, "efa": 1}, {*GPU_CHECKS, *EFA_CHECKS}, {"dcgm.diag"}),
    "plain": ({"gpu": 2, "efa": None}, {*GPU_CHECKS}, set[str]()),
}

YEARS = 10**9
"""Longer than any story."""

nodes = st.sampled_from(NODES)


class Told:
    """What a node says of itself from report to report."""

    def __init__(self) -> None:
        self.life, self.boot, self.seq = 1, 1, 0
        self.run_id = ""
        self.profile = "small"
        self.last: Report | None = None


class Watched(RuleBasedStateMachine):
    """Nodes, operators and time, told to the service and to the model alike."""

    def __init__(self, open_db: Callable[[], tuple[Database, Close]]) -> None:
        super().__init__()
        db, self.close_db = open_db()
        # Tried elsewhere: what many faults together do, the breaker, which in a fleet of three hides all else, late
        # EFAs, and how long a check may fail.
        policy = Policy(
            rules=(),
            breaker_limit_min=1000,
            breaker_permanent_min=1000,
            efa_grace_seconds=0,
            condition_accelerated_seconds=YEARS,
            condition_other_seconds=YEARS,
            condition_flap_changes=1000,
        )
        self.fleet = Fleet(db, Clock(), policy)
        self.model = Model(EXPECTED)
        self.world = World()
        self.told = {name: Told() for name in NODES}
        self.history: list[tuple[int, str]] = []
        self.count = 0
        self.failure_ids: dict[str, str] = {}

    @initialize(is_running=st.sampled_from([True, True, False]))
    def begin(self, is_running: bool) -> None:
        """An empty house, or one in which all nodes are admitted."""
        for name, body in PROFILES.items():
            set_profile(self.db, name, body, actor=ALICE, now=self.now)
        for _ in range(2 if is_running else 0):
            self.fleet.clock.advance(31)
            for node in NODES:
                self.send(self.compose(node, self.whole(node)))

    @property
    def db(self) -> Database:
        return self.fleet.db

    @property
    def now(self) -> datetime:
        return self.fleet.clock.now

    def tick(self) -> None:
        """No two acts happen at one moment."""
        self.fleet.clock.advance(1)

    def next_id(self, word: str) -> str:
        self.count += 1
        return f"{word}-{self.count}"

    # --- what is told to both ---

    def send(self, report: Report) -> None:
        """Send a report to both. They take it alike or refuse it alike."""
        actor = Actor(ActorKind.NODE, report.node)
        try:
            wanted = self.model.report(report, self.now)
        except Refused as refused:
            code = str(refused)
            with pytest.raises(PratiqueError, check=lambda error: getattr(error, "code", None) == code):
                accept_report(self.db, report, actor=actor, policy=self.fleet.policy, now=self.now)
            return
        answer = accept_report(self.db, report, actor=actor, policy=self.fleet.policy, now=self.now)
        told = answer["pass"]
        assert (told["counted"], told["because"], told["have"]) == wanted, [told, wanted]
        codes = {one["code"] for one in answer["admission"]["reasons"]}
        assert codes == self.model.codes(report.node, self.now), [
            report.node,
            self.model.codes(report.node, self.now) ^ codes,
            answer["admission"]["reasons"],
        ]
        self.told[report.node].last = report
        self.learn_holds()

    def compose(self, name: str, entries: list[DeviceEntry] | None, **changes: object) -> Report:
        told = self.told[name]
        id_ = self.next_id("report")
        told.run_id = id_
        fields: dict[str, object] = {
            "node": name,
            "report_id": id_,
            "boot_id": f"boot-{told.boot}",
            "provider_id": f"{name}-{told.life}",
            "profile": told.profile,
            "covers": frozenset({"gpu", "efa"}),
            "entries": None if entries is None else tuple(entries),
            "checks": passing(*REPORTED),
            "body_digest": id_,
        }
        return Report(**{**fields, **changes})  # type: ignore[arg-type]

    def whole(self, name: str) -> list[DeviceEntry]:
        found = [show(card, slot, "whole") for card, slot in self.world.on(name)]
        return [one for one in found if one is not None]

    def learn_holds(self) -> None:
        """Give the model the ids of the holds that were opened; each is the newest of its owner."""
        known = {one.id for one in self.model.holds}
        fresh = [one for one in self.model.holds if not one.id]
        found = [one for one in self.fleet.open_holds() if one["id"] not in known]
        for hold in fresh:
            mine = [one for one in found if one["owner"] == hold.owner]
            assert mine, f"no hold of {hold.owner} was opened"
            hold.id = str(mine[-1]["id"])

    # --- what must always be so ---

    @invariant()
    def promises_are_kept(self) -> None:
        self.answers_are_the_models()
        self.holds_are_the_models()
        self.nothing_held_is_admitted()
        self.one_hold_for_one_owner()
        self.audit()

    def answers_are_the_models(self) -> None:
        for name in (*NODES, "d"):
            decision = self.fleet.decide(name)
            wanted = self.model.codes(name, self.now)
            assert {str(one.code) for one in decision.reasons} == wanted, (
                name,
                [one.message for one in decision.reasons],
            )
            assert decision.admitted is (not wanted)
            drain = "drain" if self.model.is_drain(name, self.now) else "hold"
            assert decision.disposition == (drain if wanted else "admit")

    def holds_are_the_models(self) -> None:
        """A hold is there because of evidence or a person, and for no other reason."""
        now = self.now
        theirs = sorted(one["owner"] for one in self.fleet.open_holds() if not is_over(one, now))
        assert theirs == sorted(one.owner for one in self.model.holds if self.model.in_force(one, now))

    def nothing_held_is_admitted(self) -> None:
        """Asked of the records alone: what is placed on an admitted node is bound by no hold."""
        held = {device for one in self.fleet.open_holds() if not is_over(one, self.now) for device in one["devices"]}
        with self.db.read() as snapshot:
            rows = snapshot.all(
                "SELECT n.name, p.device_id FROM placement p JOIN node n ON n.id = p.node_id WHERE p.until_at IS NULL"
            )
            twice = snapshot.all(
                "SELECT device_id FROM placement WHERE until_at IS NULL GROUP BY device_id HAVING COUNT(*) > 1"
            )
        assert twice == []
        for name in {node for node, device in rows if device in held}:
            assert not self.fleet.decide(name).admitted

    def one_hold_for_one_owner(self) -> None:
        with self.db.read() as snapshot:
            twice = snapshot.all(
                "SELECT owner, target_key FROM quarantine WHERE released_at IS NULL "
                "GROUP BY owner, target_key HAVING COUNT(*) > 1"
            )
        assert twice == []

    def audit(self) -> None:
        """Earlier events keep their sequence and hash."""
        with self.db.read() as snapshot:
            history = [(row[0], row[1]) for row in snapshot.all("SELECT sequence, hash FROM event ORDER BY sequence")]
        assert history[: len(self.history)] == self.history
        assert [sequence for sequence, _ in history] == list(range(1, len(history) + 1))
        self.history = history

    def teardown(self) -> None:
        """The chain is whole, and every subject counts its own events without a gap."""
        try:
            self.audit()
            verified = audit.verify(self.db)
            assert verified["ok"], verified
            assert verified["entries"] == len(self.history)
            with self.db.read() as snapshot:
                gaps = snapshot.all(
                    "SELECT kind, id FROM event_subject GROUP BY kind, id "
                    "HAVING MIN(ordinal) <> 1 OR MAX(ordinal) <> COUNT(*)"
                )
            assert gaps == []
        finally:
            self.close_db()


def is_over(shown: dict[str, object], now: datetime) -> bool:
    """Has an open hold come to its own end already?"""
    ends = shown["expires_at"] if shown["release_policy"] == "at_expiry" else None
    return ends is not None and datetime.fromisoformat(str(ends)) <= now
