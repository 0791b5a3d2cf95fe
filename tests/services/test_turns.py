# SPDX-License-Identifier: Apache-2.0
"""Is a list news when another came in between? Random stories found each of these, and something held slipped through."""

from __future__ import annotations

from registry.services.nodes import retire_node
from tests.fleet import ALICE, Fleet, efa, gpu, uuid

BOTH = frozenset({"gpu", "efa"})


def test_a_list_that_comes_again_after_another_of_its_kinds_is_applied_again(fleet: Fleet) -> None:
    old = [gpu(number) for number in range(4)]
    swapped = [*old[:3], gpu(9, at=3)]
    fleet.admit(devices=old, covers=BOTH)
    fleet.clock.advance(31)
    fleet.report(devices=swapped, covers=frozenset({"gpu"}))
    fleet.hold({"device": uuid(3)})

    fleet.clock.advance(31)
    answer = fleet.report(devices=old, covers=BOTH)

    assert answer["admission"]["reasons"][0]["code"] == "device_quarantined"
    assert answer["admission"]["reasons"][0]["device"]["uuid"] == uuid(3)


def test_a_list_that_comes_again_after_another_profile_was_named_is_judged_by_its_own(fleet: Fleet) -> None:
    fleet.admit()
    fleet.report(devices=None, entries=None, profile="nobody-knows-it")
    assert "profile_unknown" in fleet.codes()

    fleet.clock.advance(31)
    fleet.admit()

    assert fleet.codes() == []


def test_a_held_adapter_without_serial_stays_held_when_its_node_is_retired_and_comes_back(fleet: Fleet) -> None:
    devices = [*(gpu(number) for number in range(4)), efa(1)]
    fleet.admit(devices=devices, covers=BOTH)
    fleet.fail("xid_79", node="node-a", slot=efa(1).slot)
    retire_node(fleet.db, "node-a", reason="sold", actor=ALICE, policy=fleet.policy, now=fleet.clock.advance(1))
    fleet.clock.advance(31)
    fleet.admit(devices=devices, covers=BOTH)

    assert fleet.codes() == ["device_quarantined"]
