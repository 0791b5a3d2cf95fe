# SPDX-License-Identifier: Apache-2.0
"""What may happen to a fleet besides reports? Parts are carried, time passes, faults are told, people act."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from registry.domain.actors import Actor
from registry.domain.errors import PratiqueError
from registry.services.failures import withdraw_failure
from registry.services.nodes import grant_waiver, retire_node, set_maintenance
from registry.services.sweep import sweep
from tests.properties.hardware import CARDS, EFA_SLOTS, GPU_SLOTS, SINGLES
from tests.properties.machine import ALICE, BOB, NODES, Watched, nodes
from tests.properties.model_records import Hold

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

numbers = st.integers(0, 50)
oddly = st.sampled_from([False] * 4 + [True])
seconds = st.sampled_from([1, 1, 5, 29, 31, 61, 121, 301, 901])
refs = st.sampled_from(
    [name for card in CARDS.values() for name in (card.serial, card.uuid) if name and name != "[N/A]"]
)
slots = st.sampled_from([*GPU_SLOTS, *EFA_SLOTS])


class Operating(Watched):
    """The acts of everybody but nodes."""

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
        sweep(self.db, now=self.now)
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
        withdraw_failure(self.db, self.failure_ids[fault.id], reason="a cable", actor=ALICE, now=self.now)
        self.model.unattached.remove(fault)

    # --- holds ---

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
    def hold(
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
        why = "until Friday"
        grant_waiver(self.db, name, kind=kind, count=count, until=until, reason=why, actor=ALICE, now=self.now)
        self.model.waive(name, kind, count, until, self.now)

    @rule(name=nodes, lasts=st.sampled_from([-1, 40, 4000]))
    def maintain(self, name: str, lasts: int) -> None:
        if name not in self.model.nodes:
            return
        self.tick()
        until = self.now + timedelta(seconds=lasts)
        set_maintenance(self.db, name, until=until, reason="dust", actor=ALICE, policy=self.fleet.policy, now=self.now)
        self.model.nodes[name].maintenance_until = until
        self.model.nodes[name].maintenance.set(until, self.now)
