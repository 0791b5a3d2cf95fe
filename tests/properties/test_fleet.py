# SPDX-License-Identifier: Apache-2.0
"""Do the promises hold whatever a fleet does? A random story is told to the service and to a plain model of the rules.

After every act both must give the same answer for every node, and the history must only have grown. The whole is run on
both engines. `HYPOTHESIS_PROFILE=deep` tells many more and longer stories.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, note
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from registry.domain.actors import Actor, ActorKind
from registry.domain.errors import PratiqueError
from registry.domain.profiles import EFA_CHECKS, GPU_CHECKS
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Report
from registry.services import audit
from registry.services.failures import withdraw_failure
from registry.services.nodes import grant_waiver, retire_node, set_maintenance
from registry.services.profiles import set_profile
from registry.services.reports import accept_report
from registry.services.sweep import sweep
from registry.store.database import Database, open_database
from tests.clock import Clock
from tests.fleet import Fleet, passing
from tests.postgres import Server
from tests.properties.hardware import CARDS, EFA_SLOTS, GPU_SLOTS, SINGLES, WAYS, World, show
from tests.properties.model import Model, Refused
from tests.properties.model_records import Hold

NODES = ("a", "b", "c")
ALICE, BOB = Actor(ActorKind.OPERATOR, "alice"), Actor(ActorKind.OPERATOR, "bob")
REPORTED = ("gpu.ecc", "gpu.row_remap", "gpu.xid", "efa.link")
CODES = (
    "xid_79",
    "xid_64",
    "xid_48",
    "xid_63",
    "xid_74",
    "xid_13",
    "xid_9999",
    "gpu.inforom",
    "gpu_reset",
    "driver_loaded",
)
PROFILES = {
    "small": {"gpu": {"count": 2}, "efa": {"count": 1}},
    "slow": {"gpu": {"count": 2}, "efa": {"count": 1}, "per_boot_checks": ["dcgm.diag"]},
    "plain": {"gpu": {"count": 2}},
}
EXPECTED = {
    "small": ({"gpu": 2, "efa": 1}, {*GPU_CHECKS, *EFA_CHECKS}, set[str]()),
    "slow": ({"gpu": 2, "efa": 1}, {*GPU_CHECKS, *EFA_CHECKS}, {"dcgm.diag"}),
    "plain": ({"gpu": 2, "efa": None}, {*GPU_CHECKS}, set[str]()),
}

nodes = st.sampled_from(NODES)
numbers = st.integers(0, 50)
oddly = st.sampled_from([False] * 4 + [True])
seconds = st.sampled_from([1, 1, 5, 29, 31, 61, 121, 301, 901])
refs = st.sampled_from(
    [name for card in CARDS.values() for name in (card.serial, card.uuid) if name and name != "[N/A]"]
)
ways = st.lists(st.sampled_from(["whole"] * 12 + list(WAYS)), min_size=5, max_size=5)
slots = st.sampled_from([*GPU_SLOTS, *EFA_SLOTS])
statuses = st.sampled_from(["pass"] * 6 + ["warn", "not_applicable", "fail", "unknown", "skipped", "absent"])


class Told:
    """What a node says of itself from report to report."""

    def __init__(self) -> None:
        self.life, self.boot, self.seq = 1, 1, 0
        self.run_id = ""
        self.profile = "small"
        self.last: Report | None = None


class FleetMachine(RuleBasedStateMachine):
    """Nodes, operators and time, told to the service and to the model alike."""

    def __init__(self, open_db: Callable[[], tuple[Database, Callable[[], None]]]) -> None:
        super().__init__()
        db, self.close_db = open_db()
        self.fleet = Fleet(db, Clock())
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

    # --- reports ---

    def send(self, report: Report) -> None:
        """Send a report to both. They take it alike or refuse it alike."""
        actor = Actor(ActorKind.NODE, report.node)
        try:
            wanted = self.model.report(report, self.now)
        except Refused as refused:
            with pytest.raises(PratiqueError) as error:
                accept_report(self.db, report, actor=actor, policy=self.fleet.policy, now=self.now)
            assert error.value.code == str(refused)
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

    @rule(name=nodes, times=st.integers(1, 3))
    def report_clean(self, name: str, times: int) -> None:
        """What a healthy agent does: everything, every half minute."""
        for _ in range(times):
            self.fleet.clock.advance(31)
            self.send(self.compose(name, self.whole(name), checks=passing(*REPORTED, "dcgm.diag")))

    @rule(
        name=nodes,
        ways=ways,
        covers=st.sampled_from(["gpu+efa", "gpu+efa", "gpu", "efa", "unsaid", "no list"]),
        partial=oddly,
        ghost=st.none() | st.sampled_from([*SINGLES, None, None]),
        is_same_run=oddly,
        seq=st.sampled_from(["none", "none", "next", "stale"]),
        times=st.sampled_from([(0, 0, 0), (0, 0, 0), (20, 10, 0), (60, 2, 1), (0, -9, 0), (2000, 1000, 0)]),
    )
    def report_lists(  # noqa: PLR0913 - a report can be odd in many ways at once
        self,
        name: str,
        ways: list[str],
        covers: str,
        partial: bool,
        ghost: str | None,
        is_same_run: bool,
        seq: str,
        times: tuple[int, int, int],
    ) -> None:
        """Lists in part, with lost names, of cards that are elsewhere, in parts of a run, out of order, late."""
        self.tick()
        shown = [show(card, slot, way) for (card, slot), way in zip(self.world.on(name), ways, strict=False)]
        if ghost and self.world.where.get(ghost, ("",))[0] != name:
            slots_of = GPU_SLOTS if CARDS[ghost].kind == "gpu" else EFA_SLOTS
            shown.append(show(ghost, slots_of[-1], ways[-1]))
        kinds = {"gpu", "efa"} if covers in {"unsaid", "no list"} else set(covers.split("+"))
        entries = [one for one in shown if one and one.kind in kinds]
        slots_shown = [one.slot for one in entries]
        entries = [one for at, one in enumerate(entries) if one.slot not in slots_shown[:at]]
        told = self.told[name]
        changes: dict[str, object] = {"covers": None if covers in {"unsaid", "no list"} else frozenset(kinds)}
        if partial and covers != "no list":
            changes["partial"] = frozenset({"gpu"} & kinds)
        if is_same_run and told.run_id:
            changes["run_id"] = told.last.run_id or told.last.report_id if told.last else told.run_id
        if seq != "none":
            told.seq += seq == "next"
            changes["seq"] = told.seq
        started, finished, sent = (self.now - timedelta(seconds=one) for one in times)
        if any(times):
            changes |= {"started_at": started, "finished_at": finished, "sent_at": sent}
        self.send(self.compose(name, None if covers == "no list" else entries, **changes))

    @rule(name=nodes, found=st.lists(statuses, min_size=6, max_size=6), is_same_run=oddly, with_list=st.booleans())
    def report_checks(self, name: str, found: list[str], is_same_run: bool, with_list: bool) -> None:
        """Checks that fail, cannot look, were left out, or come later."""
        self.tick()
        names = (*REPORTED, "gpu.thermal", "dcgm.diag")
        checks = tuple(
            CheckResult(check, CheckStatus(status))
            for check, status in zip(names, found, strict=True)
            if status != "absent"
        )
        changes: dict[str, object] = {"checks": checks}
        last = self.told[name].last
        if is_same_run and last:
            changes["run_id"] = last.run_id or last.report_id
        if not with_list:
            changes["covers"] = None
        self.send(self.compose(name, self.whole(name) if with_list else None, **changes))

    @rule(name=nodes)
    def send_again(self, name: str) -> None:
        """A retry: the same report under the same id changes nothing."""
        last = self.told[name].last
        if last is None or self.told[name].life != int(last.provider_id.partition("-")[2]):
            return
        self.tick()
        self.audit()
        before = len(self.history)
        self.send(last)
        self.audit()
        assert len(self.history) == before

    @rule(name=nodes, what=st.sampled_from(["boot", "boot", "life", "old boot", "old life"]))
    def restart(self, name: str, what: str) -> None:
        """A new boot or machine; or a message from one that is over."""
        self.tick()
        told = self.told[name]
        if what == "boot":
            told.boot, told.seq = told.boot + 1, 0
        elif what == "life":
            told.life, told.seq = told.life + 1, 0
        elif what == "old boot":
            self.send(self.compose(name, self.whole(name), boot_id=f"boot-{max(1, told.boot - 1)}"))
        elif told.life > 1:
            self.send(self.compose(name, self.whole(name), provider_id=f"{name}-{told.life - 1}"))

    @rule(name=nodes, profile=st.sampled_from(["small", "small", "slow", "plain", "nobody"]))
    def change_profile(self, name: str, profile: str) -> None:
        self.told[name].profile = profile

    # --- hardware and time ---

    @rule(card=st.sampled_from(SINGLES), name=nodes, number=numbers)
    def carry(self, card: str, name: str, number: int) -> None:
        self.world.carry(card, name, number)

    @rule(first=nodes, second=nodes)
    def exchange(self, first: str, second: str) -> None:
        self.world.exchange(first, second)

    @rule(duration=seconds)
    def wait(self, duration: int) -> None:
        self.fleet.clock.advance(duration)

    @rule()
    def tidy_up(self) -> None:
        """What is over by itself is over before the sweep too."""
        self.tick()
        sweep(self.db, policy=self.fleet.policy, now=self.now)
        self.model.sweep(self.now)

    # --- faults ---

    @rule(code=st.sampled_from(CODES), ref=refs, again=oddly)
    def fail_device(self, code: str, ref: str, again: bool) -> None:
        self.tick()
        id_ = next(iter(self.failure_ids), "") if again else ""
        id_ = id_ or self.next_id("failure")
        wanted = self.model.fail_device(id_, code, ref, self.now)
        self.record(id_, wanted, self.fleet.fail(code, device=ref, failure_id=id_))

    @rule(
        name=nodes, code=st.sampled_from(CODES), slot=st.none() | slots, ago=st.sampled_from([None, None, 2, 40, 400])
    )
    def fail_place(self, name: str, code: str, slot: str | None, ago: int | None) -> None:
        """A fault in a slot, now or then, or of a node as a whole; twice under one id."""
        if name not in self.model.nodes:
            return
        self.tick()
        id_ = self.next_id("failure")
        at = None if ago is None or slot is None else self.now - timedelta(seconds=ago)
        for _ in range(2):
            if slot is None:
                wanted = self.model.fail_node(id_, code, name, self.now)
            else:
                wanted = self.model.fail_slot(id_, code, name, slot, at, self.now)
            self.record(id_, wanted, self.fleet.fail(code, node=name, slot=slot, occurred_at=at, failure_id=id_))

    def record(self, id_: str, wanted: str, item: dict[str, object]) -> None:
        assert item["outcome"] == wanted, item
        failure = item.get("failure")
        if isinstance(failure, dict):
            self.failure_ids[id_] = failure["id"]
        self.learn_holds()

    @precondition(lambda self: self.model.unattached)
    @rule(number=numbers)
    def withdraw(self, number: int) -> None:
        self.tick()
        fault = self.model.unattached[number % len(self.model.unattached)]
        withdraw_failure(
            self.db,
            self.failure_ids[fault.id],
            reason="a cable",
            actor=ALICE,
            policy=self.fleet.policy,
            now=self.now,
        )
        self.model.withdraw(fault.id)

    # --- holds ---

    def learn_holds(self) -> None:
        """Give the model the ids of the holds that were opened; each is the newest of its owner."""
        known = {one.id for one in self.model.holds}
        fresh = [one for one in self.model.holds if not one.id]
        found = [one for one in self.fleet.open_holds() if one["id"] not in known]
        for hold in fresh:
            mine = [one for one in found if one["owner"] == hold.owner]
            assert mine, f"no hold of {hold.owner} was opened"
            hold.id = str(mine[-1]["id"])

    @rule(
        what=st.sampled_from(["device", "device", "identifier", "node"]),
        ref=refs,
        name=st.sampled_from([*NODES, "d"]),
        owner=st.sampled_from([ALICE, BOB]),
        ends=st.sampled_from(["manual", "manual", "at_expiry", "after_passes"]),
        unit_only=oddly,
        permanent=oddly,
        drain=oddly,
        times=st.integers(1, 2),
    )
    def hold(  # noqa: PLR0913 - a quarantine has many switches
        self,
        what: str,
        ref: str,
        name: str,
        owner: Actor,
        ends: str,
        unit_only: bool,
        permanent: bool,
        drain: bool,
        times: int,
    ) -> None:
        """A person holds a device, an identifier that may never have been seen, or a node; and asks for it again."""
        card = next(one for one in CARDS.values() if ref in (one.serial, one.uuid))
        type_ = "uuid" if ref == card.uuid else "serial"
        asked: dict[str, object] = {"device": ref}
        if what == "identifier":
            asked = {"identifier": {"kind": card.kind, "type": type_, "value": ref}}
        if what == "node":
            asked = {"node": name}
        by_name = what == "node" and unit_only
        unit_only = what == "device" and unit_only
        permanent = permanent and ends == "manual"
        for _ in range(times):
            self.tick()
            expires_at = self.now + timedelta(seconds=100) if ends == "at_expiry" else None
            wanted = self.model.hold(
                asked,
                str(owner),
                self.now,
                ends=ends,
                unit_only=unit_only,
                by_name=by_name,
                permanent=permanent,
                drain=drain,
                expires_at=expires_at,
            )
            items = self.fleet.hold(
                asked,
                by=owner,
                scope="unit" if unit_only else None,
                match="name" if by_name else None,
                release_policy=ends,
                permanent=permanent,
                drain=drain,
                expires_at=expires_at,
            )
            assert items[0]["outcome"] == wanted, items
            self.learn_holds()

    @precondition(lambda self: self.model.holds)
    @rule(number=numbers, by=st.sampled_from([ALICE, BOB]), role=st.sampled_from(["operator", "admin"]))
    def release(self, number: int, by: Actor, role: str) -> None:
        """Anybody may release any hold that is not permanent, once."""
        self.tick()
        hold: Hold = self.model.holds[number % len(self.model.holds)]
        if not self.model.in_force(hold, self.now):
            wanted: str | None = "not_open"
        else:
            wanted = "forbidden" if hold.permanent and role != "admin" else None
        if wanted is None:
            self.fleet.release(hold.id, by=by, role=role)
            self.model.release(hold, self.now)
            wanted = "not_open"
        with pytest.raises(PratiqueError) as error:
            self.fleet.release(hold.id, by=by, role=role)
        assert error.value.code == wanted

    # --- operators' ways out ---

    @rule(name=nodes)
    def retire(self, name: str) -> None:
        if name not in self.model.nodes:
            return
        self.tick()
        retire_node(self.db, name, reason="sold", actor=ALICE, policy=self.fleet.policy, now=self.now)
        self.model.retire(name, self.now)

    @rule(
        name=nodes, kind=st.sampled_from(["gpu", "efa"]), count=st.integers(0, 2), lasts=st.sampled_from([-1, 40, 4000])
    )
    def waive(self, name: str, kind: str, count: int, lasts: int) -> None:
        node = self.model.nodes.get(name)
        if node is None or (lasts < 0 and self.model.waiver(node, kind, self.now + timedelta(seconds=1)) is None):
            return
        self.tick()
        until = self.now + timedelta(seconds=lasts)
        by = {"reason": "until Friday", "actor": ALICE, "policy": self.fleet.policy, "now": self.now}
        grant_waiver(self.db, name, kind=kind, count=count, until=until, **by)  # type: ignore[arg-type]
        self.model.waive(name, kind, count, until, self.now)

    @rule(name=nodes, lasts=st.sampled_from([-1, 40, 4000]))
    def maintain(self, name: str, lasts: int) -> None:
        if name not in self.model.nodes:
            return
        self.tick()
        until = self.now + timedelta(seconds=lasts)
        set_maintenance(self.db, name, until=until, reason="dust", actor=ALICE, policy=self.fleet.policy, now=self.now)
        self.model.nodes[name].maintenance_until = until

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


def depth(examples: int) -> hypothesis.settings:
    """So many stories in the suite; the profile `deep` decides for itself."""
    common = {
        "suppress_health_check": list(HealthCheck),
        "deadline": None,
        "phases": [one for one in Phase if one is not Phase.explain],
    }
    if hypothesis.settings.get_current_profile_name() == "deep":
        return hypothesis.settings(**common)  # type: ignore[arg-type]
    return hypothesis.settings(max_examples=examples, stateful_step_count=30, **common)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_any_story_is_told_alike_on_sqlite(sqlite_template: Path, tmp_path: Path) -> None:
    def open_db() -> tuple[Database, Callable[[], None]]:
        folder = tmp_path / uuid.uuid4().hex
        shutil.copytree(sqlite_template, folder)
        db = open_database(f"sqlite:///{folder / 'registry.db'}")
        return db, lambda: (db.close_all(), shutil.rmtree(folder))[0]

    run_state_machine_as_test(lambda: FleetMachine(open_db), settings=depth(60))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_any_story_is_told_alike_on_postgresql(postgres: Server, postgres_template: str) -> None:
    def open_db() -> tuple[Database, Callable[[], None]]:
        name = f"story_{uuid.uuid4().hex}"
        db = open_database(postgres.create_database(name, template=postgres_template))
        return db, lambda: (db.close_all(), postgres.drop_database(name))[0]

    run_state_machine_as_test(lambda: FleetMachine(open_db), settings=depth(15))
