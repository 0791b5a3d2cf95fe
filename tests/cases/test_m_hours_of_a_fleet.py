# SPDX-License-Identifier: Apache-2.0
"""Do two hours of a small fleet over HTTP hold exactly what is bad, also when a bad check comes in between?

The shorter run of what `tests/properties/test_twelve_hours.py` does with the rules alone: single faults, some for good;
a wrong check on every node at once, flapping here and there; then it is taken back, and people settle what it did.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from registry.domain.policy import Policy
from registry.domain.times import parse_rfc3339
from tests.cases.conftest import World, card, codes, one_engine, taken

NODES, GPUS, STEP = 40, 3, 300
BAD_AT, TAKEN_BACK, SETTLED, LAST_FAULT, ROUNDS = 8, 12, 16, 19, 27
"""When what happens, in rounds of `STEP` seconds."""

REBOOT_AFTER = 2
"""Rounds from a fault that a restart cures to that restart."""

CURED_AFTER = REBOOT_AFTER + 2
FAULT_CHANCE, FLAPPING = 0.6, 3
BAD_CODE = "gpu.diag_failed"
CURABLE, BROKEN, HARMLESS = ("xid_48", "xid_63", "xid_95"), ("xid_79", "xid_64"), ("xid_13", "xid_43", "xid_94")
LIMIT = NODES * Policy().breaker_fleet_percent // 100
MOST_IN_WINDOW = Policy().breaker_permanent_min


@dataclass
class Small:
    """The fleet: GPU 0 of each node is the one that the wrong check speaks against, real faults are of the others."""

    world: World
    chance: random.Random
    cures: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By node: the GPU that a restart will cure, and the round in which it failed."""
    broken: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By node: the GPU that is broken for good, and its code."""
    boots: dict[str, int] = field(default_factory=dict)
    sound: list[int] = field(default_factory=list)
    numbers: count[int] = field(default_factory=lambda: count(1))

    @property
    def failed(self) -> set[str]:
        """The nodes on which something failed in earnest."""
        return {*self.cures, *self.broken}

    def look(self, now: int, faults: dict[str, dict[str, Any]]) -> None:
        """One round: every node reports."""
        flapping = set(self.chance.sample(range(NODES), FLAPPING))
        for number in range(NODES):
            node = name(number)
            if node in self.cures and now == self.cures[node][1] + REBOOT_AFTER:
                self.boots[node] = self.boots.get(node, 1) + 1
            is_bad = BAD_AT <= now < TAKEN_BACK and not (now > BAD_AT and number in flapping)
            checks = [{"name": "lab.stress", "device": gpu(number, 0)["uuid"], "status": "pass"}]
            if is_bad:
                checks[0] |= {"status": "fail", "code": BAD_CODE}
            told = {"failures": [faults[node]]} if node in faults else {}
            devices = [gpu(number, at) for at in range(GPUS)]
            self.world.report(node, devices, checks=checks, boot_id=f"boot-{self.boots.get(node, 1)}", **told)

    def fail(self, now: int) -> dict[str, dict[str, Any]]:
        """What fails in this round: at most one more node, and what is broken and not held shows it again."""
        known = held(self.world)
        told = {node: self.fault(code, uuid) for node, (uuid, code) in self.broken.items() if uuid not in known}
        if 2 <= now <= LAST_FAULT and (now in {2, BAD_AT - 1} or self.chance.random() < FAULT_CHANCE):
            number = self.sound.pop()
            uuid = gpu(number, self.chance.randrange(1, GPUS))["uuid"]
            sort = {2: BROKEN, BAD_AT - 1: CURABLE}.get(now) or self.chance.choice((CURABLE, BROKEN, HARMLESS))
            code = self.chance.choice(sort)
            told[name(number)] = self.fault(code, uuid)
            if code in CURABLE:
                self.cures[name(number)] = (uuid, now)
            if code in BROKEN:
                self.broken[name(number)] = (uuid, code)
        return told

    def fault(self, code: str, uuid: str) -> dict[str, Any]:
        """A fault as a report tells it."""
        told = {"failure_id": f"fault-{next(self.numbers)}", "code": code, "device": uuid}
        return {**told, "occurred_at": self.world.clock.now.isoformat()}


def name(number: int) -> str:
    return f"node-{number}"


def gpu(number: int, at: int) -> dict[str, Any]:
    return card(number * GPUS + at)


def holds(world: World) -> list[dict[str, Any]]:
    found = taken(world.operator.get("/v1/quarantines", query_string={"state": "open", "limit": "1000"}))
    items: list[dict[str, Any]] = found["items"]
    return items


def held(world: World) -> set[str]:
    """The UUIDs of what is held."""
    names = (one for hold in holds(world) for one in hold["identifiers"])
    return {one["value"] for one in names if one["type"] == "uuid"}


def of_bad_check(uuids: Iterable[str]) -> set[str]:
    return set(uuids) & {gpu(number, 0)["uuid"] for number in range(NODES)}


def refused(world: World) -> dict[str, list[str]]:
    """The reason codes of every node that may take no work."""
    body = {"candidates": [{"node": name(number)} for number in range(NODES)]}
    items = taken(world.operator.post("/v1/admissions", json=body))["items"]
    return {name(at): codes(one) for at, one in enumerate(items) if not one["admitted"]}


def release(world: World, uuids: Iterable[str]) -> set[str]:
    """Let go of these by hand, and tell what became of them."""
    body = {"targets": [{"device": uuid} for uuid in uuids], "reason": "looked at"}
    items = taken(world.operator.post("/v1/quarantines/release", json=body))["items"]
    return {one["outcome"] for one in items}


def most_at_once(world: World) -> int:
    """Count the nodes that rules have held within one window of the breaker, where they were the most."""
    opened = [
        (parse_rfc3339(one["at"]), one["data"]["node"])
        for one in world.events("quarantine.opened")
        if one["data"]["owner"].startswith("rule:")
    ]
    window = Policy().breaker_window_seconds
    return max(len({node for at, node in opened if 0 <= (last - at).total_seconds() < window}) for last, _ in opened)


@one_engine
@pytest.mark.slow
@pytest.mark.parametrize("seed", [2])
def test_two_hours_over_http_hold_exactly_what_is_bad(world: World, seed: int) -> None:
    chance = random.Random(seed)
    world.expect(GPUS)
    fleet = Small(world, chance, sound=chance.sample(range(NODES), NODES))
    for now in range(ROUNDS):
        world.clock.advance(STEP)
        fleet.look(now, fleet.fail(now))
        if now == BAD_AT:
            out_already = {gpu(number, 0)["uuid"] for number in range(NODES) if name(number) in fleet.failed}
            by_check = of_bad_check(held(world))
            assert len(by_check - out_already) <= LIMIT  # on a node that is out by itself one more hold costs nothing
            out = refused(world)
            assert len(out) == NODES
            assert sum("quarantine_withheld" in one for one in out.values()) >= NODES - len(by_check)
        if now == BAD_AT + 1:  # people are not limited, however much is withheld
            node, (uuid, _) = next(iter(fleet.broken.items()))
            assert release(world, [uuid]) == {"released"}
            del fleet.broken[node]
            assert uuid not in held(world)
        if now == SETTLED:
            assert len(of_bad_check(held(world))) < NODES / 2
            earned = {uuid for uuid, at in fleet.cures.values() if max(at, TAKEN_BACK) + CURED_AFTER <= now}
            assert earned
            assert earned.isdisjoint(held(world))  # clean runs go on releasing too
            assert any("quarantine_withheld" in one for one in refused(world).values())
            release(world, (gpu(number, 0)["uuid"] for number in range(NODES)))
            assert of_bad_check(held(world)) == set()
    assert len(fleet.broken) > 1
    assert held(world) == {uuid for uuid, _ in fleet.broken.values()}
    assert set(refused(world)) == set(fleet.broken)
    assert most_at_once(world) <= MOST_IN_WINDOW
